//! Events for everybody (EV-1): to all others of the account, in order, once, and from routes only.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::facts::Facts;
use super::{Findings, Invariant};
use crate::simulator::cast::DeviceNo;
use crate::simulator::trace::ConnectionNo;

struct Note {
    sender: ConnectionNo,
    from: DeviceNo,
    at: Duration,
    /// Its connection was none any more when it was sent.
    void: bool,
    heard_by: BTreeSet<ConnectionNo>,
}

/// The events of a trace.
#[derive(Default)]
pub(super) struct Notes {
    notes: BTreeMap<u64, Note>,
    last_heard: BTreeMap<(ConnectionNo, ConnectionNo), u64>,
    /// Sent in this step.
    recent: Vec<u64>,
}

impl Notes {
    pub(super) fn sent(&mut self, facts: &Facts<'_>, sender: ConnectionNo, serial: u64) {
        let note = Note {
            sender,
            from: facts.connection(sender).device,
            at: facts.now,
            void: facts.is_superseded(sender),
            heard_by: BTreeSet::new(),
        };
        self.notes.insert(serial, note);
        self.recent.push(serial);
    }

    pub(super) fn heard(
        &mut self,
        facts: &Facts<'_>,
        receiver: ConnectionNo,
        from: DeviceNo,
        serial: u64,
        findings: &mut Findings,
    ) {
        let what = |what: &str| format!("{receiver} heard note #{serial}{what}");
        let Some(note) = self.notes.get_mut(&serial) else {
            return findings.report(Invariant::NoSurprise, what(" that nobody sent"));
        };
        let hearer = facts.connection(receiver).device;
        let account = |device| facts.cast.member(device).account;
        let right = note.from == from && from != hearer && account(from) == account(hearer);
        findings.check(right, Invariant::NoSurprise, || {
            what(&format!(" as of {from}, sent by {}", note.from))
        });
        findings.check(!note.void, Invariant::NoLateEffect, || {
            what(&format!(" of {}, which is no route", note.sender))
        });
        let first = note.heard_by.insert(receiver);
        findings.check(first, Invariant::EndsOnce, || what(" twice"));
        let last = self
            .last_heard
            .insert((receiver, note.sender), serial)
            .unwrap_or_default();
        findings.check(last <= serial, Invariant::InOrder, || {
            what(&format!(" behind #{last}"))
        });
    }

    /// What a steady route sent in this step, every steady route of the account has heard.
    pub(super) fn quiet(&mut self, facts: &Facts<'_>, findings: &mut Findings) {
        for serial in std::mem::take(&mut self.recent) {
            let Some(note) = self.notes.get(&serial) else {
                continue;
            };
            if note.void || facts.steady_route(note.from) != Some(note.sender) {
                continue;
            }
            let account = facts.cast.member(note.from).account;
            for device in facts.cast.of_account(account) {
                let Some(receiver) = facts.steady_route(device).filter(|_| device != note.from)
                else {
                    continue;
                };
                let connection = facts.connection(receiver);
                let was_there = connection
                    .registered
                    .is_some_and(|registered| registered.at < note.at);
                if was_there && connection.hears_at_once() {
                    findings.check(
                        note.heard_by.contains(&receiver),
                        Invariant::EndsOnce,
                        || format!("{receiver} did not hear note #{serial}"),
                    );
                }
            }
        }
    }
}
