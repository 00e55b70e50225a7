//! DirectoryActor: the one point that orders attach, replace and detach of every device, the only
//! place that hands out addresses, and the sender of account-wide events.

mod account;
mod attaching;
mod draining;
mod messages;
mod reading;
mod removals;
mod removing;
mod restoring;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, MessageResult, WrapFuture,
};
use indexmap::IndexMap;
use relay_model::ids::{AccountId, ConnectionGeneration, ConnectionId, DeviceId};
use relay_model::store::{DeviceStatus, DeviceType, OfflineReason, PresenceWrite};
use relay_model::wire::OutgoingText;
use relay_model::wire::outbound::{self, DeviceStatusEvent, DeviceStatusWord};
use tokio::time::Instant;

use account::{Account, Pair};
use draining::Gate;
pub(crate) use draining::{
    AwaitEmpty, BeginClosing, Busy, CloseNext, CountSockets, FindBusy, ShutGate,
};
pub(crate) use messages::*;
pub use messages::{DirectoryState, LiveDevice};
pub(crate) use reading::{ListPairs, LiveAccount, ReadAccount};
use removals::Removals;
pub(crate) use removing::{DeviceChanged, DeviceForgotten, SignedOut};
pub(crate) use restoring::RestoreRows;

use crate::environment::FatalGuard;
use crate::mailbox::post;
use crate::metrics::Tally;
use crate::presence::{PresenceActor, StartGrace};
use crate::push::{AlertRequested, PushActor};
use crate::registry::{DesktopGone, DesktopOffline, EndPair, PhoneGone};
use crate::relay::Core;
use crate::sessions::SessionActor;
use crate::socket::SocketHandle;
use crate::socket::messages::CloseReason;
use crate::store::{RecordPresence, StoreActor};

/// The rank of a registration among all of the process, taken when its frame is read. A registration
/// whose checks took longer must not replace a later one of the same device (REG-6, REG-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RegistrationSequence(pub(crate) u64);

/// Tells the registries of one pair apart that followed each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PairEpoch(u64);

/// A socket as the directory knows it.
struct KnownSocket {
    handle: SocketHandle,
    /// Whose route it is.
    attached: Option<(AccountId, DeviceId)>,
    /// It was told to close, or has begun to: it can be no route any more.
    dismissed: bool,
}

/// The directory of a relay.
pub(crate) struct DirectoryActor {
    core: Arc<Core>,
    sessions: Addr<SessionActor>,
    store: Addr<StoreActor>,
    presence: Addr<PresenceActor>,
    push: Addr<PushActor>,
    accounts: HashMap<AccountId, Account>,
    sockets: IndexMap<ConnectionId, KnownSocket>,
    last_generation: u64,
    last_epoch: u64,
    removals: Removals,
    /// Connections that ended, by reason.
    closes: BTreeMap<&'static str, u64>,
    gate: Gate,
    _fatal: FatalGuard,
}

impl DirectoryActor {
    pub(crate) fn new(
        core: Arc<Core>,
        sessions: Addr<SessionActor>,
        store: Addr<StoreActor>,
        presence: Addr<PresenceActor>,
        push: Addr<PushActor>,
    ) -> Self {
        let fatal = FatalGuard::new("DirectoryActor", Arc::clone(&core.environment));
        Self {
            core,
            sessions,
            store,
            presence,
            push,
            accounts: HashMap::new(),
            sockets: IndexMap::new(),
            last_generation: 0,
            last_epoch: 0,
            removals: Removals::default(),
            closes: BTreeMap::new(),
            gate: Gate::default(),
            _fatal: fatal,
        }
    }

    /// Ends the route of a socket, if it has one, and all that depends on it.
    fn detach(&mut self, connection: ConnectionId) {
        let Some(socket) = self.sockets.get_mut(&connection) else {
            return;
        };
        socket.dismissed = true;
        let Some((account_id, device)) = socket.attached.take() else {
            return;
        };
        let now = self.core.environment.now();
        let Some(account) = self.accounts.get_mut(&account_id) else {
            return;
        };
        let Some((device_type, generation)) = account.detach(device, connection, now) else {
            return;
        };
        match device_type {
            DeviceType::Mobile => {
                for pair in &account.pairs {
                    post(
                        &pair.registry,
                        PhoneGone {
                            phone: device,
                            connection,
                        },
                    );
                }
                let reason = Some(OfflineReason::Disconnected);
                self.record(
                    (account_id, device),
                    generation,
                    DeviceStatus::Offline,
                    reason,
                );
                self.remove_if_empty(account_id);
            }
            DeviceType::Desktop => {
                if let Some(pair) = account.pair(device) {
                    post(&pair.registry, DesktopGone { connection });
                }
                let end = Instant::now() + self.core.limits().reconnect_grace;
                post(
                    &self.presence,
                    StartGrace {
                        pair: (account_id, device),
                        generation,
                        end,
                    },
                );
                let status = DeviceStatus::Reconnecting;
                self.record((account_id, device), generation, status, None);
                let status = DeviceStatusWord::Reconnecting;
                self.tell_status(account_id, device, status, None, generation);
            }
        }
    }

    /// Closes a socket that is no route any more, and lets it become none again.
    fn dismiss(&mut self, socket: &SocketHandle, reason: CloseReason) {
        socket.close(reason);
        if let Some(known) = self.sockets.get_mut(&socket.connection) {
            known.attached = None;
            known.dismissed = true;
        }
    }

    /// Sends an event to every other route of the account (EV-1).
    fn publish(&mut self, account: AccountId, sender: DeviceId, event: &OutgoingText) {
        let Some(account) = self.accounts.get(&account) else {
            return;
        };
        let (tallies, mut routes) = (self.core.tallies(), 0);
        let congested: Vec<_> = account
            .others(sender)
            .inspect(|_| routes += 1)
            .filter(|route| route.socket.event(event.clone()).is_err())
            .map(|route| route.socket.connection)
            .collect();
        tallies.count(Tally::EventsPublished);
        tallies.add(Tally::EventsRouted, routes - congested.len() as u64);
        for connection in congested {
            self.retire(connection, CloseReason::Congested);
        }
    }

    /// Ends a connection that could not take what it was sent (TR-10).
    fn retire(&mut self, connection: ConnectionId, reason: CloseReason) {
        if let Some(socket) = self.sockets.get(&connection) {
            socket.handle.close(reason);
        }
        self.detach(connection);
    }

    /// Retires the largest debtors until what stays is within the ceiling of the process (TR-10).
    fn relieve(&mut self) {
        let debts = |dismissed| {
            let sockets = self.sockets.values();
            let some = sockets.filter(move |socket| socket.dismissed == dismissed);
            some.map(|socket| (socket.handle.debt(), socket.handle.connection))
        };
        // What those owe who are on their way out is as good as free.
        let leaving: u64 = debts(true).map(|(debt, _)| debt).sum();
        let mut excess = self.core.ceilings.outbound.excess().saturating_sub(leaving);
        let mut staying: Vec<_> = debts(false).filter(|(debt, _)| *debt > 0).collect();
        staying.sort_unstable();
        while excess > 0
            && let Some((debt, connection)) = staying.pop()
        {
            self.retire(connection, CloseReason::MemoryCeiling);
            excess = excess.saturating_sub(debt);
        }
    }

    fn watch_ceiling(&mut self, ctx: &mut Context<Self>) {
        let total = Arc::clone(&self.core.ceilings.outbound);
        let crossed = async move { total.crossed().await };
        ctx.spawn(crossed.into_actor(self).map(|(), actor, ctx| {
            actor.relieve();
            actor.watch_ceiling(ctx);
        }));
    }

    /// Counts and stores a presence change.
    fn record(
        &self,
        (account, device): (AccountId, DeviceId),
        generation: ConnectionGeneration,
        status: DeviceStatus,
        reason: Option<OfflineReason>,
    ) {
        self.core.tallies().count(match status {
            DeviceStatus::Online => Tally::BecameOnline,
            DeviceStatus::Reconnecting => Tally::BecameReconnecting,
            DeviceStatus::Offline => Tally::BecameOffline,
        });
        self.store_status((account, device), generation, status, reason);
    }

    /// Stores what a device is. Once a drain closes the sockets nothing is stored: the rows of this
    /// instance are released as one (DR-3).
    fn store_status(
        &self,
        (account, device): (AccountId, DeviceId),
        generation: ConnectionGeneration,
        status: DeviceStatus,
        reason: Option<OfflineReason>,
    ) {
        if !self.gate.is_closing() {
            let (instance, at) = (self.core.instance, self.core.environment.now());
            let write = PresenceWrite {
                account,
                device,
                instance,
                generation,
                status,
                reason,
                at,
            };
            post(&self.store, RecordPresence(write));
        }
    }

    /// Tells every other route of the account what a desktop is (PR-1); not while a drain closes the
    /// sockets (DR-3).
    fn tell_status(
        &mut self,
        account_id: AccountId,
        device: DeviceId,
        status: DeviceStatusWord,
        reason: Option<OfflineReason>,
        generation: ConnectionGeneration,
    ) {
        let (Some(account), false) = (self.accounts.get(&account_id), self.gate.is_closing())
        else {
            return;
        };
        let event = DeviceStatusEvent {
            device,
            status,
            reason: reason.map(OfflineReason::as_str),
            generation,
            instance: self.core.instance,
        };
        let text = outbound::device_status(&event, self.core.environment.now());
        let congested: Vec<_> = account
            .others(device)
            .filter(|route| route.socket.status(text.clone(), route.sequence).is_err())
            .map(|route| route.socket.connection)
            .collect();
        for connection in congested {
            self.retire(connection, CloseReason::Congested);
        }
    }

    /// The socket of a device's route.
    #[cfg(feature = "fault-hooks")]
    pub(crate) fn socket_of(&self, account: AccountId, device: DeviceId) -> Option<&SocketHandle> {
        let device = self.accounts.get(&account)?.device(device)?;
        device.route.as_ref().map(|route| &route.socket)
    }

    /// Forgets an account that has nothing left; a registry that panicked is nothing.
    fn remove_if_empty(&mut self, id: AccountId) {
        if let Some(account) = self.accounts.get_mut(&id)
            && account.devices.is_empty()
        {
            account.pairs.retain(|pair| pair.registry.connected());
            if account.pairs.is_empty() {
                self.accounts.remove(&id);
            }
        }
    }
}

impl Actor for DirectoryActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(0);
        self.watch_ceiling(ctx);
    }
}

impl Handler<SocketOpened> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, SocketOpened(handle): SocketOpened, _: &mut Self::Context) {
        let dismissed = self.gate.is_closing();
        if dismissed {
            handle.close(CloseReason::Drained);
        }
        let known = KnownSocket {
            handle,
            attached: None,
            dismissed,
        };
        self.sockets.insert(known.handle.connection, known);
    }
}

impl Handler<SocketClosing> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, closing: SocketClosing, _: &mut Self::Context) {
        *self.closes.entry(closing.reason).or_default() += 1;
        self.detach(closing.connection);
    }
}

impl Handler<SocketGone> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, SocketGone(connection): SocketGone, _: &mut Self::Context) {
        self.detach(connection);
        self.sockets.swap_remove(&connection);
        self.notice_empty();
    }
}

impl Handler<PublishEvent> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, event: PublishEvent, _: &mut Self::Context) {
        let PublishEvent {
            account: account_id,
            device,
            connection,
            text,
            alert,
            permit: _permit,
        } = event;
        let route = self
            .accounts
            .get(&account_id)
            .and_then(|account| account.device(device))
            .and_then(|device| device.route.as_ref());
        if route.is_none_or(|route| route.socket.connection != connection) {
            // A replaced connection has no effect any more (REG-6).
            return;
        }
        self.publish(account_id, device, &text);
        if let Some(alert) = alert {
            let (account, alert) = (account_id, *alert);
            post(&self.push, AlertRequested { account, alert });
        }
    }
}

impl Handler<GraceOver> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, over: GraceOver, _: &mut Self::Context) {
        let GraceOver {
            pair: (account_id, desktop),
            generation,
        } = over;
        let is_over = |account: &mut Account| account.end_grace(desktop, generation);
        // While the relay drains the desktop may have come back to the next process: it is not called
        // gone then (DR-5).
        if !self.gate.is_open() || !self.accounts.get_mut(&account_id).is_some_and(is_over) {
            return;
        }
        if let Some(pair) = self
            .accounts
            .get(&account_id)
            .and_then(|account| account.pair(desktop))
        {
            post(&pair.registry, DesktopOffline);
        }
        let reason = Some(OfflineReason::ReconnectTimeout);
        self.record(
            (account_id, desktop),
            generation,
            DeviceStatus::Offline,
            reason,
        );
        let status = DeviceStatusWord::Disconnected;
        self.tell_status(account_id, desktop, status, reason, generation);
        self.remove_if_empty(account_id);
    }
}

impl Handler<PairIdle> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, idle: PairIdle, _: &mut Self::Context) {
        let PairIdle {
            account: account_id,
            desktop,
            epoch,
        } = idle;
        let Some(account) = self.accounts.get_mut(&account_id) else {
            return;
        };
        if account.needs_pair(desktop) {
            // Somebody was attached meanwhile; the registry hears of it.
            return;
        }
        let is_this = |pair: &Pair| pair.desktop == desktop && pair.epoch == epoch;
        if let Some(position) = account.pairs.iter().position(is_this) {
            let pair = account.pairs.remove(position);
            post(&pair.registry, EndPair);
        }
        self.remove_if_empty(account_id);
    }
}

impl Handler<ReadLiveDevices> for DirectoryActor {
    type Result = MessageResult<ReadLiveDevices>;

    fn handle(
        &mut self,
        ReadLiveDevices(account): ReadLiveDevices,
        _: &mut Self::Context,
    ) -> Self::Result {
        let devices = self
            .accounts
            .get(&account)
            .map(|account| account.devices.as_slice());
        let live = devices.unwrap_or_default().iter();
        MessageResult(live.map(LiveDevice::from).collect())
    }
}

impl Handler<ReadDirectoryState> for DirectoryActor {
    type Result = DirectoryState;

    fn handle(&mut self, _: ReadDirectoryState, _: &mut Self::Context) -> DirectoryState {
        let devices = || self.accounts.values().flat_map(|account| &account.devices);
        let routes = |device_type| {
            let routed = devices().filter(|device| device.route.is_some());
            routed
                .filter(|device| device.device_type == device_type)
                .count()
        };
        let (desktops, phones) = (routes(DeviceType::Desktop), routes(DeviceType::Mobile));
        DirectoryState {
            sockets: self.sockets.len(),
            accounts: self.accounts.len(),
            devices: devices().count(),
            removals: self.removals.len(),
            routes: desktops + phones,
            desktops,
            phones,
            pairs: self
                .accounts
                .values()
                .map(|account| account.pairs.len())
                .sum(),
        }
    }
}

impl Handler<CountCloses> for DirectoryActor {
    type Result = MessageResult<CountCloses>;

    fn handle(&mut self, _: CountCloses, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.closes.clone())
    }
}

impl Handler<FindRoute> for DirectoryActor {
    type Result = MessageResult<FindRoute>;

    fn handle(&mut self, find: FindRoute, _: &mut Self::Context) -> Self::Result {
        let account = self.accounts.get(&find.account);
        let device = account.and_then(|account| account.device(find.device));
        let route = device.and_then(|device| device.route.as_ref());
        MessageResult(route.map(|route| route.socket.clone()))
    }
}

impl Handler<FindPair> for DirectoryActor {
    type Result = MessageResult<FindPair>;

    fn handle(&mut self, find: FindPair, _: &mut Self::Context) -> Self::Result {
        let account = self.accounts.get(&find.account);
        let pair = account.and_then(|account| account.pair(find.desktop));
        MessageResult(pair.map(|pair| pair.registry.clone()))
    }
}
