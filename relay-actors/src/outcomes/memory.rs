//! What is remembered of devices beyond their connections. Pure: times come as arguments. It is bounded
//! twice, over all and for each account, so that whoever makes up device ids pushes out nobody else's.

use std::collections::BTreeMap;

use relay_model::ids::{AccountId, ConnectionId, DeviceId};
use relay_model::limits::{REMEMBERED_DEVICES, REMEMBERED_DEVICES_PER_ACCOUNT};
use relay_model::time::Timestamp;
use relay_model::wire::codes::ErrorCode;

use crate::socket::EndReason;

/// How the last connection of a device ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastClose {
    /// Which one.
    pub connection: ConnectionId,
    /// Why, and by which side.
    pub reason: EndReason,
    /// The close code, if one was sent.
    pub code: Option<u16>,
    /// When.
    pub at: Timestamp,
}

/// How a device was last refused (REG-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastRefusal {
    /// Why.
    pub code: ErrorCode,
    /// When.
    pub at: Timestamp,
}

/// What is remembered of one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceOutcomes {
    /// How its last connection ended.
    pub close: Option<LastClose>,
    /// How it was last refused.
    pub refusal: Option<LastRefusal>,
}

#[derive(Debug)]
struct Remembered {
    outcomes: DeviceOutcomes,
    /// Its place among all, by when it was heard of last.
    heard: u64,
}

type Key = (AccountId, DeviceId);

/// The memory.
#[derive(Debug)]
pub(super) struct Memory {
    devices: BTreeMap<Key, Remembered>,
    /// The same by when they were heard of last.
    by_age: BTreeMap<u64, Key>,
    last_heard: u64,
    capacity: usize,
    per_account: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self::with_capacity(REMEMBERED_DEVICES, REMEMBERED_DEVICES_PER_ACCOUNT)
    }
}

impl Memory {
    fn with_capacity(capacity: usize, per_account: usize) -> Self {
        Self {
            devices: BTreeMap::new(),
            by_age: BTreeMap::new(),
            last_heard: 0,
            capacity,
            per_account,
        }
    }

    /// A connection of the device ended.
    pub(super) fn closed(&mut self, device: Key, close: LastClose) {
        self.heard_of(device).close = Some(close);
    }

    /// A registration of the device was refused.
    pub(super) fn refused(&mut self, device: Key, refusal: LastRefusal) {
        self.heard_of(device).refusal = Some(refusal);
    }

    /// What is remembered of the devices of an account.
    pub(super) fn of_account(
        &self,
        account: AccountId,
    ) -> impl Iterator<Item = (DeviceId, DeviceOutcomes)> {
        self.range(account)
            .map(|((_, device), remembered)| (*device, remembered.outcomes))
    }

    /// How many devices are remembered.
    pub(super) fn len(&self) -> usize {
        self.devices.len()
    }

    fn range(&self, account: AccountId) -> impl Iterator<Item = (&Key, &Remembered)> {
        let first = (account, DeviceId::from_uuid(uuid::Uuid::nil()));
        self.devices
            .range(first..)
            .take_while(move |((of, _), _)| *of == account)
    }

    fn heard_of(&mut self, device: Key) -> &mut DeviceOutcomes {
        self.last_heard += 1;
        let heard = self.last_heard;
        match self.devices.get(&device).map(|known| known.heard) {
            Some(before) => _ = self.by_age.remove(&before),
            None => self.make_room(device.0),
        }
        self.by_age.insert(heard, device);
        let remembered = self.devices.entry(device).or_insert(Remembered {
            outcomes: DeviceOutcomes::default(),
            heard,
        });
        remembered.heard = heard;
        &mut remembered.outcomes
    }

    /// Forgets the device that was heard of longest ago: of this account if that has many, else of all.
    fn make_room(&mut self, account: AccountId) {
        let oldest = if self.range(account).count() >= self.per_account {
            let ages = self.range(account).map(|(_, known)| known.heard);
            ages.min()
        } else if self.devices.len() >= self.capacity {
            self.by_age.keys().next().copied()
        } else {
            None
        };
        if let Some(device) = oldest.and_then(|heard| self.by_age.remove(&heard)) {
            self.devices.remove(&device);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn key(account: u128, device: u128) -> Key {
        (
            AccountId::from_uuid(Uuid::from_u128(account)),
            DeviceId::from_uuid(Uuid::from_u128(device)),
        )
    }

    fn refusal(seconds: i64) -> LastRefusal {
        LastRefusal {
            code: ErrorCode::DeviceNotRegistered,
            at: Timestamp::from_unix_micros(seconds),
        }
    }

    fn close(seconds: i64) -> LastClose {
        LastClose {
            connection: ConnectionId::from_uuid(Uuid::nil()),
            reason: EndReason::ClientClosed,
            code: Some(1000),
            at: Timestamp::from_unix_micros(seconds),
        }
    }

    fn devices(memory: &Memory, account: u128) -> Vec<DeviceId> {
        let (account, _) = key(account, 0);
        memory
            .of_account(account)
            .map(|(device, _)| device)
            .collect()
    }

    /// OP-9: the last close and the last refusal stand beside each other.
    #[test]
    fn the_last_of_each_is_kept() {
        let mut memory = Memory::default();
        memory.closed(key(1, 1), close(1));
        memory.refused(key(1, 1), refusal(2));
        memory.closed(key(1, 1), close(3));
        memory.refused(key(2, 1), refusal(4));
        let (account, device) = key(1, 1);
        let of_account: Vec<_> = memory.of_account(account).collect();
        let expected = DeviceOutcomes {
            close: Some(close(3)),
            refusal: Some(refusal(2)),
        };
        assert_eq!(of_account, [(device, expected)]);
    }

    /// OP-9: the device that was heard of longest ago goes first, and an account with many pushes out
    /// its own.
    #[test]
    fn the_memory_is_bounded() {
        let mut memory = Memory::with_capacity(4, 2);
        for (account, device) in [(1, 1), (2, 1), (2, 2), (3, 1), (1, 1), (4, 1)] {
            memory.refused(key(account, device), refusal(0));
        }
        assert_eq!(memory.len(), 4);
        assert_eq!(devices(&memory, 2), [key(2, 2).1], "2/1 was the oldest");
        for device in 10..20 {
            memory.refused(key(3, device), refusal(0));
        }
        assert_eq!(devices(&memory, 3), [key(3, 18).1, key(3, 19).1]);
        assert_eq!(devices(&memory, 1), [key(1, 1).1], "others keep theirs");
    }

    proptest! {
        /// OP-9: whatever comes, both bounds hold and both tables name the same devices.
        #[test]
        fn bounds_hold(steps in prop::collection::vec((0..5u128, 0..8u128, any::<bool>()), 0..200)) {
            let mut memory = Memory::with_capacity(12, 4);
            for (account, device, closes) in steps {
                if closes {
                    memory.closed(key(account, device), close(0));
                } else {
                    memory.refused(key(account, device), refusal(0));
                }
                prop_assert!(devices(&memory, account).contains(&key(account, device).1));
                prop_assert!(memory.len() <= 12);
                prop_assert_eq!(memory.len(), memory.by_age.len());
                for account in 0..5 {
                    prop_assert!(devices(&memory, account).len() <= 4);
                }
            }
        }
    }
}
