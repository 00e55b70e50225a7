//! Random histories of a buffer, checked at each step against an oracle that keeps plain lists, and
//! against laws that know neither.

use std::sync::LazyLock;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use relay_model::timeline::BaseSession;

use super::*;
use crate::an_instant::start;

type Check = Result<(), TestCaseError>;
/// A version after the desktop generation in which it was offered.
type Order = (u64, TimelineVersion);

static KEYS: LazyLock<Vec<TimelineKey>> = LazyLock::new(|| {
    let session = BaseSession::read("s", &Limits::default()).unwrap();
    let thread = |number: u8| (number > 0).then(|| number.to_string().into());
    let key = |number| TimelineKey {
        session: session.clone(),
        thread: thread(number),
    };
    (0..5).map(key).collect()
});

/// Small limits, so that short histories reach them: those of a buffer full of bytes, full of keys,
/// and smaller than a block.
fn limits(kind: u64) -> Limits {
    let (block, keys, bytes, stale_keys) =
        [(50, 3, 100, 2), (50, 2, 1_000, 64), (200, 3, 60, 2)][kind as usize % 3];
    Limits {
        timeline_flush_interval: Duration::from_millis(250),
        timeline_block: block,
        timeline_buffer_keys: keys,
        timeline_buffer_bytes: bytes,
        timeline_stale_keys: stale_keys,
        ..Limits::default()
    }
}

/// A snapshot that was offered; its text names it by its number.
#[derive(Debug, Clone, Copy)]
struct Snapshot {
    key: usize,
    order: Order,
    bytes: usize,
    payload: u64,
}

#[derive(Debug, Clone)]
struct Text {
    number: usize,
    bytes: usize,
    payload: u64,
}

impl SnapshotText for Text {
    fn len(&self) -> usize {
        self.bytes
    }

    fn same_payload(&self, other: &Self) -> bool {
        self.payload == other.payload
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Snapshot(usize),
    Stale(usize, TimelineVersion),
    AllStale,
}

#[derive(Debug)]
enum Step {
    Offer {
        key: usize,
        version: TimelineVersion,
        bytes: usize,
        payload: u64,
    },
    Wait(u64),
    /// The socket takes the first byte of what is due, after the clock ran on to it if wanted; and the
    /// last one too, unless it is slow.
    Take {
        run_on: bool,
        slow: bool,
    },
    Finish,
    LeaseBegins,
    LeaseEnds,
    DesktopRegistered,
}

fn step(word: u64, index: usize) -> Step {
    let pick = |shift: u64, among: u64| (word >> shift) % among;
    match word % 16 {
        0..=7 => Step::Offer {
            key: pick(4, 5) as usize,
            version: TimelineVersion {
                settlement_epoch: u64::from(pick(8, 16) == 15),
                revision: index as u64 / 3 + pick(12, 4),
            },
            bytes: [1, 20, 40, 50, 51, 60, 90, 120][pick(16, 8) as usize],
            payload: u64::from(pick(24, 32) == 31),
        },
        8..=10 => Step::Wait([1, 50, 100, 249, 250, 251, 400, 1_000][pick(4, 8) as usize]),
        11..=13 => Step::Take {
            run_on: pick(4, 2) == 0,
            slow: pick(5, 4) == 3,
        },
        14 => Step::Finish,
        _ => match pick(4, 4) {
            0 => Step::LeaseBegins,
            1 => Step::LeaseEnds,
            _ => Step::DesktopRegistered,
        },
    }
}

/// What must be, in lists that are searched anew for each question.
#[derive(Debug, Default)]
struct Oracle {
    /// (place, snapshot), in no order that matters.
    waiting: Vec<(usize, usize)>,
    /// When the first of them came, and whether a pause ran then.
    waiting_since: (u64, bool),
    sent: Vec<(usize, Order)>,
    stale: Vec<(usize, Order)>,
    all_stale: bool,
    pause_end: u64,
    begun: Option<usize>,
    generation: u64,
}

impl Oracle {
    fn clear(&mut self) {
        self.waiting.clear();
        self.sent.clear();
        self.stale.clear();
        self.all_stale = false;
    }

    fn is_big(bytes: usize, limits: &Limits) -> bool {
        bytes > limits.timeline_block || bytes > limits.timeline_buffer_bytes
    }

    fn evict(&mut self, (_, number): (usize, usize), all: &[Snapshot], limits: &Limits) {
        let Snapshot { key, order, .. } = all[number];
        self.waiting.retain(|(_, other)| *other != number);
        if self.all_stale {
            return;
        }
        match self.stale.iter_mut().find(|(known, _)| *known == key) {
            Some((_, newest)) => *newest = order.max(*newest),
            None => self.stale.push((key, order)),
        }
        if self.stale.len() > limits.timeline_stale_keys {
            self.stale.clear();
            self.all_stale = true;
        }
    }

    /// Offers the last one of `all`.
    fn offer(
        &mut self,
        all: &[Snapshot],
        now: u64,
        limits: &Limits,
    ) -> Result<Offered, VersionConflict> {
        let number = all.len() - 1;
        let new = all[number];
        let own = (self.waiting.iter().copied()).find(|(_, other)| all[*other].key == new.key);
        let newest_known = (self.sent.iter())
            .filter(|(key, order)| *key == new.key && order.0 == self.generation)
            .map(|(_, order)| *order)
            .chain(own.map(|(_, other)| all[other].order))
            .max();
        if let Some((_, other)) = own
            && all[other].order == new.order
            && all[other].payload != new.payload
        {
            self.clear();
            return Err(VersionConflict);
        }
        if newest_known >= Some(new.order) {
            return Ok(Offered::Old);
        }
        if self.waiting.is_empty() {
            self.waiting_since = (now, self.begun.is_none() && now < self.pause_end);
        }
        let before = self.waiting.clone();
        let mut place = own.map_or(usize::MAX, |(place, _)| place);
        if let Some((_, other)) = own {
            self.waiting.retain(|(_, waiting)| *waiting != other);
        }
        let mut evicted = 0;
        if Self::is_big(new.bytes, limits) {
            let slot = (self.waiting.iter().copied())
                .find(|(_, other)| Self::is_big(all[*other].bytes, limits));
            if let Some(slot) = slot {
                place = place.min(slot.0);
                self.evict(slot, all, limits);
                evicted += 1;
            }
        }
        if place == usize::MAX {
            place = before.iter().map(|(place, _)| place + 1).max().unwrap_or(0);
        }
        self.waiting.push((place, number));
        loop {
            let small = |number: usize| !Self::is_big(all[number].bytes, limits);
            let buffer: Vec<_> = (self.waiting.iter().copied())
                .filter(|(_, number)| small(*number))
                .collect();
            let bytes: usize = buffer.iter().map(|(_, number)| all[*number].bytes).sum();
            if buffer.len() <= limits.timeline_buffer_keys && bytes <= limits.timeline_buffer_bytes
            {
                break;
            }
            let oldest = buffer.into_iter().min().unwrap();
            self.evict(oldest, all, limits);
            evicted += 1;
        }
        Ok(if own.is_some() {
            Offered::Replaced { evicted }
        } else {
            Offered::Waits { evicted }
        })
    }

    fn next(&self) -> Option<Event> {
        if let Some((_, number)) = self.waiting.iter().min() {
            return Some(Event::Snapshot(*number));
        }
        if self.all_stale {
            return Some(Event::AllStale);
        }
        (self.stale.first()).map(|(key, order)| Event::Stale(*key, order.1))
    }

    fn due(&self) -> Option<u64> {
        if self.begun.is_some() || self.next().is_none() {
            return None;
        }
        let (since, paused) = self.waiting_since;
        let waited = if self.waiting.is_empty() || paused {
            0
        } else {
            since + 250
        };
        Some(waited.max(self.pause_end))
    }

    fn begin(&mut self, all: &[Snapshot]) -> usize {
        let bytes = match self.next() {
            Some(Event::Snapshot(number)) => {
                let Snapshot {
                    key, order, bytes, ..
                } = all[number];
                self.waiting.retain(|(_, other)| *other != number);
                self.sent.push((key, order));
                self.stale
                    .retain(|(stale, missed)| *stale != key || *missed > order);
                bytes
            }
            Some(Event::Stale(..)) => {
                self.stale.remove(0);
                70
            }
            Some(Event::AllStale) => {
                self.all_stale = false;
                70
            }
            None => panic!("nothing to begin"),
        };
        self.begun = Some(bytes);
        bytes
    }
}

/// A buffer, its oracle, and what the phone saw.
struct World {
    limits: Limits,
    buffer: TimelineBuffer<Text>,
    oracle: Oracle,
    start: Instant,
    now: u64,
    leased: bool,
    all: Vec<Snapshot>,
    /// The first snapshot of the running lease, by number.
    lease_from: usize,
    /// What left under the running lease, with the count of snapshots offered until then.
    left: Vec<(Event, usize)>,
    /// Everything that left, with its time.
    log: Vec<(u64, Event)>,
    last_end: Option<(u64, usize)>,
}

impl World {
    fn new(kind: u64) -> Self {
        let limits = limits(kind);
        Self {
            buffer: TimelineBuffer::new(Arc::new(limits.clone())),
            limits,
            oracle: Oracle::default(),
            start: start(),
            now: 0,
            leased: true,
            all: Vec::new(),
            lease_from: 0,
            left: Vec::new(),
            log: Vec::new(),
            last_end: None,
        }
    }

    fn at(&self, millis: u64) -> Instant {
        self.start + Duration::from_millis(millis)
    }

    fn peek(&self, millis: u64) -> Option<Event> {
        let number_of = |key| KEYS.iter().position(|known| known == key).unwrap();
        self.buffer.peek(self.at(millis)).map(|next| match next {
            Next::Snapshot { key, version, text } => {
                let snapshot = self.all[text.number];
                assert_eq!((number_of(key), version), (snapshot.key, snapshot.order.1));
                Event::Snapshot(text.number)
            }
            Next::Stale { key, version } => Event::Stale(number_of(key), version),
            Next::AllStale => Event::AllStale,
        })
    }

    fn run(&mut self, step: Step) -> Check {
        match step {
            Step::Offer { .. } if !self.leased => {}
            Step::Offer {
                key,
                version,
                bytes,
                payload,
            } => {
                let number = self.all.len();
                let order = (self.oracle.generation, version);
                self.all.push(Snapshot {
                    key,
                    order,
                    bytes,
                    payload,
                });
                let text = Text {
                    number,
                    bytes,
                    payload,
                };
                let now = self.at(self.now);
                let offered = self.buffer.offer(KEYS[key].clone(), version, text, now);
                let expected = self.oracle.offer(&self.all, self.now, &self.limits);
                prop_assert_eq!(offered, expected);
                if offered.is_err() {
                    self.end_lease();
                }
            }
            Step::Wait(millis) => self.now += millis,
            Step::Take { run_on, slow } => {
                if run_on {
                    self.now = self.now.max(self.oracle.due().unwrap_or(0));
                }
                self.take(slow)?;
            }
            Step::Finish => self.finish(),
            Step::LeaseBegins => {
                self.buffer.lease_begins();
                self.end_lease();
                self.leased = true;
            }
            Step::LeaseEnds => {
                self.buffer.lease_ends();
                self.end_lease();
                self.leased = false;
            }
            Step::DesktopRegistered => {
                self.buffer.desktop_registered();
                self.oracle.generation += 1;
            }
        }
        self.check()
    }

    fn end_lease(&mut self) {
        self.oracle.clear();
        self.lease_from = self.all.len();
        self.left.clear();
    }

    fn take(&mut self, slow: bool) -> Check {
        let Some(event) = self.peek(self.now) else {
            return Ok(());
        };
        if let Some((end, bytes)) = self.last_end {
            let blocks = bytes.div_ceil(self.limits.timeline_block) as u64;
            prop_assert!(self.now >= end + 250 * blocks, "faster than allowed");
        }
        if let Event::Snapshot(number) = event {
            let Snapshot { key, order, .. } = self.all[number];
            prop_assert!(number >= self.lease_from, "of a former lease");
            let before = self.left.iter().filter_map(|(event, _)| match event {
                Event::Snapshot(number) if self.all[*number].key == key => Some(*number),
                _ => None,
            });
            for number in before {
                prop_assert!(self.all[number].order < order, "versions rise");
            }
        }
        self.left.push((event, self.all.len()));
        self.log.push((self.now, event));
        self.buffer.begin();
        self.oracle.begin(&self.all);
        if !slow {
            self.finish();
        }
        Ok(())
    }

    fn finish(&mut self) {
        if let Some(bytes) = self.oracle.begun.take() {
            self.buffer.finished(bytes, self.at(self.now));
            let blocks = bytes.div_ceil(self.limits.timeline_block) as u64;
            self.oracle.pause_end = self.now + 250 * blocks;
            self.last_end = Some((self.now, bytes));
        }
    }

    fn check(&self) -> Check {
        let due = self.oracle.due();
        prop_assert_eq!(self.buffer.due(), due.map(|due| self.at(due)));
        if let Some(due) = due {
            prop_assert_eq!(self.peek(due), self.oracle.next());
            if due > 0 {
                prop_assert_eq!(self.peek(due - 1), None);
            }
        } else {
            prop_assert_eq!(self.peek(u64::from(u32::MAX)), None);
        }
        let big =
            |(_, number): &&(usize, usize)| Oracle::is_big(self.all[*number].bytes, &self.limits);
        let slot = self.oracle.waiting.iter().find(big);
        let slot = slot.map_or(0, |(_, number)| self.all[*number].bytes);
        let bytes = (self.oracle.waiting.iter()).map(|(_, number)| self.all[*number].bytes);
        prop_assert_eq!(self.buffer.bytes(), bytes.sum::<usize>());
        prop_assert!(self.buffer.bytes() <= self.limits.timeline_buffer_bytes + slot);
        let keys = self.limits.timeline_buffer_keys + usize::from(slot > 0);
        prop_assert_eq!(self.buffer.waiting(), self.oracle.waiting.len());
        prop_assert!(self.buffer.waiting() <= keys);
        if self.buffer.waiting() == 0 {
            prop_assert_eq!(self.buffer.waiting.capacity(), 0);
        }
        Ok(())
    }

    /// The clock runs on and the socket takes everything: of each key the newest version of the lease
    /// was sent or announced.
    fn quiet(&mut self) -> Check {
        self.finish();
        while let Some(due) = self.oracle.due() {
            self.now = self.now.max(due);
            self.take(false)?;
            self.check()?;
        }
        prop_assert_eq!(self.buffer.due(), None);
        for key in 0..KEYS.len() {
            let offered = (self.lease_from..self.all.len()).filter(|n| self.all[*n].key == key);
            let Some(newest) = offered.max_by_key(|number| self.all[*number].order) else {
                continue;
            };
            let order = self.all[newest].order;
            let known = self.left.iter().any(|(event, offered)| match event {
                Event::Snapshot(number) => {
                    self.all[*number].key == key && self.all[*number].order >= order
                }
                Event::Stale(stale, version) => *stale == key && *version == order.1,
                Event::AllStale => newest < *offered,
            });
            prop_assert!(known, "snapshot {newest} was neither sent nor announced");
        }
        Ok(())
    }
}

fn words(longest: usize) -> impl Strategy<Value = Vec<u64>> {
    vec(any::<u64>(), 1..longest)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    /// TL-3, TL-8 to TL-11, TL-13, TL-14: whatever is offered and however the socket takes it, the
    /// buffer does what the oracle says; versions rise; limits and pauses hold; nothing leaves after
    /// its lease; and after quiet the phone has, or knows that it missed, the newest of each key.
    #[test]
    fn a_buffer_keeps_its_rules(kind in 0u64..3, words in words(40)) {
        let mut world = World::new(kind);
        for (index, word) in words.into_iter().enumerate() {
            world.run(step(word, index))?;
        }
        world.quiet()?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Invariant 3: what one phone gets and when does not depend on what another one does.
    #[test]
    fn buffers_do_not_know_each_other(first in words(40), second in words(40)) {
        let mut alone = World::new(0);
        let mut beside = World::new(0);
        let mut other = World::new(0);
        for (index, word) in first.iter().enumerate() {
            alone.run(step(*word, index))?;
        }
        for index in 0..first.len().max(second.len()) {
            if let Some(word) = second.get(index) {
                other.run(step(*word, index))?;
            }
            if let Some(word) = first.get(index) {
                beside.run(step(*word, index))?;
            }
        }
        alone.quiet()?;
        other.quiet()?;
        beside.quiet()?;
        prop_assert_eq!(alone.log, beside.log);
    }
}
