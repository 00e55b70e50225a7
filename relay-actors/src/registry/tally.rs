//! What all pairs hold together, added up by the registries themselves: with many thousand pairs an answer
//! from each, and a waking for each answer, would cost ten times as much.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// A sum that is being made.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pending: AtomicUsize,
    leases: AtomicUsize,
    /// Registries that have not added theirs.
    left: AtomicUsize,
    done: Notify,
}

/// One registry's part in it. A registry that is gone drops it, and has nothing to add.
#[derive(Debug)]
pub(crate) struct TallyShare(Arc<Tally>);

/// What all pairs hold together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairTotals {
    /// Requests without a final answer.
    pub pending: usize,
    /// Leases.
    pub leases: usize,
    /// Pairs that did not answer and are not counted.
    pub silent: usize,
}

impl Tally {
    /// A sum of so many parts.
    pub(crate) fn of(parts: usize) -> (Arc<Self>, Vec<TallyShare>) {
        let tally = Arc::new(Self {
            left: AtomicUsize::new(parts),
            ..Self::default()
        });
        let shares = (0..parts).map(|_| TallyShare(Arc::clone(&tally))).collect();
        (tally, shares)
    }

    /// The sum, once it is whole, or what there is of it after this time.
    pub(crate) async fn wait(&self, at_most: Duration) -> PairTotals {
        if self.left.load(Ordering::Acquire) > 0 {
            // The time is over: the rest is silent.
            let _ = timeout(at_most, self.done.notified()).await;
        }
        PairTotals {
            silent: self.left.load(Ordering::Acquire),
            pending: self.pending.load(Ordering::Relaxed),
            leases: self.leases.load(Ordering::Relaxed),
        }
    }
}

impl TallyShare {
    /// Adds what a pair holds.
    pub(super) fn add(self, pending: usize, leases: usize) {
        self.0.pending.fetch_add(pending, Ordering::Relaxed);
        self.0.leases.fetch_add(leases, Ordering::Relaxed);
    }
}

impl Drop for TallyShare {
    fn drop(&mut self) {
        if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.done.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    /// OP-9: the sum is there when the last part is; a pair that is gone holds back nobody.
    #[tokio::test(start_paused = true)]
    async fn sums_are_whole() {
        let (tally, mut shares) = Tally::of(3);
        drop(shares.pop());
        shares.pop().unwrap().add(2, 1);
        let last = shares.pop().unwrap();
        let begun = Instant::now();
        tokio::spawn(async move {
            tokio::time::sleep(PATIENCE / 2).await;
            last.add(3, 0);
        });
        let whole = PairTotals {
            pending: 5,
            leases: 1,
            silent: 0,
        };
        assert_eq!(tally.wait(PATIENCE).await, whole);
        assert_eq!(begun.elapsed(), PATIENCE / 2);
        assert_eq!(tally.wait(PATIENCE).await, whole, "whole for good");
        let (empty, _) = Tally::of(0);
        assert_eq!(empty.wait(PATIENCE).await, PairTotals::default());
    }

    /// OP-9: one that hangs costs the others nothing, and is counted.
    #[tokio::test(start_paused = true)]
    async fn the_silent_are_counted() {
        let (tally, mut shares) = Tally::of(2);
        shares.pop().unwrap().add(1, 1);
        let begun = Instant::now();
        let totals = tally.wait(PATIENCE).await;
        assert_eq!((totals.pending, totals.leases, totals.silent), (1, 1, 1));
        assert_eq!(begun.elapsed(), PATIENCE);
        drop(shares);
    }
}
