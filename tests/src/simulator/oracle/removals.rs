//! Devices that their user forgets, or signs out on (PR-4, SES-2): what they and the others hear of it,
//! and that nothing of them is left.

use std::collections::BTreeSet;
use std::time::Duration;

use super::facts::{Facts, Standing};
use super::{Findings, Invariant};
use crate::simulator::cast::DeviceNo;
use crate::simulator::trace::{ConnectionNo, Removal};

/// What is known of a device's removals.
#[derive(Debug, Clone, Default)]
pub(super) struct Exile {
    /// Calls that are not answered.
    forgetting: usize,
    signing_out: usize,
    /// When the last such call was answered that succeeded.
    forgotten_at: Option<Duration>,
    signed_out_at: Option<Duration>,
    /// Since when it is forgotten for certain; its rejoin has not begun.
    pub(super) forgotten_since: Option<Duration>,
    /// Its row may say that it is forgotten.
    may_be_forgotten: bool,
    rejoined_at: Option<Duration>,
    /// How often it was forgotten, and how many calls the last time took.
    times: usize,
    tries: usize,
    /// All must hear in this step that it is forgotten.
    is_news: bool,
    /// The sessions that ended so.
    ended_sessions: BTreeSet<String>,
}

impl Exile {
    /// When its route ended last by a removal.
    pub(super) fn removed_at(&self) -> Option<Duration> {
        self.forgotten_at.max(self.signed_out_at)
    }

    /// When it was forgotten last.
    pub(super) fn forgotten_at(&self) -> Option<Duration> {
        self.forgotten_at
    }

    /// Whether a connection that was opened then may be closed as its device is forgotten.
    pub(super) fn explains_4403(&self, opened_at: Duration) -> bool {
        self.forgetting > 0 || self.forgotten_at >= Some(opened_at)
    }

    /// Whether a connection that was opened then may be closed as its user signed out.
    pub(super) fn explains_4401(&self, opened_at: Duration) -> bool {
        self.signing_out > 0 || self.signed_out_at >= Some(opened_at)
    }

    /// Whether a registration that was sent then may be refused as its device is forgotten.
    pub(super) fn explains_refusal(&self, sent_at: Duration) -> bool {
        self.may_be_forgotten || self.rejoined_at >= Some(sent_at)
    }

    /// Whether such a call is under way, or was answered after `quiet_at`.
    pub(super) fn is_recent(&self, quiet_at: Duration) -> bool {
        self.forgetting > 0 || self.signing_out > 0 || self.removed_at() > Some(quiet_at)
    }

    /// Whether a session was over when a registration was sent that resumes it.
    pub(super) fn has_ended(&self, session: &str, sent_at: Duration) -> bool {
        self.removed_at() < Some(sent_at) && self.ended_sessions.contains(session)
    }

    pub(super) fn next_step(&mut self) {
        self.is_news = false;
    }
}

impl Facts<'_> {
    /// A user calls.
    pub(super) fn removing(&mut self, removal: Removal, devices: &[DeviceNo]) {
        for device in devices {
            let exile = &mut self.devices[device.0].exile;
            match removal {
                Removal::Forget => {
                    if !std::mem::replace(&mut exile.may_be_forgotten, true) {
                        exile.times += 1;
                        exile.tries = 0;
                    }
                    exile.tries += 1;
                    exile.forgetting += 1;
                }
                Removal::SignOut => exile.signing_out += 1,
            }
        }
    }

    /// The relay answered. Returns the connections that are none any more and cannot tell, as they do not
    /// read.
    pub(super) fn removed(
        &mut self,
        removal: Removal,
        devices: &[DeviceNo],
        done: bool,
    ) -> Vec<ConnectionNo> {
        let (now, quiet_at) = (self.now, self.quiet_at);
        let mut silent = Vec::new();
        for number in devices {
            let device = &mut self.devices[number.0];
            let exile = &mut device.exile;
            match removal {
                Removal::Forget => exile.forgetting = exile.forgetting.saturating_sub(1),
                Removal::SignOut => exile.signing_out = exile.signing_out.saturating_sub(1),
            }
            if !done {
                continue;
            }
            match removal {
                Removal::Forget => {
                    exile.forgotten_at = Some(now);
                    exile.forgotten_since = Some(now);
                    // Of a call that failed first it cannot be known what was heard when.
                    exile.is_news = exile.tries == 1;
                }
                Removal::SignOut => exile.signed_out_at = Some(now),
            }
            // One that is opened at this very moment may come before or behind it.
            let fresh = device
                .connections
                .iter()
                .any(|connection| self.connections[connection.0].register_at() > Some(quiet_at));
            if let Some(session) = device.session.take().filter(|_| !fresh) {
                device.exile.ended_sessions.insert(session);
            }
            device.session_in_doubt |= fresh;
            device.certain = Standing::Removed;
            for connection in &device.connections {
                let is = &mut self.connections[connection.0];
                let registers = is.register_at().is_some_and(|at| at <= quiet_at);
                if !is.reading && registers {
                    is.removed = true;
                    silent.push(*connection);
                }
            }
        }
        silent
    }

    /// The relay answered that a device may come back, or may not yet.
    pub(super) fn rejoined(&mut self, number: DeviceNo, done: bool) {
        let exile = &mut self.devices[number.0].exile;
        if done {
            exile.may_be_forgotten = false;
            exile.rejoined_at = Some(self.now);
        }
    }

    /// A connection heard that a device is forgotten.
    pub(super) fn unlinked(
        &mut self,
        number: ConnectionNo,
        forgotten: DeviceNo,
        findings: &mut Findings,
    ) {
        let exile = &self.devices[forgotten.0].exile;
        let connection = &mut self.connections[number.0];
        let heard = connection.unlinked.entry(forgotten).or_default();
        *heard += 1;
        let account = |device| self.cast.member(device).account;
        let right = *heard <= exile.times && account(forgotten) == account(connection.device);
        findings.check(right, Invariant::NoSurprise, || {
            format!("{number} heard {heard} times that {forgotten} is forgotten")
        });
        connection.news.insert(forgotten);
    }

    /// Nothing moves: whoever was removed is gone, and all who were there have heard of a forget.
    pub(super) fn check_removals(&self, findings: &mut Findings) {
        for forgotten in self.cast.devices() {
            let device = self.device(forgotten);
            if device.exile.removed_at() <= Some(self.quiet_at) {
                continue;
            }
            for number in &device.connections {
                let connection = self.connection(*number);
                let stays = connection.reading
                    && connection
                        .registered
                        .is_some_and(|registered| registered.sent_at <= self.quiet_at);
                findings.check(!stays, Invariant::Gone, || {
                    format!("{forgotten} was removed, and {number} is its route still")
                });
            }
            if !device.exile.is_news {
                continue;
            }
            let account = self.cast.member(forgotten).account;
            for other in self.cast.of_account(account) {
                let Some(route) = self.steady_route(other) else {
                    continue;
                };
                let connection = self.connection(route);
                let was_there = connection.hears_at_once()
                    && connection.reads_since < self.quiet_at
                    && connection
                        .registered
                        .is_some_and(|registered| registered.at <= self.quiet_at);
                let heard = connection.news.contains(&forgotten);
                findings.check(heard || !was_there, Invariant::Gone, || {
                    format!("{forgotten} is forgotten, and {route} of {other} has not heard of it")
                });
            }
        }
    }
}
