//! The counters of timelines that rise over the whole process: a pair's registry may end and start
//! anew, and numbers that it has given out may not come again (TL-4, TL-7).

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use relay_model::ids::AuthorizationGeneration;

/// One per process, shared by all registries.
#[derive(Debug, Default)]
pub(crate) struct TimelineNumbers {
    generations: AtomicU64,
    revisions: AtomicU64,
}

impl TimelineNumbers {
    /// A generation above all that were given out (TL-4).
    pub(crate) fn next_generation(&self) -> AuthorizationGeneration {
        let former = self.generations.fetch_add(1, Ordering::Relaxed);
        AuthorizationGeneration::new(NonZeroU64::MIN.saturating_add(former))
    }

    /// A revision above all that were given out, from 1 (TL-7).
    pub(crate) fn next_revision(&self) -> u64 {
        self.revisions.fetch_add(1, Ordering::Relaxed) + 1
    }
}
