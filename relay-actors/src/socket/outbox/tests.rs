//! What leaves, in which order, over a transport that takes as much as it is told to.

use std::task::Waker;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::lanes::LaneLoad;
use super::*;
use crate::socket::ceilings::Ceilings;

/// A transport that accepts what it is told to.
#[derive(Default)]
pub(super) struct Pipe {
    pub(super) accepts: usize,
    pub(super) written: Vec<u8>,
    writes: usize,
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buffer)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let taken = offered.len().min(self.accepts);
        if taken == 0 {
            return Poll::Pending;
        }
        self.accepts -= taken;
        self.writes += 1;
        self.written.extend_from_slice(&offered[..taken]);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Transport for Pipe {
    fn kill(self: Box<Self>) {}
}

pub(super) struct Bench {
    pub(super) room: Arc<OutboundRoom>,
    pub(super) outbox: Outbox,
    pub(super) pipe: Pipe,
}

impl Bench {
    fn new(fragment_size: usize) -> Self {
        Self::under(Limits {
            fragment_size,
            ..Limits::default()
        })
    }

    /// One whose lanes hold so many messages and bytes.
    pub(super) fn bounded(fragment_size: usize, messages: usize, bytes: usize) -> Self {
        Self::under(Limits {
            fragment_size,
            control_lane_messages: messages,
            rpc_lane_messages: messages,
            rpc_lane_bytes: bytes,
            event_lane_messages: messages,
            event_lane_bytes: bytes,
            ..Limits::default()
        })
    }

    fn under(limits: Limits) -> Self {
        let room = OutboundRoom::new(Arc::new(limits.clone()), Ceilings::new(&limits).outbound);
        let outbox = Outbox::new(Arc::clone(&room), &limits);
        Self {
            room,
            outbox,
            pipe: Pipe::default(),
        }
    }

    fn push(&mut self, lane: Lane, text: &str) {
        let permit = self.room.reserve(lane, text.len()).unwrap();
        self.outbox
            .push(OutgoingText::new(text.to_owned()), permit, false);
    }

    fn request(&mut self, text: &str) {
        let permit = self.room.reserve(Lane::Rpc, text.len()).unwrap();
        self.outbox
            .push(OutgoingText::new(text.to_owned()), permit, true);
    }

    /// Lets the pipe take so many bytes; true if nothing that may leave is left.
    fn write(&mut self, bytes: usize) -> bool {
        self.pipe.accepts = bytes;
        let mut cx = Context::from_waker(Waker::noop());
        let written = self
            .outbox
            .write(Pin::new(&mut self.pipe), &mut cx)
            .unwrap();
        assert_eq!(
            written.progress,
            self.pipe.writes > 0 && bytes > self.pipe.accepts
        );
        written.done
    }

    /// The payloads of the frames that were written, fragments joined.
    fn messages(&self) -> Vec<String> {
        let mut rest = &self.pipe.written[..];
        let (mut messages, mut parts) = (Vec::new(), String::new());
        while let [first, second, tail @ ..] = rest {
            let (length, tail) = match second {
                126 => (
                    usize::from(tail[0]) * 256 + usize::from(tail[1]),
                    &tail[2..],
                ),
                length => (usize::from(*length), tail),
            };
            let payload = String::from_utf8_lossy(&tail[..length]).into_owned();
            rest = &tail[length..];
            match first {
                0x81 => messages.push(payload),
                0x01 | 0x00 => parts.push_str(&payload),
                0x80 => messages.push(std::mem::take(&mut parts) + &payload),
                0x88 => messages.push("close".to_owned()),
                0x89 => messages.push("ping".to_owned()),
                0x8a => messages.push(format!("pong {payload}")),
                other => panic!("opcode {other:#x}"),
            }
        }
        messages
    }
}

/// RPC-9: control before RPC before events, each lane in its order; one write takes them all.
#[test]
fn the_most_urgent_leave_first() {
    let mut bench = Bench::new(1_000);
    bench.push(Lane::Event, "e1");
    bench.push(Lane::Rpc, "r1");
    bench.push(Lane::Event, "e2");
    bench.push(Lane::Rpc, "r2");
    bench.push(Lane::Control, "c1");
    assert!(bench.write(usize::MAX));
    assert_eq!(bench.messages(), ["c1", "r1", "r2", "e1", "e2"]);
    assert_eq!(bench.pipe.writes, 1);
    for lane in [Lane::Control, Lane::Rpc, Lane::Event] {
        assert_eq!(
            bench.room.load(lane),
            LaneLoad {
                messages: 0,
                bytes: 0
            }
        );
    }
}

/// RPC-9: what has begun is finished, byte by byte if need be, and then the most urgent goes.
#[test]
fn a_begun_message_is_finished() {
    let mut bench = Bench::new(1_000);
    bench.push(Lane::Event, "event");
    assert!(!bench.write(3));
    bench.push(Lane::Event, "later");
    bench.push(Lane::Rpc, "rpc");
    bench.push(Lane::Control, "control");
    while !bench.write(1) {}
    assert_eq!(bench.messages(), ["event", "control", "rpc", "later"]);
}

/// TR-3: pings and pongs pass between the fragments of a large message, no other message does, however
/// urgent: WebSocket has no way to tell their fragments apart.
#[test]
fn pings_pass_between_fragments() {
    let mut bench = Bench::new(4);
    bench.push(Lane::Event, "abcdefghij");
    bench.push(Lane::Event, "next");
    assert!(!bench.write(6 + 2));
    bench.push(Lane::Control, "c");
    bench.push(Lane::Rpc, "r");
    bench.outbox.push_control(OpCode::Ping, Bytes::new());
    while !bench.write(1) {}
    assert_eq!(bench.messages(), ["ping", "abcdefghij", "c", "r", "next"]);
}

/// TL-14: a snapshot that the peer takes nothing of is taken back; one that has begun is finished
/// before what came meanwhile, and pings pass between its fragments.
#[test]
fn a_snapshot_begins_or_makes_way() {
    let mut bench = Bench::new(4);
    bench.outbox.offer_snapshot(OutgoingText::new("old"));
    assert!(!bench.write(0));
    assert!(bench.outbox.only_offers_snapshot());
    assert!(bench.outbox.take_back_snapshot() && bench.outbox.is_empty());
    bench.outbox.offer_snapshot(OutgoingText::new("newest"));
    assert!(!bench.write(1));
    assert!(!bench.outbox.take_back_snapshot() && bench.outbox.writes_snapshot());
    bench.push(Lane::Rpc, "r");
    bench.push(Lane::Control, "c");
    while !bench.write(1) {}
    assert_eq!(bench.messages(), ["newest", "c", "r"]);
    assert!(!bench.outbox.writes_snapshot());
}

/// REG-7: frames that share one place in a lane leave in order and give it back with the last.
#[test]
fn a_bundle_takes_one_place() {
    let mut bench = Bench::bounded(1_000, 2, 1_000);
    let texts = ["a", "b", "c"].map(OutgoingText::new);
    let permit = bench.room.reserve(Lane::Control, 3).unwrap();
    bench.outbox.push_all(texts.into(), permit);
    bench.push(Lane::Control, "d");
    assert_eq!(bench.room.load(Lane::Control).messages, 2);
    assert!(bench.write(usize::MAX));
    assert_eq!(bench.messages(), ["a", "b", "c", "d"]);
    assert_eq!(bench.room.load(Lane::Control), LaneLoad::default());
}

/// REG-7: while held, only the control lane leaves.
#[test]
fn held_lanes_wait() {
    let mut bench = Bench::new(1_000);
    bench.outbox.hold(true);
    bench.push(Lane::Rpc, "r");
    bench.push(Lane::Control, "reply");
    assert!(bench.write(usize::MAX));
    assert_eq!(bench.messages(), ["reply"]);
    bench.outbox.hold(false);
    assert!(bench.write(usize::MAX));
    assert_eq!(bench.messages(), ["reply", "r"]);
}

/// TR-6: of several unanswered pings only the last is answered.
#[test]
fn one_pong_waits() {
    let mut bench = Bench::new(1_000);
    for payload in ["1", "2", "3"] {
        bench
            .outbox
            .push_control(OpCode::Pong, Bytes::from_static(payload.as_bytes()));
    }
    assert!(!bench.write(1));
    bench
        .outbox
        .push_control(OpCode::Pong, Bytes::from_static(b"4"));
    assert!(bench.write(usize::MAX));
    assert_eq!(bench.messages(), ["pong 3", "pong 4"]);
}

/// The close is the last frame, behind the replies. What has not begun is dropped.
#[test]
fn nothing_follows_the_close() {
    let mut bench = Bench::new(4);
    bench.push(Lane::Event, "evnt");
    bench.push(Lane::Rpc, "begn");
    assert!(!bench.write(1));
    bench.push(Lane::Control, "no");
    bench.outbox.close(Bytes::new());
    bench.push(Lane::Control, "late");
    while !bench.write(1) {}
    assert_eq!(bench.messages(), ["begn", "no", "close"]);
    assert_eq!(bench.room.load(Lane::Event), LaneLoad::default());
}

/// TR-10: of a message that has begun only the current frame is finished before the close; no text
/// may follow what stays without an end.
#[test]
fn the_close_follows_the_current_frame() {
    let mut bench = Bench::new(4);
    bench.push(Lane::Rpc, "begun and cut");
    assert!(!bench.write(1));
    bench.push(Lane::Control, "no");
    bench.outbox.push_control(OpCode::Pong, Bytes::new());
    bench.outbox.close(Bytes::new());
    while !bench.write(1) {}
    assert_eq!(bench.pipe.written, b"\x01\x04begu\x8a\x00\x88\x00");
    assert_eq!(
        bench.room.load(Lane::Event),
        LaneLoad {
            messages: 0,
            bytes: 0
        }
    );
}

/// RPC-5: requests are counted exactly when their first byte is accepted, and never leave once
/// the count is sealed.
#[test]
fn requests_are_counted_when_they_leave() {
    let mut bench = Bench::new(1_000);
    for text in ["one", "two", "three"] {
        bench.request(text);
    }
    assert!(!bench.write(0));
    assert!(!bench.write(5 + 1));
    assert_eq!(bench.room.begun_requests().seal(), 2);
    bench.write(usize::MAX);
    assert_eq!(bench.messages(), ["one", "two"]);
}

/// A burst longer than one batch leaves in order.
#[test]
fn long_queues_leave_in_order() {
    let mut bench = Bench::new(1_000);
    let expected: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    expected.iter().for_each(|text| bench.request(text));
    while !bench.write(7) {}
    assert_eq!(bench.messages(), expected);
    assert_eq!(bench.room.begun_requests().seal(), 100);
}
