//! The leases of a pair: which phone takes an interest in which session, and until when (TL-1, TL-3,
//! TL-4, TL-7). Pure: time comes as an argument, telling the desktop is the actor's business.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use relay_model::ids::{AuthorizationGeneration, ConnectionId, DeviceId};
use relay_model::timeline::BaseSession;
use tokio::time::Instant;

use super::HeldLease;
use super::timeline_numbers::TimelineNumbers;

/// What the desktop is to be told of a session's leases (TL-7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionState {
    /// The session.
    pub(crate) session: BaseSession,
    /// The generation of its leases; `None` if it has none.
    pub(crate) generation: Option<AuthorizationGeneration>,
    /// The latest deadline among them; `None` if it has none.
    pub(crate) latest_deadline: Option<Instant>,
    /// The number of this state; rises over the whole process.
    pub(crate) revision: u64,
}

/// The sessions whose state a step has changed, in the order in which the desktop is to be told: the
/// one that a phone has left, then the one that it has taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "the desktop has to be told"]
pub(crate) struct Changes {
    left: Option<SessionState>,
    taken: Option<SessionState>,
}

impl IntoIterator for Changes {
    type Item = SessionState;
    type IntoIter =
        std::iter::Chain<std::option::IntoIter<SessionState>, std::option::IntoIter<SessionState>>;

    fn into_iter(self) -> Self::IntoIter {
        self.left.into_iter().chain(self.taken)
    }
}

/// A phone's one lease (TL-1).
#[derive(Debug)]
struct Lease {
    connection: ConnectionId,
    /// Its number among the leases of that connection.
    number: u64,
    session: BaseSession,
    /// When it was taken first.
    since: Instant,
    deadline: Instant,
}

impl Lease {
    /// Whether both are the same lease, whatever their deadlines.
    fn is(&self, other: &Self) -> bool {
        self.connection == other.connection
            && self.number == other.number
            && self.session == other.session
    }
}

/// A session with a lease.
#[derive(Debug)]
struct Session {
    generation: AuthorizationGeneration,
    /// The phones whose lease is of this session; at least one.
    phones: IndexSet<DeviceId>,
}

/// The leases of one pair.
///
/// A lease at or past its deadline is gone: what changes the leases drops it first, and what reads
/// them does not see it (TL-3). Only [`Leases::len`], which takes no time, counts it until it is
/// dropped.
#[derive(Debug)]
pub(crate) struct Leases {
    numbers: Arc<TimelineNumbers>,
    /// Indexed, so that what is done for many of them is done in a repeatable order.
    leases: IndexMap<DeviceId, Lease>,
    sessions: IndexMap<BaseSession, Session>,
    /// No lease has an earlier deadline.
    earliest: Option<Instant>,
}

impl Leases {
    /// No leases. `numbers` are those of the process.
    pub(crate) fn new(numbers: Arc<TimelineNumbers>) -> Self {
        Self {
            numbers,
            leases: IndexMap::new(),
            sessions: IndexMap::new(),
            earliest: None,
        }
    }

    /// A phone takes or renews a lease until `deadline`. A renewal has the connection, number and
    /// session of the lease; anything else makes a new one, which ends the phone's former one (TL-1,
    /// TL-3). The state of the session is always told. An interest that comes after its own deadline
    /// only ends the former lease.
    ///
    /// The caller has made sure that the phone's route is this connection.
    pub(crate) fn interest(
        &mut self,
        phone: DeviceId,
        connection: ConnectionId,
        number: u64,
        session: BaseSession,
        deadline: Instant,
        now: Instant,
    ) -> Changes {
        self.expire(now);
        let mut lease = Lease {
            connection,
            number,
            session,
            since: now,
            deadline,
        };
        let is_live = deadline > now;
        let renewed = self.leases.get(&phone).filter(|held| held.is(&lease));
        let renews = is_live && renewed.is_some();
        lease.since = renewed.map_or(now, |held| held.since);
        let left = if renews { None } else { self.remove(phone) };
        if !is_live {
            return self.left(left);
        }
        let session = lease.session.clone();
        // Left and taken at once is told once.
        let left = left.filter(|left| *left != session);
        let left = left.map(|left| self.state(left));
        self.put(phone, lease);
        Changes {
            left,
            taken: Some(self.state(session)),
        }
    }

    /// A phone ends its lease (TL-1, TL-3); without effect unless the phone's lease is this
    /// connection's and has this number.
    pub(crate) fn end(
        &mut self,
        phone: DeviceId,
        connection: ConnectionId,
        number: u64,
        now: Instant,
    ) -> Changes {
        self.end_if(phone, now, |lease| {
            lease.connection == connection && lease.number == number
        })
    }

    /// A phone's connection was closed or replaced, and its lease with it (TL-3).
    pub(crate) fn phone_gone(
        &mut self,
        phone: DeviceId,
        connection: ConnectionId,
        now: Instant,
    ) -> Changes {
        self.end_if(phone, now, |lease| lease.connection == connection)
    }

    /// Drops the leases at or past their deadline. Nobody is told: the desktop knows the deadline
    /// (TL-7).
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return;
        }
        let sessions = &mut self.sessions;
        self.leases.retain(|phone, lease| {
            let is_live = lease.deadline > now;
            if !is_live {
                forget(sessions, &lease.session, *phone);
            }
            is_live
        });
        self.earliest = self.leases.values().map(|lease| lease.deadline).min();
        self.shrink();
    }

    /// When to [`Self::expire`] next: not after the next deadline, and before it if that lease was
    /// renewed.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.earliest
    }

    /// The generation that updates of a session must carry; `None` if no phone has a lease of it
    /// (TL-5).
    pub(crate) fn current(
        &self,
        session: &BaseSession,
        now: Instant,
    ) -> Option<AuthorizationGeneration> {
        let held = self.sessions.get(session)?;
        self.latest(held)
            .filter(|latest| *latest > now)
            .map(|_| held.generation)
    }

    /// Who has a lease of a session, with the number of that lease.
    pub(crate) fn phones_of(
        &self,
        session: &BaseSession,
        now: Instant,
    ) -> impl Iterator<Item = (DeviceId, ConnectionId, u64)> + use<'_> {
        let phones = self.sessions.get(session).map(|held| &held.phones);
        phones.into_iter().flatten().filter_map(move |phone| {
            let lease = self.leases.get(phone)?;
            (lease.deadline > now).then_some((*phone, lease.connection, lease.number))
        })
    }

    /// The state of every session with a lease, for a desktop that has just registered (REG-7).
    pub(crate) fn states(&self, now: Instant) -> Vec<SessionState> {
        let live = self.sessions.iter().filter_map(|(session, held)| {
            let latest = self.latest(held).filter(|latest| *latest > now)?;
            Some(SessionState {
                session: session.clone(),
                generation: Some(held.generation),
                latest_deadline: Some(latest),
                revision: self.numbers.next_revision(),
            })
        });
        live.collect()
    }

    /// Every live lease, as operators see it.
    pub(crate) fn held(&self, now: Instant) -> Vec<HeldLease> {
        let live = self.leases.iter().filter(|(_, lease)| lease.deadline > now);
        live.map(|(phone, lease)| HeldLease {
            phone: *phone,
            session: lease.session.clone(),
            held_for: now.saturating_duration_since(lease.since),
            ends_in: lease.deadline.saturating_duration_since(now),
        })
        .collect()
    }

    /// How many leases there are, one a phone.
    pub(crate) fn len(&self) -> usize {
        self.leases.len()
    }

    fn end_if(&mut self, phone: DeviceId, now: Instant, ends: impl Fn(&Lease) -> bool) -> Changes {
        self.expire(now);
        if !self.leases.get(&phone).is_some_and(ends) {
            return Changes::default();
        }
        let left = self.remove(phone);
        self.left(left)
    }

    fn left(&self, session: Option<BaseSession>) -> Changes {
        Changes {
            left: session.map(|session| self.state(session)),
            taken: None,
        }
    }

    fn put(&mut self, phone: DeviceId, lease: Lease) {
        // Most pairs have one phone that looks, and there are many pairs.
        if self.leases.is_empty() {
            self.leases.reserve_exact(1);
            self.sessions.reserve_exact(1);
        }
        let numbers = &self.numbers;
        let session = self
            .sessions
            .entry(lease.session.clone())
            .or_insert_with(|| Session {
                generation: numbers.next_generation(),
                phones: IndexSet::with_capacity(1),
            });
        session.phones.insert(phone);
        let earliest = self.earliest.unwrap_or(lease.deadline);
        self.earliest = Some(earliest.min(lease.deadline));
        self.leases.insert(phone, lease);
    }

    /// Ends a phone's lease; returns its session if that has ended or its latest deadline has moved.
    fn remove(&mut self, phone: DeviceId) -> Option<BaseSession> {
        let lease = self.leases.swap_remove(&phone)?;
        forget(&mut self.sessions, &lease.session, phone);
        let latest = self
            .sessions
            .get(&lease.session)
            .and_then(|held| self.latest(held));
        self.shrink();
        latest
            .is_none_or(|latest| latest < lease.deadline)
            .then_some(lease.session)
    }

    /// What a session is at this moment, as an event of its own. No lease may be past its deadline.
    fn state(&self, session: BaseSession) -> SessionState {
        let held = self.sessions.get(&session);
        SessionState {
            generation: held.map(|held| held.generation),
            latest_deadline: held.and_then(|held| self.latest(held)),
            revision: self.numbers.next_revision(),
            session,
        }
    }

    fn latest(&self, session: &Session) -> Option<Instant> {
        let leases = session
            .phones
            .iter()
            .filter_map(|phone| self.leases.get(phone));
        leases.map(|lease| lease.deadline).max()
    }

    /// A pair without leases owns no tables.
    fn shrink(&mut self) {
        if self.leases.is_empty() {
            self.leases = IndexMap::new();
            self.sessions = IndexMap::new();
            self.earliest = None;
        }
    }
}

/// Takes a phone out of a session, and with the last phone the session itself.
fn forget(sessions: &mut IndexMap<BaseSession, Session>, session: &BaseSession, phone: DeviceId) {
    if let Some(held) = sessions.get_mut(session) {
        held.phones.swap_remove(&phone);
        if held.phones.is_empty() {
            sessions.swap_remove(session);
        }
    }
}

#[cfg(test)]
mod tests;
