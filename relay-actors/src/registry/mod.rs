//! RegistryActor: one per (account, desktop). It owns the pair's routes and pending requests, and is
//! the only actor between a phone's socket and a desktop's on the hot path.

mod leases;
mod messages;
mod pending;
mod requests;
mod routes;
pub(crate) mod tally;
mod timeline;
pub(crate) mod timeline_numbers;

use std::sync::Arc;

use actix::{
    Actor, ActorContext, Addr, AsyncContext, Context, Handler, MessageResult, SpawnHandle,
};
use indexmap::IndexMap;
use relay_model::ids::{AccountId, DeviceId};
use tokio::time::Instant;

use leases::Leases;
pub(crate) use messages::*;
pub use messages::{HeldLease, PairCounts, PairState};
use pending::PendingRequests;

use crate::directory::{DirectoryActor, PairEpoch, PairIdle};
use crate::mailbox::post;
use crate::metrics::Tally;
use crate::relay::Core;
use crate::socket::SocketHandle;
use crate::socket::messages::CloseReason;
use crate::traces::TracedRequests;

/// Where the pair's desktop is.
enum Desktop {
    /// No route, no grace: requests get -32010.
    Offline,
    /// No route, within its grace: requests get -32011.
    Reconnecting,
    /// Attached.
    Attached(DesktopRoute),
}

struct DesktopRoute {
    socket: SocketHandle,
    /// Requests forwarded to this connection; the last one's position.
    forwarded: u64,
}

struct PhoneRoute {
    socket: SocketHandle,
    targets_this: bool,
}

/// The pair of an account and one of its desktops.
pub(crate) struct RegistryActor {
    account: AccountId,
    desktop_id: DeviceId,
    epoch: PairEpoch,
    core: Arc<Core>,
    directory: Addr<DirectoryActor>,
    desktop: Desktop,
    /// Every phone of the account with a route, in the order of arrival.
    phones: IndexMap<DeviceId, PhoneRoute>,
    pending: PendingRequests,
    traced: TracedRequests,
    leases: Leases,
    /// The one timer for the deadlines of requests and leases, and when it is due.
    timer: Option<(Instant, SpawnHandle)>,
    idle_reported: bool,
    /// The relay drains: every frame that comes is let go (DR-3).
    forgotten: bool,
    counts: PairCounts,
    /// The requests and leases of this pair that are in the figures of the process (OP-6).
    counted: Counted,
}

/// What a pair has added to figures that go up and down.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    pending: u32,
    leases: u32,
}

impl RegistryActor {
    pub(crate) fn new(
        account: AccountId,
        desktop_id: DeviceId,
        epoch: PairEpoch,
        core: Arc<Core>,
        directory: Addr<DirectoryActor>,
    ) -> Self {
        let leases = Leases::new(Arc::clone(&core.timeline_numbers));
        Self {
            account,
            desktop_id,
            epoch,
            core,
            directory,
            desktop: Desktop::Offline,
            phones: IndexMap::new(),
            pending: PendingRequests::default(),
            traced: TracedRequests::default(),
            leases,
            timer: None,
            idle_reported: false,
            forgotten: false,
            counts: PairCounts::default(),
            counted: Counted::default(),
        }
    }

    /// Brings what the figures of the process say of this pair up to date.
    fn meter(&mut self) {
        let now = Counted {
            pending: self.pending.len() as u32,
            leases: self.leases.len() as u32,
        };
        let before = std::mem::replace(&mut self.counted, now);
        let tallies = self.core.tallies();
        for (tally, before, now) in [
            (Tally::RpcPending, before.pending, now.pending),
            (Tally::TimelineLeases, before.leases, now.leases),
        ] {
            if before != now {
                tallies.add(tally, u64::from(now).wrapping_sub(u64::from(before)));
            }
        }
    }

    /// Arms the timer for the next deadline of a request or a lease, unless it is due by then.
    fn arm_timer(&mut self, ctx: &mut Context<Self>) {
        let deadlines = [self.pending.next_deadline(), self.leases.next_look()];
        let Some(due) = deadlines.into_iter().flatten().min() else {
            return;
        };
        match self.timer {
            Some((armed, _)) if armed <= due => return,
            Some((_, handle)) => _ = ctx.cancel_future(handle),
            None => {}
        }
        let wait = due.saturating_duration_since(Instant::now());
        let handle = ctx.run_later(wait, |actor, ctx| {
            actor.timer = None;
            let now = Instant::now();
            let expired = actor.pending.expire(now) as u64;
            actor.counts.expired += expired;
            actor.core.tallies().add(Tally::RpcExpired, expired);
            let pending = &actor.pending;
            actor.traced.retain(|id| pending.contains(id));
            actor.leases.expire(now);
            actor.meter();
            actor.arm_timer(ctx);
            actor.report_if_idle();
        });
        self.timer = Some((due, handle));
    }

    /// Brings the figures up to date and, if nothing is left, tells the directory that the pair could end.
    /// The directory decides: it may have attached somebody meanwhile, whose message is then on its way
    /// here.
    fn report_if_idle(&mut self) {
        self.meter();
        let idle = matches!(self.desktop, Desktop::Offline)
            && self.pending.is_empty()
            && !self.phones.values().any(|phone| phone.targets_this);
        if idle && !self.idle_reported {
            let (account, desktop, epoch) = (self.account, self.desktop_id, self.epoch);
            post(
                &self.directory,
                PairIdle {
                    account,
                    desktop,
                    epoch,
                },
            );
        }
        self.idle_reported = idle;
    }
}

impl Actor for RegistryActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // The bound is the senders' permits; see `crate::mailbox`.
        ctx.set_mailbox_capacity(0);
    }
}

/// The sockets of a pair whose registry panicked are retired, so that their clients reconnect and
/// reconcile rather than wait for answers that nobody will route.
impl Drop for RegistryActor {
    fn drop(&mut self) {
        let tallies = self.core.tallies();
        tallies.subtract(Tally::RpcPending, self.counted.pending.into());
        tallies.subtract(Tally::TimelineLeases, self.counted.leases.into());
        if std::thread::panicking() {
            let desktop = match &self.desktop {
                Desktop::Attached(route) => Some(&route.socket),
                Desktop::Offline | Desktop::Reconnecting => None,
            };
            let phones = self
                .phones
                .iter()
                .filter(|(id, phone)| phone.targets_this || self.pending.has_of_phone(**id));
            let phones = phones.map(|(_, phone)| &phone.socket);
            for socket in desktop.into_iter().chain(phones) {
                socket.close(CloseReason::PairLost);
            }
        }
    }
}

impl Handler<EndPair> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: EndPair, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<Forget> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: Forget, ctx: &mut Self::Context) {
        self.forgotten = true;
        self.pending = PendingRequests::default();
        self.leases = Leases::new(Arc::clone(&self.core.timeline_numbers));
        self.traced = TracedRequests::default();
        if let Some((_, timer)) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        self.meter();
    }
}

impl Handler<ReadPairState> for RegistryActor {
    type Result = PairState;

    fn handle(&mut self, _: ReadPairState, _: &mut Self::Context) -> PairState {
        PairState {
            desktop_attached: matches!(self.desktop, Desktop::Attached(_)),
            phones: self
                .phones
                .values()
                .filter(|phone| phone.targets_this)
                .count(),
            pending: self.pending.len(),
            leases: self.leases.len(),
            counts: self.counts,
        }
    }
}

impl Handler<ReadPairDetails> for RegistryActor {
    type Result = MessageResult<ReadPairDetails>;

    fn handle(&mut self, _: ReadPairDetails, _: &mut Self::Context) -> Self::Result {
        MessageResult(PairDetails {
            pending: self.pending.by_phone(),
            leases: self.leases.held(Instant::now()),
        })
    }
}

impl Handler<AddUp> for RegistryActor {
    type Result = ();

    fn handle(&mut self, AddUp(share): AddUp, _: &mut Self::Context) {
        share.add(self.pending.len(), self.leases.len());
    }
}
