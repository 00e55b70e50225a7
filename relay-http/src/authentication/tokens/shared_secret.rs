//! Tokens signed with HS256 and the relay's own secret: checked, and made by `relay token`.

use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use relay_model::ids::AccountId;
use relay_model::time::Timestamp;
use serde::Serialize;

use super::TokenError;
use super::claims::{ClaimRules, Claims, MICROS_PER_SECOND, signature_only, signed_claims};
use crate::configuration::Secret;

/// A token that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// There is no secret to sign with.
    #[error("there is no secret to sign a token with: set auth.hs256_secret or auth.secret_file")]
    NoSecret,
    /// The cryptographic library failed.
    #[error("the token could not be signed: {0}")]
    Unsigned(jsonwebtoken::errors::Error),
}

/// The secret in the forms that the library wants.
pub(super) struct SharedSecret {
    verifying: DecodingKey,
    signing: EncodingKey,
    validation: Validation,
}

#[derive(Serialize)]
struct MintedClaims<'a> {
    sub: AccountId,
    iat: i64,
    exp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

impl SharedSecret {
    pub(super) fn new(secret: &Secret) -> Result<Self, jsonwebtoken::errors::Error> {
        Ok(Self {
            verifying: DecodingKey::from_secret(secret.expose())?,
            signing: EncodingKey::from_secret(secret.expose())?,
            validation: signature_only(Algorithm::HS256),
        })
    }

    pub(super) fn claims(&self, token: &str) -> Result<Claims, TokenError> {
        signed_claims(token, &self.verifying, &self.validation)
    }

    pub(super) fn mint(
        &self,
        rules: &ClaimRules,
        account: AccountId,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<String, MintError> {
        let expiry = now.plus(lifetime).unix_micros();
        let claims = MintedClaims {
            sub: account,
            iat: now.unix_micros().div_euclid(MICROS_PER_SECOND),
            exp: expiry
                .saturating_add(MICROS_PER_SECOND - 1)
                .div_euclid(MICROS_PER_SECOND),
            iss: rules.issuer.as_deref(),
            aud: rules.audience.as_deref(),
        };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.signing)
            .map_err(MintError::Unsigned)
    }
}
