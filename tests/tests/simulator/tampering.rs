//! Each invariant can fail: traces of good runs that were tampered with are not taken for good.

use std::rc::Rc;

use relay_actors::RelayState;
use relay_model::store::DeviceStatus;
use relay_tests::simulator::frames::{Heard, Said, Word};
use relay_tests::simulator::oracle::Invariant;
use relay_tests::simulator::trace::{ConnectionNo, Entry, What};
use relay_tests::simulator::{self, Run, STEPS};

/// Places that are tampered with, one at a time.
const TRIES: usize = 12;

/// A good run that ends as wanted.
fn run_that_ends_with(end: &What) -> Run {
    (0..)
        .map(|seed| simulator::run(seed, STEPS))
        .find(|run| run.trace.iter().any(|entry| entry.what == *end))
        .expect("one of all seeds")
}

/// A good run through to its empty end.
fn good_run() -> Run {
    let run = run_that_ends_with(&What::Deserted);
    assert_eq!(run.violations(), []);
    run
}

fn is_caught(run: &Run, trace: Vec<Entry>, as_this: Invariant) -> bool {
    let tampered = Run {
        seed: run.seed,
        cast: Rc::clone(&run.cast),
        limits: run.limits.clone(),
        trace,
    };
    let violations = tampered.violations();
    violations
        .iter()
        .any(|violation| violation.invariant == as_this)
}

/// Tampers with some of the entries that `fits`, and returns how often that was tried and caught.
fn tamper(
    run: &Run,
    as_this: Invariant,
    fits: impl Fn(&What) -> bool,
    change: impl Fn(&mut Vec<Entry>, usize),
) -> (usize, usize) {
    let places: Vec<_> = (0..run.trace.len())
        .filter(|place| fits(&run.trace[*place].what))
        .collect();
    let step = places.len().div_ceil(TRIES).max(1);
    let tried: Vec<_> = places.into_iter().step_by(step).collect();
    let caught = tried.iter().filter(|place| {
        let mut trace = run.trace.clone();
        change(&mut trace, **place);
        is_caught(run, trace, as_this)
    });
    (tried.len(), caught.count())
}

/// Every one is caught.
fn always((tried, caught): (usize, usize)) {
    assert!(tried > 0, "nothing to tamper with");
    assert_eq!(tried, caught);
}

/// Half of them are caught at least: the others make no difference, or only the relay could know.
fn mostly((tried, caught): (usize, usize)) {
    assert!(tried > 0, "nothing to tamper with");
    assert!(2 * caught >= tried, "{caught} of {tried}");
}

fn is_final_answer(what: &What) -> bool {
    matches!(
        what,
        What::Heard(_, Heard::Answer { is_final: true, .. }, _)
    )
}

fn is_request(what: &What) -> bool {
    matches!(what, What::Heard(_, Heard::Request { .. }, _))
}

fn is_status(what: &What) -> bool {
    matches!(what, What::Heard(_, Heard::Status { .. }, _))
}

/// Has another connection hear it, one of another device.
fn to_another(run: &Run) -> impl Fn(&mut Vec<Entry>, usize) {
    let devices: Vec<_> = run
        .trace
        .iter()
        .filter_map(|entry| match entry.what {
            What::Opened(_, device) => Some(device),
            _ => None,
        })
        .collect();
    move |trace, place| {
        if let What::Heard(ConnectionNo(number), ..) = &mut trace[place].what {
            let device = devices[*number];
            let others = (0..devices.len()).find(|other| devices[*other] != device);
            *number = others.expect("another device");
        }
    }
}

fn twice(trace: &mut Vec<Entry>, place: usize) {
    trace.insert(place, trace[place].clone());
}

fn lost(trace: &mut Vec<Entry>, place: usize) {
    trace.remove(place);
}

/// RPC-2: an answer is for the phone that asked.
#[test]
fn an_answer_at_another_phone_is_seen() {
    let run = good_run();
    let answers = tamper(&run, Invariant::EndsOnce, is_final_answer, to_another(&run));
    always(answers);
}

/// RPC-2: a request ends once.
#[test]
fn a_second_end_is_seen() {
    let run = good_run();
    always(tamper(&run, Invariant::EndsOnce, is_final_answer, twice));
    let is_failure = |what: &What| matches!(what, What::Heard(_, Heard::Failure { .. }, _));
    always(tamper(&run, Invariant::EndsOnce, is_failure, twice));
}

/// RPC-2, RPC-4: a request ends.
#[test]
fn a_lost_end_is_seen() {
    let run = good_run();
    mostly(tamper(&run, Invariant::EndsOnce, is_final_answer, lost));
    let is_failure = |what: &What| matches!(what, What::Heard(_, Heard::Failure { .. }, _));
    mostly(tamper(&run, Invariant::EndsOnce, is_failure, lost));
}

/// RPC-1: a request goes to its desktop, once.
#[test]
fn requests_that_stray_are_seen() {
    let run = good_run();
    always(tamper(
        &run,
        Invariant::EndsOnce,
        is_request,
        to_another(&run),
    ));
    always(tamper(&run, Invariant::EndsOnce, is_request, twice));
    mostly(tamper(&run, Invariant::EndsOnce, is_request, lost));
}

/// RPC-5: nothing that reached its desktop is called undelivered, and no code says what it cannot.
#[test]
fn a_lie_about_delivery_is_seen() {
    let run = good_run();
    let is_delivered = |what: &What| {
        matches!(
            what,
            What::Heard(
                _,
                Heard::Failure {
                    delivered: true,
                    ..
                },
                _
            )
        )
    };
    let deny = |trace: &mut Vec<Entry>, place: usize| {
        if let What::Heard(
            _,
            Heard::Failure {
                delivered,
                retryable,
                ..
            },
            _,
        ) = &mut trace[place].what
        {
            (*delivered, *retryable) = (false, true);
        }
    };
    mostly(tamper(&run, Invariant::Delivered, is_delivered, deny));
    let retry = |trace: &mut Vec<Entry>, place: usize| {
        if let What::Heard(_, Heard::Failure { retryable, .. }, _) = &mut trace[place].what {
            *retryable = true;
        }
    };
    always(tamper(&run, Invariant::Delivered, is_delivered, retry));
}

/// RPC-2: the parts of an answer keep their order.
#[test]
fn parts_out_of_order_are_seen() {
    let run = good_run();
    let (mut tried, mut caught) = (0, 0);
    for (first, entry) in run.trace.iter().enumerate() {
        let What::Heard(connection, Heard::Answer { id, is_final, .. }, _) = &entry.what else {
            continue;
        };
        let next = run.trace[first + 1..].iter().position(|entry| {
            matches!(&entry.what, What::Heard(on, Heard::Answer { id: other, .. }, _)
                if on == connection && other == id)
        });
        if let (Some(next), false, true) = (next, *is_final, tried < TRIES) {
            let mut trace = run.trace.clone();
            let what = trace.remove(first).what;
            let (second, at) = (first + next, trace[first + next].at);
            trace.insert(second + 1, Entry { at, what });
            tried += 1;
            caught += usize::from(is_caught(&run, trace, Invariant::InOrder));
        }
    }
    always((tried, caught));
}

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

/// RPC-6: a record that is kept too long is seen.
#[test]
fn a_record_too_many_is_seen() {
    let run = good_run();
    let is_pair = |what: &What| matches!(what, What::Pair(_, Some(_)));
    let keep = |trace: &mut Vec<Entry>, place: usize| {
        if let What::Pair(_, Some(state)) = &mut trace[place].what {
            state.pending += 1;
        }
    };
    mostly(tamper(&run, Invariant::EndsOnce, is_pair, keep));
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
        let receiver = devices
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

/// Invariant 6: what is left behind is seen.
#[test]
fn leftovers_are_seen() {
    let run = good_run();
    let last = |wanted: fn(&What) -> bool| {
        let last = run.trace.iter().rposition(|entry| wanted(&entry.what));
        last.expect("a probe at the end")
    };
    let state = last(|what| matches!(what, What::State(_)));
    for leftover in [
        RelayState {
            graces: 1,
            ..RelayState::default()
        },
        RelayState {
            sessions: 1,
            ..RelayState::default()
        },
    ] {
        let mut trace = run.trace.clone();
        trace[state].what = What::State(leftover);
        assert!(is_caught(&run, trace, Invariant::NothingLeft));
    }
    let mut trace = run.trace.clone();
    let pair = last(|what| matches!(what, What::Pair(..)));
    if let What::Pair(_, state) = &mut trace[pair].what {
        *state = Some(Default::default());
    }
    assert!(is_caught(&run, trace, Invariant::NothingLeft));
}

/// Nothing may be said or closed without a cause.
#[test]
fn surprises_are_seen() {
    let run = good_run();
    let strange = |heard: Heard| {
        move |trace: &mut Vec<Entry>, place: usize| {
            let (at, What::Heard(on, ..)) = (trace[place].at, &trace[place].what) else {
                return;
            };
            let what = What::Heard(*on, heard.clone(), 0);
            trace.insert(place, Entry { at, what });
        }
    };
    for heard in [
        Heard::Strange("{}".to_owned()),
        Heard::Error("invalidPayload".to_owned()),
        Heard::Close(4401),
        Heard::Close(1012),
    ] {
        let change = strange(heard);
        always(tamper(&run, Invariant::NoSurprise, is_status, change));
    }
}

/// DR-3: a stop tells every device.
#[test]
fn a_device_that_a_stop_forgets_is_seen() {
    let run = run_that_ends_with(&What::Stopped);
    assert_eq!(run.violations(), []);
    let is_told = |what: &What| matches!(what, What::Heard(_, Heard::Close(1012), _));
    let forget = |trace: &mut Vec<Entry>, place: usize| {
        let What::Heard(told, ..) = trace[place].what else {
            return;
        };
        trace.retain(|entry| {
            !matches!(entry.what, What::Heard(on, Heard::Close(_) | Heard::End, _) if on == told)
        });
    };
    always(tamper(&run, Invariant::EndsOnce, is_told, forget));
}
