//! Requests and answers.

use relay_tests::simulator::frames::Heard;
use relay_tests::simulator::oracle::Invariant;
use relay_tests::simulator::trace::{Entry, What};

use super::{
    TRIES, always, good_run, is_caught, is_request, lost, mostly, tamper, to_another, twice,
};

fn is_final_answer(what: &What) -> bool {
    matches!(
        what,
        What::Heard(_, Heard::Answer { is_final: true, .. }, _)
    )
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
