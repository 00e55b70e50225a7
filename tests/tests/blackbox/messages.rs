//! Text messages that are no frames of this protocol, and the keep-alive that is (TR-6 to TR-8,
//! ENV-3, KA-1).

use relay_tests::blackbox::{Account, Relay, Socket, failure};
use serde_json::json;

/// TR-7, ENV-3: every way of being wrong has its code, names the frame's type where it can be read,
/// and leaves the connection as it was.
#[tokio::test]
async fn wrong_messages_are_answered() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut registered = relay.desktop(&account).await;
    let mut unregistered = relay.upgrade(&account.new_desktop()).await;
    for socket in [&mut registered, &mut unregistered] {
        for (text, code, request_type) in [
            ("", "invalidJson", None),
            ("{", "invalidJson", None),
            ("{\"type\":\"ping\"} x", "invalidJson", None),
            ("{\"type\":\"ping\",}", "invalidJson", None),
            ("{'type':'ping'}", "invalidJson", None),
            ("\u{feff}{\"type\":\"ping\"}", "invalidJson", None),
            ("[]", "invalidPayload", None),
            ("[\"ping\"]", "invalidPayload", None),
            ("\"ping\"", "invalidPayload", None),
            ("null", "invalidPayload", None),
            ("7", "invalidPayload", None),
            ("{}", "invalidPayload", None),
            (r#"{"payload":{}}"#, "invalidPayload", None),
            (r#"{"type":null}"#, "invalidPayload", None),
            (r#"{"type":7}"#, "invalidPayload", None),
            (r#"{"type":["ping"]}"#, "invalidPayload", None),
            (r#"{"type":"ping","type":"ping"}"#, "invalidPayload", None),
        ] {
            wrong(socket, text, code, request_type).await;
        }
        socket.ping().await;
    }
    for (text, code, request_type) in [
        (
            r#"{"type":"nonsense"}"#,
            "unknownMessageType",
            Some("nonsense"),
        ),
        (r#"{"type":""}"#, "unknownMessageType", Some("")),
        (r#"{"type":"Ping"}"#, "unknownMessageType", Some("Ping")),
        (
            r#"{"type":"terminal.binary.data","payload":"x"}"#,
            "unknownMessageType",
            Some("terminal.binary.data"),
        ),
        (
            r#"{"type":"event","payload":{"eventType":"x"},"payload":{"eventType":"y"}}"#,
            "invalidPayload",
            Some("event"),
        ),
        (
            r#"{"type":"event","payload":{"eventType":"x","eventType":"y"}}"#,
            "invalidPayload",
            Some("event"),
        ),
        (
            r#"{"type":"rpc.response","payload":{"id":"a","id":"b","result":1}}"#,
            "invalidPayload",
            Some("rpc.response"),
        ),
        (
            r#"{"type":"rpc.response","payload":{"result":1}}"#,
            "invalidPayload",
            Some("rpc.response"),
        ),
        (
            r#"{"type":"rpc.response","payload":{"id":"a","result":1,"isFinal":"no"}}"#,
            "invalidPayload",
            Some("rpc.response"),
        ),
    ] {
        wrong(&mut registered, text, code, request_type).await;
    }
    registered.ping().await;
    registered.assert_all_read();
}

async fn wrong(socket: &mut Socket, text: &str, code: &str, request_type: Option<&str>) {
    socket.send_text(text).await;
    let error = socket.expect_error(code).await;
    // A type that was given twice may be told or not; both occurrences are readable.
    if !text.contains(r#""type":"ping","type""#) {
        assert_eq!(error["requestType"].as_str(), request_type, "{text}");
    }
}

/// TR-7: a field that must be there is named.
#[tokio::test]
async fn missing_fields_are_named() {
    let relay = Relay::start().await;
    let mut phone = relay.desktop(&Account::new()).await;
    for (text, field) in [
        (r#"{"payload":{}}"#, "type"),
        (r#"{"type":"event"}"#, "payload"),
        (r#"{"type":"event","payload":{}}"#, "eventType"),
        (r#"{"type":"rpc.request","payload":{"method":"m"}}"#, "id"),
    ] {
        phone.send_text(text).await;
        let error = phone.expect_error("invalidPayload").await;
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(field), "{field}: {message}");
    }
}

/// TR-4: binary messages are refused one by one, and the connection is kept.
#[tokio::test]
async fn binary_messages_are_refused() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut registered = relay.desktop(&account).await;
    let mut unregistered = relay.upgrade(&account.new_desktop()).await;
    for socket in [&mut registered, &mut unregistered] {
        for payload in [&b""[..], b"{\"type\":\"ping\"}", b"\xff\xfe"] {
            socket.send_binary(payload).await;
            socket.expect_error("unsupportedFrame").await;
        }
        socket.ping().await;
        socket.assert_all_read();
    }
}

/// Introduction: what older clients send and needs no answer is ignored.
#[tokio::test]
async fn frames_of_older_clients_are_ignored() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut socket = relay.upgrade(&device).await;
    let mut payload = device.registration();
    payload["lastEventId"] = json!("42");
    socket.register_with(payload).await;
    assert_eq!(socket.session["type"], "registered");
    for frame in [
        json!({ "type": "event-ack", "payload": { "eventId": "1" } }),
        json!({ "type": "pong" }),
    ] {
        socket.send(&frame).await;
    }
    socket.ping().await;
    socket.assert_all_read();
}

/// TR-8: fields that are not known are ignored, wherever they stand.
#[tokio::test]
async fn unknown_fields_are_ignored() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    desktop
        .send_text(r#"{"x_y":{"type":"z"},"type":"ping","more":[1e999],"more":2}"#)
        .await;
    desktop.expect_pong().await;
}

/// KA-1: a heartbeat is answered, and its time shows in the list; its figures may be anything that
/// is optional.
#[tokio::test]
async fn heartbeats() {
    let relay = Relay::start_with(&[("presence.heartbeat_interval", "10ms")]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let device = desktop.device.clone();
    assert!(relay.listed(&device).await.get("lastHeartbeat").is_none());
    for payload in [
        json!({}),
        json!({ "cpuUsage": 12.5, "memoryUsage": 40, "diskSpaceGb": 100.1, "activeJobs": 2, "status": "idle" }),
        json!({ "cpuUsage": null, "other": [] }),
    ] {
        desktop
            .send(&json!({ "type": "heartbeat", "payload": payload }))
            .await;
        desktop.expect_pong().await;
    }
    relay
        .eventually("lastHeartbeat", async || {
            relay.listed(&device).await["lastHeartbeat"].is_string()
        })
        .await;
}

/// TR-6: over the limit messages are dropped; a request that says how to answer it is answered, and
/// the connection is kept.
#[tokio::test]
async fn messages_over_the_limit_are_dropped() {
    let relay =
        Relay::start_with(&[("limits.rate_burst", "5"), ("limits.rate_per_second", "1")]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    // `register` took one token of five; four of these take the others, two find none.
    for number in 0..6 {
        phone.publish("x", json!(number)).await;
    }
    let mut frame = relay_tests::blackbox::rpc_request("dropped", "m", json!(1));
    frame["payload"]["traceparent"] =
        json!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    phone.send(&frame).await;
    let limited = failure("dropped", -32028, "Rate limit exceeded", true, false);
    assert_eq!(phone.next_response().await, limited);
    for number in 0..4 {
        let event = desktop.next_event("x").await.value();
        assert_eq!(event["payload"]["payload"], json!(number));
    }
}
