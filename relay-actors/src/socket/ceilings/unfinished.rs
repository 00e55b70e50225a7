//! Bytes of unfinished messages, over all connections. Over the ceiling those who hold more than their
//! share of it are not read until it is kept again, all but one of them, so that somebody always comes
//! to an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use relay_model::limits::Limits;

/// Messages up to this size are read whatever others hold: registrations, most requests and answers.
const SMALL: u64 = 64 * 1024;

/// The total.
#[derive(Debug)]
pub struct UnfinishedTotal {
    max: u64,
    held: AtomicU64,
    /// Connections that hold something.
    holders: AtomicU64,
    /// One connection goes on above its share.
    finishing: AtomicBool,
}

impl UnfinishedTotal {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            max: limits.inbound_total as u64,
            held: AtomicU64::new(0),
            holders: AtomicU64::new(0),
            finishing: AtomicBool::new(false),
        }
    }

    /// Bytes held.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Acquire)
    }
}

/// What one connection holds of it, given back when it ends.
#[derive(Debug)]
pub struct UnfinishedShare {
    total: Arc<UnfinishedTotal>,
    bytes: u64,
    is_finisher: bool,
}

impl UnfinishedShare {
    /// Nothing held yet.
    pub fn new(total: Arc<UnfinishedTotal>) -> Self {
        Self {
            total,
            bytes: 0,
            is_finisher: false,
        }
    }

    /// This connection holds `bytes`.
    pub fn set(&mut self, bytes: usize) {
        let (before, after) = (self.bytes, bytes as u64);
        if before == after {
            return;
        }
        self.bytes = after;
        if after > before {
            self.total.held.fetch_add(after - before, Ordering::AcqRel);
        } else {
            self.total.held.fetch_sub(before - after, Ordering::AcqRel);
        }
        match (before, after) {
            (0, _) => _ = self.total.holders.fetch_add(1, Ordering::AcqRel),
            (_, 0) => _ = self.total.holders.fetch_sub(1, Ordering::AcqRel),
            _ => {}
        }
        if after <= SMALL && std::mem::take(&mut self.is_finisher) {
            self.total.finishing.store(false, Ordering::Release);
        }
    }

    /// Whether more may be read of this connection.
    pub fn may_grow(&mut self) -> bool {
        let held = self.total.held();
        if held <= self.total.max || self.bytes <= SMALL || self.is_finisher {
            return true;
        }
        // A share of the ceiling and not of what is held: that rises with the one that goes on, and the
        // others would follow it, each to the end of its message.
        let share = self.total.max / self.total.holders.load(Ordering::Acquire).max(1);
        if self.bytes < share {
            return true;
        }
        let claimed = &self.total.finishing;
        self.is_finisher = claimed
            .compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        self.is_finisher
    }
}

impl Drop for UnfinishedShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn shares(number: usize) -> (Arc<UnfinishedTotal>, Vec<UnfinishedShare>) {
        let limits = Limits {
            inbound_total: 10 * MIB,
            ..Limits::default()
        };
        let total = Arc::new(UnfinishedTotal::new(&limits));
        let share = || UnfinishedShare::new(Arc::clone(&total));
        let shares = std::iter::repeat_with(share).take(number).collect();
        (total, shares)
    }

    fn readable(shares: &mut [UnfinishedShare]) -> Vec<bool> {
        shares.iter_mut().map(UnfinishedShare::may_grow).collect()
    }

    /// Invariant 7: over the ceiling the largest stop, small ones and those below their share go on,
    /// and one of the largest goes on to its end; then it is another one's turn.
    #[test]
    fn the_largest_stop_all_but_one() {
        let (total, mut shares) = shares(5);
        for (share, bytes) in shares.iter_mut().zip([4 * MIB, 4 * MIB, 4 * MIB, MIB, 1]) {
            assert!(share.may_grow());
            share.set(bytes);
        }
        assert_eq!(readable(&mut shares), [true, false, false, true, true]);
        shares[0].set(0);
        assert_eq!(readable(&mut shares), [true; 5], "below the ceiling again");
        shares[0].set(4 * MIB);
        assert_eq!(readable(&mut shares), [true, false, false, true, true]);
        drop(shares.remove(0));
        shares[0].set(8 * MIB);
        assert_eq!(
            readable(&mut shares),
            [true, false, true, true],
            "the next one's turn"
        );
        drop(shares);
        assert_eq!(total.held(), 0);
        assert_eq!(total.holders.load(Ordering::Acquire), 0);
        assert!(!total.finishing.load(Ordering::Acquire));
    }

    /// Invariant 7: however long everybody sends a message that has no end, what all hold stays at the
    /// ceiling, but for the one that goes on and the small ones.
    #[test]
    fn those_who_wait_do_not_follow_the_one_that_goes_on() {
        const BLOCK: usize = 16 * 1024;
        let (total, mut shares) = shares(12);
        let mut grows = true;
        while grows {
            grows = false;
            for share in &mut shares {
                let held = share.bytes as usize;
                if held < 8 * MIB && share.may_grow() {
                    share.set(held + BLOCK);
                    grows = true;
                }
            }
        }
        let blocks = shares.len() * BLOCK;
        assert!(total.held() <= (10 * MIB + 8 * MIB + blocks) as u64);
    }

    /// Whatever the sizes, somebody may always be read.
    #[test]
    fn somebody_always_goes_on() {
        let (_, mut shares) = shares(20);
        for share in &mut shares {
            share.set(MIB);
        }
        let mut finished = 0;
        while let Some(at) = readable(&mut shares).iter().position(|may| *may) {
            shares.remove(at);
            finished += 1;
        }
        assert_eq!(finished, 20);
    }
}
