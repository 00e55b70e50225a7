//! The token bucket of a connection (TR-6). Pure: time comes as an argument.

use relay_model::limits::Limits;
use tokio::time::Instant;

/// A bucket that refills continuously. Tokens are counted in billionths, so that no refill is lost
/// to rounding however often the bucket is asked.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    billionths: u64,
    filled_at: Instant,
}

const TOKEN: u64 = 1_000_000_000;

impl TokenBucket {
    pub(crate) fn full(now: Instant, limits: &Limits) -> Self {
        Self {
            billionths: limits.rate_burst as u64 * TOKEN,
            filled_at: now,
        }
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, now: Instant, limits: &Limits) -> bool {
        let capacity = limits.rate_burst as u64 * TOKEN;
        // A nanosecond brings as many billionths of a token as tokens come a second.
        let nanos = now.saturating_duration_since(self.filled_at).as_nanos();
        let refill = nanos.saturating_mul(limits.rate_per_second as u128);
        let refill = u64::try_from(refill).unwrap_or(u64::MAX);
        self.billionths = self.billionths.saturating_add(refill).min(capacity);
        self.filled_at = self.filled_at.max(now);
        match self.billionths.checked_sub(TOKEN) {
            Some(rest) => {
                self.billionths = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::an_instant::start;

    /// TR-6: 300 at once, then 150 a second, refilled continuously.
    #[test]
    fn burst_and_refill() {
        let (start, limits) = (start(), Limits::default());
        let mut bucket = TokenBucket::full(start, &limits);
        let taken = |bucket: &mut TokenBucket, at: Instant| {
            (0..1_000).take_while(|_| bucket.take(at, &limits)).count()
        };
        assert_eq!(taken(&mut bucket, start), 300);
        assert_eq!(taken(&mut bucket, start + Duration::from_micros(6_666)), 0);
        assert_eq!(taken(&mut bucket, start + Duration::from_micros(6_667)), 1);
        assert_eq!(
            taken(&mut bucket, start + Duration::from_micros(1_006_667)),
            150
        );
        assert_eq!(taken(&mut bucket, start + Duration::from_secs(3_600)), 300);
    }

    proptest! {
        /// TR-6: never more than burst + rate x time, whatever the rhythm, and no refill is lost.
        #[test]
        fn never_more_than_the_rate(steps in prop::collection::vec(0u64..20_000_000, 1..400)) {
            let (start, limits) = (start(), Limits::default());
            let mut bucket = TokenBucket::full(start, &limits);
            let (mut now, mut taken) = (start, 0u64);
            // The first step must not meet a full bucket, which would lose its refill.
            while bucket.take(now, &limits) {
                taken += 1;
            }
            for nanos in steps {
                now += Duration::from_nanos(nanos);
                while bucket.take(now, &limits) {
                    taken += 1;
                }
            }
            let elapsed = now.duration_since(start).as_nanos() as u64;
            prop_assert_eq!(taken, 300 + elapsed * 150 / TOKEN);
        }
    }
}
