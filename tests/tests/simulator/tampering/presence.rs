//! Presence, and the one route of a device.

use relay_model::store::DeviceStatus;
use relay_tests::simulator::frames::{Heard, Said, Word};
use relay_tests::simulator::oracle::Invariant;
use relay_tests::simulator::trace::{Entry, What};

use super::{always, good_run, is_status, lost, mostly, tamper};

/// PR-1, PR-5: presence at every device is the truth when nothing moves.
#[test]
fn lost_and_wrong_presence_is_seen() {
    let run = good_run();
    mostly(tamper(&run, Invariant::Presence, is_status, lost));
    let wrong = |trace: &mut Vec<Entry>, place: usize| {
        if let What::Heard(_, Heard::Status { word, .. }, _) = &mut trace[place].what {
            *word = match word {
                Word::Disconnected => Word::Reconnecting,
                Word::Online | Word::Reconnecting => Word::Disconnected,
            };
        }
    };
    mostly(tamper(&run, Invariant::Presence, is_status, wrong));
}

/// PR-2, PR-6: what the relay itself says of its devices is the truth.
#[test]
fn a_wrong_state_is_seen() {
    let run = good_run();
    let is_live = |what: &What| matches!(what, What::Live(_, devices) if !devices.is_empty());
    let change = |trace: &mut Vec<Entry>, place: usize| {
        if let What::Live(_, devices) = &mut trace[place].what {
            devices[0].1 = match devices[0].1 {
                DeviceStatus::Online => DeviceStatus::Reconnecting,
                DeviceStatus::Reconnecting | DeviceStatus::Offline => DeviceStatus::Online,
            };
        }
    };
    mostly(tamper(&run, Invariant::Presence, is_live, change));
    let is_row = |what: &What| matches!(what, What::Row(..));
    let offline = |trace: &mut Vec<Entry>, place: usize| {
        if let What::Row(_, status) = &mut trace[place].what {
            *status = DeviceStatus::Reconnecting;
        }
    };
    always(tamper(&run, Invariant::Presence, is_row, offline));
    let is_listed = |what: &What| matches!(what, What::Listed(_, devices) if !devices.is_empty());
    let forget = |trace: &mut Vec<Entry>, place: usize| {
        if let What::Listed(_, devices) = &mut trace[place].what {
            devices.pop();
        }
    };
    always(tamper(&run, Invariant::Presence, is_listed, forget));
}

/// REG-6: a device has one route.
#[test]
fn two_routes_are_seen() {
    let run = good_run();
    let is_replaced = |what: &What| matches!(what, What::Heard(_, Heard::Close(4410), _));
    let forget = |trace: &mut Vec<Entry>, place: usize| {
        let What::Heard(replaced, ..) = trace[place].what else {
            return;
        };
        trace.retain(|entry| {
            !matches!(entry.what, What::Heard(on, Heard::Close(_) | Heard::End, _) if on == replaced)
        });
    };
    let (tried, caught) = tamper(&run, Invariant::OneRoute, is_replaced, forget);
    assert!(caught > 0, "none of {tried}");
    let is_state = |what: &What| matches!(what, What::State(_));
    let one_more = |trace: &mut Vec<Entry>, place: usize| {
        if let What::State(state) = &mut trace[place].what {
            state.directory.routes += 1;
        }
    };
    always(tamper(&run, Invariant::OneRoute, is_state, one_more));
}

/// REG-6, PR-3: what a replaced connection says must reach nobody, nor may its end.
#[test]
fn an_effect_of_a_replaced_connection_is_seen() {
    let run = good_run();
    let was_heard = |serial: u64| {
        run.trace.iter().any(|entry| {
            matches!(entry.what, What::Heard(_, Heard::Note { serial: heard, .. }, _) if heard == serial)
        })
    };
    let is_unheard = |what: &What| matches!(what, What::Sent(_, Said::Note { serial, .. }) if !was_heard(*serial));
    let opened = |what: &What| match *what {
        What::Opened(connection, device) => Some((connection, device)),
        _ => None,
    };
    let devices: Vec<_> = run
        .trace
        .iter()
        .filter_map(|entry| opened(&entry.what))
        .collect();
    let hear = |trace: &mut Vec<Entry>, place: usize| {
        let What::Sent(sender, Said::Note { serial, .. }) = trace[place].what else {
            return;
        };
        let from = devices[sender.0].1;
        let account = run.cast.member(from).account;
        let opened_before = trace[..place]
            .iter()
            .filter_map(|entry| opened(&entry.what));
        let receiver = devices[..opened_before.count()]
            .iter()
            .find(|(_, device)| *device != from && run.cast.member(*device).account == account);
        let note = Heard::Note { from, serial };
        let at = trace[place].at;
        if let Some((receiver, _)) = receiver {
            let what = What::Heard(*receiver, note, 0);
            trace.insert(place + 1, Entry { at, what });
        }
    };
    let (tried, caught) = tamper(&run, Invariant::NoLateEffect, is_unheard, hear);
    assert!(caught > 0, "none of {tried}");
}
