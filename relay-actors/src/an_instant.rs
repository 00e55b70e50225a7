//! A moment for the tests of what takes time as an argument.

use tokio::time::Instant;

/// Some moment; no clock is read again.
#[allow(
    clippy::disallowed_methods,
    reason = "an arbitrary start; what is tested gets its time as an argument"
)]
pub(crate) fn start() -> Instant {
    Instant::from_std(std::time::Instant::now())
}
