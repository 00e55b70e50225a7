//! SocketActor: one WebSocket and the device behind it. It owns its connection, is always polled,
//! also when its peer does not read, and is the only one that knows how far a registration has come.

mod admission;
pub mod ceilings;
mod clock;
mod closing;
#[cfg(feature = "conformance-echo")]
mod echo;
mod end_reason;
mod event_rules;
mod expiry;
mod frames;
mod handle;
pub(crate) mod inbound_room;
pub mod lanes;
pub mod link;
pub(crate) mod messages;
mod outbox;
mod rate_limit;
mod registering;
pub(crate) mod registration;
mod renewal;
mod stage;
mod stored_events;
pub(crate) mod timeline;
mod timeline_buffer;
pub mod transport;
mod watchdog;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use actix::{Actor, ActorContext, ActorFuture, AsyncContext, Context, Handler};
use bytes::Bytes;
use relay_model::credentials::Credentials;
use relay_model::ids::{ApiKeyId, ConnectionId};
use relay_model::limits::Limits;
use relay_model::store::{DeviceType, HeartbeatWrite};
use relay_model::websocket::reader::Reader;
use relay_model::wire::OutgoingText;
use relay_model::wire::codes::{ErrorCode, RpcErrorCode};
use relay_model::wire::inbound;
use relay_model::wire::outbound::{self, RpcFailure};
use tokio::time::{Instant, Sleep};

pub use end_reason::EndReason;
pub(crate) use handle::SocketHandle;
pub use messages::{CloseReason, SocketState};
pub use timeline_buffer::TimelineCounts;

use crate::credentials::{KeySocketGone, KeySocketOpened};
use crate::directory::{SocketGone, SocketOpened};
use crate::mailbox::post;
use crate::metrics::{Tallies, Tally};
use crate::relay::{ConnectionOrigin, Core, Relay};
use crate::sessions::TouchSession;
use crate::store::RecordHeartbeat;
use expiry::Expiry;
use inbound_room::InboundRoom;
use lanes::Lane;
use link::{Link, LinkEvent};
use messages::{Close, Deliver, FrameKind, ReadSocketState};
use rate_limit::TokenBucket;
use stage::{Registered, Stage};
use stored_events::WaitingEvents;
use timeline::Timeline;
use transport::Transport;
use watchdog::Watchdog;

/// Messages that one socket handles before the other sockets of its thread have their turn.
const MESSAGES_PER_TURN: usize = 64;

/// One connection.
pub(crate) struct SocketActor {
    relay: Relay,
    connection: ConnectionId,
    origin: Box<ConnectionOrigin>,
    link: Link,
    inbound: Arc<InboundRoom>,
    stage: Stage,
    refused_resumes: usize,
    watchdog: Watchdog,
    registration_deadline: Option<Instant>,
    expiry: Expiry,
    /// Events behind one that is being stored (EV-4).
    waiting_events: Option<Box<WaitingEvents>>,
    /// A phone's lease and what waits under it (TL-1).
    timeline: Option<Box<Timeline>>,
    rate: Rate,
    timer: Pin<Box<Sleep>>,
    /// The task that polls this socket, to have it polled after something outside a turn.
    task: Option<Waker>,
    /// The directory was told that this socket is no route any more.
    detached: bool,
    /// Sends back what it gets instead of speaking the protocol.
    #[cfg(feature = "conformance-echo")]
    echoes: bool,
}

/// What the rate limit remembers (TR-6).
struct Rate {
    messages: TokenBucket,
    /// For the answers to dropped requests.
    answers: TokenBucket,
    /// Messages that were charged, at their first frame.
    charged: u64,
    /// Whether the message that began last had a token.
    admitted: bool,
}

impl SocketActor {
    /// Starts a socket on the current arbiter.
    pub(crate) fn open(
        relay: Relay,
        origin: ConnectionOrigin,
        transport: Box<dyn Transport>,
        early: Bytes,
    ) {
        let reader = Reader::new(relay.limits().max_message_unregistered);
        Self::new(relay, origin, transport, early, reader).run();
    }

    fn new(
        relay: Relay,
        origin: ConnectionOrigin,
        transport: Box<dyn Transport>,
        early: Bytes,
        reader: Reader,
    ) -> Self {
        let now = Instant::now();
        let core = Arc::clone(relay.core());
        let limits = &relay.limits();
        let connection = ConnectionId::from_uuid(core.environment.new_uuid());
        let link = Link::new(transport, early, reader, Arc::clone(limits), &core.ceilings);
        let expiry = Expiry::new(&origin.credentials, core.environment.now(), now, limits);
        core.tallies().count(Tally::SocketsAccepted);
        tracing::info!(
            %connection,
            account = %origin.account,
            client_type = origin.client_type.map(DeviceType::as_str),
            peer = origin.peer.map(tracing::field::display),
            "connected"
        );
        Self {
            connection,
            origin: Box::new(origin),
            link,
            inbound: InboundRoom::new(limits, Arc::clone(&core.metrics.tallies)),
            stage: Stage::Unregistered,
            refused_resumes: 0,
            watchdog: Watchdog::new(now, limits),
            expiry,
            waiting_events: None,
            timeline: None,
            registration_deadline: Some(now + limits.registration_timeout),
            rate: Rate {
                messages: TokenBucket::full(now, limits),
                answers: TokenBucket::full(now, limits),
                charged: 0,
                admitted: true,
            },
            timer: Box::pin(tokio::time::sleep_until(now + limits.registration_timeout)),
            task: None,
            detached: false,
            #[cfg(feature = "conformance-echo")]
            echoes: false,
            relay,
        }
    }

    /// Starts the actor and tells of it whoever may have to close it.
    fn run(self) {
        let (relay, connection, key) = (self.relay.clone(), self.connection, self.api_key());
        let room = Arc::clone(self.link.room());
        let address = Actor::start(self);
        // Told here and not by the actor's first poll: a stop in between must find the socket.
        let socket = SocketHandle::new(connection, address, room);
        if let Some(key) = key {
            let socket = socket.clone();
            post(relay.credentials(), KeySocketOpened { key, socket });
        }
        post(relay.directory(), SocketOpened(socket));
    }

    fn api_key(&self) -> Option<ApiKeyId> {
        match self.origin.credentials {
            Credentials::ApiKey { id, .. } => Some(id),
            Credentials::UserToken { .. } => None,
        }
    }

    fn core(&self) -> &Core {
        self.relay.core()
    }

    /// Where what happens with every frame is counted.
    fn tallies(&self) -> &Tallies {
        self.link.room().tallies()
    }

    /// The limits that were in force when the connection was opened.
    fn limits(&self) -> &Arc<Limits> {
        self.link.limits()
    }

    fn handle_of(&self, ctx: &Context<Self>) -> SocketHandle {
        SocketHandle::new(self.connection, ctx.address(), Arc::clone(self.link.room()))
    }

    /// The registration that holds now, also while another one is checked.
    fn registered(&self) -> Option<&Registered> {
        match &self.stage {
            Stage::Unregistered => None,
            Stage::Checking(checking) => checking.previous.as_deref(),
            Stage::Registered(registered) => Some(registered),
        }
    }

    /// One turn: what the clock asks for, what the peer sent, what waits to be written. True when
    /// the connection is over.
    fn turn(&mut self, ctx: &mut Context<Self>, cx: &mut TaskContext<'_>) -> bool {
        let known = self.task.as_ref();
        let task_moved = !known.is_some_and(|task| task.will_wake(cx.waker()));
        if task_moved {
            self.task = Some(cx.waker().clone());
        }
        let now = Instant::now();
        self.look_at_clock(now);
        let mut handled = 0;
        loop {
            if handled == MESSAGES_PER_TURN {
                cx.waker().wake_by_ref();
                break;
            }
            let reading =
                self.link.is_closing() || (self.inbound.may_read(cx) && self.link.may_grow(now));
            self.watchdog.reading(reading, now);
            if !reading {
                break;
            }
            let polled = self.link.poll_read(cx, now);
            self.charge(now);
            match polled {
                Poll::Ready(LinkEvent::Ended) => return true,
                Poll::Ready(event) => self.on_event(event, now, ctx),
                Poll::Pending => break,
            }
            handled += 1;
            // A reply leaves before the next message is looked at, if the peer takes it: else a burst
            // would fill the lanes of a peer that reads, and a violation behind it cost the replies.
            if self.link.may_write() && self.write(now, ctx, cx) {
                return true;
            }
        }
        if self.write(now, ctx, cx) {
            return true;
        }
        self.arm_timer(now, cx, task_moved);
        false
    }

    /// Writes what waits; true when the connection is over.
    fn write(&mut self, now: Instant, ctx: &mut Context<Self>, cx: &mut TaskContext<'_>) -> bool {
        let event = match self.link.poll_write(cx, Instant::now) {
            None => self.write_timeline(now, cx),
            over => over,
        };
        match event {
            None => false,
            Some(event) => {
                self.on_event(event, now, ctx);
                true
            }
        }
    }

    /// Has the next turn come soon: something was queued by a future that runs behind [`Drive`].
    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    /// Takes a token for each message at its first frame (TR-6).
    fn charge(&mut self, now: Instant) {
        while self.rate.charged < self.link.messages_begun() {
            self.rate.charged += 1;
            let limits = self.link.limits();
            self.rate.admitted = self.rate.messages.take(now, limits);
        }
    }

    fn on_event(&mut self, event: LinkEvent, now: Instant, ctx: &mut Context<Self>) {
        #[cfg(feature = "conformance-echo")]
        let Some(event) = self.echo(event) else {
            return;
        };
        match event {
            LinkEvent::Text(text) => {
                self.watchdog.frame(now);
                if self.rate.admitted {
                    self.on_text(text, now, ctx);
                } else {
                    self.on_dropped(&text, now);
                }
            }
            LinkEvent::Binary(_) if self.rate.admitted => {
                self.tallies().count(Tally::ReceivedBinary);
                let code = ErrorCode::UnsupportedFrame;
                self.reply_error(code, code.meaning(), None);
            }
            LinkEvent::Binary(_) => self.on_dropped("", now),
            LinkEvent::Ping => {
                self.tallies().count(Tally::ReceivedControl);
                self.watchdog.frame(now);
            }
            LinkEvent::Pong => {
                self.tallies().count(Tally::ReceivedControl);
                self.watchdog.frame(now);
                self.watchdog.pong(now, self.link.limits());
            }
            LinkEvent::Closing(cause) => self.peer_closes(&cause),
            LinkEvent::Ended => {}
        }
    }

    /// Answers a dropped message if it is a request that says how to. Each dropped message takes a
    /// token of the answers; without one nothing is read of it (TR-6).
    fn on_dropped(&mut self, text: &str, now: Instant) {
        let (limits, tallies) = (self.link.limits(), self.tallies());
        tallies.count(Tally::RateLimited);
        tallies.count(Tally::ReceivedRateLimited);
        tallies.add(Tally::RateLimitedBytes, text.len() as u64);
        if !self.rate.answers.take(now, limits) || self.registered().is_none() {
            return;
        }
        if let Some(id) = inbound::dropped_request_id(text) {
            let failure = RpcFailure::undelivered(RpcErrorCode::RateLimited);
            self.core().metrics.rpc_failed(failure.code);
            self.tallies().count(Tally::RpcRefused);
            let text = outbound::rpc_failure(frames::cut_id(&id, limits), failure);
            self.reply(Lane::Rpc, text);
        }
    }

    /// Sends a frame of the relay's own; a peer that leaves no room for it is retired (TR-10).
    fn reply(&mut self, lane: Lane, text: OutgoingText) {
        if !self.link.is_closing() && !self.link.try_send(lane, text) {
            self.close(CloseReason::Congested);
        }
    }

    fn reply_error(&mut self, code: ErrorCode, message: &str, request_type: Option<&str>) {
        let text = outbound::error(code, message, request_type, self.core().environment.now());
        self.reply(Lane::Control, text);
    }

    /// Takes note of an RPC frame or a heartbeat (SES-1).
    fn touch_session(&mut self, now: Instant) {
        let limits = self.link.limits();
        if let Stage::Registered(registered) = &mut self.stage
            && registered.touches.touch(now, limits)
        {
            let owner = (self.origin.account, registered.device);
            let session = registered.session;
            post(
                self.relay.sessions(),
                TouchSession {
                    owner,
                    session,
                    at: now,
                },
            );
        }
    }

    /// Passes a heartbeat on for storing, now and then (KA-1).
    fn store_heartbeat(&mut self, now: Instant) {
        let interval = self.limits().heartbeat_interval;
        let (account, at) = (self.origin.account, self.core().environment.now());
        if let Stage::Registered(registered) = &mut self.stage {
            let last = registered.heartbeat_at;
            if last.is_none_or(|last| now.duration_since(last) >= interval) {
                registered.heartbeat_at = Some(now);
                let device = registered.device;
                post(
                    self.relay.store(),
                    RecordHeartbeat(HeartbeatWrite {
                        account,
                        device,
                        at,
                    }),
                );
            }
        }
    }
}

impl Actor for SocketActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(0);
        ctx.spawn(Drive);
    }
}

/// Whatever ends a socket, a panic included, those who know it hear of it.
impl Drop for SocketActor {
    fn drop(&mut self) {
        if !self.detached && std::thread::panicking() {
            self.log_close(EndReason::SocketFailed, None, None);
        }
        if let Some(key) = self.api_key() {
            let connection = self.connection;
            post(self.relay.credentials(), KeySocketGone { key, connection });
        }
        post(self.relay.directory(), SocketGone(self.connection));
    }
}

/// Polls the socket's connection for as long as the actor lives. It is polled after every message to
/// the actor too, so that what was queued leaves in one write.
struct Drive;

impl ActorFuture<SocketActor> for Drive {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        socket: &mut SocketActor,
        ctx: &mut Context<SocketActor>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<()> {
        if socket.turn(ctx, cx) {
            ctx.stop();
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Handler<Deliver> for SocketActor {
    type Result = ();

    fn handle(&mut self, deliver: Deliver, _: &mut Self::Context) {
        let Deliver {
            text,
            permit,
            kind,
            trace,
        } = deliver;
        match (kind, &mut self.stage) {
            (FrameKind::Request, _) => self.link.send_request(text, permit, trace),
            (FrameKind::Status(route), Stage::Checking(checking)) if route == checking.sequence => {
                checking.statuses.push((text, permit));
            }
            (FrameKind::Status(_) | FrameKind::Other, _) => self.link.send(text, permit, trace),
        }
    }
}

impl Handler<ReadSocketState> for SocketActor {
    type Result = SocketState;

    fn handle(&mut self, _: ReadSocketState, _: &mut Self::Context) -> SocketState {
        let room = self.link.room();
        let timeline = self.timeline.as_ref().map(|timeline| timeline.state());
        let (snapshots, timeline) = timeline.unwrap_or_default();
        SocketState {
            control: room.load(Lane::Control),
            rpc: room.load(Lane::Rpc),
            event: room.load(Lane::Event),
            snapshots,
            timeline,
            inbound: self.inbound.load(),
            unfinished: self.link.unfinished().unwrap_or_default(),
            stalled_for: self.link.stalled_since().map(|since| since.elapsed()),
            round_trip: self.watchdog.round_trip(),
            silent_for: self.watchdog.silence(Instant::now()),
            peer: self.origin.peer,
        }
    }
}

impl Handler<Close> for SocketActor {
    type Result = ();

    fn handle(&mut self, Close(reason): Close, _: &mut Self::Context) {
        self.close(reason);
    }
}
