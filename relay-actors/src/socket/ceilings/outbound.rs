//! Bytes that wait to be written, over all connections. Over the ceiling the largest debtor is retired;
//! the directory does that, as it knows them all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relay_model::limits::Limits;
use tokio::sync::Notify;

use crate::metrics::Tallies;

/// What a lane adds to the total changes by whole blocks of this size, so that peers that read, and
/// owe little at any time, do not all write to one counter.
const BLOCK: u64 = 64 * 1024;

/// The total.
#[derive(Debug)]
pub struct OutboundTotal {
    max: u64,
    held: AtomicU64,
    crossed: Notify,
    tallies: Arc<Tallies>,
}

impl OutboundTotal {
    pub(super) fn new(limits: &Limits, tallies: Arc<Tallies>) -> Self {
        Self {
            max: limits.outbound_total as u64,
            held: AtomicU64::new(0),
            crossed: Notify::new(),
            tallies,
        }
    }

    /// Where what leaves is counted.
    pub(crate) fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    /// Something that held `before` bytes holds `after`.
    pub(crate) fn change(&self, before: u64, after: u64) {
        let (before, after) = (before / BLOCK * BLOCK, after / BLOCK * BLOCK);
        if after > before {
            let more = after - before;
            if self.held.fetch_add(more, Ordering::AcqRel) + more > self.max {
                self.crossed.notify_one();
            }
        } else if after < before {
            self.held.fetch_sub(before - after, Ordering::AcqRel);
        }
    }

    /// Counts something that many connections wait for, until the charge is dropped.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> OutboundCharge {
        let bytes = bytes as u64;
        self.change(0, bytes);
        OutboundCharge {
            total: Arc::clone(self),
            bytes,
        }
    }

    /// Bytes held, in whole blocks.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Acquire)
    }

    /// Bytes over the ceiling.
    pub(crate) fn excess(&self) -> u64 {
        self.held().saturating_sub(self.max)
    }

    /// Returns when the ceiling was crossed since the last call.
    pub(crate) async fn crossed(&self) {
        self.crossed.notified().await;
    }
}

/// Bytes that are counted in the total once, whoever waits for them.
#[derive(Debug)]
pub struct OutboundCharge {
    total: Arc<OutboundTotal>,
    bytes: u64,
}

impl Drop for OutboundCharge {
    fn drop(&mut self) {
        self.total.change(self.bytes, 0);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// TR-10: small backlogs touch nothing; large ones are counted to the block and given back whole.
    #[test]
    fn backlogs_are_counted_in_blocks() {
        let limits = Limits {
            outbound_total: 2 * BLOCK as usize,
            ..Limits::default()
        };
        let total = OutboundTotal::new(&limits, Arc::default());
        total.change(0, BLOCK - 1);
        assert_eq!(total.held(), 0);
        total.change(BLOCK - 1, 2 * BLOCK + 5);
        assert_eq!((total.held(), total.excess()), (2 * BLOCK, 0));
        assert!(total.crossed().now_or_never().is_none());
        total.change(2 * BLOCK + 5, 3 * BLOCK);
        assert_eq!(total.excess(), BLOCK);
        assert!(total.crossed().now_or_never().is_some());
        total.change(3 * BLOCK, 0);
        assert_eq!(total.held(), 0);
    }
}
