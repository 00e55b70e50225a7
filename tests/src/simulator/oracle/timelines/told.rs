//! What desktops are told of the leases (TL-4, TL-7, REG-7).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::leases::Leases;
use crate::simulator::cast::DeviceNo;
use crate::simulator::oracle::facts::{Facts, SLACK};
use crate::simulator::oracle::{Findings, Invariant};
use crate::simulator::timeline_frames::{LeaseState, SESSIONS, SessionNo};
use crate::simulator::trace::ConnectionNo;

/// A generation, as it was first told.
struct Generation {
    owner: (DeviceNo, SessionNo),
    at: Duration,
}

/// What was told.
#[derive(Default)]
pub(super) struct Told {
    generations: BTreeMap<u64, Generation>,
    revisions: BTreeSet<u64>,
    /// The last revision that a connection was told, and the one that it was told last before it
    /// registered: what waited for it then comes behind the state of then (REG-7).
    last_revision: BTreeMap<ConnectionNo, u64>,
    before_reply: BTreeMap<ConnectionNo, u64>,
    /// What a connection knows of each session: until when its leases live, and their generation.
    knowledge: BTreeMap<(ConnectionNo, SessionNo), (Option<Duration>, Option<u64>)>,
    /// The highest generation and revision that were told before this step.
    highest: u64,
    highest_revision: u64,
    /// The sessions that connections were told of in this step, and those that registered in it.
    recent: BTreeMap<ConnectionNo, Vec<SessionNo>>,
    registered: BTreeSet<ConnectionNo>,
}

impl Told {
    /// A desktop's registration was answered: all is told anew behind the answer (REG-7).
    pub(super) fn registered(&mut self, number: ConnectionNo) {
        for session in (0..SESSIONS).map(SessionNo) {
            self.knowledge.remove(&(number, session));
        }
        let last = self.last_revision.get(&number).copied().unwrap_or(0);
        self.before_reply.insert(number, last);
        self.recent.remove(&number);
        self.registered.insert(number);
    }

    pub(super) fn told(
        &mut self,
        facts: &Facts<'_>,
        leases: &Leases,
        number: ConnectionNo,
        state: LeaseState,
        findings: &mut Findings,
    ) {
        let LeaseState {
            session,
            active,
            expires,
            generation,
            revision,
        } = state;
        let desktop = facts.connection(number).device;
        let what = |what: &str| format!("{number} of {desktop} was told {state:?}{what}");
        let mut check = |holds: bool, why: &str| {
            findings.check(holds, Invariant::Told, || what(why));
        };
        check(facts.cast.is_desktop(desktop), ", and is a phone");
        let whole = active == expires.is_some() && active == generation.is_some();
        check(whole, ", which contradicts itself");
        check(self.revisions.insert(revision), ", a revision told before");
        let last = self.last_revision.get(&number).copied().unwrap_or(0);
        if revision < last {
            let before = self.before_reply.get(&number);
            let waited = before.is_some_and(|before| *before < revision)
                && self.registered.contains(&number);
            // Whoever reads by the revision takes no note of it.
            return check(waited, ", a revision that does not rise");
        }
        self.last_revision.insert(number, revision);
        // What is heard at once was numbered at once, behind all that was told before.
        let connection = facts.connection(number);
        let heard_at_once = connection.reading
            && connection.reads_since < facts.quiet_at
            && connection.released_at < facts.quiet_at;
        check(
            !heard_at_once || revision > self.highest_revision,
            ", a revision below former ones",
        );
        let before = self
            .knowledge
            .insert((number, session), (expires, generation));
        self.recent.entry(number).or_default().push(session);
        let Some(generation) = generation else { return };
        let owner = (desktop, session);
        // What is told at once was issued at once, behind all that was told before.
        let at_once =
            facts.is_undisputed(number) && facts.connection(number).reads_since < facts.quiet_at;
        match self.generations.get(&generation) {
            Some(known) => {
                check(known.owner == owner, ", a generation of others");
                let reborn = at_once && Some(known.at) < leases.dead_at(desktop, session);
                check(!reborn, ", a generation that was over");
            }
            None => {
                let issued = at_once && !self.registered.contains(&number);
                check(
                    !issued || generation > self.highest,
                    ", a generation below former ones",
                );
                let at = facts.now;
                self.generations
                    .insert(generation, Generation { owner, at });
            }
        }
        if let Some((_, Some(before))) = before
            && before != generation
        {
            let at = self.generations.get(&before).map(|known| known.at);
            let stays = at.is_some_and(|at| leases.lived_since(facts, owner, at));
            check(
                !stays && before < generation,
                ", another generation though a lease lives",
            );
        }
    }

    /// When a generation of this session was first told; `None` if it never was.
    pub(super) fn first_told(
        &self,
        generation: u64,
        owner: (DeviceNo, SessionNo),
    ) -> Option<Duration> {
        let known = self.generations.get(&generation);
        known
            .filter(|known| known.owner == owner)
            .map(|known| known.at)
    }

    /// The generation that a connection takes for the current one.
    pub(super) fn current(&self, number: ConnectionNo, session: SessionNo) -> Option<u64> {
        self.knowledge.get(&(number, session))?.1
    }

    /// Whether a desktop was told of a newer generation of the session before this step.
    pub(super) fn knows_newer(
        &self,
        facts: &Facts<'_>,
        generation: u64,
        owner: (DeviceNo, SessionNo),
    ) -> bool {
        self.generations
            .range(generation + 1..)
            .any(|(_, known)| known.owner == owner && known.at < facts.quiet_at)
    }

    /// Nothing moves: every desktop that reads knows what is true, and was told once of each change.
    pub(super) fn quiet(
        &mut self,
        facts: &Facts<'_>,
        leases: &mut Leases,
        findings: &mut Findings,
    ) {
        for desktop in facts
            .cast
            .devices()
            .filter(|device| facts.cast.is_desktop(*device))
        {
            let Some(number) = facts.route(desktop) else {
                continue;
            };
            let connection = facts.connection(number);
            if !connection.hears_at_once() {
                continue;
            }
            for session in (0..SESSIONS).map(SessionNo) {
                if let Some(latest) = leases.latest_at(facts, desktop, session) {
                    self.check_knowledge(facts, (desktop, number), session, latest, findings);
                }
            }
            let steady = facts.steady_route(desktop) == Some(number)
                && !self.registered.contains(&number)
                && connection.reads_since < facts.quiet_at
                && !leases.unclear.contains(&desktop);
            if steady {
                let mut due = leases.due.remove(&desktop).unwrap_or_default();
                let mut told = self.recent.remove(&number).unwrap_or_default();
                due.sort_unstable();
                told.sort_unstable();
                findings.check(due == told, Invariant::Told, || {
                    format!("{number} of {desktop} was to be told of {due:?}, and was of {told:?}")
                });
            }
        }
        leases.next_step(facts);
        self.recent.clear();
        self.registered.clear();
        self.highest_revision = self.revisions.last().copied().unwrap_or(0);
        self.highest = self.generations.keys().next_back().copied().unwrap_or(0);
    }

    fn check_knowledge(
        &self,
        facts: &Facts<'_>,
        (desktop, number): (DeviceNo, ConnectionNo),
        session: SessionNo,
        latest: Option<Duration>,
        findings: &mut Findings,
    ) {
        let known = self.knowledge.get(&(number, session));
        let known = known.and_then(|(expires, _)| *expires);
        let right = match (latest, known) {
            (None, known) => known.is_none_or(|known| known <= facts.now + SLACK),
            (Some(_), None) => false,
            (Some(latest), Some(known)) => latest.abs_diff(known) < SLACK,
        };
        findings.check(right, Invariant::Told, || {
            format!(
                "{session} of {desktop} has leases until {latest:?}, but {number} knows {known:?}"
            )
        });
    }
}
