//! How a checked registration becomes a route: it replaces the one before, finds or starts its pair,
//! and is told of its target (REG-6, REG-11, PR-5, PR-8).

use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Handler, MailboxError, ResponseFuture};
use actix_rt::ArbiterHandle;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use relay_model::ids::{AccountId, ConnectionGeneration, DeviceId};
use relay_model::store::{DeviceStatus, DeviceType};
use relay_model::wire::OutgoingText;
use relay_model::wire::outbound::{DeviceStatusEvent, DeviceStatusWord};

use super::account::{Pair, Route};
use super::{Attach, Attached, DirectoryActor, NotAttached, PairEpoch, RegistrationSequence};
use crate::mailbox::post;
use crate::presence::{CancelGrace, StartGrace};
use crate::push::DesktopRegistered;
use crate::registry::{DesktopAttached, DesktopReconnecting, PhoneAttached, RegistryActor};
use crate::sessions::OpenSession;
use crate::socket::messages::CloseReason;
use crate::socket::registration::Target;

/// Comes once a registry has taken a route, with the states of the pair's leases for a desktop; fails if the
/// registry did first.
type Taken = LocalBoxFuture<'static, Result<Vec<OutgoingText>, MailboxError>>;

impl DirectoryActor {
    /// The status of a phone's target (PR-5). An unknown desktop is offline, at the generation that
    /// was given last: later than any that the phone may have seen, earlier than the desktop's next.
    fn target_status(&self, account: AccountId, desktop: DeviceId) -> DeviceStatusEvent {
        let known = self
            .accounts
            .get(&account)
            .and_then(|account| account.device(desktop));
        let (status, generation) = match known.map(|device| (device.status, device.generation)) {
            Some((DeviceStatus::Online, generation)) => (DeviceStatusWord::Online, generation),
            Some((DeviceStatus::Reconnecting, generation)) => {
                (DeviceStatusWord::Reconnecting, generation)
            }
            Some((DeviceStatus::Offline, generation)) => {
                (DeviceStatusWord::Disconnected, generation)
            }
            None => (
                DeviceStatusWord::Disconnected,
                ConnectionGeneration::new(self.last_generation),
            ),
        };
        let instance = self.core.instance;
        DeviceStatusEvent {
            device: desktop,
            status,
            reason: None,
            generation,
            instance,
        }
    }

    /// The registry of a pair, started if there is none. A new one learns of every phone's route, and of
    /// its desktop if that is expected.
    fn pair(
        &mut self,
        account_id: AccountId,
        desktop: DeviceId,
        arbiter: &ArbiterHandle,
        directory: Addr<Self>,
    ) -> Addr<RegistryActor> {
        let account = self.accounts.entry(account_id).or_default();
        // A registry that panicked is replaced.
        account
            .pairs
            .retain(|pair| pair.desktop != desktop || pair.registry.connected());
        if let Some(pair) = account.pair(desktop) {
            return pair.registry.clone();
        }
        self.last_epoch += 1;
        let epoch = PairEpoch(self.last_epoch);
        let core = Arc::clone(&self.core);
        let registry = RegistryActor::start_in_arbiter(arbiter, move |_| {
            RegistryActor::new(account_id, desktop, epoch, core, directory)
        });
        for (phone, route) in account.phones() {
            let targets_this = route.target == Some(desktop);
            let route = route.socket.clone();
            post(
                &registry,
                PhoneAttached {
                    phone,
                    route,
                    targets_this,
                },
            );
        }
        if account.device(desktop).is_some() {
            // Within its grace, or on its way out as its former registry failed; or it attaches just now.
            post(&registry, DesktopReconnecting);
        }
        account.pairs.reserve_exact(1);
        account.pairs.push(Pair {
            desktop,
            registry: registry.clone(),
            epoch,
        });
        registry
    }

    /// Takes a phone's target as reconnecting if it is about to come over from another instance, so that
    /// a restart or a deploy shows no false "offline" (PR-8, DR-5).
    fn expect_target(
        &mut self,
        account_id: AccountId,
        target: Target,
        facts_read: RegistrationSequence,
        registry: &Addr<RegistryActor>,
    ) {
        let removed = self
            .removals
            .came_after(account_id, target.desktop, facts_read, facts_read);
        if removed.is_some() {
            return;
        }
        let account = self.accounts.entry(account_id).or_default();
        if account.device(target.desktop).is_some() {
            return;
        }
        let expected = self.core.expected_until(target.facts.elsewhere);
        if let (true, Some(end)) = (target.facts.admitted, expected) {
            self.last_generation += 1;
            let generation = ConnectionGeneration::new(self.last_generation);
            account.await_return(target.desktop, generation, self.core.environment.now());
            post(registry, DesktopReconnecting);
            let pair = (account_id, target.desktop);
            post(
                &self.presence,
                StartGrace {
                    pair,
                    generation,
                    end,
                },
            );
        }
    }

    fn attach_desktop(
        &mut self,
        attach: &Attach,
        generation: ConnectionGeneration,
        directory: Addr<Self>,
    ) -> (Addr<RegistryActor>, Taken) {
        let (account, device) = (attach.account, attach.device);
        let registry = self.pair(account, device, &attach.arbiter, directory);
        // Sent now, so that the registry knows of the route before anything that follows.
        let leases = registry.send(DesktopAttached(attach.socket.clone()));
        post(&self.presence, CancelGrace((account, device)));
        self.tell_status(account, device, DeviceStatusWord::Online, None, generation);
        let pair = (account, device);
        post(&self.push, DesktopRegistered { pair, generation });
        (registry, Box::pin(leases))
    }

    fn attach_phone(
        &mut self,
        attach: &Attach,
        directory: Addr<Self>,
    ) -> Option<(Addr<RegistryActor>, Taken)> {
        let attached = |targets_this| PhoneAttached {
            phone: attach.device,
            route: attach.socket.clone(),
            targets_this,
        };
        let target = attach.target.map(|target| {
            let registry = self.pair(attach.account, target.desktop, &attach.arbiter, directory);
            self.expect_target(attach.account, target, attach.facts_read, &registry);
            let taken = registry.send(attached(true));
            (registry, taken)
        });
        // Every pair of the account: the phone may still wait for answers of a former target.
        let account = self.accounts.entry(attach.account).or_default();
        for pair in &account.pairs {
            if target
                .as_ref()
                .is_none_or(|(registry, _)| *registry != pair.registry)
            {
                post(&pair.registry, attached(false));
            }
        }
        let (registry, taken) = target?;
        let no_leases = taken.map(|taken| taken.map(|()| Vec::new()));
        Some((registry, Box::pin(no_leases)))
    }
}

impl Handler<Attach> for DirectoryActor {
    type Result = ResponseFuture<Result<Attached, NotAttached>>;

    fn handle(&mut self, attach: Attach, ctx: &mut Self::Context) -> Self::Result {
        let refuse = |reason| -> Self::Result { Box::pin(std::future::ready(Err(reason))) };
        let (account_id, device) = (attach.account, attach.device);
        if !self.gate.is_open() {
            return refuse(NotAttached::Draining);
        }
        let (read, facts_read) = (attach.sequence, attach.facts_read);
        let removal = self
            .removals
            .came_after(account_id, device, read, facts_read);
        if let Some(removal) = removal {
            return refuse(removal.refusal());
        }
        let connection = attach.socket.connection;
        let current = self
            .accounts
            .get(&account_id)
            .and_then(|account| account.device(device));
        let newer = current
            .and_then(|device| device.route.as_ref())
            .is_some_and(|route| route.sequence > attach.sequence);
        match self.sockets.get_mut(&connection) {
            Some(socket) if !socket.dismissed && !newer => {
                socket.attached = Some((account_id, device));
            }
            _ => return refuse(NotAttached::Superseded),
        }

        // Every registration of a desktop has a generation of its own; a phone's connection needs
        // one only to tell its presence writes apart.
        self.last_generation += 1;
        let generation = ConnectionGeneration::new(self.last_generation);
        let route = Route {
            socket: attach.socket.clone(),
            sequence: attach.sequence,
            target: attach.target.map(|target| target.desktop),
        };
        let now = self.core.environment.now();
        let account = self.accounts.entry(account_id).or_default();
        let replaced = account.attach(device, attach.device_type, generation, route, now);
        if let Some(replaced) = replaced.filter(|old| old.socket.connection != connection) {
            self.dismiss(&replaced.socket, CloseReason::Replaced);
        }
        let attached = match attach.device_type {
            DeviceType::Desktop => Some(self.attach_desktop(&attach, generation, ctx.address())),
            DeviceType::Mobile => self.attach_phone(&attach, ctx.address()),
        };
        self.record((account_id, device), generation, DeviceStatus::Online, None);
        let target_status = attach
            .target
            .map(|target| self.target_status(account_id, target.desktop));

        // Sent within this message, so that sessions are opened in the order of the attaches.
        let open = OpenSession {
            owner: (account_id, device),
            resume: attach.resume,
        };
        let session = self.sessions.send(open);
        let generation = (attach.device_type == DeviceType::Desktop).then_some(generation);
        Box::pin(async move {
            let session = session.await.map_err(|_| NotAttached::NoSession)?;
            let (pair, leases) = match attached {
                Some((pair, taken)) => {
                    let leases = taken.await.unwrap_or_else(|_| {
                        // The registry failed before it knew of this route, so it closes others only.
                        attach.socket.close(CloseReason::PairLost);
                        Vec::new()
                    });
                    (Some(pair), leases)
                }
                None => (None, Vec::new()),
            };
            Ok(Attached {
                pair,
                generation,
                session,
                target_status,
                leases,
            })
        })
    }
}
