//! A door for tests: a clock that stands still, tokens for it, and answers as plain text.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use relay_actors::environment::{Environment, FatalFault};
use relay_http::authentication::{Authenticator, UserTokens};
use relay_http::configuration::Secret;
use relay_model::ids::ResumeToken;
use relay_model::time::Timestamp;
use uuid::Uuid;

/// The account of most tests.
pub(crate) const ACCOUNT: &str = "7f1c2f5e-0c0a-4d3b-9a51-2b8f6f9d7e10";
/// Another one.
pub(crate) const OTHER_ACCOUNT: &str = "0d9a7f1e-52a4-4f0e-8a53-9f3f4f6f2b11";

/// 2027-01-15, for ever.
const NOW: Timestamp = Timestamp::from_unix_micros(1_800_000_000_000_000);
const LEEWAY: Duration = Duration::from_secs(30);

/// A world in which time stands still and ids are counted.
#[derive(Debug, Default)]
pub(crate) struct StillWorld {
    ids: AtomicU64,
}

impl Environment for StillWorld {
    fn now(&self) -> Timestamp {
        NOW
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

fn tokens() -> UserTokens {
    UserTokens::new(
        &Secret::new("a secret of these tests, long enough".to_owned()),
        LEEWAY,
    )
    .unwrap()
}

/// Who knows the tokens of [`token`].
pub(crate) fn authenticator() -> Authenticator {
    Authenticator::new(tokens(), Arc::new(StillWorld::default()))
}

/// A valid token of `account`.
pub(crate) fn token(account: &str) -> String {
    tokens()
        .mint(account.parse().unwrap(), NOW, Duration::from_secs(60))
        .unwrap()
}

/// A token of `account` that has expired.
pub(crate) fn expired_token(account: &str) -> String {
    let long_ago = NOW.minus(Duration::from_secs(3_600));
    tokens()
        .mint(account.parse().unwrap(), long_ago, Duration::from_secs(60))
        .unwrap()
}
