//! Relay sessions (SES-1, SES-3, SES-4). Pure: time and secrets come as arguments.

use std::collections::BTreeMap;

use relay_model::ids::{AccountId, DeviceId, ResumeToken, ResumeTokenHash, SessionId};
use relay_model::limits::Limits;
use tokio::time::Instant;
use uuid::Uuid;

/// Whose session it is: a device has one (SES-1), bound to its account (SES-4).
pub(crate) type Owner = (AccountId, DeviceId);

#[derive(Debug)]
struct Session {
    id: SessionId,
    token: ResumeTokenHash,
    touched: Instant,
}

/// The sessions of the process.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// In order, so that those of one account stand together.
    by_owner: BTreeMap<Owner, Session>,
}

impl Sessions {
    /// Whether this session can be resumed with this token now.
    pub(crate) fn can_resume(
        &self,
        owner: Owner,
        id: SessionId,
        token: &ResumeToken,
        now: Instant,
        limits: &Limits,
    ) -> bool {
        self.by_owner.get(&owner).is_some_and(|session| {
            // The token is compared whatever the id, so that the time tells nothing.
            let token_matches = session.token.matches(token);
            session.id == id && token_matches && session.expires(limits) > now
        })
    }

    /// Goes on with a session that `can_resume` admitted, if it still is the device's; returns when
    /// it ends.
    pub(crate) fn resume(
        &self,
        owner: Owner,
        id: SessionId,
        now: Instant,
        limits: &Limits,
    ) -> Option<Instant> {
        let session = self
            .by_owner
            .get(&owner)
            .filter(|session| session.id == id)?;
        Some(session.expires(limits)).filter(|expires| *expires > now)
    }

    /// Opens a session, which ends the device's former one; returns when it ends.
    pub(crate) fn open(
        &mut self,
        owner: Owner,
        id: SessionId,
        token: &ResumeToken,
        now: Instant,
        limits: &Limits,
    ) -> Instant {
        let session = Session {
            id,
            token: token.hash(),
            touched: now,
        };
        let expires = session.expires(limits);
        self.by_owner.insert(owner, session);
        expires
    }

    /// Takes note of an RPC frame or a heartbeat at `at`. An expired session stays expired.
    pub(crate) fn touch(&mut self, owner: Owner, id: SessionId, at: Instant, limits: &Limits) {
        if let Some(session) = self.by_owner.get_mut(&owner)
            && session.id == id
            && session.expires(limits) > at
        {
            session.touched = session.touched.max(at);
        }
    }

    /// Ends the session of a device, if it has one.
    pub(crate) fn end(&mut self, owner: Owner) {
        self.by_owner.remove(&owner);
    }

    /// Ends the sessions of all devices of an account.
    pub(crate) fn end_all_of(&mut self, account: AccountId) {
        let first = (account, DeviceId::from_uuid(Uuid::nil()));
        let theirs = self.by_owner.range(first..);
        let theirs = theirs.map(|(owner, _)| *owner);
        let theirs: Vec<Owner> = theirs.take_while(|(owner, _)| *owner == account).collect();
        for owner in theirs {
            self.end(owner);
        }
    }

    /// Removes what has expired; returns how many.
    pub(crate) fn sweep(&mut self, now: Instant, limits: &Limits) -> usize {
        let before = self.by_owner.len();
        self.by_owner
            .retain(|_, session| session.expires(limits) > now);
        before - self.by_owner.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_owner.len()
    }
}

impl Session {
    fn expires(&self, limits: &Limits) -> Instant {
        self.touched + limits.session_lifetime
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::an_instant::start;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const MOMENT: Duration = Duration::from_nanos(1);

    fn owner(account: u128, device: u128) -> Owner {
        let (account, device) = (Uuid::from_u128(account), Uuid::from_u128(device));
        (AccountId::from_uuid(account), DeviceId::from_uuid(device))
    }

    fn id(number: u128) -> SessionId {
        SessionId::from_uuid(Uuid::from_u128(number))
    }

    fn token(byte: u8) -> ResumeToken {
        ResumeToken::from_bytes([byte; 32])
    }

    /// SES-4: a token is bound to account, device and session.
    #[test]
    fn only_the_exact_combination_resumes() {
        let (mut sessions, now, limits) = (Sessions::default(), start(), Limits::default());
        sessions.open(owner(1, 1), id(1), &token(1), now, &limits);
        sessions.open(owner(1, 2), id(2), &token(2), now, &limits);
        let can = |owner, id, token| sessions.can_resume(owner, id, &token, now, &limits);
        assert!(can(owner(1, 1), id(1), token(1)));
        for (owner, id, token) in [
            (owner(2, 1), id(1), token(1)),
            (owner(1, 2), id(1), token(1)),
            (owner(1, 1), id(2), token(1)),
            (owner(1, 1), id(1), token(2)),
            (owner(1, 1), id(2), token(2)),
        ] {
            assert!(!can(owner, id, token));
        }
    }

    /// SES-1, SES-3: 24 h from the last touch; refused at the end even before the sweep; a touch
    /// that comes too late does not bring it back.
    #[test]
    fn sessions_expire_24_hours_after_the_last_touch() {
        let (mut sessions, start, limits) = (Sessions::default(), start(), Limits::default());
        let (device, session, secret) = (owner(1, 1), id(1), token(1));
        let expires = sessions.open(device, session, &secret, start, &limits);
        assert_eq!(expires, start + DAY);
        let touched = start + Duration::from_secs(60);
        sessions.touch(device, session, touched, &limits);
        sessions.touch(device, id(9), start + DAY - MOMENT, &limits);
        let can =
            |sessions: &Sessions, at| sessions.can_resume(device, session, &secret, at, &limits);
        assert!(can(&sessions, touched + DAY - MOMENT));
        assert!(!can(&sessions, touched + DAY));
        sessions.touch(device, session, touched + DAY, &limits);
        assert!(!can(&sessions, touched + DAY));
        assert_eq!(
            sessions.resume(device, session, touched + DAY, &limits),
            None
        );
        assert_eq!(sessions.sweep(touched + DAY - MOMENT, &limits), 0);
        assert_eq!(sessions.sweep(touched + DAY, &limits), 1);
        assert_eq!(sessions.len(), 0);
    }

    /// SES-1: a device has one session; a new one ends the old.
    #[test]
    fn a_new_session_ends_the_old() {
        let (mut sessions, now, limits) = (Sessions::default(), start(), Limits::default());
        sessions.open(owner(1, 1), id(1), &token(1), now, &limits);
        sessions.open(owner(1, 1), id(2), &token(2), now, &limits);
        assert!(!sessions.can_resume(owner(1, 1), id(1), &token(1), now, &limits));
        assert_eq!(sessions.resume(owner(1, 1), id(1), now, &limits), None);
        assert!(sessions.can_resume(owner(1, 1), id(2), &token(2), now, &limits));
        assert_eq!(sessions.len(), 1);
    }

    /// SES-2: the session of one device ends, or those of an account, and nobody else's.
    #[test]
    fn a_sign_out_ends_what_it_names() {
        let (mut sessions, now, limits) = (Sessions::default(), start(), Limits::default());
        let owners = [
            owner(1, 9),
            owner(2, 0),
            owner(2, 1),
            owner(2, u128::MAX),
            owner(3, 0),
        ];
        for who in owners {
            sessions.open(who, id(who.1.as_uuid().as_u128()), &token(1), now, &limits);
        }
        let living = |sessions: &Sessions| -> Vec<bool> {
            let lives = |who: &Owner| {
                let id = id(who.1.as_uuid().as_u128());
                sessions.can_resume(*who, id, &token(1), now, &limits)
                    && sessions.resume(*who, id, now, &limits).is_some()
            };
            owners.iter().map(lives).collect()
        };
        sessions.end(owner(2, 1));
        sessions.end(owner(2, 7));
        assert_eq!(living(&sessions), [true, true, false, true, true]);
        // A late touch does not bring it back.
        sessions.touch(owner(2, 1), id(1), now, &limits);
        sessions.end_all_of(owner(2, 0).0);
        assert_eq!(living(&sessions), [true, false, false, false, true]);
        assert_eq!(sessions.len(), 2);
    }
}
