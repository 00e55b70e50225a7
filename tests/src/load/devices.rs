//! Who the load pretends to be: pairs of one desktop and one phone, each pair an account of its
//! own, with ids that follow from the pair's number, so that one run enrols the devices and the
//! next one uses them. A desktop may have more phones than the one of its pair.

use std::fmt;
use std::net::Ipv4Addr;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use relay_model::ids::{AccountId, DeviceId};
use relay_model::store::DeviceType;
use serde::Serialize;
use uuid::Uuid;

use super::error::LoadError;

/// A moment far away (2100-01-01T00:00:00Z): tokens of a load do not expire.
const NEVER: u64 = 4_102_444_800;

/// What the low half of an id says.
const ACCOUNT: u64 = 0x8000_0000_0000_00AC;
const DESKTOP: u64 = 0x8000_0000_0000_00DE;
const PHONE: u64 = 0x8000_0000_0000_00F0;
/// The number of a phone stands above the byte that tells it from a desktop.
const PHONE_NUMBER_SHIFT: u32 = 8;
/// The version nibble of a random UUID, in the high half.
const VERSION: u64 = 0x4000;

/// Sockets spread over this many client addresses, 127.0.0.2 onward, so that tens of thousands of
/// them do not run out of ports.
const SOURCE_ADDRESSES: usize = 8;

/// One desktop and the phone that is attached to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair(pub(super) usize);

impl Pair {
    pub(super) fn account(self) -> AccountId {
        AccountId::from_uuid(self.uuid(ACCOUNT))
    }

    pub(super) fn desktop(self) -> Device {
        self.device(Role::Desktop)
    }

    pub(super) fn phone(self) -> Device {
        self.nth_phone(0)
    }

    /// One of the phones of the pair's desktop; the first is the pair's own.
    pub(super) fn nth_phone(self, number: usize) -> Device {
        self.device(Role::Phone(number))
    }

    fn device(self, role: Role) -> Device {
        Device { pair: self, role }
    }

    fn uuid(self, low: u64) -> Uuid {
        Uuid::from_u64_pair((self.0 as u64) << 32 | VERSION, low)
    }
}

/// What a device is to its pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Desktop,
    Phone(usize),
}

/// One of the devices of a pair's account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) pair: Pair,
    role: Role,
}

impl Device {
    pub(super) fn id(self) -> DeviceId {
        let low = match self.role {
            Role::Desktop => DESKTOP,
            Role::Phone(number) => PHONE + ((number as u64) << PHONE_NUMBER_SHIFT),
        };
        DeviceId::from_uuid(self.pair.uuid(low))
    }

    pub(super) fn device_type(self) -> DeviceType {
        match self.role {
            Role::Desktop => DeviceType::Desktop,
            Role::Phone(_) => DeviceType::Mobile,
        }
    }

    /// `X-Client-Type` (TR-2).
    pub(super) fn client_type(self) -> &'static str {
        match self.device_type() {
            DeviceType::Desktop => "desktop",
            DeviceType::Mobile => "mobile",
        }
    }

    /// The loopback address that its socket comes from.
    pub(super) fn source(self) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 0, 2 + (self.pair.0 % SOURCE_ADDRESSES) as u8)
    }
}

/// Mints the tokens of the load's accounts with the secret that the server knows too.
#[derive(Clone)]
pub struct Credentials {
    key: EncodingKey,
}

#[derive(Serialize)]
struct Claims {
    sub: AccountId,
    exp: u64,
}

impl Credentials {
    /// Tokens signed with this HS256 secret (`auth.hs256_secret` of the server).
    ///
    /// # Errors
    /// When the secret is too short to sign with.
    pub fn new(secret: &str) -> Result<Self, LoadError> {
        let key = EncodingKey::from_secret(secret.as_bytes())
            .map_err(|error| LoadError::Token(error.to_string()))?;
        Ok(Self { key })
    }

    /// A user's token of the pair's account (HTTP-4).
    pub(super) fn token(&self, pair: Pair) -> Result<String, LoadError> {
        let claims = Claims {
            sub: pair.account(),
            exp: NEVER,
        };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.key)
            .map_err(|error| LoadError::Token(error.to_string()))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_another_one() {
        let mut ids = Vec::new();
        for number in [0, 1, 9_999] {
            let pair = Pair(number);
            ids.push(pair.account().to_string());
            ids.push(pair.desktop().id().to_string());
            for phone in [0, 1, 99] {
                ids.push(pair.nth_phone(phone).id().to_string());
            }
        }
        ids.sort();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all);
        assert_eq!(ids[0], "00000000-0000-4000-8000-0000000000ac");
    }

    #[test]
    fn the_secret_is_not_shown() {
        let credentials = Credentials::new("a secret of thirty-two bytes or more").unwrap();
        assert_eq!(format!("{credentials:?}"), "Credentials(redacted)");
        let token = credentials.token(Pair(1)).unwrap();
        assert_eq!(token.split('.').count(), 3);
    }
}
