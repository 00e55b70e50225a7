//! Where every choice of a simulated run comes from: numbers that one seed determines.

use std::ops::RangeInclusive;

/// A stream of numbers (SplitMix64): small, and the same on every machine and in every release.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The stream of a seed. Streams of neighbouring seeds have nothing in common.
    pub fn new(seed: u64) -> Self {
        let mut dice = Self(seed);
        Self(dice.next())
    }

    /// A stream of its own for another part of the run, so that what one part draws does not move
    /// what another one gets.
    pub fn split(&mut self) -> Self {
        Self(self.next())
    }

    /// The next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "a stream without an end is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of a range.
    pub fn between(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.next() % (range.end() - range.start() + 1)
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// One of several, if there is any.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        let index = (!of.is_empty()).then(|| self.next() as usize % of.len())?;
        of.get(index).cloned()
    }

    /// One of several, each as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, of: &[(u64, T)]) -> T {
        let total: u64 = of.iter().map(|(weight, _)| weight).sum();
        let mut left = self.next() % total;
        for (weight, what) in of {
            if left < *weight {
                return *what;
            }
            left -= weight;
        }
        unreachable!("the weights add up to the total")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_stream() {
        let draw = |seed| {
            let mut dice = Dice::new(seed);
            (0..8).map(|_| dice.between(0..=999)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn weights_are_kept() {
        let mut dice = Dice::new(1);
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            counts[dice.weighted(&[(1, 0), (9, 1), (0, 2)])] += 1;
        }
        assert!(
            (800..1_200).contains(&counts[0]) && counts[2] == 0,
            "{counts:?}"
        );
    }
}
