//! Registrations and closes: each has a cause, and its answer is the right one.

use std::time::Duration;

use relay_model::limits::REGISTRATION_TIMEOUT;

use super::facts::{Facts, Registered, SLACK};
use super::{Findings, Invariant};
use crate::simulator::trace::{ConnectionNo, Leaving};

impl Facts<'_> {
    /// A registration was answered.
    pub(super) fn registered(
        &mut self,
        number: ConnectionNo,
        session: &str,
        resumed: bool,
        findings: &mut Findings,
    ) {
        let now = self.now;
        let connection = &mut self.connections[number.0];
        let Some(checking) = connection.checking.take() else {
            let what = format!("{number} was registered without asking");
            return findings.report(Invariant::NoSurprise, what);
        };
        let device = &self.devices[connection.device.0];
        let exiled = device.exile.forgotten_since;
        let admitted = exiled.is_none_or(|since| checking.at <= since);
        findings.check(admitted, Invariant::Gone, || {
            format!("{number} was registered, and is forgotten since {exiled:?}")
        });
        let dead = resumed && device.exile.has_ended(session, checking.at);
        findings.check(!dead, Invariant::Gone, || {
            format!("{number} resumed {session}, which had ended with a removal")
        });
        // A session that ended since it was checked is replaced by another one.
        let right = !resumed || checking.resume.as_deref() == Some(session);
        findings.check(right, Invariant::NoSurprise, || {
            format!(
                "{number} asked for {:?} and got session {session}",
                checking.resume
            )
        });
        connection.registered = Some(Registered {
            at: now,
            sent_at: checking.at,
        });
        connection.released_at = now;
        connection.target = checking.target;
        connection.awaits_status = checking.target.is_some();
        let device = &mut self.devices[connection.device.0];
        // A reply that was read late may not be the last one.
        device.session_in_doubt = !connection.attentive;
        if connection.attentive {
            device.session = Some(session.to_owned());
        }
    }

    /// A `pong` came: an answer to a heartbeat (KA-1).
    pub(super) fn pong(&mut self, number: ConnectionNo, findings: &mut Findings) {
        let connection = self.connection_mut(number);
        connection.pongs += 1;
        let asked_for = connection.pongs <= connection.heartbeats;
        findings.check(asked_for, Invariant::NoSurprise, || {
            format!("{number} heard more pongs than it sent heartbeats")
        });
    }

    /// An `error` frame came: the refusal of a registration (REG-4).
    pub(super) fn error(&mut self, number: ConnectionNo, code: &str, findings: &mut Findings) {
        let (now, bad_weather_until) = (self.now, self.bad_weather_until);
        let (in_doubt, stopping) = (self.session_in_doubt(number), self.stopping);
        let connection = &mut self.connections[number.0];
        if code == "registrationRequired" && connection.released_at == now {
            // It was sent behind a registration that was just refused.
            return;
        }
        let checking = connection.checking.take();
        connection.released_at = now;
        let device = &self.devices[connection.device.0];
        let has_cause = match (code, &checking) {
            ("relayUnavailable", Some(checking)) => {
                connection.refused = true;
                bad_weather_until >= checking.at
            }
            ("invalidResume", Some(checking)) => {
                let resumable =
                    device.session.is_some() && checking.resume == device.session && !in_doubt;
                checking.resume.is_some() && !resumable
            }
            ("relayDraining", Some(_)) => {
                connection.refused_draining = true;
                stopping
            }
            ("desktopForgotten", Some(checking)) => {
                connection.refused_forgotten = true;
                // It may have been a route for a moment, and have replaced another one.
                connection.checking = Some(checking.clone());
                device.exile.explains_refusal(checking.at)
            }
            _ => false,
        };
        findings.check(has_cause, Invariant::NoSurprise, || {
            format!("{number} was refused without a cause: {code}, {checking:?}")
        });
    }

    /// A close frame came, which must have a cause.
    pub(super) fn close(&mut self, number: ConnectionNo, code: u16, findings: &mut Findings) {
        let now = self.now;
        let connection = self.connection(number);
        let held = connection.checking.is_some() || connection.released_at == now;
        let inattentive = !connection.attentive;
        let has_cause = match code {
            1000 | 1005 => connection.left == Some(Leaving::Close),
            1011 => connection.refused,
            1012 => self.stopping,
            4401 => {
                let exile = &self.device(connection.device).exile;
                exile.explains_4401(connection.opened_at)
            }
            4403 => {
                let exile = &self.device(connection.device).exile;
                let told = connection.unlinked.contains_key(&connection.device);
                connection.refused_forgotten
                    || exile.explains_4403(connection.opened_at) && (told || inattentive)
            }
            4408 => {
                let deadline = connection.opened_at + REGISTRATION_TIMEOUT;
                connection.registered.is_none() && now + SLACK > deadline
            }
            4409 => inattentive || held,
            4410 => {
                // It may have been replaced before it sent its last `register`.
                let answered = connection.registered.map(|registered| registered.sent_at);
                let since = answered.or(connection.register_at());
                self.connections.iter().enumerate().any(|(other, rival)| {
                    let later = since.is_some() && rival.register_at() >= since;
                    other != number.0 && rival.device == connection.device && later
                })
            }
            4411 => inattentive,
            _ => false,
        };
        findings.check(has_cause, Invariant::NoSurprise, || {
            format!("{number} was closed {code} without a cause")
        });
        let refused = self.connection(number).refused_draining;
        self.connection_mut(number).closed = Some(code);
        if code == 1012 && !refused {
            self.closing_since.get_or_insert(now);
        }
    }

    /// The stream ended: behind a close, or because the device did not read its close in time.
    pub(super) fn end_of_stream(&self, number: ConnectionNo, findings: &mut Findings) {
        let connection = self.connection(number);
        let expected =
            connection.closed.is_some() || connection.left.is_some() || !connection.attentive;
        findings.check(expected, Invariant::NoSurprise, || {
            format!("{number} ended without a close")
        });
    }

    /// Whether another connection of the device may have made a session that it has not heard of.
    fn session_in_doubt(&self, number: ConnectionNo) -> bool {
        let device = self.device(self.connection(number).device);
        let unanswered =
            |other: &ConnectionNo| *other != number && self.connection(*other).checking.is_some();
        device.session_in_doubt || device.connections.iter().any(unanswered)
    }

    /// Whether a record that began or was renewed at `at` may be over.
    pub(super) fn may_have_expired(&self, at: Duration) -> bool {
        self.now + SLACK >= at + self.limits.record_lifetime
    }

    /// Whether such a record is over for certain.
    pub(super) fn has_expired(&self, at: Duration) -> bool {
        self.now > at + self.limits.record_lifetime + SLACK
    }
}
