//! What waits for a socket's peer and in which order it leaves: pings, pongs and replies before RPC
//! frames before events before a timeline's snapshot (RPC-9), a begun message to its end. Between its
//! fragments only WebSocket's own control frames may pass (TR-3).

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use relay_model::limits::Limits;
use relay_model::websocket::header::OpCode;
use relay_model::websocket::writer::{MessageWriter, SLICES_PER_MESSAGE};
use relay_model::wire::OutgoingText;
use tokio::time::Instant;

use super::lanes::{Lane, OutboundRoom, Permit};
use super::transport::Transport;
use crate::metrics::Tally;
use crate::traces::{Moment, OpenTrace};

/// The most messages handed to the socket in one write; more than a begun one, pings and pongs.
const BATCH_MESSAGES: usize = 16;
/// Batches up to this many bytes are copied together and leave in a plain write, which costs the kernel
/// less than a gathered one.
const COPY_UP_TO: usize = 2 * 1024;
/// Bytes after which a write takes no further message, so that a more urgent one that comes during
/// the write waits for little.
const BATCH_BYTES: usize = 128 * 1024;

/// Where a message waits, most urgent first: pings and pongs, the lanes, and behind them the one
/// snapshot that is on offer (RPC-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Ping,
    Control,
    Rpc,
    Event,
    Snapshot,
}

impl From<Lane> for Place {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Control => Self::Control,
            Lane::Rpc => Self::Rpc,
            Lane::Event => Self::Event,
        }
    }
}

impl Place {
    /// Where a message that left from here is counted, and its payload (OP-6).
    const fn tallies(self, is_request: bool) -> (Tally, Tally) {
        match self {
            Self::Ping => (Tally::SentControl, Tally::SentControlBytes),
            Self::Control => (Tally::SentReply, Tally::SentReplyBytes),
            Self::Rpc if is_request => (Tally::SentRequest, Tally::SentRequestBytes),
            Self::Rpc => (Tally::SentResponse, Tally::SentResponseBytes),
            Self::Event => (Tally::SentEvent, Tally::SentEventBytes),
            Self::Snapshot => (Tally::SentTimeline, Tally::SentTimelineBytes),
        }
    }
}

/// One waiting message.
#[derive(Debug)]
struct Queued {
    message: MessageWriter,
    /// Held until the message is written; pings, pongs, the close and the snapshot need none, there is
    /// at most one of each.
    _permit: Option<Permit>,
    /// A forwarded request, which is counted when it leaves (RPC-5).
    is_request: bool,
    /// The trace that hears when it was written.
    trace: Option<Arc<OpenTrace>>,
}

/// The waiting messages of one socket.
#[derive(Debug)]
pub(crate) struct Outbox {
    room: Arc<OutboundRoom>,
    fragment_size: usize,
    /// Pings and pongs.
    pings: VecDeque<Queued>,
    /// The control lane; behind it the close frame, when there is one.
    control: VecDeque<Queued>,
    rpc: VecDeque<Queued>,
    event: VecDeque<Queued>,
    /// At most one: it stands here only while it is offered to the socket, or once it has begun.
    snapshot: VecDeque<Queued>,
    /// The place whose front message has begun, pings and pongs aside.
    begun: Option<Place>,
    /// Only the control lane may leave: a registration is under way (REG-7).
    held: bool,
    closing: bool,
    needs_flush: bool,
}

/// What one write offers, as (place, index) in the order of leaving. It lives on the stack: a write must
/// not cost an allocation.
struct Batch {
    messages: [(Place, usize); BATCH_MESSAGES],
    count: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            messages: [(Place::Control, 0); BATCH_MESSAGES],
            count: 0,
        }
    }
}

impl Batch {
    /// Adds a message; the caller sees to the room.
    fn push(&mut self, message: (Place, usize)) {
        self.messages[self.count] = message;
        self.count += 1;
    }

    fn len(&self) -> usize {
        self.count
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn messages(&self) -> &[(Place, usize)] {
        &self.messages[..self.count]
    }
}

/// What a write achieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    /// Whether any byte was accepted.
    pub(crate) progress: bool,
    /// Whether everything that may leave has left.
    pub(crate) done: bool,
}

impl Outbox {
    pub(crate) fn new(room: Arc<OutboundRoom>, limits: &Limits) -> Self {
        Self {
            room,
            fragment_size: limits.fragment_size,
            pings: VecDeque::new(),
            control: VecDeque::new(),
            rpc: VecDeque::new(),
            event: VecDeque::new(),
            snapshot: VecDeque::new(),
            begun: None,
            held: false,
            closing: false,
            needs_flush: false,
        }
    }

    /// Adds a message to its permit's lane; after a close it is dropped.
    pub(crate) fn push(&mut self, text: OutgoingText, permit: Permit, is_request: bool) {
        self.push_traced(text, permit, is_request, None);
    }

    /// The same for a message that is, or answers, a traced request: its last byte is noted there (OP-7).
    pub(crate) fn push_traced(
        &mut self,
        text: OutgoingText,
        permit: Permit,
        is_request: bool,
        trace: Option<Arc<OpenTrace>>,
    ) {
        let place = permit.lane().into();
        let message = MessageWriter::text(text, self.fragment_size);
        self.enqueue(
            place,
            Queued {
                message,
                _permit: Some(permit),
                is_request,
                trace,
            },
        );
    }

    /// Adds messages that share one place in the lane: the last of them gives it back.
    pub(crate) fn push_all(&mut self, texts: Vec<OutgoingText>, permit: Permit) {
        let place = permit.lane().into();
        let last = texts.len().saturating_sub(1);
        let mut permit = Some(permit);
        for (index, text) in texts.into_iter().enumerate() {
            let queued = Queued {
                message: MessageWriter::text(text, self.fragment_size),
                _permit: permit.take_if(|_| index == last),
                is_request: false,
                trace: None,
            };
            self.enqueue(place, queued);
        }
    }

    /// Adds a binary message (only an echo sends one).
    pub(crate) fn push_binary(&mut self, payload: Bytes, permit: Permit) {
        let place = permit.lane().into();
        let message = MessageWriter::binary(payload, self.fragment_size);
        self.enqueue(
            place,
            Queued {
                message,
                _permit: Some(permit),
                is_request: false,
                trace: None,
            },
        );
    }

    /// Adds a ping or a pong; one that waits already makes way (TR-6: of several unanswered pings
    /// only the last is answered).
    pub(crate) fn push_control(&mut self, opcode: OpCode, payload: Bytes) {
        if self.closing {
            return;
        }
        self.pings
            .retain(|queued| queued.message.opcode() != opcode || queued.message.has_begun());
        let message = MessageWriter::control(opcode, payload);
        self.enqueue(
            Place::Ping,
            Queued {
                message,
                _permit: None,
                is_request: false,
                trace: None,
            },
        );
    }

    /// Adds the close frame as the last one, behind the control lane. What waits in the other lanes is
    /// dropped, except the frame that has begun. If its message has more frames they never come, and
    /// no other text may follow it: the control lane is dropped too.
    pub(crate) fn close(&mut self, payload: Bytes) {
        if self.closing {
            return;
        }
        for place in [Place::Rpc, Place::Event, Place::Snapshot] {
            let kept = usize::from(self.begun == Some(place));
            self.queue_mut(place).truncate(kept);
        }
        let abandoned = self.begun_message().is_some_and(|(place, message)| {
            place != Place::Control && (message.is_between_frames() || !message.is_on_last_frame())
        });
        if abandoned {
            self.control.clear();
        }
        let message = MessageWriter::control(OpCode::Close, payload);
        self.enqueue(
            Place::Control,
            Queued {
                message,
                _permit: None,
                is_request: false,
                trace: None,
            },
        );
        self.closing = true;
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.nothing_urgent_waits() && self.snapshot.is_empty()
    }

    fn nothing_urgent_waits(&self) -> bool {
        self.pings.is_empty()
            && self.control.is_empty()
            && self.rpc.is_empty()
            && self.event.is_empty()
    }

    /// Offers a snapshot to the next write, behind all else. Nothing may wait, so that it is the
    /// socket alone that decides whether it begins now; if not, [`Self::take_back_snapshot`].
    pub(crate) fn offer_snapshot(&mut self, text: OutgoingText) {
        debug_assert!(self.is_empty());
        let message = MessageWriter::text(text, self.fragment_size);
        self.enqueue(
            Place::Snapshot,
            Queued {
                message,
                _permit: None,
                is_request: false,
                trace: None,
            },
        );
    }

    /// Drops the snapshot on offer if no byte of it was accepted, so that a newer one may take its
    /// turn (TL-14); true if it was dropped.
    pub(crate) fn take_back_snapshot(&mut self) -> bool {
        let waits = !self.snapshot.is_empty() && self.begun != Some(Place::Snapshot);
        if waits {
            self.snapshot = VecDeque::new();
        }
        waits
    }

    /// Whether nothing waits but a snapshot that has not begun.
    pub(crate) fn only_offers_snapshot(&self) -> bool {
        !self.snapshot.is_empty() && self.begun.is_none() && self.nothing_urgent_waits()
    }

    /// Whether a snapshot has begun and is not finished.
    pub(crate) fn writes_snapshot(&self) -> bool {
        self.begun == Some(Place::Snapshot)
    }

    /// Holds back everything but the control lane, or lets it go.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Whether everything but the control lane is held back.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    fn enqueue(&mut self, place: Place, queued: Queued) {
        if !self.closing {
            let queue = self.queue_mut(place);
            if queue.is_empty() {
                // Most messages leave before the next one comes.
                queue.reserve_exact(1);
            }
            queue.push_back(queued);
        }
    }

    fn queue(&self, place: Place) -> &VecDeque<Queued> {
        match place {
            Place::Ping => &self.pings,
            Place::Control => &self.control,
            Place::Rpc => &self.rpc,
            Place::Event => &self.event,
            Place::Snapshot => &self.snapshot,
        }
    }

    fn queue_mut(&mut self, place: Place) -> &mut VecDeque<Queued> {
        match place {
            Place::Ping => &mut self.pings,
            Place::Control => &mut self.control,
            Place::Rpc => &mut self.rpc,
            Place::Event => &mut self.event,
            Place::Snapshot => &mut self.snapshot,
        }
    }

    /// The message that has begun and is not finished, pings and pongs aside.
    fn begun_message(&self) -> Option<(Place, &MessageWriter)> {
        let place = self.begun?;
        Some((place, &self.queue(place).front()?.message))
    }

    /// Writes until the socket takes no more or nothing that may leave is left.
    ///
    /// # Errors
    /// The transport's: the connection is gone.
    pub(crate) fn write(
        &mut self,
        mut io: Pin<&mut dyn Transport>,
        cx: &mut Context<'_>,
    ) -> io::Result<Written> {
        let mut progress = false;
        loop {
            match self.write_batch(io.as_mut(), cx) {
                Poll::Ready(Ok(0)) => break,
                Poll::Ready(Ok(_)) => progress = true,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {
                    return Ok(Written {
                        progress,
                        done: false,
                    });
                }
            }
        }
        if self.needs_flush {
            match io.poll_flush(cx) {
                Poll::Ready(result) => {
                    result?;
                    self.needs_flush = false;
                }
                Poll::Pending => {
                    return Ok(Written {
                        progress,
                        done: false,
                    });
                }
            }
        }
        Ok(Written {
            progress,
            done: true,
        })
    }

    /// Writes one batch; `Ok(0)` means that nothing may leave.
    fn write_batch(
        &mut self,
        io: Pin<&mut dyn Transport>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut batch = Batch::default();
        let claimed = self.plan(&mut batch);
        if batch.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let accepted = self.offer(&batch, io, cx);
        let bytes = match accepted {
            Poll::Ready(Ok(0)) => {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            Poll::Ready(Ok(bytes)) => bytes,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => 0,
        };
        let left = self.account(batch.messages(), bytes);
        self.room.begun_requests().unclaim(claimed - left);
        if bytes == 0 {
            return Poll::Pending;
        }
        self.needs_flush = true;
        Poll::Ready(Ok(bytes))
    }

    /// Offers a batch to the socket, in one piece if it is small.
    fn offer(
        &self,
        batch: &Batch,
        io: Pin<&mut dyn Transport>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut slices = [io::IoSlice::new(&[]); BATCH_MESSAGES * SLICES_PER_MESSAGE];
        let (mut count, mut total) = (0, 0);
        for &(place, index) in batch.messages() {
            let message = &self.queue(place)[index].message;
            total += message.gather(&mut slices, &mut count);
        }
        let slices = &slices[..count];
        if total > COPY_UP_TO {
            return io.poll_write_vectored(cx, slices);
        }
        let mut block = [0; COPY_UP_TO];
        let mut filled = 0;
        for slice in slices {
            block[filled..filled + slice.len()].copy_from_slice(slice);
            filled += slice.len();
        }
        io.poll_write(cx, &block[..filled])
    }

    /// Chooses what the next write offers, as (place, index) in the order of leaving, and claims the
    /// requests among it. Returns how many it claimed.
    fn plan(&mut self, batch: &mut Batch) -> u64 {
        let begun = self.begun_message();
        let mid_frame = begun.filter(|(_, message)| !message.is_between_frames());
        let mut bytes = 0;
        if let Some((place, message)) = mid_frame {
            batch.push((place, 0));
            bytes += message.payload_len().min(self.fragment_size);
        }
        for index in 0..self.pings.len() {
            batch.push((Place::Ping, index));
        }
        // When the connection closes, other messages end with their current frame.
        if let Some((place, message)) = begun
            && (place == Place::Control || !self.closing)
        {
            if mid_frame.is_none() {
                batch.push((place, 0));
                bytes += message.payload_len().min(self.fragment_size);
            }
            if !message.is_on_last_frame() {
                return 0;
            }
        }
        let mut claimed = 0;
        for place in [Place::Control, Place::Rpc, Place::Event, Place::Snapshot] {
            if place != Place::Control && (self.closing || self.held) {
                break;
            }
            let first = usize::from(self.begun == Some(place));
            for index in first..self.queue(place).len() {
                if batch.len() == BATCH_MESSAGES || bytes >= BATCH_BYTES {
                    return claimed;
                }
                let queued = &self.queue(place)[index];
                if queued.is_request {
                    if !self.room.begun_requests().claim() {
                        return claimed;
                    }
                    claimed += 1;
                }
                batch.push((place, index));
                bytes += queued.message.payload_len();
                if !queued.message.is_on_last_frame() {
                    return claimed;
                }
            }
        }
        claimed
    }

    /// Takes note of what the socket accepted of a batch, removes what is finished, and returns how
    /// many of the requests that this batch claimed have begun.
    fn account(&mut self, batch: &[(Place, usize)], mut bytes: usize) -> u64 {
        let mut begun_requests = 0;
        for &(place, _) in batch {
            if bytes == 0 {
                break;
            }
            let queue = self.queue_mut(place);
            // Earlier messages of the place were finished and removed, so this one is the front.
            let Some(front) = queue.front_mut() else {
                break;
            };
            let had_begun = front.message.has_begun();
            bytes = front.message.advance(bytes);
            begun_requests += u64::from(front.is_request && !had_begun);
            let finished = front.message.is_finished();
            if finished {
                if let Some(trace) = &front.trace {
                    let written = if front.is_request {
                        Moment::Written
                    } else {
                        Moment::Delivered
                    };
                    trace.mark(written, Instant::now());
                }
                let (frames, payload) = place.tallies(front.is_request);
                let written = front.message.payload_len() as u64;
                queue.pop_front();
                if queue.is_empty() {
                    // Most sockets are idle, and there are many.
                    *queue = VecDeque::new();
                }
                self.room.tallies().count(frames);
                self.room.tallies().add(payload, written);
            }
            if place != Place::Ping {
                self.begun = (!finished).then_some(place);
            }
        }
        begun_requests
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod properties;
