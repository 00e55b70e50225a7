//! The presence changes that took effect.

use std::collections::BTreeMap;

use relay_model::ids::{AccountId, ConnectionGeneration, DeviceId, RelayInstanceId};
use relay_model::time::Timestamp;

/// A presence change that took effect. Words instead of the enums, which have no order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresenceChange {
    /// The device's owner.
    pub account: AccountId,
    /// The device.
    pub device: DeviceId,
    /// When.
    pub at: Timestamp,
    /// The relay that held it.
    pub instance: RelayInstanceId,
    /// The generation of its connection.
    pub generation: ConnectionGeneration,
    /// What it became.
    pub status: &'static str,
    /// Why, if it is offline and that is known.
    pub reason: Option<&'static str>,
}

/// What tells one change from another: all but why.
type Key = (
    AccountId,
    DeviceId,
    Timestamp,
    RelayInstanceId,
    ConnectionGeneration,
    &'static str,
);

impl PresenceChange {
    fn key(&self) -> Key {
        (
            self.account,
            self.device,
            self.at,
            self.instance,
            self.generation,
            self.status,
        )
    }
}

/// The changes by device and time.
#[derive(Debug, Default)]
pub(in crate::memory_store) struct History(BTreeMap<Key, PresenceChange>);

impl History {
    /// Keeps the change, unless one of its key is there.
    pub(super) fn keep(&mut self, change: PresenceChange) {
        self.0.entry(change.key()).or_insert(change);
    }

    /// Every change, the oldest of each device first.
    pub(in crate::memory_store) fn changes(
        &self,
    ) -> impl DoubleEndedIterator<Item = &PresenceChange> {
        self.0.values()
    }

    /// Drops what was before `before` and returns how many changes that were.
    pub(super) fn purge(&mut self, before: Timestamp) -> usize {
        let all = self.0.len();
        self.0.retain(|_, change| change.at >= before);
        all - self.0.len()
    }
}
