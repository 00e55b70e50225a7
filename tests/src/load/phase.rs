//! Where a run stands, as its tasks see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Shared by all tasks of a run.
#[derive(Clone)]
pub(super) struct Phase(Arc<AtomicU8>);

impl Phase {
    const WARM_UP: u8 = 0;
    pub(super) const MEASURED: u8 = 1;
    pub(super) const OVER: u8 = 2;

    pub(super) fn warm_up() -> Self {
        Self(Arc::new(AtomicU8::new(Self::WARM_UP)))
    }

    pub(super) fn set(&self, phase: u8) {
        // Each task may see it a little later: a round trip more or less does not matter.
        self.0.store(phase, Ordering::Relaxed);
    }

    pub(super) fn is(&self, phase: u8) -> bool {
        self.0.load(Ordering::Relaxed) == phase
    }
}
