//! How often an address may connect (TR-11): many at once, as when everybody behind one router comes
//! back, and few for ever.

mod sources;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::{Quota, RateLimiter};
use relay_model::limits::{CONNECT_SWEEP_INTERVAL, Limits};
use tokio::time::Instant;

use sources::{Source, Sources};

/// An address has connected too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOften {
    /// After how long it may connect again; not zero.
    pub(crate) wait: Duration,
}

/// Counts the connections of each address. It is shared by all threads of the door, because the
/// connections of one address come to all of them; nothing is done under its lock but arithmetic.
#[derive(Debug)]
pub(crate) struct ConnectLimit(ArcSwap<Counts>);

impl ConnectLimit {
    /// Nobody has connected yet.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self(ArcSwap::from_pointee(Counts::new(quota(limits))))
    }

    /// Counts one connection of `address`, under the limits in force. Counting begins anew when they
    /// have changed (OP-4).
    ///
    /// # Errors
    /// When it is one too many; it does not count then.
    pub(crate) fn admit(&self, address: IpAddr, limits: &Limits) -> Result<(), TooOften> {
        let quota = quota(limits);
        let counts = self.0.load();
        if counts.quota == quota {
            return counts.admit(address);
        }
        // Of several threads that see the change one has its way; what the others counted meanwhile is
        // forgotten with what stood before.
        self.0
            .compare_and_swap(&counts, Arc::new(Counts::new(quota)));
        self.0.load().admit(address)
    }
}

/// What was counted under one pair of limits.
#[derive(Debug)]
struct Counts {
    quota: Quota,
    limiter: RateLimiter<Source, Sources, RuntimeClock, NoOpMiddleware<Nanos>>,
    /// When addresses are forgotten next, in nanoseconds of the limiter's clock.
    next_sweep: AtomicU64,
}

impl Counts {
    fn new(quota: Quota) -> Self {
        Self {
            quota,
            limiter: RateLimiter::new(quota, Sources::default(), RuntimeClock::start()),
            next_sweep: AtomicU64::new(0),
        }
    }

    fn admit(&self, address: IpAddr) -> Result<(), TooOften> {
        self.sweep();
        let checked = self.limiter.check_key(&Source::of(address));
        checked.map_err(|until| TooOften {
            wait: until
                .wait_time_from(self.limiter.clock().now())
                .max(Duration::from_nanos(1)),
        })
    }

    /// Forgets, every now and then, the addresses that may do as much as new ones.
    fn sweep(&self) {
        let now = self.limiter.clock().now();
        let due = self.next_sweep.load(Ordering::Relaxed);
        if now.as_u64() < due {
            return;
        }
        let next = (now + Nanos::from(CONNECT_SWEEP_INTERVAL)).as_u64();
        // Of several threads one does it.
        let (won, lost) = (Ordering::Relaxed, Ordering::Relaxed);
        if self
            .next_sweep
            .compare_exchange(due, next, won, lost)
            .is_ok()
        {
            self.limiter.retain_recent();
        }
    }
}

fn quota(limits: &Limits) -> Quota {
    Quota::per_second(rate(limits.connects_per_second)).allow_burst(rate(limits.connect_burst))
}

/// A limit as the quota takes it; the configuration's range keeps it from being cut.
fn rate(count: usize) -> NonZeroU32 {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN)
}

/// The clock of the runtime, which tests can pause.
#[derive(Debug)]
struct RuntimeClock {
    start: Instant,
}

impl RuntimeClock {
    fn start() -> Self {
        let start = Instant::now();
        Self { start }
    }
}

impl Clock for RuntimeClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        // A process does not run for the 584 years after which this would be too large.
        self.start.elapsed().into()
    }
}
