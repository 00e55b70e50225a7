//! Identifiers as types of their own, parsed once at the edge, so that an account can never be
//! passed where a device is meant and a resume token can never be printed.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

/// A string that should have been a UUID and is not. It does not repeat the string, which comes
/// from a stranger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a UUID; expected the form 123e4567-e89b-12d3-a456-426614174000")]
pub struct NotAUuid;

/// UUIDs are read in the hyphenated form only, in any case (TR-2): the other forms that UUID
/// parsers know (braced, URN, without hyphens) would give one device several spellings.
fn parse_hyphenated(text: &str) -> Result<Uuid, NotAUuid> {
    if text.len() != 36 {
        return Err(NotAUuid);
    }
    Uuid::try_parse(text).map_err(|_| NotAUuid)
}

macro_rules! uuid_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps a UUID that is known to name one of these.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The UUID itself, for storage.
            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = NotAUuid;

            fn from_str(text: &str) -> Result<Self, NotAUuid> {
                parse_hyphenated(text).map(Self)
            }
        }
    };
}

uuid_newtype! {
    /// A user: the `sub` of a user's token (HTTP-4).
    AccountId
}
uuid_newtype! {
    /// A phone or a desktop; chosen by the client, a row in the database.
    DeviceId
}
uuid_newtype! {
    /// One WebSocket, from its upgrade to its end.
    ConnectionId
}
uuid_newtype! {
    /// A relay session (SES-1).
    SessionId
}
uuid_newtype! {
    /// One run of the relay process (SES-5).
    RelayInstanceId
}
uuid_newtype! {
    /// An API key: the part of it that is no secret (HTTP-4).
    ApiKeyId
}

/// The rank of a desktop's connection: rises at each registration, over the whole process (PR-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConnectionGeneration(u64);

impl ConnectionGeneration {
    /// The generation with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number, for the wire and the database.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ConnectionGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Proof that a desktop knows of an interest in its session: issued when the first phone takes a lease,
/// gone with the last one; strictly rises over the whole process (TL-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuthorizationGeneration(NonZeroU64);

impl AuthorizationGeneration {
    /// The generation with this number.
    pub const fn new(number: NonZeroU64) -> Self {
        Self(number)
    }

    /// Its number, for the wire.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

/// The secret that continues a session (SES-4): 256 bits, base64url on the wire. Neither `Debug`
/// nor any error shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct ResumeToken([u8; ResumeToken::BYTES]);

impl ResumeToken {
    /// Its entropy in bytes: 256 bits (SES-4).
    pub const BYTES: usize = 32;

    /// A token of these random bytes.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The token as the client gets it.
    pub fn reveal(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// What the relay keeps of it.
    pub fn hash(&self) -> ResumeTokenHash {
        ResumeTokenHash(Sha256::digest(self.0).into())
    }
}

impl FromStr for ResumeToken {
    type Err = NotAResumeToken;

    fn from_str(text: &str) -> Result<Self, NotAResumeToken> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| NotAResumeToken)?;
        bytes.try_into().map(Self).map_err(|_| NotAResumeToken)
    }
}

impl fmt::Debug for ResumeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResumeToken(redacted)")
    }
}

/// A string that no relay has ever issued as a resume token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a resume token; register again without one")]
pub struct NotAResumeToken;

/// The hash of a [`ResumeToken`], the only form in which the relay keeps it (SES-4).
#[derive(Clone, Copy)]
pub struct ResumeTokenHash([u8; 32]);

impl ResumeTokenHash {
    /// Whether `token` is the one that was hashed, in constant time.
    pub fn matches(&self, token: &ResumeToken) -> bool {
        self.0.ct_eq(&token.hash().0).into()
    }
}

impl fmt::Debug for ResumeTokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResumeTokenHash(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-2: ids compare without case and are emitted in lower case.
    #[test]
    fn ids_are_read_in_any_case_and_written_in_lower_case() {
        let upper: DeviceId = "123E4567-E89B-12D3-A456-426614174000".parse().unwrap();
        let lower: DeviceId = "123e4567-e89b-12d3-a456-426614174000".parse().unwrap();
        assert_eq!(upper, lower);
        assert_eq!(upper.to_string(), "123e4567-e89b-12d3-a456-426614174000");
    }

    #[test]
    fn other_spellings_of_a_uuid_are_refused() {
        for text in [
            "",
            "123e4567e89b12d3a456426614174000",
            "{123e4567-e89b-12d3-a456-426614174000}",
            "urn:uuid:123e4567-e89b-12d3-a456-426614174000",
            " 123e4567-e89b-12d3-a456-42661417400",
            "123e4567-e89b-12d3-a456-42661417400g",
        ] {
            assert_eq!(text.parse::<DeviceId>(), Err(NotAUuid), "{text:?}");
        }
    }

    /// SES-4: a token survives the wire, matches its hash only, and is never printed.
    #[test]
    fn resume_tokens_round_trip_and_stay_secret() {
        let token = ResumeToken::from_bytes([7; 32]);
        let revealed = token.reveal();
        let read: ResumeToken = revealed.parse().unwrap();
        assert!(token.hash().matches(&read));
        assert!(!token.hash().matches(&ResumeToken::from_bytes([8; 32])));
        let shown = format!("{token:?} {:?}", token.hash());
        assert!(!shown.contains(&revealed) && shown.contains("redacted"));
        for bad in ["", "AAAA", "!!!!", &format!("{revealed}A")] {
            assert!(bad.parse::<ResumeToken>().is_err(), "{bad:?}");
        }
    }
}
