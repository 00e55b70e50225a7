//! What a token says and whether it holds: the checks that are the same whatever it is signed with
//! (HTTP-4).

use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use relay_model::ids::AccountId;
use relay_model::time::Timestamp;
use serde::{Deserialize, Deserializer};

use super::TokenError;

pub(super) const MICROS_PER_SECOND: i64 = 1_000_000;

/// What every token must say beside its account.
#[derive(Debug, Clone, Default)]
pub struct ClaimRules {
    /// How far `exp` and `nbf` may be off.
    pub leeway: Duration,
    /// The `iss` that is asked for, if one is.
    pub issuer: Option<String>,
    /// What `aud` must be or contain, if anything.
    pub audience: Option<String>,
}

/// A user token that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserToken {
    /// Whose it is.
    pub account: AccountId,
    /// Its `exp`, without the leeway.
    pub expires_at: Timestamp,
}

#[derive(Deserialize)]
pub(super) struct Claims {
    sub: Option<String>,
    exp: Option<NumericDate>,
    nbf: Option<NumericDate>,
    iss: Option<String>,
    aud: Option<Audience>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn contains(&self, wanted: &str) -> bool {
        match self {
            Self::One(one) => one == wanted,
            Self::Many(many) => many.iter().any(|one| one == wanted),
        }
    }
}

/// Seconds since 1970, fractions allowed (RFC 7519, section 2).
#[derive(Clone, Copy)]
struct NumericDate(Timestamp);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let micros = match number.as_i64() {
            Some(seconds) => seconds.saturating_mul(MICROS_PER_SECOND),
            // A cast from floating point saturates.
            None => (number.as_f64().unwrap_or(f64::MAX) * MICROS_PER_SECOND as f64) as i64,
        };
        Ok(Self(Timestamp::from_unix_micros(micros)))
    }
}

/// How the library is told to check nothing but one algorithm and the signature: times are compared
/// with the caller's clock, and the rest by [`ClaimRules`].
pub(in crate::authentication) fn signature_only(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    validation
}

/// The claims of a token that `key` signed.
pub(super) fn signed_claims(
    token: &str,
    key: &DecodingKey,
    validation: &Validation,
) -> Result<Claims, TokenError> {
    let decoded = jsonwebtoken::decode::<Claims>(token, key, validation);
    let decoded = decoded.map_err(|error| match error.kind() {
        ErrorKind::InvalidAlgorithm => TokenError::WrongAlgorithm,
        ErrorKind::InvalidSignature => TokenError::WrongSignature,
        _ => TokenError::Malformed,
    })?;
    Ok(decoded.claims)
}

impl ClaimRules {
    /// Whether `claims` hold at `now`.
    pub(super) fn judge(&self, claims: Claims, now: Timestamp) -> Result<UserToken, TokenError> {
        let NumericDate(expires_at) = claims.exp.ok_or(TokenError::NoExpiry)?;
        if expires_at.plus(self.leeway) <= now {
            return Err(TokenError::Expired);
        }
        if claims
            .nbf
            .is_some_and(|NumericDate(start)| start.minus(self.leeway) > now)
        {
            return Err(TokenError::NotYetValid);
        }
        if self.issuer.is_some() && self.issuer != claims.iss {
            return Err(TokenError::WrongIssuer);
        }
        if let Some(wanted) = &self.audience
            && !claims.aud.is_some_and(|audience| audience.contains(wanted))
        {
            return Err(TokenError::WrongAudience);
        }
        let account = claims
            .sub
            .and_then(|sub| sub.parse().ok())
            .ok_or(TokenError::NotAnAccount)?;
        Ok(UserToken {
            account,
            expires_at,
        })
    }
}
