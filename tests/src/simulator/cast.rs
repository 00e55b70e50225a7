//! Who takes part in a run: accounts, desktops and phones, named by small numbers that a trace can
//! be read by.

use std::collections::BTreeMap;
use std::fmt;

use relay_actors::environment::Environment;
use relay_model::ids::{AccountId, DeviceId};
use relay_model::store::DeviceType;

use super::dice::Dice;

/// Desktops of a run, each with one phone or two.
const DESKTOPS: usize = 20;

/// A device, by its place in the cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceNo(pub usize);

impl fmt::Display for DeviceNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}", self.0)
    }
}

/// An account, by its place in the cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountNo(pub usize);

impl fmt::Display for AccountNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a{}", self.0)
    }
}

/// One device.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    /// Its id.
    pub id: DeviceId,
    /// Its account.
    pub account: AccountNo,
    /// What it is.
    pub kind: DeviceType,
    /// The desktop that a phone wants at first.
    pub target: Option<DeviceNo>,
}

/// Everybody.
#[derive(Debug, Clone, Default)]
pub struct Cast {
    /// The accounts.
    pub accounts: Vec<AccountId>,
    members: Vec<Member>,
    by_id: BTreeMap<DeviceId, DeviceNo>,
}

impl Cast {
    /// Draws a cast: most accounts have one desktop, some have two.
    pub fn draw(dice: &mut Dice, environment: &dyn Environment) -> Self {
        let mut cast = Self::default();
        let mut desktops = 0;
        while desktops < DESKTOPS {
            let account = AccountNo(cast.accounts.len());
            cast.accounts
                .push(AccountId::from_uuid(environment.new_uuid()));
            for _ in 0..if dice.chance(40) { 2 } else { 1 } {
                desktops += 1;
                let desktop = cast.add(account, DeviceType::Desktop, None, environment);
                for _ in 0..dice.between(1..=2) {
                    cast.add(account, DeviceType::Mobile, Some(desktop), environment);
                }
            }
        }
        cast
    }

    fn add(
        &mut self,
        account: AccountNo,
        kind: DeviceType,
        target: Option<DeviceNo>,
        environment: &dyn Environment,
    ) -> DeviceNo {
        let (number, id) = (
            DeviceNo(self.members.len()),
            DeviceId::from_uuid(environment.new_uuid()),
        );
        self.members.push(Member {
            id,
            account,
            kind,
            target,
        });
        self.by_id.insert(id, number);
        number
    }

    /// A device.
    pub fn member(&self, device: DeviceNo) -> &Member {
        &self.members[device.0]
    }

    /// All devices.
    pub fn devices(&self) -> impl Iterator<Item = DeviceNo> + use<> {
        (0..self.members.len()).map(DeviceNo)
    }

    /// The devices of an account.
    pub fn of_account(&self, account: AccountNo) -> impl Iterator<Item = DeviceNo> {
        self.devices()
            .filter(move |device| self.member(*device).account == account)
    }

    /// The desktops of an account.
    pub fn desktops_of(&self, account: AccountNo) -> impl Iterator<Item = DeviceNo> {
        self.of_account(account)
            .filter(|device| self.is_desktop(*device))
    }

    /// Whether a device is a desktop.
    pub fn is_desktop(&self, device: DeviceNo) -> bool {
        self.member(device).kind == DeviceType::Desktop
    }

    /// The device of an id as it stands on the wire.
    pub fn find(&self, id: &str) -> Option<DeviceNo> {
        self.by_id.get(&id.parse().ok()?).copied()
    }
}

impl fmt::Display for Cast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for device in self.devices() {
            let member = self.member(device);
            let kind = if self.is_desktop(device) {
                "desktop"
            } else {
                "phone"
            };
            writeln!(f, "{device} {kind} of {}: {}", member.account, member.id)?;
        }
        Ok(())
    }
}
