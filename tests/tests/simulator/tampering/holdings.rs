//! What the relay holds: records, leases, bytes, and what is left when all are gone.

use relay_actors::socket::SocketState;
use relay_actors::socket::lanes::LaneLoad;
use relay_actors::{PairState, RelayState};
use relay_tests::simulator::oracle::Invariant;
use relay_tests::simulator::trace::{Entry, What};

use super::{always, good_run, is_caught, mostly, tamper};

/// Changes what a pair says that it holds, of some places that have one; mostly this is seen.
fn change_pairs(as_this: Invariant, change: impl Fn(&mut PairState)) {
    let is_pair = |what: &What| matches!(what, What::Pair(_, Some(_)));
    let change = |trace: &mut Vec<Entry>, place: usize| {
        if let What::Pair(_, Some(state)) = &mut trace[place].what {
            change(state);
        }
    };
    mostly(tamper(&good_run(), as_this, is_pair, change));
}

/// RPC-6: a record that is kept too long is seen.
#[test]
fn a_record_too_many_is_seen() {
    change_pairs(Invariant::EndsOnce, |pair| pair.pending += 1);
}

/// TL-3: a lease that a pair keeps too long is seen.
#[test]
fn a_lease_too_many_is_seen() {
    change_pairs(Invariant::NothingLeft, |pair| pair.leases += 1);
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
