//! When the credentials of a connection end (SES-6). Pure: both clocks are passed in.

use relay_model::credentials::Credentials;
use relay_model::limits::Limits;
use relay_model::time::Timestamp;
use tokio::time::Instant;

/// The end of one connection's credentials.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expiry {
    /// When they end; never, for a key without an expiry.
    ends_at: Option<Timestamp>,
    /// When to look at the wall clock next.
    next_look: Option<Instant>,
}

impl Expiry {
    /// The end of `credentials`: a token's `exp` with the leeway, a key's expiry.
    pub(super) fn new(
        credentials: &Credentials,
        wall: Timestamp,
        now: Instant,
        limits: &Limits,
    ) -> Self {
        let ends_at = match *credentials {
            Credentials::UserToken { expires_at } => Some(expires_at.plus(limits.token_leeway)),
            Credentials::ApiKey { expires_at, .. } => expires_at,
        };
        let mut expiry = Self {
            ends_at,
            next_look: None,
        };
        expiry.plan(wall, now, limits);
        expiry
    }

    /// When [`is_over`](Self::is_over) has to be asked next.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Whether the credentials have ended at `wall`; if not, plans the next look.
    pub(super) fn is_over(&mut self, wall: Timestamp, now: Instant, limits: &Limits) -> bool {
        let over = self.ends_at.is_some_and(|end| wall >= end);
        if !over {
            self.plan(wall, now, limits);
        }
        over
    }

    /// Moves the end to that of a token that expires at `expires_at`, unless the old one is later:
    /// two renewals may be checked at once, and neither shortens the other.
    pub(super) fn renew(
        &mut self,
        expires_at: Timestamp,
        wall: Timestamp,
        now: Instant,
        limits: &Limits,
    ) {
        let end = expires_at.plus(limits.token_leeway);
        self.ends_at = self.ends_at.map(|old| old.max(end));
        self.plan(wall, now, limits);
    }

    /// The wall clock may be set while a timer runs, so that it is looked at with the watchdog's
    /// interval at the latest.
    fn plan(&mut self, wall: Timestamp, now: Instant, limits: &Limits) {
        self.next_look = self
            .ends_at
            .map(|end| now + end.since(wall).min(limits.ping_interval));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use relay_model::credentials::Scopes;
    use relay_model::ids::ApiKeyId;
    use uuid::Uuid;

    use super::*;
    use crate::an_instant::start;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_micros(seconds * 1_000_000)
    }

    /// SES-6: a token holds until its `exp` and the leeway, a key until its expiry.
    #[test]
    fn tokens_end_with_the_leeway_and_keys_without() {
        let (limits, now) = (Limits::default(), start());
        let key = |expires_at| Credentials::ApiKey {
            id: ApiKeyId::from_uuid(Uuid::nil()),
            scopes: Scopes::all(),
            expires_at,
        };
        let token = Credentials::UserToken {
            expires_at: at(100),
        };
        for (credentials, end) in [(token, Some(130)), (key(Some(at(100))), Some(100))]
            .into_iter()
            .chain([(key(None), None)])
        {
            let mut expiry = Expiry::new(&credentials, at(0), now, &limits);
            assert_eq!(expiry.next_look().is_some(), end.is_some());
            let end = end.unwrap_or(1_000_000);
            assert!(!expiry.is_over(at(end - 1), now, &limits));
            let over = expiry.is_over(at(end), now, &limits);
            assert_eq!(over, expiry.next_look().is_some(), "{credentials:?}");
        }
    }

    /// SES-6: the end is found in time, also if the wall clock is set meanwhile.
    #[test]
    fn looks_are_planned_for_the_end_and_in_between() {
        let (limits, now) = (Limits::default(), start());
        let token = |expires_at| Credentials::UserToken { expires_at };
        let mut near = Expiry::new(&token(at(0)), at(20), now, &limits);
        assert_eq!(near.next_look(), Some(now + Duration::from_secs(10)));
        assert!(!near.is_over(at(25), now, &limits));
        assert_eq!(near.next_look(), Some(now + Duration::from_secs(5)));
        let far = Expiry::new(&token(at(i64::MAX / 2_000_000)), at(0), now, &limits);
        assert_eq!(far.next_look(), Some(now + limits.ping_interval));
        let past = Expiry::new(&token(at(0)), at(1_000), now, &limits);
        assert_eq!(past.next_look(), Some(now));
    }

    /// SES-6: a renewal moves the end on, never back.
    #[test]
    fn renewals_never_shorten() {
        let (limits, now) = (Limits::default(), start());
        let token = Credentials::UserToken {
            expires_at: at(100),
        };
        let mut expiry = Expiry::new(&token, at(0), now, &limits);
        expiry.renew(at(50), at(0), now, &limits);
        assert!(!expiry.is_over(at(129), now, &limits));
        expiry.renew(at(200), at(0), now, &limits);
        assert!(!expiry.is_over(at(229), now, &limits));
        assert!(expiry.is_over(at(230), now, &limits));
    }
}
