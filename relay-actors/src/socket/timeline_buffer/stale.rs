//! The keys of which a phone missed a version, until it is told to reload them (TL-13).

use relay_model::limits::Limits;
use relay_model::timeline::TimelineKey;

use super::stamp::Stamp;

/// What a phone missed and was not told of yet.
#[derive(Debug, Default)]
pub(super) enum Stale {
    /// Nothing.
    #[default]
    Nothing,
    /// These keys, each with the newest version that was evicted, in the order of their first
    /// eviction. Never empty.
    Keys(Vec<(TimelineKey, Stamp)>),
    /// More keys than are kept apart.
    All,
}

impl Stale {
    /// The key lost this version. Over `timeline.stale_keys` the keys merge into [`Self::All`].
    pub(super) fn remember(&mut self, key: TimelineKey, stamp: Stamp, limits: &Limits) {
        match self {
            Self::Nothing => *self = Self::Keys(vec![(key, stamp)]),
            Self::Keys(keys) => {
                if let Some((_, newest)) = keys.iter_mut().find(|(known, _)| *known == key) {
                    *newest = stamp.max(*newest);
                } else if keys.len() < limits.timeline_stale_keys {
                    keys.push((key, stamp));
                } else {
                    *self = Self::All;
                }
            }
            Self::All => {}
        }
    }

    /// This version of the key was sent: a notice of the same or an older one would be untrue.
    pub(super) fn sent(&mut self, key: &TimelineKey, stamp: Stamp) {
        if let Self::Keys(keys) = self {
            keys.retain(|(known, missed)| known != key || *missed > stamp);
            self.forget_if_told();
        }
    }

    /// The first notice was begun.
    pub(super) fn told(&mut self) {
        match self {
            Self::Keys(keys) => {
                keys.remove(0);
                self.forget_if_told();
            }
            Self::All | Self::Nothing => *self = Self::Nothing,
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Keeps `Keys` from being empty, and gives its memory back.
    fn forget_if_told(&mut self) {
        if matches!(self, Self::Keys(keys) if keys.is_empty()) {
            *self = Self::Nothing;
        }
    }
}
