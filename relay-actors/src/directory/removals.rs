//! Which devices were taken away from their account, or given back to it, a short time ago: for as long
//! as a registration may be under way that was checked before (REG-11). Pure.

use std::collections::HashMap;

use relay_model::ids::{AccountId, DeviceId};
use relay_model::store::OfflineReason;
use relay_model::time::Timestamp;

use super::{NotAttached, RegistrationSequence};
use crate::socket::messages::CloseReason;

/// Why a device loses its route at once, without a grace (PR-4, SES-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// Its user hid the desktop.
    Hidden,
    /// Its user forgot the device.
    Forgotten,
    /// Its user signed out on it.
    SignedOut,
}

impl Removal {
    /// What others are told of a desktop, and its row says.
    pub(super) fn offline_reason(self) -> OfflineReason {
        match self {
            Self::Hidden => OfflineReason::Hidden,
            Self::Forgotten => OfflineReason::Unlinked,
            Self::SignedOut => OfflineReason::SignedOut,
        }
    }

    /// How its connection is closed.
    pub(super) fn close_reason(self) -> CloseReason {
        match self {
            Self::Hidden => CloseReason::Hidden,
            Self::Forgotten => CloseReason::Forgotten,
            Self::SignedOut => CloseReason::SignedOut,
        }
    }

    /// What a registration is told that it came before.
    pub(super) fn refusal(self) -> NotAttached {
        match self {
            Self::Hidden => NotAttached::Hidden,
            Self::Forgotten => NotAttached::Forgotten,
            Self::SignedOut => NotAttached::SignedOut,
        }
    }
}

/// What the row of a device has come to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It may register.
    Admitted,
    /// It is a hidden desktop.
    Hidden,
    /// It is forgotten.
    Forgotten,
}

struct Noted {
    standing: Standing,
    /// When the row was changed.
    at: Timestamp,
    /// Registrations whose facts were read before this rank may not know of it.
    rank: RegistrationSequence,
    /// The account's routes were told of this change.
    told: bool,
}

/// The devices whose standing changed a short time ago, and the sign-outs of that time.
#[derive(Default)]
pub(super) struct Removals {
    standings: HashMap<(AccountId, DeviceId), Noted>,
    /// Of one device, or of all of the account; with the rank before which registrations lose.
    sign_outs: HashMap<(AccountId, Option<DeviceId>), RegistrationSequence>,
}

impl Removals {
    /// Takes note of a change; false if a later one is known: the messages of two changes may come in
    /// either order.
    pub(super) fn note(
        &mut self,
        device: (AccountId, DeviceId),
        standing: Standing,
        at: Timestamp,
        rank: RegistrationSequence,
    ) -> bool {
        let known = self.standings.get(&device);
        let newer = known.is_none_or(|known| known.at <= at);
        if newer {
            let told = known.is_some_and(|known| known.at == at && known.told);
            let noted = Noted {
                standing,
                at,
                rank,
                told,
            };
            self.standings.insert(device, noted);
        }
        newer
    }

    /// Whether the change that was noted last is still to be told; from then on it is not. Several
    /// messages may be about one change, and the first of them need not be that of who made it.
    pub(super) fn is_to_be_told(&mut self, device: (AccountId, DeviceId)) -> bool {
        let noted = self.standings.get_mut(&device);
        noted.is_some_and(|noted| !std::mem::replace(&mut noted.told, true))
    }

    /// Drops a note, unless a later one took its place.
    pub(super) fn drop_note(&mut self, device: (AccountId, DeviceId), at: Timestamp) {
        if self
            .standings
            .get(&device)
            .is_some_and(|known| known.at == at)
        {
            self.standings.remove(&device);
        }
    }

    /// Takes note that a device, or all of an account, signed out.
    pub(super) fn note_sign_out(
        &mut self,
        who: (AccountId, Option<DeviceId>),
        rank: RegistrationSequence,
    ) {
        self.sign_outs.insert(who, rank);
    }

    /// Drops a sign-out, unless a later one took its place.
    pub(super) fn drop_sign_out(
        &mut self,
        who: (AccountId, Option<DeviceId>),
        rank: RegistrationSequence,
    ) {
        if self.sign_outs.get(&who) == Some(&rank) {
            self.sign_outs.remove(&who);
        }
    }

    /// What took the device away after the facts of a registration were read, or, for a sign-out,
    /// after it was read itself.
    pub(super) fn came_after(
        &self,
        account: AccountId,
        device: DeviceId,
        read: RegistrationSequence,
        facts_read: RegistrationSequence,
    ) -> Option<Removal> {
        let standing = self.standings.get(&(account, device));
        let standing = standing.filter(|known| known.rank > facts_read);
        match standing.map(|known| known.standing) {
            Some(Standing::Forgotten) => return Some(Removal::Forgotten),
            Some(Standing::Hidden) => return Some(Removal::Hidden),
            Some(Standing::Admitted) | None => {}
        }
        let signed_out = [Some(device), None]
            .into_iter()
            .filter_map(|who| self.sign_outs.get(&(account, who)))
            .any(|rank| *rank > read);
        signed_out.then_some(Removal::SignedOut)
    }

    pub(super) fn len(&self) -> usize {
        self.standings.len() + self.sign_outs.len()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::nil());

    fn device(number: u128) -> DeviceId {
        DeviceId::from_uuid(Uuid::from_u128(number))
    }

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_unix_micros(micros)
    }

    fn rank(number: u64) -> RegistrationSequence {
        RegistrationSequence(number)
    }

    /// What came after a registration that was read, with its facts, at this rank.
    fn after(removals: &Removals, number: u128, facts: u64) -> Option<Removal> {
        removals.came_after(ACCOUNT, device(number), rank(facts), rank(facts))
    }

    /// REG-11, EV-5: a hide counts against what was checked before it, until the desktop is shown,
    /// in whatever order the two are heard of.
    #[test]
    fn a_hide_counts_against_earlier_checks() {
        let desktop = (ACCOUNT, device(0));
        let mut removals = Removals::default();
        assert_eq!(after(&removals, 0, 0), None);
        assert!(removals.note(desktop, Standing::Hidden, at(10), rank(5)));
        assert_eq!(after(&removals, 0, 4), Some(Removal::Hidden));
        assert_eq!(after(&removals, 0, 6), None);
        assert!(removals.note(desktop, Standing::Admitted, at(20), rank(7)));
        assert_eq!(after(&removals, 0, 4), None);
        assert_eq!(after(&removals, 0, 6), None);
        let came_late = removals.note(desktop, Standing::Hidden, at(15), rank(8));
        assert!(!came_late);
        assert_eq!(after(&removals, 0, 4), None);

        removals.drop_note(desktop, at(10));
        assert_eq!(removals.len(), 1);
        removals.drop_note(desktop, at(20));
        assert_eq!(removals.len(), 0);
    }

    /// REG-11: a forget counts until the device rejoins; a hide that was stored before it and is heard
    /// of later does not hide that.
    #[test]
    fn a_forget_counts_until_the_device_rejoins() {
        let phone = (ACCOUNT, device(1));
        let mut removals = Removals::default();
        assert!(removals.note(phone, Standing::Forgotten, at(10), rank(5)));
        assert!(!removals.note(phone, Standing::Hidden, at(9), rank(6)));
        assert_eq!(after(&removals, 1, 4), Some(Removal::Forgotten));
        assert_eq!(after(&removals, 2, 4), None);
        assert!(removals.note(phone, Standing::Admitted, at(11), rank(7)));
        assert_eq!(after(&removals, 1, 4), None);
    }

    /// PR-4: a change is told once, whoever else hears of it; the next one is another.
    #[test]
    fn each_change_is_told_once() {
        let phone = (ACCOUNT, device(1));
        let mut removals = Removals::default();
        assert!(!removals.is_to_be_told(phone));
        for moment in [10, 11] {
            assert!(removals.note(phone, Standing::Forgotten, at(moment), rank(5)));
            assert!(removals.is_to_be_told(phone));
            assert!(!removals.is_to_be_told(phone));
            assert!(removals.note(phone, Standing::Forgotten, at(moment), rank(6)));
            assert!(!removals.is_to_be_told(phone));
        }
    }

    /// REG-11, SES-2: a sign-out counts against registrations that were read before it, of its device or
    /// of all, and of no other account.
    #[test]
    fn a_sign_out_counts_against_what_was_read_before() {
        let mut removals = Removals::default();
        removals.note_sign_out((ACCOUNT, Some(device(1))), rank(5));
        assert_eq!(after(&removals, 1, 4), Some(Removal::SignedOut));
        assert_eq!(after(&removals, 1, 6), None);
        assert_eq!(after(&removals, 2, 4), None);
        // Read before, checked after: it was on its way when the user signed out.
        let checked_later = removals.came_after(ACCOUNT, device(1), rank(4), rank(6));
        assert_eq!(checked_later, Some(Removal::SignedOut));

        removals.note_sign_out((ACCOUNT, None), rank(9));
        assert_eq!(after(&removals, 2, 8), Some(Removal::SignedOut));
        let other = AccountId::from_uuid(Uuid::from_u128(1));
        let theirs = removals.came_after(other, device(2), rank(8), rank(8));
        assert_eq!(theirs, None);

        removals.note_sign_out((ACCOUNT, Some(device(1))), rank(10));
        removals.drop_sign_out((ACCOUNT, Some(device(1))), rank(5));
        assert_eq!(removals.len(), 2);
        removals.drop_sign_out((ACCOUNT, Some(device(1))), rank(10));
        removals.drop_sign_out((ACCOUNT, None), rank(9));
        assert_eq!(removals.len(), 0);
    }
}
