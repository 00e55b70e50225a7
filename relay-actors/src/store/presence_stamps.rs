//! When presence changes happened, as it is stored. Pure. The store takes a change only on a row that is
//! not newer, and the wall clock may be set back while devices come and go (PR-6).

use std::time::Duration;

use relay_model::time::Timestamp;

/// What two changes are apart at least: one unit of the stored times.
const STEP: Duration = Duration::from_micros(1);

/// Gives each change a later time than all before it.
#[derive(Debug, Default)]
pub(crate) struct PresenceStamps {
    last: Option<Timestamp>,
}

impl PresenceStamps {
    /// The time of a change at `now` by the wall clock: `now`, unless that is not after the last change.
    pub(crate) fn stamp(&mut self, now: Timestamp) -> Timestamp {
        let stamp = self.last.map_or(now, |last| now.max(last.plus(STEP)));
        self.last = Some(stamp);
        stamp
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(micros: i64) -> Timestamp {
        Timestamp::from_unix_micros(micros)
    }

    /// PR-6: while the clock is where it was or behind, times go on by the least step; then they are its own.
    #[test]
    fn times_go_on_while_the_clock_is_behind() {
        let mut stamps = PresenceStamps::default();
        let given = [-7, 100, 100, 40, 102, 103, 200].map(|now| stamps.stamp(at(now)));
        assert_eq!(given, [-7, 100, 101, 102, 103, 104, 200].map(at));
    }

    proptest! {
        /// PR-6: whatever is done to the clock, times rise, are never before it, and are ahead of it no
        /// further than it was set back and changes came since.
        #[test]
        fn times_rise(nows in proptest::collection::vec(-100i64..100, 1..50)) {
            let mut stamps = PresenceStamps::default();
            let given: Vec<_> = nows.iter().map(|now| stamps.stamp(at(*now))).collect();
            prop_assert!(given.is_sorted_by(|one, next| one < next));
            for (position, (now, stamp)) in nows.iter().zip(&given).enumerate() {
                prop_assert!(*stamp >= at(*now));
                let furthest = nows[..=position].iter().max().copied().unwrap_or(*now);
                prop_assert!(stamp.unix_micros() <= furthest + position as i64);
            }
        }
    }
}
