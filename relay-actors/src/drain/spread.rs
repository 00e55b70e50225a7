//! When which socket is closed, so that devices do not all return in one instant (DR-3). Pure: time
//! comes as an argument.

use std::time::Duration;

use tokio::time::Instant;

/// So many closes, evenly over a span.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    total: usize,
    begun: Instant,
    span: Duration,
}

impl Spread {
    pub(super) fn new(total: usize, begun: Instant, span: Duration) -> Self {
        Self { total, begun, span }
    }

    /// How many closes are due by `now`; the first is due at once.
    pub(super) fn due(&self, now: Instant) -> usize {
        let elapsed = now.saturating_duration_since(self.begun);
        if elapsed >= self.span {
            return self.total;
        }
        let (elapsed, span) = (elapsed.as_nanos(), self.span.as_nanos());
        // Less than `total`, so it fits.
        let whole = (self.total as u128 * elapsed / span) as usize;
        (whole + 1).min(self.total)
    }

    /// When one more than `closed` is due; `None` if that is all.
    pub(super) fn next(&self, closed: usize) -> Option<Instant> {
        (closed < self.total).then(|| {
            let nanos = self.span.as_nanos() * closed as u128 / self.total as u128;
            // At most the span, which came from a duration.
            let wait = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            self.begun + wait
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::an_instant::start;

    /// DR-3: no span at all closes all at once; nobody to close is done at once.
    #[test]
    fn the_ends_of_the_range() {
        let begun = start();
        assert_eq!(Spread::new(7, begun, Duration::ZERO).due(begun), 7);
        let nobody = Spread::new(0, begun, Duration::from_secs(5));
        assert_eq!((nobody.due(begun), nobody.next(0)), (0, None));
    }

    proptest! {
        /// DR-3: the closes are even to within one, in every part of the span; all are due at its end,
        /// and what `next` names is due then and not before.
        #[test]
        fn closes_are_even(total in 1_usize..5_000, millis in 1_u64..10_000, parts in 1_u32..50) {
            let (begun, span) = (start(), Duration::from_millis(millis));
            let spread = Spread::new(total, begun, span);
            for part in 0..parts {
                let now = begun + span * part / parts;
                let exact = total as f64 * f64::from(part) / f64::from(parts);
                let due = spread.due(now);
                prop_assert!((due as f64 - exact).abs() <= 1.01, "{due} of {exact}");
            }
            prop_assert_eq!(spread.due(begun + span), total);
            let mut closed = 0;
            while let Some(next) = spread.next(closed) {
                prop_assert!(next <= begun + span);
                let due = spread.due(next + Duration::from_nanos(1));
                prop_assert!(due > closed, "{closed} at {next:?}");
                closed = due;
            }
            prop_assert_eq!(closed, total);
        }
    }
}
