//! A phone's lease as its own socket knows it, and the snapshots that wait under it. The socket looks
//! at the lease at each send (TL-5), so that nothing leaves that the registry would no longer allow.

use std::sync::Arc;
use std::task::Context as TaskContext;

use actix::{Context, Handler};
use bytes::Bytes;
use relay_model::limits::Limits;
use relay_model::time::Timestamp;
use relay_model::timeline::BaseSession;
use relay_model::wire::OutgoingText;
use relay_model::wire::codes::ErrorCode;
use relay_model::wire::timeline::notices::{timeline_all_stale, timeline_stale};
use relay_model::wire::timeline::snapshot::{Snapshot, timeline_update};
use relay_model::wire::timeline::{Interest, Update};
use tokio::time::Instant;

use super::SocketActor;
use super::ceilings::OutboundCharge;
use super::lanes::LaneLoad;
use super::link::{LinkEvent, SnapshotWrite};
use super::messages::{CloseReason, DesktopRegistered, Offer};
use super::stage::Stage;
use super::timeline_buffer::{Next, SnapshotText, TimelineBuffer, TimelineCounts, VersionConflict};
use crate::metrics::{Tallies, Tally};
use crate::registry::{InterestEnded, InterestTaken, TimelineUpdate};

/// A snapshot on its way to every phone with a lease, counted once however many wait for it.
#[derive(Debug)]
pub(crate) struct SharedSnapshot {
    pub(crate) snapshot: Snapshot,
    pub(crate) _charge: OutboundCharge,
}

impl SnapshotText for Arc<SharedSnapshot> {
    fn len(&self) -> usize {
        self.snapshot.text.len()
    }

    fn same_payload(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other) || self.snapshot.same_payload(&other.snapshot)
    }
}

/// A phone's lease (TL-1).
struct Lease {
    /// Its number among the leases of this connection: what is on its way under a former one is not
    /// taken for this one's.
    number: u64,
    session: BaseSession,
    deadline: Instant,
}

/// What a phone's connection holds once it took an interest. It is kept until the connection ends, for
/// the pause between events does not end with a lease (TL-10).
pub(super) struct Timeline {
    lease: Option<Lease>,
    last_number: u64,
    buffer: TimelineBuffer<Arc<SharedSnapshot>>,
    /// The counts of the buffer that are in the figures of the process (OP-6).
    counted: TimelineCounts,
    /// The event that the socket has begun to write, and its length.
    writing: Option<(Option<Arc<SharedSnapshot>>, usize)>,
}

impl Timeline {
    fn new(limits: &Arc<Limits>) -> Self {
        Self {
            lease: None,
            last_number: 0,
            buffer: TimelineBuffer::new(Arc::clone(limits)),
            counted: TimelineCounts::default(),
            writing: None,
        }
    }

    /// Takes or renews the lease of a session until `deadline`. One at its deadline is over, and what
    /// comes then is a new one (TL-3).
    fn take(&mut self, session: BaseSession, deadline: Instant, now: Instant) -> &Lease {
        self.end_if_over(now);
        let renewed = self.lease.take().filter(|lease| lease.session == session);
        let lease = match renewed {
            Some(lease) => Lease { deadline, ..lease },
            None => {
                self.last_number += 1;
                self.buffer.lease_begins();
                Lease {
                    number: self.last_number,
                    session,
                    deadline,
                }
            }
        };
        self.lease.insert(lease)
    }

    /// Ends the lease if it is of this session, and returns its number.
    fn end_of(&mut self, session: &BaseSession, now: Instant) -> Option<u64> {
        self.end_if_over(now);
        let lease = self.lease.take_if(|lease| lease.session == *session)?;
        self.buffer.lease_ends();
        Some(lease.number)
    }

    fn end(&mut self) {
        self.lease = None;
        self.buffer.lease_ends();
    }

    /// Ends a lease at its deadline (TL-3).
    fn end_if_over(&mut self, now: Instant) {
        if self
            .lease
            .as_ref()
            .is_some_and(|lease| now >= lease.deadline)
        {
            self.end();
        }
    }

    fn holds(&self, number: u64) -> bool {
        self.lease
            .as_ref()
            .is_some_and(|lease| lease.number == number)
    }

    /// The event to begin now, if one is due, and the snapshot that it is of.
    fn next(
        &self,
        now: Instant,
        wall: impl Fn() -> Timestamp,
    ) -> Option<(OutgoingText, Option<Arc<SharedSnapshot>>)> {
        Some(match self.buffer.peek(now)? {
            Next::Snapshot { text, .. } => (text.snapshot.text.clone(), Some(Arc::clone(text))),
            Next::Stale { key, version } => (timeline_stale(key, version, wall()), None),
            Next::AllStale => (timeline_all_stale(wall()), None),
        })
    }

    /// What waits, and what became of what was offered.
    pub(super) fn state(&self) -> (LaneLoad, TimelineCounts) {
        let load = LaneLoad {
            messages: self.buffer.waiting() as u64,
            bytes: self.bytes() as u64,
        };
        (load, self.buffer.counts())
    }

    /// Adds what the buffer counted since the last time.
    fn meter(&mut self, tallies: &Tallies) {
        let now = self.buffer.counts();
        if now == self.counted {
            return;
        }
        let before = std::mem::replace(&mut self.counted, now);
        for (tally, before, now) in [
            (Tally::TimelineAccepted, before.accepted, now.accepted),
            (Tally::TimelineCoalesced, before.replaced, now.replaced),
            (Tally::TimelineEvicted, before.evicted, now.evicted),
            (Tally::TimelineExpired, before.expired, now.expired),
            (Tally::TimelineSent, before.sent, now.sent),
            (Tally::TimelineStale, before.ignored, now.ignored),
            (Tally::TimelineNotices, before.notices, now.notices),
        ] {
            if now > before {
                tallies.add(tally, now - before);
            }
        }
    }

    /// Bytes that wait or are being written.
    fn bytes(&self) -> usize {
        let writing = self.writing.as_ref().map_or(0, |(_, bytes)| *bytes);
        self.buffer.bytes() + writing
    }

    /// When the clock has something to do: an event becomes due, or the lease ends. What is due and could
    /// not leave is the socket's to wake for.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        let end = self.lease.as_ref()?.deadline;
        let due = self.buffer.due().filter(|due| *due > now);
        Some(due.map_or(end, |due| due.min(end)))
    }
}

impl SocketActor {
    /// A phone takes, renews or ends its interest (TL-1).
    pub(super) fn on_interest(&mut self, interest: Interest, now: Instant) {
        let Stage::Registered(registered) = &self.stage else {
            return;
        };
        let Some(pair) = &registered.pair else {
            let message = "an interest needs a target desktop: register with one";
            return self.reply_error(ErrorCode::InvalidPayload, message, Some("event"));
        };
        let (connection, phone) = (self.connection, registered.device);
        let limits = self.link.limits();
        let delivered = if interest.active {
            let timeline = self
                .timeline
                .get_or_insert_with(|| Box::new(Timeline::new(limits)));
            let deadline = now + limits.timeline_interest_ttl;
            let lease = timeline.take(interest.session, deadline, now);
            let taken = pair.try_send(InterestTaken {
                connection,
                phone,
                lease: lease.number,
                session: lease.session.clone(),
                deadline,
                permit: self.inbound.take(0),
            });
            taken.is_ok()
        } else {
            let timeline = self.timeline.as_deref_mut();
            let ended = timeline.and_then(|timeline| timeline.end_of(&interest.session, now));
            let Some(lease) = ended else { return };
            let ended = pair.try_send(InterestEnded {
                connection,
                phone,
                lease,
                permit: self.inbound.take(0),
            });
            ended.is_ok()
        };
        self.count_snapshots();
        if !delivered {
            self.close(CloseReason::PairLost);
        }
    }

    /// Hands a desktop's snapshot to the pair, which knows who holds a lease (TL-5).
    pub(super) fn on_timeline(&mut self, update: Option<&Update<'_>>, source: &Bytes) {
        let Stage::Registered(registered) = &self.stage else {
            return;
        };
        let Some(pair) = &registered.pair else { return };
        let now = self.core().environment.now();
        let authorized = update.map(|update| {
            let snapshot = timeline_update(update, source, registered.device, now);
            (update.generation, snapshot)
        });
        let bytes = authorized
            .as_ref()
            .map_or(0, |(_, snapshot)| snapshot.text.len());
        let forwarded = pair.try_send(TimelineUpdate {
            connection: self.connection,
            authorized,
            permit: self.inbound.take(bytes),
        });
        if forwarded.is_err() {
            self.close(CloseReason::PairLost);
        }
    }

    /// The connection is another route from now on, or none: its lease ends (TL-3, REG-10). The
    /// registry hears of it from the directory.
    pub(super) fn end_interest(&mut self) {
        if let Some(timeline) = &mut self.timeline {
            timeline.end();
            self.count_snapshots();
        }
    }

    /// Takes note of the timeline event that was begun before, and begins the next if it is due and
    /// nothing else waits (RPC-9). Returns what ended the connection, if that happened.
    pub(super) fn write_timeline(
        &mut self,
        now: Instant,
        cx: &mut TaskContext<'_>,
    ) -> Option<LinkEvent> {
        let timeline = self.timeline.as_deref_mut()?;
        timeline.end_if_over(now);
        if !self.link.writes_snapshot()
            && let Some((_, bytes)) = timeline.writing.take()
        {
            timeline.buffer.finished(bytes, Instant::now());
        }
        let mut over = None;
        let environment = &self.relay.core().environment;
        if self.link.may_offer_snapshot()
            && let Some((text, snapshot)) = timeline.next(now, || environment.now())
        {
            let bytes = text.len();
            match self.link.write_snapshot(text, cx, Instant::now) {
                SnapshotWrite::NotBegun => {}
                SnapshotWrite::Begun => {
                    timeline.buffer.begin();
                    timeline.writing = Some((snapshot, bytes));
                }
                SnapshotWrite::Finished => {
                    timeline.buffer.begin();
                    timeline.buffer.finished(bytes, Instant::now());
                }
                SnapshotWrite::Over(event) => over = Some(event),
            }
        }
        self.count_snapshots();
        over
    }

    /// Tells the room what waits beside the lanes, and the figures what became of it.
    fn count_snapshots(&mut self) {
        let room = self.link.room();
        let bytes = self.timeline.as_deref_mut().map_or(0, |timeline| {
            timeline.meter(room.tallies());
            timeline.bytes()
        });
        room.set_snapshots(bytes);
    }
}

impl Handler<Offer> for SocketActor {
    type Result = ();

    fn handle(&mut self, offer: Offer, _: &mut Context<Self>) {
        let now = Instant::now();
        let Some(timeline) = self.timeline.as_deref_mut() else {
            return;
        };
        timeline.end_if_over(now);
        if !timeline.holds(offer.lease) || self.link.is_closing() {
            let tallies = self.link.room().tallies();
            tallies.count(Tally::TimelineAccepted);
            tallies.count(Tally::TimelineExpired);
            return;
        }
        let Snapshot { key, version, .. } = &offer.snapshot.snapshot;
        let (key, version) = (key.clone(), *version);
        match timeline.buffer.offer(key, version, offer.snapshot, now) {
            Ok(_) => self.count_snapshots(),
            Err(VersionConflict) => {
                self.count_snapshots();
                self.close(CloseReason::VersionConflict);
            }
        }
    }
}

impl Handler<DesktopRegistered> for SocketActor {
    type Result = ();

    fn handle(&mut self, _: DesktopRegistered, _: &mut Context<Self>) {
        if let Some(timeline) = &mut self.timeline {
            timeline.buffer.desktop_registered();
        }
    }
}
