//! Things that happen without a cause, or do not happen although they have one.

use relay_tests::simulator::frames::Heard;
use relay_tests::simulator::oracle::Invariant;
use relay_tests::simulator::trace::{Entry, What};

use super::{always, good_run, is_status, run_that_ends_with, tamper};

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
