//! What must hold of requests whenever nothing moves.

use std::collections::BTreeMap;

use relay_actors::PairState;
use relay_model::store::DeviceStatus;
use relay_model::wire::codes::RpcErrorCode;

use super::super::facts::{Facts, Standing};
use super::super::{Findings, Invariant};
use super::{Ask, Record, Requests};
use crate::simulator::cast::DeviceNo;

impl Requests {
    /// Nothing moves: every request has ended or is pending, and what ended had a cause.
    pub(in super::super) fn quiet(&mut self, facts: &Facts<'_>, findings: &mut Findings) {
        self.check_failures(facts, findings);
        self.check_answers(facts, findings);
        for (key, ask) in &mut self.asks {
            check_ask(facts, &self.records, key, ask, findings);
        }
        for desktop in std::mem::take(&mut self.probed) {
            let pair = self.pairs.get(&desktop).copied().flatten();
            let state = pair.unwrap_or_default();
            self.check_pair(facts, desktop, pair.is_some(), state, findings);
        }
    }

    /// Each failure of this step had its cause.
    fn check_failures(&mut self, facts: &Facts<'_>, findings: &mut Findings) {
        for failed in std::mem::take(&mut self.failed) {
            let Some(target) = failed.target else {
                continue;
            };
            let (id, code) = (&failed.id, failed.failure.code);
            let steady = facts.steady_route(target);
            if let Some(connection) = failed.pending_at.filter(|at| steady == Some(*at)) {
                let hears = facts.connection(connection).hears_at_once();
                let ended = failed.failure.delivered && hears;
                findings.check(!ended, Invariant::EndsOnce, || {
                    format!("{id} was ended with {code}, but is pending at {connection}")
                });
            }
            let device = facts.device(target);
            let truth = facts.truth(device.standing, facts.now);
            let steady = device.before == device.standing
                && truth == facts.truth(device.before, facts.quiet_at);
            let Some(truth) = truth.filter(|_| failed.fresh && steady) else {
                continue;
            };
            let refused = [RpcErrorCode::InvalidRequest, RpcErrorCode::DesktopCongested];
            let expected: &[RpcErrorCode] = match truth {
                DeviceStatus::Offline => &[RpcErrorCode::DesktopOffline],
                DeviceStatus::Reconnecting => &[RpcErrorCode::DesktopReconnecting],
                DeviceStatus::Online => match steady_and_attentive(facts, target) {
                    true => &refused[..1],
                    false => &refused,
                },
            };
            let may = |code: RpcErrorCode| i64::from(code.code()) == failed.failure.code;
            let invalid = may(RpcErrorCode::InvalidRequest);
            let has_cause = invalid || expected.iter().any(|code| may(*code));
            findings.check(has_cause, Invariant::EndsOnce, || {
                format!("{id} was answered {code}, but {target} is {truth:?}")
            });
        }
    }

    /// Each answer of this step that had a record reached its phone, if that has a steady route.
    fn check_answers(&mut self, facts: &Facts<'_>, findings: &mut Findings) {
        for serial in std::mem::take(&mut self.due) {
            let Some(answer) = self.answers.get(&serial) else {
                continue;
            };
            let at_once = facts.steady_route(answer.desktop) == Some(answer.connection);
            let Some(phone) = answer
                .receiver
                .filter(|_| at_once && !answer.may_be_dropped)
            else {
                continue;
            };
            let Some(receiver) = facts.steady_route(phone) else {
                continue;
            };
            let connection = facts.connection(receiver);
            let was_there = connection
                .registered
                .is_some_and(|registered| registered.at < answer.at);
            if was_there && connection.hears_at_once() {
                findings.check(answer.heard, Invariant::EndsOnce, || {
                    format!(
                        "answer #{serial} to {} did not reach {receiver} of {phone}",
                        answer.id
                    )
                });
            }
        }
    }

    /// The registry has pending what the model has (RPC-6: nothing is kept too long).
    fn check_pair(
        &self,
        facts: &Facts<'_>,
        desktop: DeviceNo,
        exists: bool,
        state: PairState,
        findings: &mut Findings,
    ) {
        let what = |what: String| format!("the pair of {desktop} holds {state:?}, but {what}");
        let standing = facts.device(desktop).standing;
        let truth = facts.truth(standing, facts.now);
        let attached = truth == Some(DeviceStatus::Online);
        findings.check(
            truth.is_none() || state.desktop_attached == attached,
            Invariant::OneRoute,
            || what(format!("its desktop is {truth:?}")),
        );
        findings.check(
            exists
                || !matches!(
                    truth,
                    Some(DeviceStatus::Online | DeviceStatus::Reconnecting)
                ),
            Invariant::OneRoute,
            || what("does not live".to_owned()),
        );
        let account = facts.cast.member(desktop).account;
        let (mut least, mut most) = (0, 0);
        for device in facts.cast.of_account(account) {
            match facts.device(device).standing {
                Standing::Online(route) => {
                    let connection = facts.connection(route);
                    let sure = connection.checking.is_none();
                    let here = connection.target == Some(desktop);
                    let is_phone = !facts.cast.is_desktop(device);
                    least += usize::from(is_phone && sure && here);
                    most += usize::from(is_phone && (here || !sure));
                }
                Standing::Doubtful { .. } => most += 1,
                Standing::Never | Standing::Removed | Standing::Gone { .. } => {}
            }
        }
        findings.check(
            (least..=most).contains(&state.phones),
            Invariant::OneRoute,
            || what(format!("{least} to {most} phones want it")),
        );
        let (least, most) = match standing {
            Standing::Doubtful { .. } => return,
            Standing::Never | Standing::Removed | Standing::Gone { .. } => (0, 0),
            Standing::Online(route) if !facts.connection(route).hears_at_once() => return,
            Standing::Online(route) => {
                let of_this = |((of, _), record): &(&(DeviceNo, String), &Record)| {
                    *of == desktop && record.connection == route
                };
                let records = || {
                    self.records
                        .iter()
                        .filter(of_this)
                        .map(|(_, record)| record)
                };
                let sure = records().filter(|record| !facts.may_have_expired(record.renewed.0));
                let possible = records().filter(|record| !facts.has_expired(record.renewed.1));
                (sure.count(), possible.count())
            }
        };
        findings.check(
            (least..=most).contains(&state.pending),
            Invariant::EndsOnce,
            || what(format!("{least} to {most} requests are pending")),
        );
    }
}

fn steady_and_attentive(facts: &Facts<'_>, desktop: DeviceNo) -> bool {
    facts.steady_route(desktop).is_some_and(|route| {
        let connection = facts.connection(route);
        connection.attentive
            && connection.hears_at_once()
            && connection.released_at < facts.quiet_at
    })
}

/// What a phone waits for on a live connection is pending at its desktop, or it has been answered.
fn check_ask(
    facts: &Facts<'_>,
    records: &BTreeMap<(DeviceNo, String), Record>,
    (phone, id): &(DeviceNo, String),
    ask: &mut Ask,
    findings: &mut Findings,
) {
    let connection = facts.connection(ask.connection);
    if ask.may_be_lost || connection.is_open() && !connection.hears_at_once() {
        return;
    }
    match facts.device(*phone).standing {
        Standing::Online(route) if route == ask.connection => {}
        Standing::Doubtful { .. } => return,
        _ => {
            ask.may_be_lost = true;
            return;
        }
    }
    let Some(desktop) = ask.target else {
        ask.may_be_lost = true;
        return findings.report(
            Invariant::EndsOnce,
            format!("{phone} wants no desktop, but {id} was not answered at once"),
        );
    };
    match facts.device(desktop).standing {
        Standing::Doubtful { .. } => return,
        Standing::Online(route) if !facts.connection(route).hears_at_once() => return,
        Standing::Online(_) | Standing::Never | Standing::Removed | Standing::Gone { .. } => {}
    }
    let record = records
        .get(&(desktop, id.clone()))
        .filter(|record| record.phone == *phone);
    let since = record.map_or(ask.sent_at, |record| record.renewed.0);
    if facts.may_have_expired(since) {
        ask.may_be_lost = true;
    } else if record.is_none() {
        ask.may_be_lost = true;
        findings.report(
            Invariant::EndsOnce,
            format!("{phone} waits for {id} in vain: {desktop} has it not, and no end came"),
        );
    }
}
