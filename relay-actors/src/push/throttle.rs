//! Keeps a flapping desktop from waking phones again and again (PUSH-2). Pure: time comes as an
//! argument.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use relay_model::ids::{AccountId, ConnectionGeneration, DeviceId};
use tokio::time::Instant;

/// A desktop of an account.
pub(super) type Pair = (AccountId, DeviceId);

/// What was last told of a desktop.
#[derive(Debug)]
struct Told {
    at: Instant,
    generation: ConnectionGeneration,
    /// A later one, to be told once the pause is over.
    waiting: Option<ConnectionGeneration>,
    /// Its place in `by_time`.
    place: (Instant, u64),
}

/// The desktops that registered a short time ago: as many as registered within a pause, or within the
/// life of a push.
#[derive(Debug)]
pub(super) struct Throttle {
    by_pair: HashMap<Pair, Told>,
    by_time: BTreeMap<(Instant, u64), Pair>,
    placed: u64,
    pause: Duration,
    memory: Duration,
}

impl Throttle {
    /// Lets one through in each `pause`. What was told is remembered while a push of it may live.
    pub(super) fn new(pause: Duration, lifetime: Duration) -> Self {
        Self {
            by_pair: HashMap::new(),
            by_time: BTreeMap::new(),
            placed: 0,
            pause,
            memory: pause.max(lifetime),
        }
    }

    fn place(&mut self, pair: Pair, time: Instant) -> (Instant, u64) {
        self.placed += 1;
        let place = (time, self.placed);
        self.by_time.insert(place, pair);
        place
    }

    /// Whether this registration is to be told now. If not, it is once the pause is over, unless a
    /// later one comes.
    pub(super) fn admits(
        &mut self,
        pair: Pair,
        generation: ConnectionGeneration,
        now: Instant,
    ) -> bool {
        let pause_end = match self.by_pair.get(&pair) {
            Some(told) if told.at + self.pause > now => told.at + self.pause,
            _ => {
                self.tell(pair, generation, now);
                return true;
            }
        };
        let place = self.place(pair, pause_end);
        if let Some(told) = self.by_pair.get_mut(&pair) {
            self.by_time.remove(&told.place);
            told.waiting = Some(generation);
            told.place = place;
        }
        false
    }

    fn tell(&mut self, pair: Pair, generation: ConnectionGeneration, now: Instant) {
        let told = Told {
            at: now,
            generation,
            waiting: None,
            place: self.place(pair, now + self.memory),
        };
        if let Some(before) = self.by_pair.insert(pair, told) {
            self.by_time.remove(&before.place);
        }
    }

    /// Those whose pause is over at `now`, with their last generation.
    pub(super) fn over(&mut self, now: Instant) -> Vec<(Pair, ConnectionGeneration)> {
        let mut over = Vec::new();
        while let Some(first) = self.by_time.first_entry()
            && first.key().0 <= now
        {
            let pair = first.remove();
            match self.by_pair.get(&pair).and_then(|told| told.waiting) {
                Some(generation) => {
                    self.tell(pair, generation, now);
                    over.push((pair, generation));
                }
                None => {
                    self.by_pair.remove(&pair);
                }
            }
        }
        over
    }

    /// When there is something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first_key_value().map(|((time, _), _)| *time)
    }

    /// Whether nothing later was told of the desktop.
    pub(super) fn is_latest(&self, pair: Pair, generation: ConnectionGeneration) -> bool {
        let told = self.by_pair.get(&pair);
        told.is_none_or(|told| told.generation <= generation)
    }

    /// Forgets what waits, and returns how much that was.
    pub(super) fn drop_waiting(&mut self) -> u64 {
        let mut dropped = 0;
        for told in self.by_pair.values_mut() {
            dropped += u64::from(told.waiting.take().is_some());
        }
        dropped
    }

    /// How many desktops are known.
    pub(super) fn len(&self) -> usize {
        self.by_pair.len()
    }
}

#[cfg(test)]
mod tests {
    use relay_model::limits::Limits;
    use uuid::Uuid;

    use super::*;

    fn pair(number: u128) -> Pair {
        (
            AccountId::from_uuid(Uuid::from_u128(1)),
            DeviceId::from_uuid(Uuid::from_u128(number)),
        )
    }

    fn generation(number: u64) -> ConnectionGeneration {
        ConnectionGeneration::new(number)
    }

    fn throttle() -> Throttle {
        let limits = Limits::default();
        Throttle::new(limits.desktop_online_pause, limits.desktop_online_lifetime)
    }

    /// PUSH-2: one at once, the last of the others after 30 s, and never two within 30 s.
    #[test]
    fn the_last_generation_wins() {
        let (mut throttle, start) = (throttle(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(throttle.admits(pair(1), generation(1), at(0)));
        assert!(!throttle.admits(pair(1), generation(2), at(1)));
        assert!(throttle.admits(pair(2), generation(3), at(2)));
        assert!(!throttle.admits(pair(1), generation(4), at(29)));
        assert_eq!(throttle.next(), Some(at(30)));
        assert_eq!(throttle.over(at(29)), []);
        assert_eq!(throttle.over(at(30)), [(pair(1), generation(4))]);
        assert!(!throttle.admits(pair(1), generation(5), at(59)));
        assert!(throttle.admits(pair(2), generation(6), at(32)));
        assert_eq!(throttle.over(at(60)), [(pair(1), generation(5))]);
    }

    /// PUSH-2: a push of an earlier registration is told apart for as long as it may be under way.
    #[test]
    fn earlier_registrations_are_known_as_such() {
        let (mut throttle, start) = (throttle(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(throttle.is_latest(pair(1), generation(1)));
        assert!(throttle.admits(pair(1), generation(1), at(0)));
        assert!(!throttle.admits(pair(1), generation(2), at(1)));
        assert!(
            throttle.is_latest(pair(1), generation(1)),
            "2 is not told yet"
        );
        throttle.over(at(30));
        assert!(!throttle.is_latest(pair(1), generation(1)));
        assert!(throttle.is_latest(pair(1), generation(2)));
        assert_eq!(throttle.len(), 1);
        throttle.over(at(90));
        assert_eq!((throttle.len(), throttle.next()), (0, None));
    }

    /// DR-3: what waits when the relay stops is dropped and counted.
    #[test]
    fn what_waits_can_be_dropped() {
        let (mut throttle, now) = (throttle(), Instant::now());
        for number in [1, 2] {
            assert!(throttle.admits(pair(number), generation(1), now));
        }
        assert!(!throttle.admits(pair(1), generation(2), now));
        assert_eq!(throttle.drop_waiting(), 1);
        assert_eq!(throttle.over(now + Duration::from_secs(60)), []);
        assert_eq!(throttle.len(), 0);
    }
}
