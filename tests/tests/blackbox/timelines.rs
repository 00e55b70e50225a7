//! Timelines from outside: a phone looks at a session, its desktop publishes, and what arrives is what
//! was published, however slowly it is taken (section 8).

use std::time::Duration;

use relay_tests::blackbox::{
    Account, OpCode, Relay, Socket, by_length, encode, interest, snapshot, snapshot_payload,
};
use serde_json::{Value, json};

/// The pause between two snapshots, which the default would make a quarter of a second (TL-10).
const QUICK: (&str, &str) = ("timeline.flush_interval", "5ms");

/// A desktop whose phone looks at the session `s`, and the proof that the desktop was given for it.
async fn watched(relay: &Relay) -> (Socket, Socket, Value) {
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone.look_at("s").await;
    let state = desktop.next_lease_state().await;
    (desktop, phone, state["authorizationGeneration"].clone())
}

/// TL-1, TL-5, TL-7: the desktop is told of an interest and of its end; between them, and only then,
/// its snapshots reach the phone that looks, and no other device.
#[tokio::test]
async fn a_snapshot_reaches_the_phone_that_looks() {
    let relay = Relay::start_with(&[QUICK]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let mut idle = relay.phone(&desktop.device).await;
    let mut elsewhere = relay.phone(&desktop.device).await;
    elsewhere.look_at("other").await;
    desktop.next_lease_state().await;

    phone.look_at(" s:skills-agent\u{2003}").await;
    let state = desktop.next_lease_state().await;
    let version = relay.get("/api/version").await.body;
    assert_eq!(state["appSessionId"], "s");
    assert_eq!(state["active"], true);
    assert_eq!(state["relayInstanceId"], version["relayInstanceId"]);
    assert!(state["expiresAt"].is_string(), "{state}");
    let proof = state["authorizationGeneration"].clone();
    assert!(proof.as_u64() > Some(0), "{state}");

    let payload = snapshot_payload("s", "main", 1, &proof, &json!("text"));
    desktop.send_text(&snapshot(&payload)).await;
    let frame = phone.next_snapshot().await.value();
    assert_eq!(frame["sourceDeviceId"], json!(desktop.device.id));
    let shown = &frame["payload"]["payload"];
    assert_eq!(
        (&shown["body"], shown.get("authorizationGeneration")),
        (&json!("text"), None)
    );

    // A proof that is not the current one is no error, and nothing is sent for it (TL-5).
    let number = proof.as_u64().unwrap();
    for wrong in [json!(number + 1), json!(number.to_string()), Value::Null] {
        let payload = snapshot_payload("s", "main", 2, &wrong, &json!("forged"));
        desktop.send_text(&snapshot(&payload)).await;
    }
    phone.send(&interest("s", false)).await;
    let ended = desktop.next_lease_state().await;
    assert_eq!(
        (&ended["active"], &ended["authorizationGeneration"]),
        (&json!(false), &Value::Null)
    );
    assert!(ended["revision"].as_u64() > state["revision"].as_u64());
    let payload = snapshot_payload("s", "main", 3, &proof, &json!("too late"));
    desktop.send_text(&snapshot(&payload)).await;
    for phone in [&mut phone, &mut idle, &mut elsewhere] {
        phone.assert_quiet_behind(&mut desktop).await;
    }
    desktop.ping().await;
    desktop.assert_all_read();
}

/// TL-5, TL-6, TR-8: what arrives is the published text without the one member and its comma, and
/// every other byte as it was: odd white space, escaped keys, numbers that no type holds, other keys
/// twice, the same name further in.
#[tokio::test]
async fn every_other_byte_stays() {
    let relay = Relay::start_with(&[QUICK]).await;
    let (mut desktop, mut phone, proof) = watched(&relay).await;
    let forms = [
        (
            r#"{"appSessionId":"s","settlementEpoch":1,"revision":%,"authorizationGeneration":#,"z":1}"#,
            r#"{"appSessionId":"s","settlementEpoch":1,"revision":%,"z":1}"#,
        ),
        (
            r#"{"authorizationGeneration":#,"appSessionId":"s","settlementEpoch":1,"revision":%}"#,
            r#"{"appSessionId":"s","settlementEpoch":1,"revision":%}"#,
        ),
        (
            r#"{"appSessionId":"s","settlementEpoch":1,"revision":%,"authorizationGeneration":#}"#,
            r#"{"appSessionId":"s","settlementEpoch":1,"revision":%}"#,
        ),
        (
            "{ \t\"appSessionId\" : \"s\"\r\n,\n \"settlementEpoch\":1 , \"revision\"\t:% ,\n\n \
             \"authorizationGeneration\" \t:\r # \n}",
            "{ \t\"appSessionId\" : \"s\"\r\n,\n \"settlementEpoch\":1 , \"revision\"\t:% \n\n  \n}",
        ),
        (
            r#"{"\u0061ppSessionId":"\u0073","settlementEpoch":1,"revisio\u006e":%,"authorization\u0047eneration":#,"\u00e9\/":"\ud83d\ude00\u0000"}"#,
            r#"{"\u0061ppSessionId":"\u0073","settlementEpoch":1,"revisio\u006e":%,"\u00e9\/":"\ud83d\ude00\u0000"}"#,
        ),
        (
            r#"{"appSessionId":"s","settlementEpoch":1,"revision":%,"n":[123456789012345678901234567890,1e999,-0,1.0,1E+2,0.10],"authorizationGeneration":#}"#,
            r#"{"appSessionId":"s","settlementEpoch":1,"revision":%,"n":[123456789012345678901234567890,1e999,-0,1.0,1E+2,0.10]}"#,
        ),
        (
            r#"{"x":1,"x":2,"":3,"":4,"appSessionId":"s","authorizationGeneration":#,"settlementEpoch":1,"revision":%,"x":1}"#,
            r#"{"x":1,"x":2,"":3,"":4,"appSessionId":"s","settlementEpoch":1,"revision":%,"x":1}"#,
        ),
        (
            r#"{"a":{"authorizationGeneration":7,"authorizationGeneration":8},"appSessionId":"s","settlementEpoch":1,"revision":%,"authorizationGeneration":#,"b":",\"authorizationGeneration\":9"}"#,
            r#"{"a":{"authorizationGeneration":7,"authorizationGeneration":8},"appSessionId":"s","settlementEpoch":1,"revision":%,"b":",\"authorizationGeneration\":9"}"#,
        ),
    ];
    for (revision, (published, expected)) in forms.into_iter().enumerate() {
        let fill = |text: &str| {
            let text = text.replace('#', &proof.to_string());
            text.replace('%', &(revision + 1).to_string())
        };
        desktop.send_text(&snapshot(&fill(published))).await;
        let shown = phone.next_snapshot().await.raw_member("payload");
        assert_eq!(shown, fill(expected), "{published}");
    }

    // Two such members, one of them escaped, are no snapshot (TL-6).
    let twice = format!(
        r#"{{"appSessionId":"s","settlementEpoch":1,"revision":99,"authorizationGeneration":{proof},"\u0061uthorizationGeneration":{proof}}}"#
    );
    desktop.send_text(&snapshot(&twice)).await;
    desktop.expect_error("invalidPayload").await;
    phone.assert_quiet_behind(&mut desktop).await;
}

/// TL-10, TR-10: a phone on a slow link is not retired while a snapshot moves, however much longer
/// that takes than a peer may stand still, and the snapshot arrives whole.
#[tokio::test]
async fn a_slow_phone_gets_a_large_snapshot_whole() {
    // 4 s at 512 KiB/s against a patience of one; or 12 MiB at 1 Mbit/s, which are 100 s, against 5.
    let (size, block, pause, patience) = by_length(
        (2 * 1024 * 1024, 8 * 1024, 16, "1s"),
        (12 * 1024 * 1024, 4 * 1024, 32, "5s"),
    );
    let relay = Relay::start_with(&[
        QUICK,
        ("limits.write_stall_timeout", patience),
        ("timeline.interest_ttl", "10m"),
    ])
    .await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let account = desktop.device.account.clone();
    let device = account.new_phone().targeting(&desktop.device);
    relay.enrol(&device).await;
    let mut slow = relay.raw(&device).await;
    slow.register(&device).await;
    assert_eq!(slow.next_json().await["type"], "event");
    slow.send_json(&interest("s", true)).await;
    let proof = desktop.next_lease_state().await["authorizationGeneration"].take();
    // Digits that differ everywhere, so that a part that is lost or moved is seen.
    let mut body = String::with_capacity(size + 16);
    let mut number = 0;
    while body.len() < size {
        body.push_str(&format!("{number},"));
        number += 1;
    }
    let payload = snapshot_payload("s", "main", 1, &proof, &json!(body));
    desktop.send_text(&snapshot(&payload)).await;

    // The link's speed, and nothing that is waited for: a block a tick.
    let mut link = tokio::time::interval(Duration::from_millis(pause));
    let mut message = Vec::new();
    loop {
        link.tick().await;
        assert!(slow.read_at_most(block).await, "it was given up");
        let frames: Vec<_> = std::iter::from_fn(|| slow.take_frame()).collect();
        let data = frames.iter().filter(|frame| frame.op != OpCode::Ping);
        let mut is_whole = false;
        for frame in data {
            assert_ne!(frame.op, OpCode::Close, "{:?}", frame.close_code());
            message.extend_from_slice(&frame.payload);
            is_whole = frame.is_final;
        }
        if is_whole {
            break;
        }
    }
    let frame: Value = serde_json::from_slice(&message).expect("a whole frame");
    assert_eq!(frame["payload"]["eventType"], "chat:timeline-updated");
    assert!(frame["payload"]["payload"]["body"] == json!(body));
    slow.send_json(&json!({ "type": "ping" })).await;
    assert_eq!(slow.next_json().await["type"], "pong");
}

/// TR-10, EV-1: 200 small events that a desktop sends in one write reach a phone all, in order.
#[tokio::test]
async fn a_burst_of_events_arrives_in_order() {
    const EVENTS: usize = 200;
    let relay = Relay::start_with(&[
        ("limits.rate_burst", "100000"),
        ("limits.rate_per_second", "100000"),
    ])
    .await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut desktop = relay.raw(&device).await;
    desktop.register(&device).await;
    let mut phone = relay.phone(&device).await;
    for round in 0..by_length(1, 50) {
        let mut burst = Vec::new();
        for number in 0..EVENTS {
            let payload = json!({ "eventType": "x", "payload": [round, number] });
            let event = json!({ "type": "event", "payload": payload }).to_string();
            burst.extend(encode(OpCode::Text, true, event.as_bytes()));
        }
        desktop.send(&burst).await;
        for number in 0..EVENTS {
            let event = phone.next_event("x").await.value();
            assert_eq!(event["payload"]["payload"], json!([round, number]));
        }
    }
    phone.ping().await;
    phone.assert_all_read();
}
