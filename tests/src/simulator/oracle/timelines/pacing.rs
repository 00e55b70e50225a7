//! The rhythm of timeline events at a phone (TL-10): not too soon one after the other, and not too late
//! while one waits (TL-13).

use std::collections::BTreeMap;
use std::time::Duration;

use super::leases::Lease;
use crate::simulator::oracle::facts::{Facts, SLACK};
use crate::simulator::oracle::{Findings, Invariant};
use crate::simulator::trace::ConnectionNo;

/// What a frame has around its padding, at most.
const AROUND: usize = 1_024;

/// The last event that a connection heard.
#[derive(Clone, Copy)]
struct Last {
    at: Duration,
    pad: usize,
}

/// The last events of all connections.
#[derive(Default)]
pub(super) struct Pacing(BTreeMap<ConnectionNo, Last>);

/// The pause behind a frame of so many bytes.
fn pause(facts: &Facts<'_>, bytes: usize) -> Duration {
    let blocks = bytes.div_ceil(facts.limits.timeline_block).max(1);
    facts.limits.timeline_flush_interval * blocks as u32
}

impl Pacing {
    /// An event came that carried so many bytes.
    pub(super) fn heard(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        pad: usize,
        findings: &mut Findings,
    ) {
        let connection = facts.connection(number);
        let at = facts.now;
        let last = self.0.insert(number, Last { at, pad });
        // What comes out of the pipe at once was not sent at once.
        let last = last.filter(|last| connection.reading && connection.reads_since < last.at);
        if let Some(last) = last.filter(|_| connection.is_open()) {
            let (gap, pause) = (at - last.at, pause(facts, last.pad));
            findings.check(gap >= pause, Invariant::Paced, || {
                format!("{number} heard two timeline events within {gap:?} instead of {pause:?}")
            });
        }
    }

    /// A phone is to have something: it comes when the pause is over.
    pub(super) fn check_progress(&self, facts: &Facts<'_>, lease: &Lease, findings: &mut Findings) {
        let connection = facts.connection(lease.connection);
        let waits = facts.limits.timeline_flush_interval;
        let last = self.0.get(&lease.connection);
        let behind_last = last.map(|last| last.at + pause(facts, last.pad + AROUND));
        let reads_since = connection.reads_since.max(connection.released_at);
        let due = lease.owed_since.unwrap_or_default().max(reads_since) + waits;
        let due = Some(due).max(behind_last).unwrap_or_default();
        findings.check(facts.now <= due + SLACK, Invariant::Newest, || {
            let (number, session) = (lease.connection, lease.session);
            format!("{number} was to hear something newer of {session} by {due:?}")
        });
    }
}
