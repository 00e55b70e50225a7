//! What a phone is reached by when it is not connected (section 12): the token that its push service
//! gave it, and what became of what was sent.

use std::fmt;
use std::str::FromStr;

use diesel::deserialize::FromSqlRow;
use diesel::expression::AsExpression;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::{AccountId, DeviceId};
use crate::limits::PUSH_TOKEN_BYTES;
use crate::time::Timestamp;

/// The address of a phone at its push service. Whoever has it can try to wake the phone, so neither
/// `Debug` nor any error shows it (PUSH-5).
#[derive(Clone, PartialEq, Eq)]
pub struct PushToken(String);

/// A text that no push service gives out as a token. It is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {PUSH_TOKEN_BYTES} visible ASCII characters")]
pub struct NotAPushToken;

impl PushToken {
    /// The token itself, for its push service and the database.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What tokens are told apart by.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl FromStr for PushToken {
    type Err = NotAPushToken;

    fn from_str(text: &str) -> Result<Self, NotAPushToken> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if visible && (1..=PUSH_TOKEN_BYTES).contains(&text.len()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAPushToken)
        }
    }
}

impl fmt::Debug for PushToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PushToken(redacted)")
    }
}

/// The kind of phone, which decides the push service (PUSH-1).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    AsExpression,
    FromSqlRow,
)]
#[serde(rename_all = "lowercase")]
#[diesel(sql_type = diesel::sql_types::Text)]
pub enum PushPlatform {
    /// Reached by APNs.
    Ios,
    /// Reached by FCM.
    Android,
}

/// Which of Apple's two services gave out a token: apps that a developer runs get theirs from the
/// sandbox.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, AsExpression, FromSqlRow,
)]
#[serde(rename_all = "lowercase")]
#[diesel(sql_type = diesel::sql_types::Text)]
pub enum PushEnvironment {
    /// Apps from the store and TestFlight.
    Production,
    /// Apps built for development.
    Sandbox,
}

/// What became of a push.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    AsExpression,
    FromSqlRow,
)]
#[serde(rename_all = "snake_case")]
#[diesel(sql_type = diesel::sql_types::Text)]
pub enum PushOutcome {
    /// The service took it.
    Delivered,
    /// The service says that the token is gone (PUSH-4).
    TokenGone,
    /// The service takes no such message for this token; the token stays.
    Rejected,
    /// The service refuses the relay's credentials.
    Refused,
    /// It was tried until its time was over (PUSH-4).
    Expired,
    /// It never left: the queue was full, a later one replaced it, or the relay stopped.
    Dropped,
    /// One attempt failed, and another one follows (PUSH-4).
    Retried,
}

/// What a phone says of its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPushToken {
    /// Decides the service.
    pub platform: PushPlatform,
    /// For iOS; `None` keeps what is known of the same token, else it is production. Not kept for
    /// Android.
    pub environment: Option<PushEnvironment>,
    /// The token.
    pub token: PushToken,
}

/// A phone's token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushTokenRow {
    /// The phone.
    pub device: DeviceId,
    /// Its owner.
    pub account: AccountId,
    /// Decides the service.
    pub platform: PushPlatform,
    /// For iOS, if the phone said it.
    pub environment: Option<PushEnvironment>,
    /// The token.
    pub token: PushToken,
    /// When the phone last said that this is its token.
    pub registered_at: Timestamp,
    /// What became of the last push to it, and when.
    pub last_outcome: Option<(PushOutcome, Timestamp)>,
}

impl PushTokenRow {
    /// The registration that this row stands for.
    pub fn registration(&self) -> PushRegistration {
        PushRegistration {
            device: self.device,
            token_hash: self.token.hash(),
            registered_at: self.registered_at,
        }
    }
}

/// One registration of a token: a phone that registers the same token again makes another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PushRegistration {
    /// The phone.
    pub device: DeviceId,
    /// See [`PushToken::hash`].
    pub token_hash: [u8; 32],
    /// When it was made.
    pub registered_at: Timestamp,
}

impl fmt::Debug for PushRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushRegistration")
            .field("device", &self.device)
            .field("registered_at", &self.registered_at)
            .finish_non_exhaustive()
    }
}

/// What became of a push to a phone, to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushOutcomeWrite {
    /// The token that it was sent to; another one's outcome is not touched.
    pub registration: PushRegistration,
    /// What became of it.
    pub outcome: PushOutcome,
    /// When that was known.
    pub at: Timestamp,
}

/// What came of setting a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushTokenSetting {
    /// The phone has the token, and no other device has it.
    Set,
    /// No row of this id; nothing changed.
    Unknown,
    /// The id belongs to another account (HTTP-1); nothing changed.
    Foreign,
    /// The device was forgotten; nothing changed.
    Forgotten,
    /// Desktops are not pushed to; nothing changed.
    NotAPhone,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PUSH-5: a token is never printed, and neither is its hash.
    #[test]
    fn tokens_are_not_shown() {
        let token: PushToken = "pushtoken-of-a-phone".parse().unwrap();
        let at = Timestamp::from_unix_micros(0);
        let row = PushTokenRow {
            device: DeviceId::from_uuid(uuid::Uuid::from_u128(1)),
            account: AccountId::from_uuid(uuid::Uuid::from_u128(2)),
            platform: PushPlatform::Ios,
            environment: None,
            token: token.clone(),
            registered_at: at,
            last_outcome: None,
        };
        let hash = format!("{:?}", token.hash());
        for shown in [
            format!("{token:?}"),
            format!("{row:?}"),
            format!("{:?}", row.registration()),
        ] {
            assert!(!shown.contains("pushtoken"), "{shown}");
            assert!(!shown.contains(&hash), "{shown}");
        }
    }

    /// Section 11: tokens of 1 to 4,096 visible ASCII characters are taken.
    #[test]
    fn what_is_no_token_is_refused() {
        let longest = "x".repeat(PUSH_TOKEN_BYTES);
        for good in ["a", "a1:B-_.~", &longest] {
            let token: PushToken = good.parse().unwrap();
            assert_eq!(token.reveal(), good);
        }
        for bad in ["", " ", "a b", "a\n", "a\0", "é", &format!("{longest}x")] {
            assert_eq!(bad.parse::<PushToken>(), Err(NotAPushToken), "{bad:?}");
        }
    }
}
