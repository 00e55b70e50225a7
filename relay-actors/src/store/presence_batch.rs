//! Presence changes that wait for the database (PR-2, PR-6). Pure. Of each device the last word is
//! kept, and before it the registration that it refers to: a change is stored only on the row of its
//! own instance and generation.

use indexmap::IndexMap;
use relay_model::ids::DeviceId;
use relay_model::store::{DeviceStatus, PresenceWrite};

#[derive(Debug, Default, Clone, Copy)]
struct Waiting {
    online: Option<PresenceWrite>,
    after: Option<PresenceWrite>,
}

/// The waiting changes, at most two a device.
#[derive(Debug, Default)]
pub(crate) struct PresenceBatch {
    devices: IndexMap<DeviceId, Waiting>,
}

impl PresenceBatch {
    /// Adds a change, which makes older ones of its device needless.
    pub(crate) fn add(&mut self, write: PresenceWrite) {
        let waiting = self.devices.entry(write.device).or_default();
        match write.status {
            DeviceStatus::Online => {
                *waiting = Waiting {
                    online: Some(write),
                    after: None,
                }
            }
            DeviceStatus::Reconnecting | DeviceStatus::Offline => waiting.after = Some(write),
        }
    }

    /// Takes everything, in the order in which it must be stored.
    pub(crate) fn take(&mut self) -> Vec<PresenceWrite> {
        let devices = std::mem::take(&mut self.devices);
        devices
            .into_values()
            .flat_map(|waiting| [waiting.online, waiting.after])
            .flatten()
            .collect()
    }

    /// Puts back what could not be stored; what came since is newer and comes behind it.
    pub(crate) fn put_back(&mut self, writes: Vec<PresenceWrite>) {
        let newer = std::mem::take(self);
        for write in writes {
            self.add(write);
        }
        for waiting in newer.devices.into_values() {
            for write in [waiting.online, waiting.after].into_iter().flatten() {
                self.add(write);
            }
        }
    }

    /// How many devices have changes that wait.
    pub(crate) fn len(&self) -> usize {
        self.devices.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use DeviceStatus::{Offline, Online, Reconnecting};
    use relay_model::ids::{AccountId, ConnectionGeneration, RelayInstanceId};
    use relay_model::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn write(device: u128, generation: u64, status: DeviceStatus) -> PresenceWrite {
        PresenceWrite {
            account: AccountId::from_uuid(Uuid::nil()),
            device: DeviceId::from_uuid(Uuid::from_u128(device)),
            instance: RelayInstanceId::from_uuid(Uuid::nil()),
            generation: ConnectionGeneration::new(generation),
            status,
            reason: None,
            at: Timestamp::from_unix_micros(0),
        }
    }

    fn batch(writes: &[PresenceWrite]) -> PresenceBatch {
        let mut batch = PresenceBatch::default();
        writes.iter().for_each(|write| batch.add(*write));
        batch
    }

    /// PR-6: a drop behind a registration is stored after it, not instead of it.
    #[test]
    fn the_registration_behind_the_last_word_is_kept() {
        let (online, reconnecting) = (write(1, 1, Online), write(1, 1, Reconnecting));
        let offline = write(1, 1, Offline);
        let again = write(1, 2, Online);
        assert_eq!(
            batch(&[online, reconnecting]).take(),
            [online, reconnecting]
        );
        assert_eq!(
            batch(&[online, reconnecting, offline]).take(),
            [online, offline]
        );
        assert_eq!(batch(&[online, reconnecting, again]).take(), [again]);
    }

    #[test]
    fn what_is_put_back_comes_before_what_came_since() {
        let mut batch = batch(&[write(1, 1, Reconnecting), write(2, 5, Online)]);
        batch.put_back(vec![write(1, 1, Online), write(2, 4, Online)]);
        assert_eq!(
            batch.take(),
            [
                write(1, 1, Online),
                write(1, 1, Reconnecting),
                write(2, 5, Online)
            ]
        );
        assert!(batch.is_empty());
    }
}
