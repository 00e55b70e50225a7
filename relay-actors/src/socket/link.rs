//! One WebSocket over one transport: reads messages, writes what waits, answers pings and closes
//! properly. It knows nothing of the relay's protocol, only RFC 6455 and the close code of the day.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use bytestring::ByteString;
use relay_model::limits::Limits;
use relay_model::websocket::close;
use relay_model::websocket::header::OpCode;
use relay_model::websocket::reader::{Incoming, ProtocolError, Reader};
use relay_model::wire::OutgoingText;
use relay_model::wire::codes::CloseCode;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use super::ceilings::{Ceilings, UnfinishedShare};
use super::end_reason::EndReason;
use super::lanes::{Lane, OutboundRoom, Permit};
use super::outbox::Outbox;
use super::transport::Transport;
use crate::traces::OpenTrace;

/// How much is read at once. One block a thread, whatever the number of its sockets.
const READ_BLOCK: usize = 128 * 1024;

/// How much one socket may read before the other sockets of its thread have their turn.
const READ_TURN: usize = 8 * READ_BLOCK;

thread_local! {
    static BLOCK: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What came of polling a link.
#[derive(Debug)]
pub enum LinkEvent {
    /// A complete text message.
    Text(ByteString),
    /// A complete binary message; without its payload unless the link keeps it.
    Binary(Option<Bytes>),
    /// A ping, which the link has answered.
    Ping,
    /// A pong.
    Pong,
    /// The link is closing, for this reason. Comes once; nothing but [`LinkEvent::Ended`] follows.
    Closing(CloseCause),
    /// The transport is gone; the link does nothing any more.
    Ended,
}

/// What became of a snapshot that was to be written.
#[derive(Debug)]
pub enum SnapshotWrite {
    /// The peer took no byte of it.
    NotBegun,
    /// The peer took some of it.
    Begun,
    /// The peer took all of it.
    Finished,
    /// The connection is over.
    Over(LinkEvent),
}

/// Why a link closes without its owner's asking.
#[derive(Debug)]
pub enum CloseCause {
    /// The peer sent a close frame, with this code if any.
    Peer(Option<u16>),
    /// The peer broke the WebSocket protocol.
    Violation(ProtocolError),
    /// The stream ended without a close frame.
    EndOfStream,
    /// The stream failed.
    Failed(io::Error),
}

impl CloseCause {
    /// Its reason, as it is told (OP-5, OP-9).
    pub(crate) fn reason(&self) -> EndReason {
        match self {
            Self::Peer(_) => EndReason::ClientClosed,
            Self::Violation(_) => EndReason::ProtocolViolation,
            Self::EndOfStream => EndReason::ConnectionEnded,
            Self::Failed(error) => match error.kind() {
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                    EndReason::NetworkReset
                }
                _ => EndReason::NetworkError,
            },
        }
    }

    /// The close code that the connection ended with, whoever sent it.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Peer(code) => *code,
            Self::Violation(violation) => Some(violation.close_code().code()),
            Self::EndOfStream | Self::Failed(_) => None,
        }
    }
}

/// Where a link is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// A close frame was queued; the peer's is awaited until the deadline.
    AwaitingPeer {
        deadline: Instant,
    },
    /// The peer's close frame came; ours is to be written, until the deadline.
    Answering {
        deadline: Instant,
    },
    Ended,
}

/// One WebSocket.
pub struct Link {
    transport: Option<Box<dyn Transport>>,
    reader: Reader,
    outbox: Outbox,
    room: Arc<OutboundRoom>,
    limits: Arc<Limits>,
    /// What was read and not yet taken apart: the bytes behind the upgrade request, and the rest of
    /// a block that held more than one message.
    unread: Bytes,
    phase: Phase,
    /// The reader met a violation and may not be asked again: what comes is thrown away, the peer's
    /// close frame included, so the end of the stream is what both sides go by.
    deaf: bool,
    /// Our side of the stream was ended.
    shut_down: bool,
    /// Since when the peer takes nothing although something waits.
    stalled_since: Option<Instant>,
    /// Until when a retired peer must have taken the close frame (TR-10).
    retired_until: Option<Instant>,
    unfinished: UnfinishedShare,
    /// Since when the peer is not read, as all peers together have sent too much unfinished.
    over_ceiling_since: Option<Instant>,
}

impl Link {
    /// A link over an upgraded transport; `early` are bytes that came behind the upgrade request.
    /// Messages are limited to `max_message` bytes.
    pub fn new(
        transport: Box<dyn Transport>,
        early: Bytes,
        reader: Reader,
        limits: Arc<Limits>,
        ceilings: &Ceilings,
    ) -> Self {
        let room = OutboundRoom::new(Arc::clone(&limits), Arc::clone(&ceilings.outbound));
        Self {
            transport: Some(transport),
            reader,
            outbox: Outbox::new(Arc::clone(&room), &limits),
            room,
            limits,
            unread: early,
            phase: Phase::Open,
            deaf: false,
            shut_down: false,
            stalled_since: None,
            retired_until: None,
            unfinished: UnfinishedShare::new(Arc::clone(&ceilings.unfinished)),
            over_ceiling_since: None,
        }
    }

    /// The limits that it was made with.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// The room of its lanes, for those who send to it.
    pub fn room(&self) -> &Arc<OutboundRoom> {
        &self.room
    }

    /// Sets the largest message, from the next frame on (TR-3).
    pub fn set_max_message(&mut self, bytes: usize) {
        self.reader.set_max_message(bytes);
    }

    /// How many text and binary messages have begun to come (TR-6).
    pub fn messages_begun(&self) -> u64 {
        self.reader.messages_begun()
    }

    /// How much of an unfinished text message is there (TR-5).
    pub fn unfinished(&self) -> Option<usize> {
        self.reader
            .unfinished()
            .map(|unfinished| unfinished.received)
    }

    /// Queues a text message whose room was taken by its sender.
    pub(crate) fn send(
        &mut self,
        text: OutgoingText,
        permit: Permit,
        trace: Option<Arc<OpenTrace>>,
    ) {
        self.outbox.push_traced(text, permit, false, trace);
    }

    /// Queues a forwarded request, which is counted when it leaves (RPC-5).
    pub(crate) fn send_request(
        &mut self,
        text: OutgoingText,
        permit: Permit,
        trace: Option<Arc<OpenTrace>>,
    ) {
        self.outbox.push_traced(text, permit, true, trace);
    }

    /// Queues a text message of its owner; false if its lane is full.
    #[must_use]
    pub fn try_send(&mut self, lane: Lane, text: OutgoingText) -> bool {
        let permit = self.room.reserve(lane, text.len());
        permit
            .map(|permit| self.outbox.push(text, permit, false))
            .is_some()
    }

    /// Queues several text messages of its owner that take one place in the lane; false if it is full.
    #[must_use]
    pub fn try_send_all(&mut self, lane: Lane, texts: Vec<OutgoingText>) -> bool {
        let bytes = texts.iter().map(OutgoingText::len).sum();
        let Some(permit) = self.room.reserve(lane, bytes) else {
            return false;
        };
        self.outbox.push_all(texts, permit);
        true
    }

    /// Whether a snapshot would be the next to leave, if there were one: nothing else waits.
    pub fn may_offer_snapshot(&self) -> bool {
        self.phase == Phase::Open && self.outbox.is_empty() && !self.outbox.is_held()
    }

    /// Begins to write a snapshot, if the peer takes a byte of it now; else it is forgotten, so that a
    /// newer one may take its turn (TL-14). Only if [`Self::may_offer_snapshot`].
    pub fn write_snapshot(
        &mut self,
        text: OutgoingText,
        cx: &mut Context<'_>,
        now: impl Fn() -> Instant,
    ) -> SnapshotWrite {
        self.outbox.offer_snapshot(text);
        match self.poll_write(cx, now) {
            Some(event) => SnapshotWrite::Over(event),
            None if self.outbox.take_back_snapshot() => SnapshotWrite::NotBegun,
            None if self.outbox.writes_snapshot() => SnapshotWrite::Begun,
            None => SnapshotWrite::Finished,
        }
    }

    /// Whether a snapshot has begun and is not finished.
    pub fn writes_snapshot(&self) -> bool {
        self.outbox.writes_snapshot()
    }

    /// Queues a binary message of its owner; false if its lane is full.
    #[must_use]
    pub fn try_send_binary(&mut self, lane: Lane, payload: Bytes) -> bool {
        let permit = self.room.reserve(lane, payload.len());
        permit
            .map(|permit| self.outbox.push_binary(payload, permit))
            .is_some()
    }

    /// Queues a ping.
    pub fn ping(&mut self) {
        self.outbox.push_control(OpCode::Ping, Bytes::new());
    }

    /// Holds back everything but the control lane, or lets it go (REG-7).
    pub fn hold(&mut self, held: bool) {
        self.outbox.hold(held);
    }

    /// Begins to close: the close frame is the last to leave, behind what waits in the control lane.
    /// The peer has `close_timeout` to answer it; nothing else that it sends is kept, as nobody would
    /// have it and no ceiling would hold for it. A link that closes already goes on as it was.
    pub fn close(&mut self, code: CloseCode, now: Instant) {
        if self.phase == Phase::Open {
            self.outbox.close(close::encode(code.code(), ""));
            self.reader.discard();
            self.unfinished.set(self.reader.buffered());
            self.phase = Phase::AwaitingPeer {
                deadline: now + self.limits.close_timeout,
            };
        }
    }

    /// Begins to close a peer that takes too little: it has `retire_timeout` to take the close frame,
    /// else it sees a reset (TR-10).
    pub fn retire(&mut self, code: CloseCode, now: Instant) {
        if self.phase == Phase::Open {
            self.close(code, now);
            self.retired_until = Some(now + self.limits.retire_timeout);
        }
    }

    /// Ends at once: the peer sees a reset.
    pub fn kill(&mut self) {
        if let Some(transport) = self.transport.take() {
            transport.kill();
        }
        self.phase = Phase::Ended;
    }

    /// Whether nothing but the end is to be expected.
    pub fn is_closing(&self) -> bool {
        self.phase != Phase::Open
    }

    /// When the link wants to be polled although nothing happens on its transport: to give up a peer
    /// that does not close.
    pub fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::AwaitingPeer { deadline } | Phase::Answering { deadline } => {
                let retired = self.retired_until.unwrap_or(deadline);
                Some(deadline.min(retired))
            }
            Phase::Open | Phase::Ended => None,
        }
    }

    /// Whether more may be read of the peer: not while it holds one of the largest unfinished messages
    /// and all of them together are too much (`limits.inbound_total`).
    pub fn may_grow(&mut self, now: Instant) -> bool {
        let may_grow = self.unfinished.may_grow();
        self.over_ceiling_since = match (may_grow, self.over_ceiling_since) {
            (true, _) => None,
            (false, since) => since.or(Some(now)),
        };
        may_grow
    }

    /// Since when the peer is not read for that reason.
    pub fn over_ceiling_since(&self) -> Option<Instant> {
        self.over_ceiling_since
    }

    /// Since when the peer takes nothing although something waits for it (TR-10).
    pub fn stalled_since(&self) -> Option<Instant> {
        self.stalled_since
    }

    /// Whether something waits and the peer took all that was offered to it last.
    pub fn may_write(&self) -> bool {
        self.stalled_since.is_none() && !self.outbox.is_empty()
    }

    /// Reads the next thing from the peer. Pings are answered, the peer's close too.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<LinkEvent> {
        let mut turn = 0;
        loop {
            if self.deadline().is_some_and(|deadline| now >= deadline) {
                self.kill();
            }
            if self.transport.is_none() {
                return Poll::Ready(LinkEvent::Ended);
            }
            if matches!(self.phase, Phase::Answering { .. }) {
                // Nothing that comes behind the peer's close frame counts.
                return Poll::Pending;
            }
            if let Some(incoming) = self.take_apart_unread() {
                if let Some(event) = self.event_of(incoming, now) {
                    return Poll::Ready(event);
                }
                continue;
            }
            if turn >= READ_TURN {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if turn > 0 && !self.is_closing() && !self.may_grow(now) {
                return Poll::Pending;
            }
            let read = match self.poll_block(cx) {
                Poll::Ready(read) => read,
                Poll::Pending => return Poll::Pending,
            };
            let event = match read {
                Ok((0, _)) => self.end(CloseCause::EndOfStream),
                Ok((bytes, incoming)) => {
                    turn += bytes;
                    incoming.and_then(|incoming| self.event_of(incoming, now))
                }
                Err(error) => self.end(CloseCause::Failed(error)),
            };
            if let Some(event) = event {
                return Poll::Ready(event);
            }
        }
    }

    /// Takes the next message from what was read before.
    fn take_apart_unread(&mut self) -> Option<Result<Incoming, ProtocolError>> {
        if self.deaf {
            self.unread = Bytes::new();
        }
        if self.unread.is_empty() {
            return None;
        }
        let mut rest = &self.unread[..];
        let taken = self.reader.next(&mut rest).transpose();
        let used = self.unread.len() - rest.len();
        self.unread = if rest.is_empty() {
            Bytes::new()
        } else {
            self.unread.slice(used..)
        };
        taken
    }

    /// Reads one block and takes the first message from it; the rest is kept in `unread`.
    #[expect(
        clippy::type_complexity,
        reason = "bytes read, and what they completed"
    )]
    fn poll_block(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(usize, Option<Result<Incoming, ProtocolError>>)>> {
        let Some(transport) = &mut self.transport else {
            return Poll::Ready(Ok((0, None)));
        };
        let mut block = BLOCK.take();
        block.resize(READ_BLOCK, 0);
        let mut buffer = ReadBuf::new(&mut block);
        let polled = Pin::new(transport).poll_read(cx, &mut buffer);
        let mut rest = buffer.filled();
        let bytes = rest.len();
        let mut taken = None;
        if !self.deaf && bytes > 0 {
            taken = self.reader.next(&mut rest).transpose();
            if !rest.is_empty() {
                self.unread = Bytes::copy_from_slice(rest);
            }
            self.unfinished.set(self.reader.buffered());
        }
        BLOCK.set(block);
        polled.map_ok(|()| (bytes, taken))
    }

    fn event_of(
        &mut self,
        incoming: Result<Incoming, ProtocolError>,
        now: Instant,
    ) -> Option<LinkEvent> {
        let closing = self.is_closing();
        match incoming {
            Ok(Incoming::Text(text)) => (!closing).then_some(LinkEvent::Text(text)),
            Ok(Incoming::Binary(payload)) => (!closing).then_some(LinkEvent::Binary(payload)),
            Ok(Incoming::Ping(payload)) => {
                self.outbox.push_control(OpCode::Pong, payload);
                (!closing).then_some(LinkEvent::Ping)
            }
            Ok(Incoming::Pong) => (!closing).then_some(LinkEvent::Pong),
            Ok(Incoming::Close(frame)) => {
                let code = frame.as_ref().map(|frame| frame.code);
                // An answer to our own close frame; `Outbox::close` takes only the first.
                self.outbox.close(
                    frame.map_or_else(Bytes::new, |frame| close::encode(frame.code, &frame.reason)),
                );
                self.phase = Phase::Answering {
                    deadline: self.deadline_from(now),
                };
                (!closing).then_some(LinkEvent::Closing(CloseCause::Peer(code)))
            }
            Err(violation) => {
                self.deaf = true;
                self.close(violation.close_code(), now);
                (!closing).then_some(LinkEvent::Closing(CloseCause::Violation(violation)))
            }
        }
    }

    fn deadline_from(&self, now: Instant) -> Instant {
        self.deadline().unwrap_or(now + self.limits.close_timeout)
    }

    fn end(&mut self, cause: CloseCause) -> Option<LinkEvent> {
        let closing = self.is_closing();
        self.transport = None;
        self.phase = Phase::Ended;
        (!closing).then_some(LinkEvent::Closing(cause))
    }

    /// Writes what may leave. A link whose close handshake is done ends.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        now: impl Fn() -> Instant,
    ) -> Option<LinkEvent> {
        let transport = self.transport.as_deref_mut()?;
        match self.outbox.write(Pin::new(&mut *transport), cx) {
            Ok(written) if written.done => {
                self.stalled_since = None;
                self.retired_until = None;
                if matches!(self.phase, Phase::Answering { .. }) {
                    // TLS has a farewell of its own; without it an end could be anybody's.
                    let _ = Pin::new(transport).poll_shutdown(cx);
                    self.transport = None;
                    self.phase = Phase::Ended;
                    return Some(LinkEvent::Ended);
                }
                if self.deaf && !self.shut_down {
                    // The outcome does not matter: the peer's end or the deadline decides.
                    self.shut_down = Pin::new(transport).poll_shutdown(cx).is_ready();
                }
                None
            }
            // A snapshot that has not begun is no reason to retire anybody (TL-14).
            Ok(_) if self.outbox.only_offers_snapshot() => {
                self.stalled_since = None;
                None
            }
            Ok(written) => {
                if written.progress || self.stalled_since.is_none() {
                    self.stalled_since = Some(now());
                }
                None
            }
            Err(error) => {
                let event = self.end(CloseCause::Failed(error));
                Some(event.unwrap_or(LinkEvent::Ended))
            }
        }
    }
}
