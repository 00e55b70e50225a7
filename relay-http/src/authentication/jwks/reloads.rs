//! When the keys are read again: pure, with the time as an argument. However many tokens ask, one
//! reading runs at a time, and two begin at least `min_interval` apart (HTTP-4).

use std::time::Duration;

use tokio::time::Instant;

/// How often keys are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// The shortest time between the beginnings of two readings.
    pub(super) min_interval: Duration,
    /// The time between two readings that nobody asked for.
    pub(super) refresh_interval: Duration,
}

/// The readings so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reloads {
    last_began: Option<Instant>,
    running: bool,
    ended: u64,
    /// Failures since the last success.
    failures: u32,
}

/// What can be done for a token whose key is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outlook {
    /// The reading that runs, or may begin at once, can bring the key; it has come when more than
    /// this many have ended.
    NewsAfter(u64),
    /// The keys were read too short a time ago.
    NoNews,
}

impl Reloads {
    /// The state after a reading that took place before anybody asked.
    pub(super) fn after_first(now: Instant) -> Self {
        Self {
            last_began: Some(now),
            ended: 1,
            ..Self::default()
        }
    }

    /// What a token with an unknown key can hope for.
    pub(super) fn outlook(&self, pace: Pace, now: Instant) -> Outlook {
        if self.running || self.may_begin(pace, now) {
            Outlook::NewsAfter(self.ended)
        } else {
            Outlook::NoNews
        }
    }

    /// Whether a reading that was asked for may begin.
    pub(super) fn may_begin(&self, pace: Pace, now: Instant) -> bool {
        !self.running
            && self
                .last_began
                .is_none_or(|began| now >= began + pace.min_interval)
    }

    /// When the next reading is due if nobody asks; `None` is at once. After failures it comes
    /// sooner than usual, at first after the shortest interval and then ever more slowly.
    pub(super) fn due(&self, pace: Pace) -> Option<Instant> {
        let began = self.last_began?;
        let pause = match self.failures {
            0 => pace.refresh_interval,
            failures => {
                let factor = 1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX);
                let slower = pace.min_interval.saturating_mul(factor);
                slower.min(pace.refresh_interval)
            }
        };
        Some(began + pause)
    }

    /// A reading begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.last_began = Some(now);
        self.running = true;
    }

    /// The reading has ended; returns the failures in a row before it.
    pub(super) fn end(&mut self, succeeded: bool) -> u32 {
        let before = self.failures;
        self.running = false;
        self.ended += 1;
        self.failures = if succeeded {
            0
        } else {
            before.saturating_add(1)
        };
        before
    }

    /// How many readings have ended.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACE: Pace = Pace {
        min_interval: Duration::from_secs(10),
        refresh_interval: Duration::from_secs(300),
    };

    fn second(start: Instant, number: u64) -> Instant {
        start + Duration::from_secs(number)
    }

    /// HTTP-4: the first reading is due at once, and whoever comes before its end waits for it.
    #[test]
    fn the_first_reading_is_waited_for() {
        let start = Instant::now();
        let mut reloads = Reloads::default();
        assert_eq!(reloads.due(PACE), None);
        assert_eq!(reloads.outlook(PACE, start), Outlook::NewsAfter(0));
        reloads.begin(start);
        assert!(!reloads.may_begin(PACE, second(start, 1_000)));
        assert_eq!(
            reloads.outlook(PACE, second(start, 5)),
            Outlook::NewsAfter(0)
        );
        reloads.end(true);
        assert_eq!(reloads.ended(), 1);
    }

    /// HTTP-4: between two readings lies the shortest interval, counted from beginning to beginning.
    #[test]
    fn unknown_keys_wait_for_the_interval() {
        let start = Instant::now();
        let mut reloads = Reloads::after_first(start);
        assert_eq!(reloads.outlook(PACE, second(start, 9)), Outlook::NoNews);
        assert_eq!(
            reloads.outlook(PACE, second(start, 10)),
            Outlook::NewsAfter(1)
        );
        reloads.begin(second(start, 10));
        reloads.end(false);
        assert_eq!(reloads.outlook(PACE, second(start, 19)), Outlook::NoNews);
        assert_eq!(
            reloads.outlook(PACE, second(start, 20)),
            Outlook::NewsAfter(2)
        );
    }

    /// HTTP-4: a source that fails is asked again sooner than usual, ever more slowly, never more
    /// often than allowed.
    #[test]
    fn failures_are_retried_ever_more_slowly() {
        let start = Instant::now();
        let mut reloads = Reloads::default();
        for pause in [10, 20, 40, 80, 160, 300, 300] {
            reloads.begin(start);
            reloads.end(false);
            assert_eq!(reloads.due(PACE), Some(second(start, pause)));
        }
        for _ in 0..100 {
            reloads.end(false);
        }
        assert_eq!(reloads.due(PACE), Some(second(start, 300)));
        assert_eq!(reloads.end(true), 107);
        assert_eq!(reloads.due(PACE), Some(second(start, 300)));
    }

    proptest! {
        /// HTTP-4: whatever comes when, readings begin at least the shortest interval apart, never
        /// two run at once, and nobody waits for a reading that cannot come.
        #[test]
        fn readings_keep_their_distance(
            steps in prop::collection::vec((0_u64..30, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let mut now = Instant::now();
            let mut reloads = Reloads::default();
            let mut running = false;
            let mut last: Option<Instant> = None;
            for (pause, ends, succeeds) in steps {
                now += Duration::from_secs(pause);
                if running && ends {
                    reloads.end(succeeds);
                    running = false;
                }
                let waits = reloads.outlook(PACE, now) != Outlook::NoNews;
                let may_begin = reloads.may_begin(PACE, now);
                prop_assert_eq!(waits, running || may_begin);
                let is_due = reloads.due(PACE).is_none_or(|due| now >= due);
                if may_begin {
                    if let Some(last) = last {
                        prop_assert!(now - last >= PACE.min_interval);
                    }
                    prop_assert!(!running);
                    reloads.begin(now);
                    running = true;
                    last = Some(now);
                } else {
                    prop_assert!(running || !is_due);
                }
            }
        }
    }
}
