//! Latencies of millions of round trips in a few kilobytes: buckets whose width grows with the
//! value, so that every reading is right to within 1.6 %.

use std::time::Duration;

/// Values below this have a bucket each; every doubling from there on is cut into [`PER_DOUBLING`].
const EXACT: usize = 64;
const EXACT_BITS: u32 = EXACT.trailing_zeros();
const PER_DOUBLING: usize = EXACT / 2;
/// Values from 2^40 µs (12 days) on share the last bucket.
const LARGEST_BITS: u32 = 40;
const BUCKETS: usize = EXACT + (LARGEST_BITS - EXACT_BITS) as usize * PER_DOUBLING;

/// How often which duration was seen, in microseconds.
#[derive(Debug, Clone)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
        }
    }
}

impl Histogram {
    /// Notes one duration, cut to whole microseconds.
    pub fn record(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(micros)] += 1;
        self.count += 1;
    }

    /// How many durations were noted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds what another one has seen.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
    }

    /// The smallest value in microseconds below which at least `share` (0 to 1) of all lie; 0 when
    /// nothing was noted.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return middle_of(index);
            }
        }
        0.0
    }
}

/// Above the exact values, the six highest bits of a value name its bucket.
fn bucket_of(micros: u64) -> usize {
    let bits = u64::BITS - micros.leading_zeros();
    if bits <= EXACT_BITS {
        return micros as usize;
    }
    let doublings = bits - EXACT_BITS;
    // The highest bit is set, so the six highest bits are at least `PER_DOUBLING`.
    let within = (micros >> doublings) as usize - PER_DOUBLING;
    (EXACT + (doublings as usize - 1) * PER_DOUBLING + within).min(BUCKETS - 1)
}

/// The middle of a bucket, in microseconds.
fn middle_of(bucket: usize) -> f64 {
    let Some(above) = bucket.checked_sub(EXACT) else {
        return bucket as f64;
    };
    let width = (2_u64 << (above / PER_DOUBLING)) as f64;
    let within = (above % PER_DOUBLING + PER_DOUBLING) as f64;
    within * width + (width - 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_every_value_in_order_and_closely() {
        let mut last = 0;
        for exponent in 0..36 {
            for step in 0..100_u64 {
                let value = (1 << exponent) + (step << exponent) / 100;
                let bucket = bucket_of(value);
                assert!(bucket >= last, "{value}");
                last = bucket;
                let error = (middle_of(bucket) - value as f64).abs();
                assert!(
                    error <= value as f64 * 0.016,
                    "{value} {}",
                    middle_of(bucket)
                );
            }
        }
        assert_eq!(bucket_of(u64::MAX), bucket_of(u64::MAX - 1));
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut low = Histogram::default();
        let mut high = Histogram::default();
        for micros in 1..=1000 {
            let half = if micros <= 500 { &mut low } else { &mut high };
            half.record(Duration::from_micros(micros));
        }
        low.add(&high);
        assert_eq!(low.count(), 1000);
        for (share, expected) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = low.quantile(share);
            assert!((found - expected).abs() <= expected * 0.016, "{found}");
        }
        assert_eq!(Histogram::default().quantile(0.5), 0.0);
    }
}
