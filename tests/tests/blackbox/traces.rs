//! Traces from outside: what a collector is sent of a request, and that nobody notices a collector that
//! is not there (OP-7, RPC-10).

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use relay_tests::blackbox::{Account, Relay, Socket, TraceCollector, hex};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// A `traceparent` of the caller's.
fn parent(trace: &str, flags: &str) -> String {
    format!("00-{trace}-{CALLER}-{flags}")
}

async fn ask(phone: &mut Socket, id: &str, traceparent: &str) {
    let payload = json!({
        "id": id,
        "method": "session.list",
        "params": { "text": "a private word" },
        "traceparent": traceparent,
    });
    phone
        .send(&json!({ "type": "rpc.request", "payload": payload }))
        .await;
}

fn attribute<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    let found = span
        .attributes
        .iter()
        .find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// OP-7, RPC-10: the caller's trace gets a span of the request below the caller's own, and below that one
/// for each part of its way, which follow each other without a gap. The desktop sees the caller's
/// `traceparent` unchanged.
#[tokio::test]
async fn a_request_is_traced_through_the_relay() {
    let collector = TraceCollector::start().await;
    let relay = Relay::start_with(&[("telemetry.otlp_endpoint", &collector.endpoint())]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    ask(&mut phone, "r1", &parent(TRACE, "01")).await;
    let request = desktop.next_request().await;
    assert_eq!(request["traceparent"], json!(parent(TRACE, "01")));
    desktop
        .answer(&request, json!("another private word"))
        .await;
    phone.next_response().await;

    let spans = collector.spans_of(TRACE, 5).await;
    let named = |name: &str| {
        let found = spans.iter().find(|span| span.name == name);
        found.unwrap_or_else(|| panic!("no span {name}: {spans:#?}"))
    };
    let root = named("rpc.request");
    assert_eq!(hex(&root.parent_span_id), CALLER);
    assert_eq!(root.kind, SpanKind::Server as i32);
    assert_eq!(attribute(root, "rpc.method"), Some("session.list"));
    assert_eq!(attribute(root, "relay.outcome"), Some("answered"));
    let mut time = root.start_time_unix_nano;
    for part in ["queueing", "forward", "desktop", "answer"] {
        let part = named(part);
        assert_eq!(part.parent_span_id, root.span_id);
        assert_eq!(part.start_time_unix_nano, time, "{spans:#?}");
        assert!(part.end_time_unix_nano > time, "{spans:#?}");
        time = part.end_time_unix_nano;
    }
    assert_eq!(time, root.end_time_unix_nano);
    relay
        .figure_becomes("relay_trace_spans_exported_total", 5.0)
        .await;
    let told = format!("{:?}", collector.spans());
    for secret in [
        &phone.device.id,
        &desktop.device.id,
        &phone.device.account.id,
    ] {
        assert!(!told.contains(secret.as_str()), "{told}");
    }
    assert!(!told.contains("private"), "{told}");
}

/// OP-7: requests that the relay answers itself are traced too, with the error.
#[tokio::test]
async fn a_failed_request_is_traced_with_its_error() {
    let collector = TraceCollector::start().await;
    let relay = Relay::start_with(&[("telemetry.otlp_endpoint", &collector.endpoint())]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    ask(&mut phone, "r1", &parent(TRACE, "01")).await;
    desktop.next_request().await;
    desktop.vanish();
    assert_eq!(phone.next_response().await["error"]["code"], -32011);
    let spans = collector.spans_of(TRACE, 5).await;
    let root = spans
        .iter()
        .find(|span| span.name == "rpc.request")
        .expect("the request's span");
    assert_eq!(attribute(root, "relay.outcome"), Some("failed"));
    let status = root.status.as_ref().expect("a status");
    assert_eq!(status.code, SpanStatus::Error as i32);
    assert_eq!(status.message, "Desktop is reconnecting");

    let other = TRACE.replace('4', "5");
    ask(&mut phone, "r2", &parent(&other, "01")).await;
    phone.next_response().await;
    // It was forwarded to nobody: nothing of its way is there but the answer.
    let spans = collector.spans_of(&other, 2).await;
    assert!(
        spans
            .iter()
            .all(|span| ["rpc.request", "answer"].contains(&span.name.as_str()))
    );
}

/// OP-7: the caller decides. Without its flag, without a `traceparent`, or with one that is not valid,
/// nothing is told.
#[tokio::test]
async fn what_is_not_sampled_is_not_told() {
    let collector = TraceCollector::start().await;
    let relay = Relay::start_with(&[("telemetry.otlp_endpoint", &collector.endpoint())]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let silent = TRACE.replace('4', "5");
    ask(&mut phone, "unsampled", &parent(&silent, "00")).await;
    ask(
        &mut phone,
        "invalid",
        &format!("{}x", parent(&silent, "01")),
    )
    .await;
    phone.request("untraced", "session.list", json!({})).await;
    ask(&mut phone, "sampled", &parent(TRACE, "01")).await;
    for _ in 0..4 {
        let request = desktop.next_request().await;
        desktop.answer(&request, Value::Null).await;
        phone.next_response().await;
    }
    collector.spans_of(TRACE, 5).await;
    assert_eq!(collector.spans().len(), 5);
}

/// OP-7: an HTTP call is one span of its caller's trace.
#[tokio::test]
async fn an_http_call_is_traced() {
    let collector = TraceCollector::start().await;
    let relay = Relay::start_with(&[("telemetry.otlp_endpoint", &collector.endpoint())]).await;
    let traceparent = parent(TRACE, "01");
    let headers = [("traceparent", traceparent.as_str())];
    relay.call(Method::GET, "/healthz", &headers, None).await;
    let spans = collector.spans_of(TRACE, 1).await;
    assert_eq!(spans[0].name, "GET /healthz");
    assert_eq!(hex(&spans[0].parent_span_id), CALLER);
    assert_eq!(attribute(&spans[0], "http.route"), Some("/healthz"));
}

/// OP-7: a collector that is away, or that refuses, costs its traces and one line in the log, and hurts
/// nobody; those that wait when the relay stops are told then.
#[tokio::test]
async fn a_collector_that_is_away_hurts_nobody() {
    // A port on which nobody listens, as long as nobody takes it: connections to it are refused.
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let endpoint = format!("http://{}", nobody.local_addr().expect("it is bound"));
    drop(nobody);
    let mut relay = Relay::start_with(&[("telemetry.otlp_endpoint", &endpoint)]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let lost = "relay_trace_spans_dropped_total{reason=\"export_failed\"}";
    for round in 1..=2 {
        ask(&mut phone, &format!("r{round}"), &parent(TRACE, "01")).await;
        let request = desktop.next_request().await;
        desktop.answer(&request, json!(round)).await;
        assert_eq!(phone.next_response().await["result"], json!(round));
        relay.figure_becomes(lost, f64::from(5 * round)).await;
    }
    relay.signal("TERM").await;
    desktop.expect_close(1012).await;
    assert!(relay.exit_status().await.success());
    relay
        .evidence()
        .wait_for("the end", |line| line.contains("\"stopped\"").then_some(()))
        .await;
    let lines = relay.evidence().lines();
    let told = lines
        .iter()
        .filter(|line| line.contains("does not take traces"));
    assert_eq!(told.count(), 1, "{lines:#?}");
}

/// OP-7: what waits to be sent when the relay stops is sent.
#[tokio::test]
async fn the_last_traces_are_sent_at_the_end() {
    let collector = TraceCollector::start().await;
    let mut relay = Relay::start_with(&[("telemetry.otlp_endpoint", &collector.endpoint())]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    ask(&mut phone, "r1", &parent(TRACE, "01")).await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!(1)).await;
    phone.next_response().await;
    relay.signal("TERM").await;
    phone.expect_close(1012).await;
    desktop.expect_close(1012).await;
    assert!(relay.exit_status().await.success());
    assert_eq!(collector.spans_of(TRACE, 5).await.len(), 5);
}

/// OP-7: spans that a collector refuses are counted as lost, and those that it takes later as sent.
#[tokio::test]
async fn what_a_collector_refuses_is_counted() {
    let collector = TraceCollector::answering(StatusCode::SERVICE_UNAVAILABLE).await;
    let relay = Relay::start_with(&[("telemetry.otlp_endpoint", &collector.endpoint())]).await;
    let traceparent = parent(TRACE, "01");
    let headers = [("traceparent", traceparent.as_str())];
    relay.call(Method::GET, "/healthz", &headers, None).await;
    let lost = "relay_trace_spans_dropped_total{reason=\"export_failed\"}";
    relay.figure_becomes(lost, 1.0).await;
    let page = relay.figures().await;
    assert_eq!(page.of("relay_trace_spans_exported_total"), 0.0);
}

/// OP-7: a collector that takes connections and says nothing does not hold the end of the process.
#[tokio::test]
async fn a_silent_collector_does_not_hold_the_end() {
    // Its kernel takes the connections, and nobody takes them from there.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let endpoint = format!("http://{}", silent.local_addr().expect("it is bound"));
    let mut relay = Relay::start_with(&[("telemetry.otlp_endpoint", &endpoint)]).await;
    let traceparent = parent(TRACE, "01");
    let headers = [("traceparent", traceparent.as_str())];
    relay.call(Method::GET, "/healthz", &headers, None).await;
    relay.signal("TERM").await;
    assert!(relay.exit_status().await.success());
    relay
        .evidence()
        .wait_for("the loss of the last traces", |line| {
            line.contains("did not take the last traces").then_some(())
        })
        .await;
}
