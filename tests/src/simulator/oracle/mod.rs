//! Judges a trace by the invariants of the architecture. It knows the contract and nothing of how
//! the relay is built: what it asks for is what devices can see, and the few counts that the relay
//! gives away.
//!
//! The oracle never guesses. A device that does not read cannot tell whether the relay still holds
//! its connection; while that is so, only what must hold either way is asked for.

mod bounds;
mod connections;
mod ending;
mod facts;
mod notes;
mod presence;
mod removals;
mod requests;
mod timelines;

use std::fmt;
use std::time::Duration;

use relay_model::limits::Limits;

use super::cast::Cast;
use super::frames::{Heard, Said};
use super::trace::{ConnectionNo, Entry, What};
use super::weather::Weather;
use facts::{Connection, Facts};
use notes::Notes;
use presence::Presence;
use requests::Requests;
use timelines::Timelines;

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// 1: one route a device, one generation current a desktop.
    OneRoute,
    /// 2: every recorded request ends exactly once, and not for another phone.
    EndsOnce,
    /// 2: `delivered` and `retryable` are true (RPC-5).
    Delivered,
    /// RPC-1, RPC-2, EV-1: what was sent in an order arrives in it.
    InOrder,
    /// 3: a snapshot reaches only phones with a live lease, under the current generation, of their
    /// desktop.
    Authorized,
    /// 4: versions of a window rise.
    Rises,
    /// TL-10: timeline events have their pauses.
    Paced,
    /// TL-8, TL-13: the newest snapshot comes, or the phone is told that it missed it.
    Newest,
    /// TL-4, TL-7, REG-7: what a desktop is told of leases is the truth, once for each change.
    Told,
    /// 5: presence is the truth.
    Presence,
    /// 6: nothing is left behind.
    NothingLeft,
    /// 7: what is held for a connection is within its budget.
    Bounded,
    /// PR-4, SES-2: whoever is forgotten or signed out has no route and no session any more, and all
    /// hear of a forget.
    Gone,
    /// 9: a closed or replaced connection causes nothing any more.
    NoLateEffect,
    /// Nothing is said or closed without a cause.
    NoSurprise,
}

/// Something that must not have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What it violates.
    pub invariant: Invariant,
    /// When it showed.
    pub at: Duration,
    /// The place of the entry at which it showed.
    pub entry: usize,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, what) = (self.at.as_secs_f64(), &self.what);
        write!(
            f,
            "{:?} at {at:.3} (entry {}): {what}",
            self.invariant, self.entry
        )
    }
}

/// What was found at one entry.
#[derive(Default)]
struct Findings(Vec<(Invariant, String)>);

impl Findings {
    fn report(&mut self, invariant: Invariant, what: impl Into<String>) {
        self.0.push((invariant, what.into()));
    }

    fn check(&mut self, holds: bool, invariant: Invariant, what: impl FnOnce() -> String) {
        if !holds {
            self.report(invariant, what());
        }
    }
}

/// Judges a whole trace.
pub fn judge(cast: &Cast, limits: &Limits, trace: &[Entry]) -> Vec<Violation> {
    let mut oracle = Oracle {
        facts: Facts::new(cast, limits),
        requests: Requests::default(),
        notes: Notes::default(),
        presence: Presence::default(),
        timelines: Timelines::default(),
    };
    let mut violations = Vec::new();
    for (number, entry) in trace.iter().enumerate() {
        let mut findings = Findings::default();
        oracle.see(entry, &mut findings);
        violations.extend(findings.0.into_iter().map(|(invariant, what)| Violation {
            invariant,
            at: entry.at,
            entry: number,
            what,
        }));
    }
    violations
}

struct Oracle<'a> {
    facts: Facts<'a>,
    requests: Requests,
    notes: Notes,
    presence: Presence,
    timelines: Timelines,
}

impl Oracle<'_> {
    fn see(&mut self, entry: &Entry, findings: &mut Findings) {
        self.facts.now = entry.at;
        let now = entry.at;
        match &entry.what {
            What::Opened(number, device) => {
                self.facts.connections.push(Connection::new(*device, now));
                self.facts.devices[device.0].connections.push(*number);
            }
            What::Sent(number, said) => self.sent(*number, said),
            What::Heard(number, heard, _) => self.heard(*number, heard, findings),
            What::Stalled(number) | What::Vanished(number) => {
                let connection = self.facts.connection_mut(*number);
                connection.reading = false;
                connection.attentive = false;
                connection.away_since = now;
            }
            What::ReadsAgain(number) => {
                let connection = self.facts.connection_mut(*number);
                connection.reading = true;
                connection.reads_since = now;
            }
            What::Left(number, how) => {
                self.facts.connection_mut(*number).left = Some(*how);
                self.end(*number);
            }
            What::Weather(weather) => {
                self.facts.bad_weather_until = match weather {
                    Weather::Fair => now,
                    Weather::Slow | Weather::Failing => Duration::MAX,
                };
            }
            What::Removing(removal, devices) => self.facts.removing(*removal, devices),
            What::Removed(removal, devices, done) => {
                if *done {
                    self.requests.removed(*removal, devices);
                }
                for number in self.facts.removed(*removal, devices, *done) {
                    self.timelines.ended(&self.facts, number);
                }
            }
            What::Rejoining(device) => self.facts.devices[device.0].exile.forgotten_since = None,
            What::Rejoined(device, done) => self.facts.rejoined(*device, *done),
            What::StopBegan => self.facts.stopping = true,
            What::Live(account, devices) => self.presence.probed(*account, devices.clone()),
            What::Pair(desktop, pair) => {
                self.requests.probed(*desktop, *pair);
                let leases = pair.map_or(0, |pair| pair.leases);
                self.timelines.counted(*desktop, leases);
            }
            What::Socket(device, state) => {
                if let Some(state) = state {
                    bounds::socket(&self.facts, *device, state, findings);
                }
            }
            What::State(state) => {
                bounds::relay(&self.facts, state, findings);
                self.presence.counted(**state);
            }
            What::Listed(account, devices) => {
                ending::listed(&self.facts, *account, devices, findings);
            }
            What::Row(device, status) => ending::row(&self.facts, *device, *status, findings),
            What::Fatal(fault) => findings.report(Invariant::NoSurprise, fault.clone()),
            What::Quiet => self.quiet(findings),
            What::Calm => {
                self.quiet(findings);
                ending::calm(&self.facts, findings);
            }
            What::Deserted => ending::deserted(&self.presence, &self.requests, findings),
            What::Stopped => ending::stopped(&self.facts, &self.presence, findings),
        }
    }

    fn sent(&mut self, number: ConnectionNo, said: &Said) {
        self.facts.connection_mut(number).last_sent = Some(self.facts.now);
        match said {
            Said::Register { target, resume } => {
                let checking = facts::Checking {
                    at: self.facts.now,
                    target: *target,
                    resume: resume.as_ref().map(|session| session.id.clone()),
                };
                self.facts.connection_mut(number).checking = Some(checking);
            }
            Said::Heartbeat => self.facts.connection_mut(number).heartbeats += 1,
            Said::Request { id, serial, .. } => {
                self.requests.asked(&self.facts, number, id, *serial);
            }
            Said::Answer {
                id,
                serial,
                is_final,
                ..
            } => self
                .requests
                .answered(&self.facts, number, id, *serial, *is_final),
            Said::Interest {
                session, active, ..
            } => self
                .timelines
                .interest(&self.facts, number, *session, *active),
            Said::Snapshot(snapshot) => self.timelines.published(&self.facts, number, *snapshot),
            Said::Note { serial, .. } => self.notes.sent(&self.facts, number, *serial),
        }
    }

    fn heard(&mut self, number: ConnectionNo, heard: &Heard, findings: &mut Findings) {
        match heard {
            Heard::Registered(session) => {
                self.facts.registered(number, &session.id, false, findings);
                self.requests.released(&self.facts, number);
                self.timelines.registered(&self.facts, number);
            }
            Heard::Resumed(session) => {
                self.facts.registered(number, session, true, findings);
                self.requests.released(&self.facts, number);
                self.timelines.registered(&self.facts, number);
            }
            Heard::Pong => self.facts.pong(number, findings),
            Heard::Error(code) => {
                self.requests.refused(&self.facts, number);
                self.facts.error(number, code, findings);
            }
            Heard::Status {
                desktop,
                word,
                generation,
            } => self.presence.told(
                &mut self.facts,
                number,
                *desktop,
                *word,
                *generation,
                findings,
            ),
            Heard::Request {
                id,
                serial,
                phone,
                account,
            } => {
                let forwarded = requests::Forwarded {
                    id,
                    serial: *serial,
                    phone: *phone,
                    account: *account,
                };
                self.requests
                    .forwarded(&self.facts, number, &forwarded, findings);
            }
            Heard::Answer {
                id,
                serial,
                is_final,
            } => self
                .requests
                .answer_heard(&self.facts, number, id, *serial, *is_final, findings),
            Heard::Failure {
                id,
                code,
                retryable,
                delivered,
            } => {
                let failure = requests::Failure {
                    code: *code,
                    retryable: *retryable,
                    delivered: *delivered,
                };
                self.requests
                    .failure_heard(&self.facts, number, id, failure, findings);
            }
            Heard::Leases(state) => self.timelines.told(&self.facts, number, *state, findings),
            Heard::Snapshot { from, snapshot } => {
                self.timelines
                    .snapshot(&self.facts, number, *from, *snapshot, findings);
            }
            Heard::Stale { window, version } => {
                self.timelines
                    .stale(&self.facts, number, *window, *version, findings);
            }
            Heard::AllStale => self.timelines.all_stale(&self.facts, number, findings),
            Heard::Unlinked(device) => self.facts.unlinked(number, *device, findings),
            Heard::Note { from, serial } => {
                self.notes
                    .heard(&self.facts, number, *from, *serial, findings);
            }
            Heard::Close(code) => {
                self.facts.close(number, *code, findings);
                self.end(number);
            }
            Heard::End => {
                self.facts.end_of_stream(number, findings);
                self.end(number);
            }
            Heard::Strange(text) => {
                findings.report(Invariant::NoSurprise, format!("{number} heard {text}"));
            }
        }
    }

    fn end(&mut self, number: ConnectionNo) {
        self.timelines.ended(&self.facts, number);
        self.facts.end(number);
        self.requests.ended(number);
    }

    /// Nothing moves: everything must be as it should.
    fn quiet(&mut self, findings: &mut Findings) {
        for device in self.facts.cast.devices() {
            let routes = self.facts.settle(device);
            findings.check(routes.len() < 2, Invariant::OneRoute, || {
                format!("{device} has several routes: {routes:?}")
            });
        }
        if !self.facts.stopping {
            self.facts.check_removals(findings);
            self.requests.quiet(&self.facts, findings);
            self.notes.quiet(&self.facts, findings);
            self.presence.quiet(&self.facts, findings);
            self.timelines.quiet(&self.facts, findings);
        }
        self.facts.next_step();
    }
}
