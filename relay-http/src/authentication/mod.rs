//! Who speaks: from the headers of a request to an account and what it may do (HTTP-4).

mod api_key;
mod headers;
mod jwks;
mod renewal;
pub mod signing_secret;
#[cfg(test)]
mod still_world;
mod tokens;

use std::sync::Arc;

use actix_http::header::HeaderMap;
use relay_actors::Relay;
use relay_actors::environment::Environment;
use relay_model::credentials::Credentials;
use relay_model::ids::{AccountId, ApiKeyId};
use relay_model::store::{ApiKeyRow, StoreError, StoreFuture, StoredApiKey};
use relay_model::time::Timestamp;

pub use api_key::{ApiKey, NotAnApiKey};
pub use jwks::{PublicKeys, PublicKeysError};
pub use tokens::{ClaimRules, MintError, TokenError, TokenRefusal, UserToken, UserTokens};

use headers::Presented;

/// Why a request has no account. No message repeats a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// Nothing was sent.
    #[error("credentials are missing; send Authorization: Bearer <token>, or X-API-Key: <key>")]
    Missing,
    /// Neither a token nor a key.
    #[error("the Authorization header cannot be read; send Authorization: Bearer <token>")]
    UnknownScheme,
    /// A header that was sent more than once.
    #[error("the credentials were sent more than once")]
    Ambiguous,
    /// A token that is not valid.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// No key, or not the one that was given out.
    #[error("the API key is not known")]
    UnknownKey,
    /// A key that its owner ended.
    #[error("the API key was revoked")]
    RevokedKey,
    /// A key that ended by itself.
    #[error("the API key has expired")]
    ExpiredKey,
}

/// Why a request was not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticationError {
    /// Its credentials do not hold.
    #[error(transparent)]
    Refused(#[from] CredentialsError),
    /// Its token cannot be judged yet.
    #[error("{}", TokenRefusal::NoPublicKeys)]
    NoPublicKeys,
    /// Its key cannot be looked up.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<TokenRefusal> for AuthenticationError {
    fn from(refusal: TokenRefusal) -> Self {
        match refusal {
            TokenRefusal::Invalid(error) => Self::Refused(error.into()),
            TokenRefusal::NoPublicKeys => Self::NoPublicKeys,
        }
    }
}

/// How many of an account's keys have not ended at `now`.
pub(crate) fn live_keys(keys: &[ApiKeyRow], now: Timestamp) -> usize {
    let is_live = |key: &&ApiKeyRow| {
        key.revoked_at.is_none() && key.expires_at.is_none_or(|expires_at| expires_at > now)
    };
    keys.iter().filter(is_live).count()
}

/// Where API keys are looked up.
pub trait ApiKeyLookup: Send + Sync + 'static {
    /// The key with this id, ended or not.
    fn api_key(&self, id: ApiKeyId) -> StoreFuture<Option<StoredApiKey>>;
}

impl ApiKeyLookup for Relay {
    fn api_key(&self, id: ApiKeyId) -> StoreFuture<Option<StoredApiKey>> {
        let relay = self.clone();
        Box::pin(async move { Self::api_key(&relay, id).await })
    }
}

/// Who speaks, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Whose credentials they are.
    pub account: AccountId,
    /// What they allow, and until when.
    pub credentials: Credentials,
}

/// Tells who sent a request. Cheap to clone.
#[derive(Clone)]
pub struct Authenticator {
    tokens: UserTokens,
    keys: Arc<dyn ApiKeyLookup>,
    environment: Arc<dyn Environment>,
}

impl Authenticator {
    /// Accepts user tokens and API keys, which are judged by the clock of `environment`.
    pub fn new(
        tokens: UserTokens,
        keys: Arc<dyn ApiKeyLookup>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        Self {
            tokens,
            keys,
            environment,
        }
    }

    /// Whose credentials a request carries. A user token whose key is known is judged at once; an
    /// API key is looked up each time, so that a revoked one ends at once.
    ///
    /// # Errors
    /// When it carries none, they are not valid now, or nobody can tell.
    pub async fn identify(&self, headers: &HeaderMap) -> Result<Identity, AuthenticationError> {
        match headers::presented(headers)? {
            Presented::Token(token) => {
                let token = self.tokens.verify(token).await?;
                let expires_at = token.expires_at;
                Ok(Identity {
                    account: token.account,
                    credentials: Credentials::UserToken { expires_at },
                })
            }
            Presented::ApiKey(text) => {
                let key = text.parse().map_err(|_| CredentialsError::UnknownKey)?;
                self.identify_key(&key).await
            }
        }
    }

    async fn identify_key(&self, key: &ApiKey) -> Result<Identity, AuthenticationError> {
        let stored = self.keys.api_key(key.id()).await?;
        let StoredApiKey { row, .. } = stored
            .filter(|stored| key.matches(&stored.secret_hash))
            .ok_or(CredentialsError::UnknownKey)?;
        // Only whoever holds the secret learns that the key is over.
        if row.revoked_at.is_some() {
            return Err(CredentialsError::RevokedKey.into());
        }
        let now = self.environment.now();
        if row.expires_at.is_some_and(|end| end <= now) {
            return Err(CredentialsError::ExpiredKey.into());
        }
        Ok(Identity {
            account: row.account,
            credentials: Credentials::ApiKey {
                id: row.id,
                scopes: row.scopes,
                expires_at: row.expires_at,
            },
        })
    }
}
