//! A door for tests: a clock that stands still, tokens for it, and answers as plain text.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use relay_actors::environment::{Environment, FatalFault};
use relay_http::authentication::{ApiKey, ApiKeyLookup, Authenticator, ClaimRules, UserTokens};
use relay_http::configuration::Secret;
use relay_model::ids::{ApiKeyId, ResumeToken};
use relay_model::store::{ApiKeyRow, StoreError, StoreFuture, StoredApiKey};
use relay_model::time::Timestamp;
use uuid::Uuid;

/// The account of most tests.
pub(crate) const ACCOUNT: &str = "7f1c2f5e-0c0a-4d3b-9a51-2b8f6f9d7e10";
/// Another one.
pub(crate) const OTHER_ACCOUNT: &str = "0d9a7f1e-52a4-4f0e-8a53-9f3f4f6f2b11";

/// 2027-01-15, for ever.
pub(crate) const NOW: Timestamp = Timestamp::from_unix_micros(1_800_000_000_000_000);
const LEEWAY: Duration = Duration::from_secs(30);

/// A world in which time stands still and ids are counted.
#[derive(Debug)]
pub(crate) struct StillWorld {
    now: Timestamp,
    ids: AtomicU64,
}

impl Default for StillWorld {
    fn default() -> Self {
        Self::at(NOW)
    }
}

impl StillWorld {
    fn at(now: Timestamp) -> Self {
        Self {
            now,
            ids: AtomicU64::new(0),
        }
    }
}

impl Environment for StillWorld {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn new_uuid(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.ids.fetch_add(1, Ordering::Relaxed)))
    }

    fn new_resume_token(&self) -> ResumeToken {
        ResumeToken::from_bytes([self.ids.fetch_add(1, Ordering::Relaxed) as u8; 32])
    }

    fn fatal(&self, fault: FatalFault) {
        // Not a panic, because an actor may be unwinding from one already.
        eprintln!("{fault}");
    }
}

pub(crate) fn tokens(now: Timestamp) -> UserTokens {
    let rules = ClaimRules {
        leeway: LEEWAY,
        ..ClaimRules::default()
    };
    let secret = Secret::new("a secret of these tests, long enough".to_owned());
    UserTokens::new(rules, Some(&secret), None, Arc::new(StillWorld::at(now))).unwrap()
}

/// Who knows the tokens of [`token`] and the API keys of `keys`.
pub(crate) fn authenticator_with(keys: Arc<dyn ApiKeyLookup>) -> Authenticator {
    Authenticator::new(tokens(NOW), keys, Arc::new(StillWorld::default()))
}

/// Who knows the tokens of [`token`] and no API keys.
pub(crate) fn authenticator() -> Authenticator {
    authenticator_with(Arc::new(KeyRing::default()))
}

/// A valid token of `account`.
pub(crate) fn token(account: &str) -> String {
    let account = account.parse().unwrap();
    tokens(NOW).mint(account, Duration::from_secs(60)).unwrap()
}

/// A token of `account` that has expired.
pub(crate) fn expired_token(account: &str) -> String {
    let long_ago = NOW.minus(Duration::from_secs(3_600));
    let account = account.parse().unwrap();
    tokens(long_ago)
        .mint(account, Duration::from_secs(60))
        .unwrap()
}

/// API keys without a database.
pub(crate) struct KeyRing {
    /// The keys; `None` for a database that is away.
    keys: Option<Vec<StoredApiKey>>,
}

impl Default for KeyRing {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl KeyRing {
    /// A database that is away.
    pub(crate) fn unavailable() -> Self {
        Self { keys: None }
    }

    /// These keys and no others.
    pub(crate) fn of(keys: Vec<StoredApiKey>) -> Self {
        Self { keys: Some(keys) }
    }
}

impl ApiKeyLookup for KeyRing {
    fn api_key(&self, id: ApiKeyId) -> StoreFuture<Option<StoredApiKey>> {
        let found = match &self.keys {
            Some(keys) => Ok(keys.iter().find(|key| key.row.id == id).cloned()),
            None => Err(StoreError::Unavailable("it is away".to_owned())),
        };
        Box::pin(std::future::ready(found))
    }
}

/// A key of [`ACCOUNT`] with these scopes, and what a database keeps of it.
pub(crate) fn api_key(scopes: &str, change: impl FnOnce(&mut ApiKeyRow)) -> (String, StoredApiKey) {
    let key = ApiKey::generate(OTHER_ACCOUNT.parse().unwrap()).unwrap();
    let mut row = ApiKeyRow {
        id: key.id(),
        account: ACCOUNT.parse().unwrap(),
        name: None,
        scopes: scopes.parse().unwrap(),
        created_at: NOW,
        expires_at: None,
        revoked_at: None,
    };
    change(&mut row);
    let secret_hash = key.hash();
    (key.reveal().to_string(), StoredApiKey { row, secret_hash })
}
