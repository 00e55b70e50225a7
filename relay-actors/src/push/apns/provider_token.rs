//! The tokens by which Apple knows who pushes: signed by the operator's key, and used for 20 to 60
//! minutes by all pushes. Apple takes no older ones, and no newer ones more often.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use relay_model::limits::{PROVIDER_TOKEN_LIFETIME, PROVIDER_TOKEN_PAUSE};
use relay_model::time::Timestamp;
use serde::Serialize;
use tokio::time::Instant;

use super::ApnsSettings;
use crate::environment::Environment;

/// A signed token. Neither shown nor logged (PUSH-5).
pub(super) struct ProviderToken {
    header: String,
    signed: Instant,
    signed_at: Timestamp,
}

impl ProviderToken {
    /// The value of `authorization`.
    pub(super) fn header(&self) -> &str {
        &self.header
    }
}

/// The token in use, and what the next one is signed with.
pub(super) struct ProviderTokens {
    key: EncodingKey,
    header: Header,
    team: String,
    environment: Arc<dyn Environment>,
    current: ArcSwapOption<ProviderToken>,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    iat: i64,
}

impl ProviderTokens {
    /// Tokens of these settings' key.
    ///
    /// # Errors
    /// When the key cannot sign.
    pub(super) fn new(
        settings: &ApnsSettings,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, jsonwebtoken::errors::Error> {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(settings.key_id.clone());
        let tokens = Self {
            key: EncodingKey::from_ec_pem(settings.key.as_bytes())?,
            header,
            team: settings.team_id.clone(),
            environment,
            current: ArcSwapOption::empty(),
        };
        let claims = Claims { iss: "", iat: 0 };
        jsonwebtoken::encode(&tokens.header, &claims, &tokens.key)?;
        Ok(tokens)
    }

    /// The token in use, renewed well before Apple calls it too old.
    pub(super) fn current(&self) -> Arc<ProviderToken> {
        match self.current.load_full() {
            Some(token) if self.age(&token) < PROVIDER_TOKEN_LIFETIME => token,
            _ => self.sign(),
        }
    }

    /// The token to use after Apple has called `expired` too old; `None` if Apple would take no newer
    /// one yet, because it is young by this machine's clock.
    pub(super) fn renewed(&self, expired: &Arc<ProviderToken>) -> Option<Arc<ProviderToken>> {
        let current = self.current.load_full();
        if let Some(current) = current.filter(|current| !Arc::ptr_eq(current, expired)) {
            return Some(current);
        }
        (self.age(expired) >= PROVIDER_TOKEN_PAUSE).then(|| self.sign())
    }

    /// By whichever clock says more: one stands still while a machine sleeps, the other may be set back.
    fn age(&self, token: &ProviderToken) -> std::time::Duration {
        let now = self.environment.now();
        token.signed.elapsed().max(now.since(token.signed_at))
    }

    fn sign(&self) -> Arc<ProviderToken> {
        let signed_at = self.environment.now();
        let claims = Claims {
            iss: &self.team,
            iat: signed_at.unix_micros() / 1_000_000,
        };
        // The key has signed before; without a token Apple refuses the push and says so.
        let jwt = jsonwebtoken::encode(&self.header, &claims, &self.key).unwrap_or_default();
        let token = Arc::new(ProviderToken {
            header: format!("bearer {jwt}"),
            signed: Instant::now(),
            signed_at,
        });
        self.current.store(Some(Arc::clone(&token)));
        token
    }
}
