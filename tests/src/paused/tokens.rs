//! The user tokens of a simulated run: an account and an expiry in plain text, checked after as long
//! as the token says, as one is whose key has to be fetched first.

use std::sync::Arc;
use std::time::Duration;

use relay_actors::credentials::{NotVerified, TokenVerifier, Verification, VerifiedToken};
use relay_actors::environment::Environment;
use relay_model::ids::AccountId;
use relay_model::time::Timestamp;

/// A token of `account` until `expires_at`, whose check takes `delay`.
pub fn token(account: AccountId, expires_at: Timestamp, delay: Duration) -> String {
    format!(
        "{account} {} {}",
        expires_at.unix_micros(),
        delay.as_millis()
    )
}

/// Takes what [`token`] makes.
pub(super) struct SimulatedTokens(pub(super) Arc<dyn Environment>);

impl TokenVerifier for SimulatedTokens {
    fn verify(&self, token: String) -> Verification {
        let environment = Arc::clone(&self.0);
        Box::pin(async move {
            let (verified, delay) = read(&token).ok_or(NotVerified::Invalid)?;
            tokio::time::sleep(delay).await;
            let valid = environment.now() < verified.expires_at;
            if valid {
                Ok(verified)
            } else {
                Err(NotVerified::Invalid)
            }
        })
    }
}

fn read(token: &str) -> Option<(VerifiedToken, Duration)> {
    let mut words = token.split(' ');
    let account = words.next()?.parse().ok()?;
    let expires_at = Timestamp::from_unix_micros(words.next()?.parse().ok()?);
    let delay = Duration::from_millis(words.next()?.parse().ok()?);
    Some((
        VerifiedToken {
            account,
            expires_at,
        },
        delay,
    ))
}
