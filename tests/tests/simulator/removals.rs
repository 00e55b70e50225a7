//! What the oracle sees of devices that are forgotten or signed out, as in `tampering`.

use relay_tests::simulator::frames::{Heard, Session};
use relay_tests::simulator::oracle::Invariant;
use relay_tests::simulator::trace::{Entry, Removal, What};

use crate::tampering::{always, good_run, lost, mostly, tamper, twice};

fn is_unlinked(what: &What) -> bool {
    matches!(what, What::Heard(_, Heard::Unlinked(_), _))
}

fn is_close(what: &What, wanted: u16) -> bool {
    matches!(what, What::Heard(_, Heard::Close(code), _) if *code == wanted)
}

/// PR-4, SES-2: a forgotten or signed-out device that keeps its connection is seen.
#[test]
fn a_route_that_stays_is_seen() {
    let run = good_run();
    let stay = |trace: &mut Vec<Entry>, place: usize| {
        let What::Heard(closed, ..) = trace[place].what else {
            return;
        };
        trace.retain(|entry| {
            !matches!(entry.what, What::Heard(on, Heard::Close(_) | Heard::End, _) if on == closed)
        });
    };
    let of_route = |code: u16| {
        let run = &run;
        move |what: &What| {
            let What::Heard(on, ..) = what else {
                return false;
            };
            let refused = run.trace.iter().any(|entry| {
                matches!(&entry.what, What::Heard(other, Heard::Error(_), _) if other == on)
            });
            is_close(what, code) && !refused
        }
    };
    for code in [4403, 4401] {
        mostly(tamper(&run, Invariant::Gone, of_route(code), stay));
    }
}

/// EV-3: a forget that a device does not hear of is seen, and one that it hears of twice, unless it could
/// have been another one.
#[test]
fn a_forget_unheard_is_seen() {
    let run = good_run();
    mostly(tamper(&run, Invariant::Gone, is_unlinked, lost));
    mostly(tamper(&run, Invariant::NoSurprise, is_unlinked, twice));
}

/// REG-4, PR-4: a forgotten device that is registered is seen.
#[test]
fn a_forgotten_device_that_is_admitted_is_seen() {
    let run = good_run();
    let is_refused = |what: &What| matches!(what, What::Heard(_, Heard::Error(code), _) if code == "desktopForgotten");
    let admit = |trace: &mut Vec<Entry>, place: usize| {
        if let What::Heard(_, heard, _) = &mut trace[place].what {
            *heard = Heard::Registered(Session {
                id: "another".to_owned(),
                token: "token".to_owned(),
            });
        }
    };
    mostly(tamper(&run, Invariant::Gone, is_refused, admit));
}

/// SES-2: closes and refusals that nobody asked for are seen.
#[test]
fn a_removal_without_a_cause_is_seen() {
    let run = good_run();
    for (code, removal) in [(4403, Removal::Forget), (4401, Removal::SignOut)] {
        let unasked = |trace: &mut Vec<Entry>, _: usize| {
            trace.retain(|entry| {
                !matches!(entry.what, What::Removing(by, _) | What::Removed(by, ..) if by == removal)
            });
        };
        let closed = |what: &What| is_close(what, code);
        always(tamper(&run, Invariant::NoSurprise, closed, unasked));
    }
}
