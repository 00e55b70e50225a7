//! What the real actors count and trace on a paused clock: that each thing has one end, and that what
//! goes up comes down again (OP-6, OP-7).

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relay_actors::Telemetry;
use relay_actors::metrics::Tally;
use relay_actors::traces::{TraceOutcome, TraceSink, TracedRequest};
use relay_model::limits::Limits;
use relay_model::wire::codes::RpcErrorCode;
use relay_tests::memory_store::MemoryStore;
use relay_tests::paused::{Device, Run, pass};
use serde_json::{Value, json};

const FLUSH: Duration = Duration::from_millis(250);
const MOMENT: Duration = Duration::from_millis(5);

fn read(run: &Run, tally: Tally) -> u64 {
    run.relay.metrics().tallies().read(tally)
}

async fn pair(run: &Run) -> (Device, Device) {
    let account = run.account();
    let desktop = run.desktop(account).await;
    let phone = run.phone(account, desktop.id).await;
    (desktop, phone)
}

/// The id of the failure that a phone hears when its desktop leaves; the status beside it may come first.
async fn failure_beside_status(phone: &mut Device) -> String {
    let heard = [phone.next().await, phone.next().await];
    let failures = heard.iter().filter(|frame| frame["type"] == "rpc.response");
    let ids: Vec<_> = failures
        .map(|frame| frame["payload"]["id"].as_str())
        .collect();
    assert!(matches!(ids[..], [Some(_)]), "{heard:?}");
    ids.into_iter().flatten().collect()
}

/// OP-6, TL-8, TL-3: each snapshot that was accepted for a phone ends as one thing, and is counted as
/// that: replaced, sent, or gone with its lease.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn snapshots_are_counted_by_their_end() {
    let run = Run::start();
    let (mut desktop, mut phone) = pair(&run).await;
    phone.interest("s", true).await;
    let proof = desktop.next_lease_state().await["authorizationGeneration"].clone();
    for revision in 1..=3 {
        desktop.snapshot("s", &proof, revision, json!("x")).await;
    }
    assert_eq!(phone.next_snapshot().await["revision"], 3);
    desktop.snapshot("s", &proof, 2, json!("x")).await;
    desktop.snapshot("s", &proof, 4, json!("x")).await;
    desktop.snapshot("s", &json!(0), 5, json!("x")).await;
    pass(MOMENT).await;
    assert_eq!(read(&run, Tally::TimelineLeases), 1);
    phone.interest("s", false).await;
    phone.hears_nothing_for(2 * FLUSH).await;
    for (tally, number) in [
        (Tally::TimelineAccepted, 4),
        (Tally::TimelineCoalesced, 2),
        (Tally::TimelineSent, 1),
        (Tally::TimelineExpired, 1),
        (Tally::TimelineEvicted, 0),
        (Tally::TimelineStale, 1),
        (Tally::TimelineUnauthorized, 1),
        (Tally::TimelineLeases, 0),
    ] {
        assert_eq!(read(&run, tally), number, "{tally:?}");
    }
}

/// OP-6, RPC-4, RPC-6: pending requests are counted while they are pending, whatever ends them: an
/// answer, the desktop's leaving, their deadline, or the end of the pair.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn pending_requests_go_down_again() {
    let run = Run::with_limits(|limits| limits.record_lifetime = Duration::from_secs(60));
    let (mut desktop, mut phone) = pair(&run).await;
    for id in ["a", "b", "c"] {
        phone.request(id).await;
        assert_eq!(desktop.next_request().await, id);
    }
    phone.request("c").await;
    pass(MOMENT).await;
    assert_eq!(read(&run, Tally::RpcPending), 3);
    assert_eq!(read(&run, Tally::RpcDuplicate), 1);
    desktop.answer("a", json!(1)).await;
    assert_eq!(phone.next_result().await.0, "a");
    assert_eq!(read(&run, Tally::RpcPending), 2);
    pass(Duration::from_secs(61)).await;
    assert_eq!(read(&run, Tally::RpcPending), 0);
    assert_eq!(read(&run, Tally::RpcExpired), 2);

    phone.request("d").await;
    assert_eq!(desktop.next_request().await, "d");
    desktop.vanish();
    assert_eq!(failure_beside_status(&mut phone).await, "d");
    phone.request("e").await;
    assert_eq!(phone.next_failure().await.0, "e");
    let state = run.state().await;
    assert_eq!((state.pending_requests, state.under_way), (0, 0));
    assert_eq!(read(&run, Tally::RpcForwarded), 4);
    assert_eq!(read(&run, Tally::RpcRefused), 1);
    assert_eq!(read(&run, Tally::RpcDelivered), 1);
}

/// OP-6, TR-10: a frame that found no room is counted once, where there was none.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn what_finds_no_room_is_counted() {
    let run = Run::with_limits(|limits| limits.event_lane_bytes = 64 * 1024);
    let (mut desktop, phone) = pair(&run).await;
    let before = read(&run, Tally::LaneFull);
    // The phone reads nothing.
    let text = "x".repeat(40_000);
    for _ in 0..200 {
        desktop.event("test:event", json!(text)).await;
        pass(MOMENT).await;
        if read(&run, Tally::LaneFull) > before {
            break;
        }
    }
    assert_eq!(read(&run, Tally::LaneFull), before + 1);
    let published = read(&run, Tally::EventsPublished);
    assert_eq!(read(&run, Tally::EventsRouted), published - 1);
    drop(phone);
}

/// Keeps the traces that are over.
struct Kept(Mutex<Sender<TracedRequest>>);

impl TraceSink for Kept {
    fn finished(&self, request: TracedRequest) {
        let sender = self.0.lock().expect("nobody panics with it");
        sender.send(request).expect("the test listens");
    }
}

fn traced(change: impl FnOnce(&mut Limits)) -> (Run, Receiver<TracedRequest>) {
    let (sender, traces) = channel();
    let telemetry = Telemetry {
        traces: Some(Arc::new(Kept(Mutex::new(sender)))),
        ..Telemetry::default()
    };
    (Run::observed(MemoryStore::new(), change, telemetry), traces)
}

async fn ask(phone: &mut Device, id: &str, method: &str) {
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let payload = json!({ "id": id, "method": method, "traceparent": traceparent });
    phone
        .send(json!({ "type": "rpc.request", "payload": payload }))
        .await;
}

/// OP-7: every end of a request ends its trace, once, and says which end it was.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn every_end_of_a_request_ends_its_trace() {
    let (run, traces) = traced(|limits| limits.record_lifetime = Duration::from_secs(60));
    let (mut desktop, mut phone) = pair(&run).await;
    let ended = |method: &str| {
        let ended = traces.try_recv().expect("a trace is over");
        assert_eq!(&*ended.method, method);
        assert!(traces.try_recv().is_err(), "only this one is over");
        ended
    };

    ask(&mut phone, "a", "answered").await;
    assert_eq!(desktop.next_request().await, "a");
    ask(&mut phone, "a", "duplicate").await;
    pass(Duration::from_secs(1)).await;
    assert_eq!(ended("duplicate").outcome, TraceOutcome::Duplicate);
    let partial = json!({ "id": "a", "result": 0, "isFinal": false });
    desktop
        .send(json!({ "type": "rpc.response", "payload": partial }))
        .await;
    phone.next_result().await;
    assert!(
        traces.try_recv().is_err(),
        "a part of an answer ends nothing"
    );
    desktop.answer("a", json!(1)).await;
    phone.next_result().await;
    let answered = ended("answered");
    assert_eq!(answered.outcome, TraceOutcome::Answered);
    let moments = [
        answered.forwarded,
        answered.written,
        answered.answered,
        answered.delivered,
    ];
    assert!(
        moments.iter().all(Option::is_some) && moments.is_sorted(),
        "{moments:?}"
    );
    assert!(
        answered.answered >= Some(Duration::from_secs(1)),
        "the desktop's time"
    );

    ask(&mut phone, "b", "error").await;
    assert_eq!(desktop.next_request().await, "b");
    let error = json!({ "id": "b", "error": { "code": 1, "message": "no" } });
    desktop
        .send(json!({ "type": "rpc.response", "payload": error }))
        .await;
    phone.next_failure().await;
    assert_eq!(ended("error").outcome, TraceOutcome::DesktopError);

    ask(&mut phone, "c", "expired").await;
    assert_eq!(desktop.next_request().await, "c");
    pass(Duration::from_secs(61)).await;
    let expired = ended("expired");
    assert_eq!(
        (expired.outcome, expired.answered),
        (TraceOutcome::Lost, None)
    );
    assert!(expired.ended >= Duration::from_secs(60));

    ask(&mut phone, "", "invalid").await;
    phone.next_failure().await;
    let invalid = TraceOutcome::Failed(RpcErrorCode::InvalidRequest);
    assert_eq!(ended("invalid").outcome, invalid);

    ask(&mut phone, "d", "left").await;
    assert_eq!(desktop.next_request().await, "d");
    desktop.vanish();
    assert_eq!(failure_beside_status(&mut phone).await, "d");
    let left = ended("left");
    let reconnecting = TraceOutcome::Failed(RpcErrorCode::DesktopReconnecting);
    assert_eq!(left.outcome, reconnecting);
    assert!(left.delivered.is_some());

    ask(&mut phone, "e", "refused").await;
    phone.next_failure().await;
    let refused = ended("refused");
    assert_eq!((refused.outcome, refused.forwarded), (reconnecting, None));
    let silent: Value = json!({ "id": "f", "method": "untraced" });
    phone
        .send(json!({ "type": "rpc.request", "payload": silent }))
        .await;
    phone.next_failure().await;
    assert!(traces.try_recv().is_err(), "nobody asked for this one");
}
