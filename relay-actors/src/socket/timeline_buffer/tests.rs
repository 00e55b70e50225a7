use std::time::Duration;

use relay_model::limits::{KIB, MIB};
use relay_model::timeline::BaseSession;

use super::*;
use crate::an_instant::start;

#[derive(Debug, Clone, PartialEq)]
struct Text {
    bytes: usize,
    payload: u8,
}

impl SnapshotText for Text {
    fn len(&self) -> usize {
        self.bytes
    }

    fn same_payload(&self, other: &Self) -> bool {
        self.payload == other.payload
    }
}

/// A buffer and its clock, in milliseconds.
struct Phone {
    start: Instant,
    now: u64,
    buffer: TimelineBuffer<Text>,
}

const SMALL: usize = 1_000;

impl Phone {
    fn with(limits: Limits) -> Self {
        Self {
            start: start(),
            now: 0,
            buffer: TimelineBuffer::new(Arc::new(limits)),
        }
    }

    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn time(&self) -> Instant {
        self.start + Duration::from_millis(self.now)
    }

    fn offer_text(
        &mut self,
        thread: &str,
        revision: u64,
        bytes: usize,
        payload: u8,
    ) -> Result<Offered, VersionConflict> {
        let now = self.time();
        self.buffer.offer(
            key(thread),
            revision_number(revision),
            Text { bytes, payload },
            now,
        )
    }

    fn offer(&mut self, thread: &str, revision: u64, bytes: usize) -> Offered {
        self.offer_text(thread, revision, bytes, 0).unwrap()
    }

    fn due(&self) -> Option<u64> {
        let after = self.buffer.due()?.duration_since(self.start);
        Some(u64::try_from(after.as_millis()).unwrap())
    }

    fn peek(&self) -> Option<String> {
        self.buffer.peek(self.time()).map(|next| match next {
            Next::Snapshot { key, version, .. } => named(key, version),
            Next::Stale { key, version } => format!("stale {}", named(key, version)),
            Next::AllStale => "stale all".into(),
        })
    }

    /// Runs the clock on to the next event, and has the socket take it at once.
    fn take(&mut self) -> Option<(u64, String)> {
        self.now = self.now.max(self.due()?);
        let next = self.peek().expect("it is due");
        let bytes = match self.buffer.peek(self.time()) {
            Some(Next::Snapshot { text, .. }) => text.bytes,
            _ => 100,
        };
        self.buffer.begin();
        self.buffer.finished(bytes, self.time());
        Some((self.now, next))
    }

    fn take_all(&mut self) -> Vec<(u64, String)> {
        std::iter::from_fn(|| self.take()).collect()
    }

    /// What leaves from here on, without the times.
    fn rest(&mut self) -> Vec<String> {
        self.take_all().into_iter().map(|(_, what)| what).collect()
    }
}

fn key(thread: &str) -> TimelineKey {
    TimelineKey {
        session: BaseSession::read("s", &Limits::default()).unwrap(),
        thread: Some(thread.into()),
    }
}

fn revision_number(revision: u64) -> TimelineVersion {
    TimelineVersion {
        settlement_epoch: 1,
        revision,
    }
}

fn named(key: &TimelineKey, version: TimelineVersion) -> String {
    format!("{}{}", key.thread.as_deref().unwrap(), version.revision)
}

const ALONE: Offered = Offered::Waits { evicted: 0 };
const REPLACED: Offered = Offered::Replaced { evicted: 0 };
const EVICTED_ONE: Offered = Offered::Waits { evicted: 1 };

/// TL-8: a newer version replaces the waiting one in its place; an older or the same one changes
/// nothing; the epoch decides before the revision.
#[test]
fn the_newest_version_waits_in_the_first_ones_place() {
    let mut phone = Phone::new();
    assert_eq!(phone.offer("a", 5, SMALL), ALONE);
    assert_eq!(phone.offer("b", 1, SMALL), ALONE);
    assert_eq!(phone.offer("a", 7, SMALL), REPLACED);
    let before = format!("{:?}", phone.buffer.waiting);
    for revision in [7, 6, 5] {
        assert_eq!(phone.offer("a", revision, 2 * SMALL), Offered::Old);
    }
    assert_eq!(format!("{:?}", phone.buffer.waiting), before);
    let newer = TimelineVersion {
        settlement_epoch: 2,
        revision: 0,
    };
    let text = Text {
        bytes: SMALL,
        payload: 0,
    };
    let now = phone.time();
    let offered = phone.buffer.offer(key("a"), newer, text, now);
    assert_eq!(offered, Ok(REPLACED));
    assert_eq!(phone.offer("a", 8, SMALL), Offered::Old);
    assert_eq!(phone.rest(), ["a0", "b1"]);
    let counts = TimelineCounts {
        evicted: 0,
        replaced: 2,
        ignored: 4,
        accepted: 4,
        sent: 2,
        ..TimelineCounts::default()
    };
    assert_eq!(phone.buffer.counts(), counts);
}

/// TL-8: the key is the pair of session and thread; a session's own window is no thread's.
#[test]
fn windows_of_a_session_are_apart() {
    let mut phone = Phone::new();
    phone.offer("a", 1, SMALL);
    let own = TimelineKey {
        thread: None,
        ..key("a")
    };
    let text = Text {
        bytes: SMALL,
        payload: 1,
    };
    let now = phone.time();
    let offered = phone.buffer.offer(own, revision_number(1), text, now);
    assert_eq!(offered, Ok(ALONE));
    assert_eq!(phone.buffer.waiting(), 2);
}

/// TL-8: what was sent is not sent again, and nothing older; it counts from the first byte on.
#[test]
fn what_was_sent_is_remembered() {
    let mut phone = Phone::new();
    phone.offer("a", 5, SMALL);
    phone.now = 250;
    phone.buffer.begin();
    assert_eq!(phone.offer_text("a", 5, SMALL, 9), Ok(Offered::Old));
    assert_eq!(phone.offer("a", 4, SMALL), Offered::Old);
    assert_eq!(phone.offer("a", 6, SMALL), ALONE);
    phone.buffer.finished(SMALL, phone.time());
    assert_eq!(phone.rest(), ["a6"]);
    assert_eq!(phone.offer("a", 6, SMALL), Offered::Old);
}

/// TL-3, TL-8: a lease's end takes along what waits, what was evicted and what was last sent, and so
/// does the beginning of another.
#[test]
fn everything_goes_with_the_lease() {
    for end in [TimelineBuffer::lease_ends, TimelineBuffer::lease_begins] {
        let mut phone = Phone::new();
        phone.offer("a", 5, SMALL);
        phone.take();
        phone.offer("x", 1, MIB);
        phone.offer("y", 1, MIB);
        end(&mut phone.buffer);
        assert!(phone.buffer.is_empty());
        assert_eq!((phone.due(), phone.buffer.bytes()), (None, 0));
        assert_eq!(phone.offer("a", 5, SMALL), ALONE);
        assert_eq!(phone.take_all(), [(500, "a5".into())], "the pause went on");
    }
}

/// TL-3, TL-10: the wait of a lease does not serve the next one, a pause does; and a begun event ends
/// under the next lease.
#[test]
fn a_pause_outlives_the_lease_and_a_wait_does_not() {
    let mut phone = Phone::new();
    phone.offer("a", 1, SMALL);
    phone.now = 100;
    phone.buffer.lease_begins();
    phone.offer("a", 2, SMALL);
    assert_eq!(phone.due(), Some(350));
    phone.now = 350;
    phone.buffer.begin();
    phone.buffer.lease_begins();
    assert_eq!(phone.offer("a", 1, SMALL), ALONE);
    assert_eq!(phone.due(), None);
    phone.now = 400;
    phone.buffer.finished(SMALL, phone.time());
    assert_eq!(phone.take_all(), [(650, "a1".into())]);
}

/// TL-8: a desktop that registers anew may count from the start. What waits of the former generation
/// is replaced by whatever follows, without being compared, and is sent if nothing does.
#[test]
fn a_new_desktop_generation_starts_anew() {
    let mut phone = Phone::new();
    phone.offer("a", 5, SMALL);
    phone.take();
    phone.offer("b", 9, SMALL);
    phone.offer("c", 9, SMALL);
    phone.offer("d", 9, SMALL);
    phone.buffer.desktop_registered();
    assert_eq!(
        phone.offer("a", 5, SMALL),
        ALONE,
        "what was sent is forgotten"
    );
    assert_eq!(phone.offer("b", 2, SMALL), REPLACED);
    assert_eq!(phone.offer_text("c", 9, SMALL, 1), Ok(REPLACED));
    assert_eq!(phone.offer("b", 1, SMALL), Offered::Old);
    assert_eq!(phone.rest(), ["b2", "c9", "d9", "a5"]);
    assert_eq!(
        phone.offer("d", 1, SMALL),
        ALONE,
        "the former generation's version binds nobody"
    );
}

/// TL-9: one version with two payloads empties the buffer, also in the slot; with one payload it is
/// the same snapshot, however long the frame around it.
#[test]
fn two_payloads_of_one_version_are_a_conflict() {
    for bytes in [SMALL, MIB] {
        let mut phone = Phone::new();
        phone.offer("b", 1, SMALL);
        phone.offer("a", 1, bytes);
        assert_eq!(phone.offer("a", 1, bytes + 1), Offered::Old);
        assert_eq!(phone.offer_text("a", 1, bytes, 1), Err(VersionConflict));
        assert!(phone.buffer.is_empty());
        assert_eq!(phone.due(), None);
    }
}

/// TL-10: without a pause the wait is 250 ms from the arrival, and a replacement does not restart it.
#[test]
fn a_replacement_does_not_restart_the_wait() {
    let mut phone = Phone::new();
    phone.now = 1_000;
    phone.offer("a", 1, SMALL);
    for revision in 2..100 {
        phone.now += 2;
        phone.offer("a", revision, SMALL);
        assert_eq!(phone.due(), Some(1_250));
    }
    phone.now = 1_249;
    assert_eq!(phone.peek(), None);
    assert_eq!(phone.take(), Some((1_250, "a99".into())));
    phone.now = 5_000;
    phone.offer("a", 100, SMALL);
    assert_eq!(
        phone.due(),
        Some(5_250),
        "a pause that is over does not count"
    );
}

/// TL-10: the pause is 250 ms for each begun 512 KiB, counted from the last byte accepted; what comes
/// during it waits for its rest only, what comes at its end for 250 ms.
#[test]
fn pauses_grow_with_the_frame() {
    let block = 512 * KIB;
    for (bytes, pause) in [
        (1, 250),
        (block, 250),
        (block + 1, 500),
        (2 * block, 500),
        (32 * MIB, 64 * 250),
    ] {
        let mut phone = Phone::new();
        phone.offer("a", 1, bytes);
        phone.now = 250;
        phone.buffer.begin();
        phone.now = 900;
        phone.offer("b", 1, SMALL);
        assert_eq!(phone.due(), None, "nothing is due while one is begun");
        phone.now = 1_000;
        phone.buffer.finished(bytes, phone.time());
        assert_eq!(phone.due(), Some(1_000 + pause), "{bytes} bytes");
        phone.buffer.lease_ends();
        phone.now = 999 + pause;
        phone.offer("c", 1, SMALL);
        assert_eq!(phone.due(), Some(1_000 + pause));
        phone.buffer.lease_ends();
        phone.now = 1_000 + pause;
        phone.offer("c", 1, SMALL);
        assert_eq!(phone.due(), Some(1_250 + pause));
    }
}

/// TL-10: one event per flush, in the order of arrival.
#[test]
fn one_event_leaves_per_flush() {
    let mut phone = Phone::new();
    for (now, thread) in [(0, "a"), (10, "b"), (240, "c")] {
        phone.now = now;
        phone.offer(thread, 1, SMALL);
    }
    let expected = [(250, "a1"), (500, "b1"), (750, "c1")];
    assert_eq!(
        phone.take_all(),
        expected.map(|(at, what)| (at, what.to_string()))
    );
}

/// TL-8, TL-13: the seventeenth key evicts the oldest, which is announced once nothing else waits.
#[test]
fn the_oldest_key_makes_way() {
    let mut phone = Phone::new();
    for thread in 'a'..='p' {
        assert_eq!(phone.offer(&thread.to_string(), 1, SMALL), ALONE);
    }
    phone.offer("a", 2, SMALL);
    assert_eq!(phone.offer("q", 1, SMALL), EVICTED_ONE);
    assert_eq!(
        (phone.buffer.waiting(), phone.buffer.bytes()),
        (16, 16 * SMALL)
    );
    let mut expected: Vec<_> = ('b'..='q').map(|thread| format!("{thread}1")).collect();
    expected.push("stale a2".into());
    assert_eq!(phone.rest(), expected);
    assert_eq!(phone.buffer.counts().evicted, 1);
}

/// TL-8: over 1 MiB the oldest are evicted until it fits, and 1 MiB fits.
#[test]
fn bytes_are_limited() {
    let mut phone = Phone::new();
    for thread in ["a", "b"] {
        assert_eq!(phone.offer(thread, 1, 256 * KIB), ALONE);
    }
    assert_eq!(phone.offer("c", 1, 512 * KIB), ALONE, "exactly 1 MiB");
    let evicted = Offered::Waits { evicted: 2 };
    assert_eq!(phone.offer("d", 1, 256 * KIB + 1), evicted);
    assert_eq!(phone.rest(), ["c1", "d1", "stale a1", "stale b1"]);
}

/// TL-8: a snapshot that grows in the oldest place is itself the oldest.
#[test]
fn a_grown_snapshot_can_be_the_one_evicted() {
    let mut phone = Phone::new();
    phone.offer("a", 1, SMALL);
    phone.offer("b", 1, 512 * KIB);
    phone.offer("c", 1, 500 * KIB);
    let evicted = Offered::Replaced { evicted: 1 };
    assert_eq!(phone.offer("a", 2, 100 * KIB), evicted);
    assert_eq!(phone.rest(), ["b1", "c1", "stale a2"]);
}

/// TL-10: evicting heads faster than they become due does not keep the phone waiting.
#[test]
fn evictions_do_not_restart_the_wait() {
    let mut phone = Phone::new();
    for turn in 0..25 {
        phone.now = turn * 10;
        phone.offer(&format!("t{}-", turn % 17), turn, SMALL);
    }
    assert_eq!(phone.due(), Some(250));
}

/// TL-11: an oversized snapshot waits outside of both limits and leaves in its turn by arrival;
/// 512 KiB is not oversized.
#[test]
fn an_oversized_snapshot_has_a_slot_of_its_own() {
    let mut phone = Phone::new();
    phone.offer("a", 1, 512 * KIB);
    assert_eq!(phone.offer("big", 1, 512 * KIB + 1), ALONE);
    assert_eq!(phone.offer("b", 1, 512 * KIB), ALONE);
    assert_eq!(
        (phone.buffer.waiting(), phone.buffer.bytes()),
        (3, 3 * 512 * KIB + 1)
    );
    assert_eq!(phone.offer("c", 1, SMALL), EVICTED_ONE);
    let expected = [
        (250, "big1"),
        (750, "b1"),
        (1_000, "c1"),
        (1_250, "stale a1"),
    ];
    assert_eq!(
        phone.take_all(),
        expected.map(|(at, what)| (at, what.to_string()))
    );
}

/// TL-11, TL-13: another oversized snapshot takes the slot with its place; the former one is stale.
#[test]
fn the_slot_goes_to_the_newer_one() {
    let mut phone = Phone::new();
    phone.offer("x", 1, MIB);
    phone.offer("a", 1, SMALL);
    assert_eq!(phone.offer("y", 1, MIB), EVICTED_ONE);
    assert_eq!(phone.offer("y", 2, 2 * MIB), REPLACED);
    assert_eq!(phone.buffer.bytes(), 2 * MIB + SMALL);
    assert_eq!(phone.rest(), ["y2", "a1", "stale x1"]);
}

/// TL-11: per key one snapshot waits in buffer and slot together, in the earliest place that it takes
/// over.
#[test]
fn a_key_waits_once_and_keeps_its_place_when_it_moves() {
    let mut phone = Phone::new();
    phone.offer("a", 1, SMALL);
    phone.offer("b", 1, SMALL);
    assert_eq!(phone.offer("a", 2, MIB), REPLACED, "into the slot");
    assert_eq!(phone.offer("a", 3, SMALL), REPLACED, "and back");
    assert_eq!(phone.offer("b", 2, MIB), REPLACED);
    assert_eq!(phone.offer("c", 1, SMALL), ALONE);
    let both = Offered::Replaced { evicted: 1 };
    assert_eq!(
        phone.offer("c", 2, MIB),
        both,
        "the slot's place is earlier"
    );
    assert_eq!(phone.buffer.waiting(), 2);
    assert_eq!(phone.offer("a", 4, MIB), both, "its own place is earlier");
    assert_eq!(phone.rest(), ["a4", "stale b2", "stale c2"]);
}

/// TL-11: with a buffer smaller than a block, what could never fit takes the slot.
#[test]
fn what_never_fits_is_oversized() {
    let mut phone = Phone::with(Limits {
        timeline_buffer_bytes: 10 * KIB,
        ..Limits::default()
    });
    phone.offer("a", 1, 10 * KIB);
    assert_eq!(phone.offer("b", 1, 10 * KIB + 1), ALONE);
    assert_eq!(phone.rest(), ["a1", "b1"]);
}

/// TL-13: a key of which that version or a newer one was sent is not announced; one of which only an
/// older one was sent is.
#[test]
fn a_later_version_makes_the_notice_needless() {
    let mut phone = Phone::with(Limits {
        timeline_buffer_keys: 1,
        ..Limits::default()
    });
    for thread in ["a", "b", "c"] {
        phone.offer(thread, 5, SMALL);
    }
    phone.offer("a", 5, SMALL);
    assert_eq!(phone.take().unwrap().1, "a5");
    phone.offer("b", 4, SMALL);
    assert_eq!(phone.rest(), ["b4", "stale b5", "stale c5"]);
    assert_eq!(phone.rest(), [""; 0], "each is announced once");
}

/// TL-13: a key that is evicted twice is announced once, with the newest version.
#[test]
fn a_key_is_announced_with_its_newest_version() {
    let mut phone = Phone::with(Limits {
        timeline_buffer_keys: 1,
        ..Limits::default()
    });
    for (thread, revision) in [("a", 5), ("b", 1), ("a", 7), ("b", 2), ("a", 6), ("c", 1)] {
        phone.offer(thread, revision, SMALL);
    }
    assert_eq!(phone.rest(), ["c1", "stale a7", "stale b2"]);
}

/// TL-13: 64 keys are announced one by one, 65 all together, each as an event with its pause (TL-10),
/// and not while a snapshot waits.
#[test]
fn more_keys_than_are_kept_are_announced_together() {
    let evicting = |count: u64| {
        let mut phone = Phone::with(Limits {
            timeline_buffer_keys: 1,
            ..Limits::default()
        });
        for thread in 0..=count {
            phone.offer(&format!("{thread}-"), 1, SMALL);
        }
        phone
    };
    let apart = evicting(64).take_all();
    assert_eq!(apart.len(), 65);
    assert_eq!(apart[1], (500, "stale 0-1".into()));
    assert_eq!(apart[64], (250 + 64 * 250, "stale 63-1".into()));

    let mut phone = evicting(65);
    assert_eq!(phone.take().unwrap().1, "65-1");
    phone.now = 500;
    assert_eq!(phone.peek().as_deref(), Some("stale all"));
    phone.offer("0-", 1, SMALL);
    assert_eq!(phone.peek(), None, "a snapshot waits again");
    assert_eq!(phone.rest(), ["0-1", "stale all"]);
    assert_eq!(phone.due(), None);
}

/// TL-13: a notice that was begun counts as an event on its way.
#[test]
fn a_begun_notice_holds_the_next_event_back() {
    let mut phone = Phone::with(Limits {
        timeline_buffer_keys: 1,
        ..Limits::default()
    });
    for thread in ["a", "b", "c"] {
        phone.offer(thread, 1, SMALL);
    }
    phone.take();
    phone.now = 500;
    phone.buffer.begin();
    assert_eq!(phone.due(), None);
    phone.buffer.begin();
    phone.now = 600;
    phone.buffer.finished(100, phone.time());
    assert_eq!(phone.take_all(), [(850, "stale b1".into())]);
}

/// TL-14: while the socket takes nothing, what waits goes on being replaced, and the newest leaves
/// when it does.
#[test]
fn a_blocked_phone_goes_on_coalescing() {
    let mut phone = Phone::new();
    for revision in 0..1_000 {
        phone.now += 100;
        phone.offer("a", revision, SMALL);
        phone.peek();
    }
    assert_eq!((phone.buffer.waiting(), phone.buffer.bytes()), (1, SMALL));
    assert_eq!(phone.take(), Some((100_000, "a999".into())));
}

/// What is drained owns no memory, whichever way it was drained; `begin` without anything to begin
/// does nothing.
#[test]
fn an_empty_buffer_owns_no_memory() {
    let mut phone = Phone::new();
    phone.buffer.begin();
    assert!(phone.buffer.is_empty());
    for turn in 0..40 {
        phone.offer(&format!("{turn}-"), 1, SMALL);
    }
    assert!(phone.buffer.waiting.capacity() > 0);
    assert_eq!(phone.rest().len(), 40);
    assert_eq!(phone.buffer.waiting.capacity(), 0);
    assert!(phone.buffer.stale.is_nothing());
    assert!(!phone.buffer.is_empty(), "what was sent is remembered");
    phone.buffer.lease_ends();
    assert!(phone.buffer.is_empty());
    assert!(size_of::<TimelineBuffer<Text>>() <= 256);
}

/// TL-8: the keys remembered as sent are bounded; the one sent longest ago goes first.
#[test]
fn what_was_sent_is_remembered_of_so_many_keys() {
    let mut phone = Phone::with(Limits {
        timeline_buffer_keys: 2,
        timeline_stale_keys: 1,
        ..Limits::default()
    });
    for (thread, revision) in [("a", 1), ("b", 1), ("a", 2), ("c", 1)] {
        phone.offer(thread, revision, SMALL);
        phone.take();
    }
    for (thread, offered) in [("a", Offered::Old), ("c", Offered::Old), ("b", ALONE)] {
        assert_eq!(phone.offer(thread, 1, SMALL), offered, "{thread}");
    }
}
