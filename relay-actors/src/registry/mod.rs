//! RegistryActor: one per (account, desktop). It owns the pair's routes and pending requests, and is
//! the only actor between a phone's socket and a desktop's on the hot path.

mod leases;
mod messages;
mod pending;
pub(crate) mod tally;
mod timeline;
pub(crate) mod timeline_numbers;

use std::sync::Arc;

use actix::{
    Actor, ActorContext, Addr, AsyncContext, Context, Handler, MessageResult, SpawnHandle,
};
use indexmap::IndexMap;
use relay_model::ids::{AccountId, ConnectionId, DeviceId};
use relay_model::wire::OutgoingText;
use relay_model::wire::codes::RpcErrorCode;
use relay_model::wire::outbound::{self, RpcFailure};
use tokio::time::Instant;

use leases::Leases;
pub(crate) use messages::*;
pub use messages::{HeldLease, PairCounts, PairState};
use pending::{Answered, NotRecorded, PendingRequests};

use crate::directory::{DirectoryActor, PairEpoch, PairIdle};
use crate::mailbox::post;
use crate::metrics::Tally;
use crate::relay::Core;
use crate::socket::SocketHandle;
use crate::socket::messages::CloseReason;
use crate::traces::{Moment, OpenTrace, TraceOutcome, TracedRequests};

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

/// The trace of a request, if it has one.
type Trace = Option<Arc<OpenTrace>>;

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

    /// Answers a request that is not forwarded.
    fn refuse(&mut self, phone: DeviceId, id: &str, failure: RpcFailure, trace: Trace) {
        self.core.tallies().count(Tally::RpcRefused);
        self.fail(phone, id, failure, trace);
    }

    /// Answers a request itself.
    fn fail(&mut self, phone: DeviceId, id: &str, failure: RpcFailure, trace: Trace) {
        self.core.metrics.rpc_failed(failure.code);
        if let Some(trace) = &trace {
            trace.mark(Moment::Answered, Instant::now());
            trace.ends(TraceOutcome::Failed(failure.code));
        }
        if self.answer(phone, outbound::rpc_failure(id, failure), trace) {
            self.counts.failed += 1;
        }
    }

    /// Sends an answer to whatever connection the phone holds, and says whether it was sent. A phone
    /// that has no room for it is retired, so that no answer is ever lost in silence on a live
    /// connection (TR-10).
    fn answer(&mut self, phone: DeviceId, text: OutgoingText, trace: Trace) -> bool {
        let sent = self
            .phones
            .get(&phone)
            .map(|route| route.socket.answer(text, trace));
        if let Some(Err(_)) = sent
            && let Some(route) = self.phones.shift_remove(&phone)
        {
            route.socket.close(CloseReason::Congested);
            self.end_lease_of(phone, route.socket.connection);
        }
        let delivered = matches!(sent, Some(Ok(())));
        if !delivered {
            self.counts.undeliverable_responses += 1;
            self.core.tallies().count(Tally::RpcUndeliverable);
        }
        delivered
    }

    /// Ends what was forwarded to a connection that is gone (RPC-4). The seal comes first, so that
    /// what is called undelivered here can never leave afterwards (RPC-5).
    fn end_requests_of(&mut self, socket: &SocketHandle) {
        let begun = socket.seal_requests();
        for (id, record) in self.pending.end_of_desktop(socket.connection) {
            let delivered = record.position <= begun;
            let trace = self.traced.take(&id);
            self.fail(
                record.phone,
                &id,
                RpcFailure::desktop_gone(delivered),
                trace,
            );
        }
    }

    /// Takes the desktop's route away if it is this connection's.
    fn detach_desktop(&mut self, connection: ConnectionId) {
        if matches!(&self.desktop, Desktop::Attached(route) if route.socket.connection == connection)
            && let Desktop::Attached(route) =
                std::mem::replace(&mut self.desktop, Desktop::Reconnecting)
        {
            self.end_requests_of(&route.socket);
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

    /// Brings the figures up to date and, if nothing is left, tells the directory that the pair could end. The directory decides: it may have attached
    /// somebody meanwhile, whose message is then on its way here.
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
            let phones = self.phones.values().filter(|phone| phone.targets_this);
            for socket in desktop.into_iter().chain(phones.map(|phone| &phone.socket)) {
                socket.close(CloseReason::PairLost);
            }
        }
    }
}

impl Handler<Request> for RegistryActor {
    type Result = ();

    fn handle(&mut self, request: Request, ctx: &mut Self::Context) {
        let Request {
            connection,
            phone,
            id,
            text,
            trace,
            permit: _permit,
        } = request;
        // A frame of a connection that was replaced meanwhile has no effect any more.
        let route = self.phones.get(&phone);
        if self.forgotten || route.is_none_or(|route| route.socket.connection != connection) {
            return;
        }
        match self.pending.admit(&id, phone, &self.core.limits()) {
            Ok(()) => {}
            Err(NotRecorded::Duplicate) => {
                self.counts.duplicate_requests += 1;
                self.core.tallies().count(Tally::RpcDuplicate);
                if let Some(trace) = trace {
                    trace.ends(TraceOutcome::Duplicate);
                }
                return;
            }
            Err(NotRecorded::TakenByAnotherPhone) => {
                let failure =
                    RpcFailure::invalid("another phone has a request with this id pending");
                return self.refuse(phone, &id, failure, trace);
            }
            Err(NotRecorded::TooMany) => {
                let failure = RpcFailure::undelivered(RpcErrorCode::DesktopCongested);
                return self.refuse(phone, &id, failure, trace);
            }
        }
        let failure = match &mut self.desktop {
            Desktop::Attached(route) => {
                let now = Instant::now();
                if route.socket.request(text, trace.clone()).is_ok() {
                    route.forwarded += 1;
                    self.counts.forwarded += 1;
                    self.core.tallies().count(Tally::RpcForwarded);
                    let (desktop, position) = (route.socket.connection, route.forwarded);
                    if let Some(trace) = trace {
                        trace.mark(Moment::Forwarded, now);
                        self.traced.keep(&id, trace);
                    }
                    self.pending
                        .record(id, phone, desktop, position, now, &self.core.limits());
                    self.meter();
                    return self.arm_timer(ctx);
                }
                RpcErrorCode::DesktopCongested
            }
            Desktop::Reconnecting => RpcErrorCode::DesktopReconnecting,
            Desktop::Offline => RpcErrorCode::DesktopOffline,
        };
        self.refuse(phone, &id, RpcFailure::undelivered(failure), trace);
    }
}

impl Handler<Response> for RegistryActor {
    type Result = ();

    fn handle(&mut self, response: Response, _: &mut Self::Context) {
        let Response {
            connection,
            id,
            is_final,
            is_error,
            read_at,
            text,
            permit: _permit,
        } = response;
        let now = Instant::now();
        let answered = self
            .pending
            .answer(&id, connection, is_final, now, &self.core.limits());
        match answered {
            Answered::By { phone, forwarded } => {
                let mut trace = None;
                if is_final {
                    trace = self.traced.take(&id);
                    let took = now.saturating_duration_since(forwarded);
                    self.core.metrics.rpc_duration.record(took);
                }
                if let Some(trace) = &trace {
                    trace.mark(Moment::Answered, read_at);
                    trace.ends(match is_error {
                        true => TraceOutcome::DesktopError,
                        false => TraceOutcome::Answered,
                    });
                }
                if self.answer(phone, text, trace) {
                    self.counts.answered += 1;
                    self.core.tallies().count(Tally::RpcDelivered);
                }
                self.report_if_idle();
            }
            Answered::Unknown => {
                self.counts.unknown_responses += 1;
                self.core.tallies().count(Tally::RpcUnknown);
            }
        }
    }
}

impl Handler<DesktopAttached> for RegistryActor {
    type Result = Vec<OutgoingText>;

    fn handle(
        &mut self,
        DesktopAttached(socket): DesktopAttached,
        _: &mut Self::Context,
    ) -> Vec<OutgoingText> {
        let current = match &self.desktop {
            Desktop::Attached(route) => Some(route.socket.clone()),
            Desktop::Offline | Desktop::Reconnecting => None,
        };
        // Registered again on the same socket, its requests stay its own (REG-10).
        if current.as_ref().map(|current| current.connection) != Some(socket.connection) {
            if let Some(replaced) = current {
                self.end_requests_of(&replaced);
            }
            self.desktop = Desktop::Attached(DesktopRoute {
                socket,
                forwarded: 0,
            });
        }
        self.report_if_idle();
        self.restart_timelines()
    }
}

impl Handler<DesktopGone> for RegistryActor {
    type Result = ();

    fn handle(&mut self, DesktopGone { connection }: DesktopGone, _: &mut Self::Context) {
        self.detach_desktop(connection);
        self.report_if_idle();
    }
}

impl Handler<DesktopReconnecting> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: DesktopReconnecting, _: &mut Self::Context) {
        if matches!(self.desktop, Desktop::Offline) {
            self.desktop = Desktop::Reconnecting;
        }
    }
}

impl Handler<DesktopOffline> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: DesktopOffline, _: &mut Self::Context) {
        if matches!(self.desktop, Desktop::Reconnecting) {
            self.desktop = Desktop::Offline;
        }
        self.report_if_idle();
    }
}

impl Handler<PhoneAttached> for RegistryActor {
    type Result = ();

    fn handle(&mut self, attached: PhoneAttached, _: &mut Self::Context) {
        let PhoneAttached {
            phone,
            route: socket,
            targets_this,
        } = attached;
        // Whether it is another connection or this one registered again, a lease of before has ended
        // (TL-3, REG-10).
        if let Some(former) = self.phones.get(&phone) {
            let former = former.socket.connection;
            self.end_lease_of(phone, former);
        }
        self.phones.insert(
            phone,
            PhoneRoute {
                socket,
                targets_this,
            },
        );
        self.report_if_idle();
    }
}

impl Handler<PhoneGone> for RegistryActor {
    type Result = ();

    fn handle(&mut self, PhoneGone { phone, connection }: PhoneGone, _: &mut Self::Context) {
        let current = self.phones.get(&phone).map(|route| route.socket.connection);
        if current == Some(connection) {
            // The phone's requests stay: it may come back for the answers (RPC-8).
            self.end_lease_of(phone, connection);
            self.phones.shift_remove(&phone);
            if self.phones.is_empty() {
                self.phones = IndexMap::new();
            }
        }
        self.report_if_idle();
    }
}

impl Handler<PhoneForgotten> for RegistryActor {
    type Result = ();

    fn handle(&mut self, PhoneForgotten(phone): PhoneForgotten, _: &mut Self::Context) {
        // Nobody is left who could be told.
        self.pending.end_of_phone(phone);
        self.report_if_idle();
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
        if let Some((_, timer)) = self.timer.take() {
            ctx.cancel_future(timer);
        }
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
