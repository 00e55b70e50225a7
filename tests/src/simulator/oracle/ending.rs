//! What must hold at the end: after the calm, after everybody has left, after a stop.

use relay_model::store::DeviceStatus;

use super::facts::{Facts, Standing};
use super::presence::Presence;
use super::requests::Requests;
use super::{Findings, Invariant};
use crate::simulator::cast::{AccountNo, DeviceNo};

fn truth(facts: &Facts<'_>, device: DeviceNo) -> Option<DeviceStatus> {
    let standing = facts.device(device).standing;
    match standing {
        Standing::Gone { .. } if !facts.cast.is_desktop(device) => Some(DeviceStatus::Offline),
        _ => facts.truth(standing, facts.now),
    }
}

/// Every device's standing is known: nothing is doubtful any more.
pub(super) fn calm(facts: &Facts<'_>, findings: &mut Findings) {
    for device in facts.cast.devices() {
        let standing = facts.device(device).standing;
        findings.check(
            truth(facts, device).is_some(),
            Invariant::NoSurprise,
            || format!("{device} did not settle: {standing:?}"),
        );
    }
}

/// The device API shows the truth (PR-6).
pub(super) fn listed(
    facts: &Facts<'_>,
    account: AccountNo,
    devices: &[(DeviceNo, DeviceStatus)],
    findings: &mut Findings,
) {
    for device in facts.cast.of_account(account) {
        let shown = devices.iter().find(|(shown, _)| *shown == device);
        let truth = truth(facts, device);
        findings.check(
            shown.map(|(_, status)| *status) == truth,
            Invariant::Presence,
            || format!("{device} is {truth:?}, but the device API shows {shown:?}"),
        );
    }
}

/// The database holds the truth, once it has caught up (PR-6).
pub(super) fn row(
    facts: &Facts<'_>,
    device: DeviceNo,
    status: DeviceStatus,
    findings: &mut Findings,
) {
    let truth = truth(facts, device);
    findings.check(truth == Some(status), Invariant::Presence, || {
        format!("{device} is {truth:?}, but its row says {status:?}")
    });
}

/// Nothing is left of anybody.
pub(super) fn deserted(presence: &Presence, requests: &Requests, findings: &mut Findings) {
    let state = presence.state;
    findings.check(
        state == Some(Default::default()),
        Invariant::NothingLeft,
        || format!("all have left, but {state:?}"),
    );
    let pairs = requests.pairs_left();
    findings.check(pairs.is_empty(), Invariant::NothingLeft, || {
        format!("all have left, but these pairs live: {pairs:?}")
    });
}

/// No socket is left, and every device that read was told (DR-3).
pub(super) fn stopped(facts: &Facts<'_>, presence: &Presence, findings: &mut Findings) {
    let sockets = presence.state.map(|state| state.directory.sockets);
    findings.check(sockets == Some(0), Invariant::NothingLeft, || {
        format!("the relay has stopped, but {sockets:?} sockets live")
    });
    for (number, connection) in facts.connections.iter().enumerate() {
        let untold = connection.is_open() && connection.reading;
        findings.check(!untold, Invariant::EndsOnce, || {
            format!("the relay has stopped, but c{number} was not closed")
        });
    }
}
