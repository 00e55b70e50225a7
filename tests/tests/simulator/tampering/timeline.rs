//! Leases, snapshots and notices.

use std::time::Duration;

use relay_tests::simulator::frames::{Heard, Said};
use relay_tests::simulator::oracle::Invariant;
use relay_tests::simulator::timeline_frames::{LeaseState, Snapshot};
use relay_tests::simulator::trace::{Entry, What};
use relay_tests::simulator::{self, Run, STEPS};

use super::{TRIES, always, good_run, is_caught, lost, mostly, tamper, to_another, twice};

fn is_snapshot(what: &What) -> bool {
    matches!(what, What::Heard(_, Heard::Snapshot { .. }, _))
}

fn is_lease_state(what: &What) -> bool {
    matches!(what, What::Heard(_, Heard::Leases(_), _))
}

fn is_notice(what: &What) -> bool {
    matches!(what, What::Heard(_, Heard::Stale { .. }, _))
}

fn count(run: &Run, fits: impl Fn(&What) -> bool) -> usize {
    run.trace.iter().filter(|entry| fits(&entry.what)).count()
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
