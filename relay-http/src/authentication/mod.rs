//! Who speaks: from the headers of a request to an account (HTTP-4).

mod headers;
pub mod signing_secret;
mod tokens;

use std::sync::Arc;

use actix_http::header::HeaderMap;
use relay_actors::environment::Environment;
use relay_model::ids::AccountId;

pub use tokens::{MintError, TokenError, UserTokens};

/// Why a request has no account. No message repeats a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// Nothing was sent.
    #[error("credentials are missing; send Authorization: Bearer <token>")]
    Missing,
    /// An API key.
    #[error("API keys are not accepted here; send Authorization: Bearer <token>")]
    ApiKey,
    /// Neither a token nor a key.
    #[error("the Authorization header cannot be read; send Authorization: Bearer <token>")]
    UnknownScheme,
    /// More than one `Authorization` header.
    #[error("the Authorization header was sent more than once")]
    Ambiguous,
    /// A token that is not valid.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// Tells the account of a request. Cheap to clone.
#[derive(Clone)]
pub struct Authenticator {
    tokens: Arc<UserTokens>,
    environment: Arc<dyn Environment>,
}

impl Authenticator {
    /// Accepts user tokens, judged by the clock of `environment`.
    pub fn new(tokens: UserTokens, environment: Arc<dyn Environment>) -> Self {
        Self {
            tokens: Arc::new(tokens),
            environment,
        }
    }

    /// The account whose credentials a request carries.
    ///
    /// # Errors
    /// When it carries none, or they are not valid now; answered with 401.
    pub fn account(&self, headers: &HeaderMap) -> Result<AccountId, CredentialsError> {
        let token = headers::bearer_token(headers)?;
        Ok(self.tokens.verify(token, self.environment.now())?)
    }
}
