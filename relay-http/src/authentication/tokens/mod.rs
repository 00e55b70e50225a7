//! User tokens (HTTP-4): JWTs signed with the relay's own secret (HS256) or with a public key of an
//! identity provider. A token's `alg` only says which of the configured keys to try: each key is used
//! with one algorithm, its own. Time comes from the caller or from [`Environment`], so that a test can
//! stand before and after a deadline.

mod claims;
mod shared_secret;

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::Algorithm;
use relay_actors::environment::Environment;
use relay_model::ids::AccountId;
use relay_model::time::Timestamp;

use super::jwks::{KeySet, PublicKeys};
use crate::configuration::Secret;
use shared_secret::SharedSecret;

pub(super) use claims::signature_only;
pub use claims::{ClaimRules, UserToken};
pub use shared_secret::MintError;

/// Why a token is not accepted. No message repeats any part of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a JWT, or claims of the wrong type.
    #[error("the token is not a well-formed JWT")]
    Malformed,
    /// Signed with an algorithm that is not configured or not its key's, or not at all.
    #[error("the token is not signed with an algorithm that is accepted here")]
    WrongAlgorithm,
    /// Signed with another key, or altered.
    #[error("the token's signature does not match")]
    WrongSignature,
    /// Its `kid` is none of the published keys.
    #[error("the token is signed with a key that is not known here (kid); get a new one")]
    UnknownKey,
    /// No `kid`, and several keys in question.
    #[error("the token does not name its key (kid), and more than one could have signed it")]
    KeyNotNamed,
    /// No `exp`.
    #[error("the token has no expiry (exp)")]
    NoExpiry,
    /// `exp` has passed.
    #[error("the token has expired; get a new one")]
    Expired,
    /// `nbf` has not come.
    #[error("the token is not valid yet (nbf)")]
    NotYetValid,
    /// `iss` is not the one that is configured.
    #[error("the token comes from an issuer (iss) that is not accepted here")]
    WrongIssuer,
    /// `aud` lacks the one that is configured.
    #[error("the token is for another audience (aud)")]
    WrongAudience,
    /// `sub` is missing or no UUID.
    #[error("the token's subject (sub) is not an account's UUID")]
    NotAnAccount,
}

/// Why a token was not judged good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// It is not.
    #[error(transparent)]
    Invalid(#[from] TokenError),
    /// Nobody can tell: the public keys could not be read yet.
    #[error("the relay could not read its identity provider's keys yet; try again later")]
    NoPublicKeys,
}

/// Checks user tokens, and makes them if it has the secret. Cheap to clone.
#[derive(Clone)]
pub struct UserTokens(Arc<Inner>);

struct Inner {
    rules: ClaimRules,
    secret: Option<SharedSecret>,
    public_keys: Option<PublicKeys>,
    environment: Arc<dyn Environment>,
}

/// The algorithm and the key that a token claims for itself.
struct Signature {
    algorithm: Algorithm,
    key: Option<String>,
}

impl UserTokens {
    /// Tokens under `rules`, signed with `secret` or one of `public_keys`, judged by the clock of
    /// `environment`. Without either no token is accepted.
    ///
    /// # Errors
    /// When the cryptographic library refuses the secret, as it does an empty one.
    pub fn new(
        rules: ClaimRules,
        secret: Option<&Secret>,
        public_keys: Option<PublicKeys>,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, jsonwebtoken::errors::Error> {
        Ok(Self(Arc::new(Inner {
            rules,
            secret: secret.map(SharedSecret::new).transpose()?,
            public_keys,
            environment,
        })))
    }

    /// Whose `token` is. Waits only if it names a public key that is not known and the keys may be
    /// read again.
    ///
    /// # Errors
    /// When it is not a valid token of any account, or cannot be judged.
    pub async fn verify(&self, token: &str) -> Result<UserToken, TokenRefusal> {
        let Inner {
            secret,
            public_keys,
            environment,
            ..
        } = &*self.0;
        let Some(public_keys) = public_keys else {
            return Ok(self.verify_with_secret(token, environment.now())?);
        };
        let signature = signature(token)?;
        if signature.algorithm == Algorithm::HS256 && secret.is_some() {
            return Ok(self.verify_with_secret(token, environment.now())?);
        }
        if !PUBLIC_KEY_ALGORITHMS.contains(&signature.algorithm) {
            return Err(TokenError::WrongAlgorithm.into());
        }
        let sighting = public_keys.look();
        let first = self.verify_with_keys(token, &signature, sighting.keys.as_deref());
        let is_unknown = matches!(
            first,
            Err(TokenRefusal::NoPublicKeys | TokenRefusal::Invalid(TokenError::UnknownKey))
        );
        if !is_unknown {
            return first;
        }
        match public_keys.look_again(&sighting).await {
            Some(newer) => self.verify_with_keys(token, &signature, newer.keys.as_deref()),
            None => first,
        }
    }

    fn verify_with_secret(&self, token: &str, now: Timestamp) -> Result<UserToken, TokenError> {
        let Inner { rules, secret, .. } = &*self.0;
        let secret = secret.as_ref().ok_or(TokenError::WrongAlgorithm)?;
        rules.judge(secret.claims(token)?, now)
    }

    fn verify_with_keys(
        &self,
        token: &str,
        signature: &Signature,
        keys: Option<&KeySet>,
    ) -> Result<UserToken, TokenRefusal> {
        let keys = keys.ok_or(TokenRefusal::NoPublicKeys)?;
        let key = keys.find(signature.algorithm, signature.key.as_deref())?;
        let claims = claims::signed_claims(token, &key.decoding, &key.validation)?;
        Ok(self.0.rules.judge(claims, self.0.environment.now())?)
    }

    /// A token for `account` that is valid from now on for `lifetime`, rounded up to whole seconds.
    ///
    /// # Errors
    /// When there is no secret, or the cryptographic library fails.
    pub fn mint(&self, account: AccountId, lifetime: Duration) -> Result<String, MintError> {
        let Inner {
            rules,
            secret,
            environment,
            ..
        } = &*self.0;
        let secret = secret.as_ref().ok_or(MintError::NoSecret)?;
        secret.mint(rules, account, environment.now(), lifetime)
    }
}

/// What a public key may be used with here.
const PUBLIC_KEY_ALGORITHMS: [Algorithm; 3] =
    [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

fn signature(token: &str) -> Result<Signature, TokenError> {
    let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Malformed)?;
    Ok(Signature {
        algorithm: header.alg,
        key: header.kid,
    })
}

#[cfg(test)]
mod public_key_tests;
#[cfg(test)]
mod tests;
