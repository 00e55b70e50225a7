//! Each invariant can fail: traces of good runs that were tampered with are not taken for good.

mod causes;
mod holdings;
mod presence;
mod rpc;
mod timeline;

use std::rc::Rc;

use relay_tests::simulator::frames::Heard;
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
