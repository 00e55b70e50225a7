//! Each invariant can fail: traces of good runs that were tampered with are not taken for good.

use std::rc::Rc;
use std::time::Duration;

use relay_actors::RelayState;
use relay_actors::socket::SocketState;
use relay_actors::socket::lanes::LaneLoad;
use relay_model::store::DeviceStatus;
use relay_tests::simulator::frames::{Heard, Said, Word};
use relay_tests::simulator::oracle::Invariant;
use relay_tests::simulator::timeline_frames::{LeaseState, Snapshot};
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
pub(crate) fn good_run() -> Run {
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
pub(crate) fn tamper(
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
pub(crate) fn always((tried, caught): (usize, usize)) {
    assert!(tried > 0, "nothing to tamper with");
    assert_eq!(tried, caught);
}

/// Half of them are caught at least: the others make no difference, or only the relay could know.
pub(crate) fn mostly((tried, caught): (usize, usize)) {
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

pub(crate) fn twice(trace: &mut Vec<Entry>, place: usize) {
    trace.insert(place, trace[place].clone());
}

pub(crate) fn lost(trace: &mut Vec<Entry>, place: usize) {
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

fn is_snapshot(what: &What) -> bool {
    matches!(what, What::Heard(_, Heard::Snapshot { .. }, _))
}

fn is_lease_state(what: &What) -> bool {
    matches!(what, What::Heard(_, Heard::Leases(_), _))
}

/// TL-5, TL-12: a snapshot at another device, one that nobody published, one under another proof or
/// another session.
#[test]
fn snapshots_that_stray_are_seen() {
    let run = good_run();
    let as_this = Invariant::Authorized;
    always(tamper(&run, as_this, is_snapshot, to_another(&run)));
    let forge = |change: fn(&mut Snapshot)| {
        move |trace: &mut Vec<Entry>, place: usize| {
            if let What::Heard(_, Heard::Snapshot { snapshot, .. }, _) = &mut trace[place].what {
                change(snapshot);
            }
        }
    };
    for change in [
        (|snapshot| snapshot.serial += 1_000_000) as fn(&mut Snapshot),
        |snapshot| snapshot.window.session.0 += 1,
        |snapshot| snapshot.version.revision += 1,
        |snapshot| snapshot.pad += 1,
        |snapshot| snapshot.proof = Some(1),
    ] {
        always(tamper(&run, as_this, is_snapshot, forge(change)));
    }
    // As if its desktop had published it with another proof than the one that it was told.
    let heard = |serial: u64| {
        run.trace.iter().any(|entry| {
            matches!(&entry.what, What::Heard(_, Heard::Snapshot { snapshot, .. }, _)
                if snapshot.serial == serial)
        })
    };
    let was_heard = |what: &What| matches!(what, What::Sent(_, Said::Snapshot(snapshot)) if heard(snapshot.serial));
    for proof in [None, Some(0), Some(1_000_000)] {
        let lie = |trace: &mut Vec<Entry>, place: usize| {
            let What::Sent(_, Said::Snapshot(Snapshot { serial, .. })) = trace[place].what else {
                return;
            };
            for entry in trace {
                if let What::Sent(_, Said::Snapshot(sent)) = &mut entry.what
                    && sent.serial == serial
                {
                    sent.proof = proof;
                }
            }
        };
        always(tamper(&run, as_this, was_heard, lie));
    }
}

/// TL-3: a snapshot that comes without an interest, or after its deadline, is seen.
#[test]
fn snapshots_without_a_lease_are_seen() {
    let run = good_run();
    let without_interest = |trace: &mut Vec<Entry>, place: usize| {
        let What::Heard(on, ..) = trace[place].what else {
            return;
        };
        trace.retain(
            |entry| !matches!(entry.what, What::Sent(by, Said::Interest { .. }) if by == on),
        );
    };
    let as_this = Invariant::Authorized;
    always(tamper(&run, as_this, is_snapshot, without_interest));
    // Every interest of the phone but its first: what came later came after the deadline.
    let (mut tried, mut caught) = (0, 0);
    for (place, entry) in run.trace.iter().enumerate() {
        let What::Heard(on, Heard::Snapshot { .. }, _) = entry.what else {
            continue;
        };
        let interests: Vec<_> = (0..place)
            .filter(|earlier| {
                matches!(run.trace[*earlier].what, What::Sent(by, Said::Interest { .. }) if by == on)
            })
            .collect();
        let too_late = run.trace[interests[0]].at + run.limits.timeline_interest_ttl;
        if tried < TRIES && entry.at > too_late + Duration::from_secs(1) {
            let mut trace = run.trace.clone();
            for renewal in interests[1..].iter().rev() {
                trace.remove(*renewal);
            }
            tried += 1;
            caught += usize::from(is_caught(&run, trace, as_this));
        }
    }
    // What a phone reads late may have been sent in time, and phones that read late hear much at once.
    assert!(4 * caught >= tried, "{caught} of {tried}");
}

/// TL-8: a snapshot that comes twice is one that does not rise.
#[test]
fn versions_that_do_not_rise_are_seen() {
    let run = good_run();
    mostly(tamper(&run, Invariant::Rises, is_snapshot, twice));
}

/// TL-10: events without their pause are seen.
#[test]
fn events_without_a_pause_are_seen() {
    let run = good_run();
    let is_event = |what: &What| {
        matches!(
            what,
            What::Heard(
                _,
                Heard::Snapshot { .. } | Heard::Stale { .. } | Heard::AllStale,
                _
            )
        )
    };
    mostly(tamper(&run, Invariant::Paced, is_event, twice));
}

/// TL-13: the newest snapshot of a window comes, or the phone is told that it missed it.
#[test]
fn lost_snapshots_and_notices_are_seen() {
    let run = good_run();
    let as_this = Invariant::Newest;
    let (tried, caught) = tamper(&run, as_this, is_snapshot, lost);
    assert!(caught > 0, "none of {tried}");
    let evicts = (0..)
        .map(|seed| simulator::run(seed, STEPS))
        .find(|run| count(run, is_notice) > 2)
        .expect("one of all seeds");
    let (tried, caught) = tamper(&evicts, as_this, is_notice, lost);
    assert!(caught > 0, "none of {tried}");
}

fn is_notice(what: &What) -> bool {
    matches!(what, What::Heard(_, Heard::Stale { .. }, _))
}

fn count(run: &Run, fits: impl Fn(&What) -> bool) -> usize {
    run.trace.iter().filter(|entry| fits(&entry.what)).count()
}

/// TL-13: a notice for a window of which nothing was lost is seen.
#[test]
fn untrue_notices_are_seen() {
    let run = good_run();
    let notice = |trace: &mut Vec<Entry>, place: usize| {
        let (at, What::Heard(on, Heard::Snapshot { snapshot, .. }, _)) =
            (trace[place].at, &trace[place].what)
        else {
            return;
        };
        let heard = Heard::Stale {
            window: snapshot.window,
            version: snapshot.version,
        };
        let what = What::Heard(*on, heard, 0);
        trace.insert(place + 1, Entry { at, what });
    };
    mostly(tamper(&run, Invariant::Newest, is_snapshot, notice));
    let never_published = |trace: &mut Vec<Entry>, place: usize| {
        notice(trace, place);
        if let What::Heard(_, Heard::Stale { version, .. }, _) = &mut trace[place + 1].what {
            version.epoch += 1_000;
        }
    };
    let as_this = Invariant::Authorized;
    always(tamper(&run, as_this, is_snapshot, never_published));
}

/// TL-4, TL-7, REG-7: what a desktop is told of leases is true, and told once.
#[test]
fn a_lie_about_leases_is_seen() {
    let run = good_run();
    let as_this = Invariant::Told;
    mostly(tamper(&run, as_this, is_lease_state, lost));
    always(tamper(&run, as_this, is_lease_state, twice));
    let to_phone = |trace: &mut Vec<Entry>, place: usize| {
        let phone = trace.iter().find_map(|entry| match entry.what {
            What::Sent(phone, Said::Interest { .. }) => Some(phone),
            _ => None,
        });
        if let What::Heard(on, ..) = &mut trace[place].what {
            *on = phone.expect("somebody took an interest");
        }
    };
    always(tamper(&run, as_this, is_lease_state, to_phone));
    let lie = |change: fn(&mut LeaseState)| {
        move |trace: &mut Vec<Entry>, place: usize| {
            if let What::Heard(_, Heard::Leases(state), _) = &mut trace[place].what {
                change(state);
            }
        }
    };
    let ends = |state: &mut LeaseState| {
        (state.active, state.expires, state.generation) = (false, None, None);
    };
    let later =
        |state: &mut LeaseState| state.expires = Some(state.expires.unwrap_or_default() * 2);
    let is_active =
        |what: &What| matches!(what, What::Heard(_, Heard::Leases(state), _) if state.active);
    mostly(tamper(&run, as_this, is_active, lie(ends)));
    mostly(tamper(&run, as_this, is_active, lie(later)));
    for change in [
        (|state| state.active = !state.active) as fn(&mut LeaseState),
        |state| state.revision = 1,
        |state| state.generation = None,
    ] {
        mostly(tamper(&run, as_this, is_active, lie(change)));
    }
    // A generation that comes back, or is another session's.
    let first = run.trace.iter().find_map(|entry| match entry.what {
        What::Heard(_, Heard::Leases(state), _) => state.generation,
        _ => None,
    });
    let reuse = |trace: &mut Vec<Entry>, place: usize| {
        if let What::Heard(_, Heard::Leases(state), _) = &mut trace[place].what {
            state.generation = first;
        }
    };
    mostly(tamper(&run, as_this, is_active, reuse));
}

/// TL-3: a lease that a pair keeps too long is seen.
#[test]
fn a_lease_too_many_is_seen() {
    let run = good_run();
    let is_pair = |what: &What| matches!(what, What::Pair(_, Some(_)));
    let keep = |trace: &mut Vec<Entry>, place: usize| {
        if let What::Pair(_, Some(state)) = &mut trace[place].what {
            state.leases += 1;
        }
    };
    mostly(tamper(&run, Invariant::NothingLeft, is_pair, keep));
}

/// Invariant 7: what is held beyond a budget is seen.
#[test]
fn too_much_held_is_seen() {
    let run = good_run();
    let is_socket = |what: &What| matches!(what, What::Socket(_, Some(_)));
    let hold = |change: fn(&mut SocketState)| {
        move |trace: &mut Vec<Entry>, place: usize| {
            if let What::Socket(_, Some(state)) = &mut trace[place].what {
                change(state);
            }
        }
    };
    let too_much = LaneLoad {
        messages: 1_000_000,
        bytes: 1 << 40,
    };
    let too_large = LaneLoad {
        messages: 2,
        bytes: 1 << 40,
    };
    let lanes: [fn(&mut SocketState, LaneLoad); 4] = [
        |state, load| state.rpc = load,
        |state, load| state.event = load,
        |state, load| state.snapshots = load,
        |state, load| state.inbound = load,
    ];
    for lane in lanes {
        for load in [too_much, too_large] {
            let change = |trace: &mut Vec<Entry>, place: usize| {
                if let What::Socket(_, Some(state)) = &mut trace[place].what {
                    lane(state, load);
                }
            };
            always(tamper(&run, Invariant::Bounded, is_socket, change));
        }
    }
    let unfinished = hold(|state| state.unfinished = usize::MAX);
    always(tamper(&run, Invariant::Bounded, is_socket, unfinished));
    let control = hold(|state| state.control.messages = 1_000);
    always(tamper(&run, Invariant::Bounded, is_socket, control));
    let is_state = |what: &What| matches!(what, What::State(_));
    for change in [
        (|state| state.outbound_bytes = u64::MAX) as fn(&mut RelayState),
        |state| state.unfinished_bytes = u64::MAX,
    ] {
        let hold = |trace: &mut Vec<Entry>, place: usize| {
            if let What::State(state) = &mut trace[place].what {
                change(state);
            }
        };
        always(tamper(&run, Invariant::Bounded, is_state, hold));
    }
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
        RelayState {
            outbound_bytes: 1,
            ..RelayState::default()
        },
        RelayState {
            unfinished_bytes: 1,
            ..RelayState::default()
        },
    ] {
        let mut trace = run.trace.clone();
        trace[state].what = What::State(Box::new(leftover));
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
        Heard::Close(1008),
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
