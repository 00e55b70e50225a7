//! User tokens made by the tests themselves, so that `relay token` is never checked against itself.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde::Serialize;
use serde_json::Value;

use super::leaks::note_secret;
use super::process::SECRET;

/// What a token says.
#[derive(Debug, Clone, Serialize)]
pub struct Claims {
    /// The account.
    pub sub: String,
    /// When it expires, in seconds since 1970; left out if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp: Option<u64>,
    /// When it begins to hold, in seconds since 1970; left out if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbf: Option<u64>,
    /// Who made it; left out if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// Whom it is for; left out if null.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub aud: Value,
}

impl Claims {
    /// Of a token for `account` that holds for an hour.
    pub fn new(account: &str) -> Self {
        Self {
            sub: account.to_owned(),
            exp: Some(seconds_since_1970() + 3_600),
            nbf: None,
            iss: None,
            aud: Value::Null,
        }
    }

    /// The token, signed with HS256 and `secret`.
    pub fn sign(&self, secret: &str) -> String {
        self.sign_as(Algorithm::HS256, secret)
    }

    /// The token, signed with an algorithm of the HMAC family and `secret`.
    pub fn sign_as(&self, algorithm: Algorithm, secret: &str) -> String {
        let key = EncodingKey::from_secret(secret.as_bytes()).expect("a secret of any bytes");
        let token = encode(&Header::new(algorithm), self, &key);
        let token = token.expect("claims of this type can be signed");
        note_secret(&token);
        token
    }
}

/// A token for `account` that a relay of the tests accepts for an hour.
pub fn mint(account: &str) -> String {
    Claims::new(account).sign(SECRET)
}

#[allow(
    clippy::disallowed_methods,
    reason = "the relay under test judges tokens by the wall clock"
)]
fn seconds_since_1970() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("the clock is set").as_secs()
}
