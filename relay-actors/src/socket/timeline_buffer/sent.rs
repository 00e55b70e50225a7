//! The last version sent of each key (TL-8), which keeps an older one from following it.

use indexmap::IndexMap;
use relay_model::limits::Limits;
use relay_model::timeline::TimelineKey;

use super::stamp::Stamp;

/// What was sent under the lease, the key that was sent longest ago first.
///
/// A lease can be renewed for ever and a desktop can invent threads for ever, so the keys are
/// bounded: by as many as `timeline.stale_keys` full buffers hold, 1,024 by default. Beyond that the
/// key that was sent longest ago is forgotten; only a desktop that goes back in such a thread could
/// then show the phone an older version.
#[derive(Debug, Default)]
pub(super) struct SentVersions {
    stamps: IndexMap<TimelineKey, Stamp>,
}

impl SentVersions {
    /// Whether this version of the key, or a newer one, was sent.
    pub(super) fn covers(&self, key: &TimelineKey, stamp: Stamp) -> bool {
        self.stamps.get(key).is_some_and(|sent| *sent >= stamp)
    }

    pub(super) fn record(&mut self, key: TimelineKey, stamp: Stamp, limits: &Limits) {
        self.stamps.shift_remove(&key);
        if self.stamps.is_empty() {
            // Most phones look at one window.
            self.stamps.reserve_exact(1);
        }
        self.stamps.insert(key, stamp);
        if self.stamps.len() > limits.timeline_stale_keys * limits.timeline_buffer_keys {
            self.stamps.shift_remove_index(0);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }
}
