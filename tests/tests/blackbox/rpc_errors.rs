//! The errors that the relay answers itself (RPC-4, RPC-5).

use relay_tests::blackbox::{Account, Relay, failure, pending, rpc_request};
use serde_json::{Value, json};

/// RPC-4, RPC-5, PR-2: a desktop dies: its requests end at once and exactly once, new ones in the
/// grace are retryable, and after it the desktop is offline.
#[tokio::test]
async fn a_desktop_dies_and_stays_away() {
    let relay = Relay::start_with(&[("presence.reconnect_grace", "400ms")]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    for id in ["1", "2", "3"] {
        phone.request(id, "m", json!(1)).await;
        desktop.next_request().await;
    }
    desktop.vanish();
    let mut ended: Vec<Value> = Vec::new();
    for _ in 0..3 {
        ended.push(phone.next_response().await);
    }
    ended.sort_by_key(|answer| answer["id"].to_string());
    assert_eq!(ended, ["1", "2", "3"].map(|id| pending(id, true)));

    assert_eq!(phone.next_status().await["status"], "reconnecting");
    phone.request("in the grace", "m", json!(1)).await;
    assert_eq!(phone.next_response().await, pending("in the grace", false));

    assert_eq!(phone.next_status().await["status"], "disconnected");
    phone.request("after it", "m", json!(1)).await;
    let offline = failure("after it", -32010, "Desktop is offline", false, false);
    assert_eq!(phone.next_response().await, offline);
    phone.assert_all_read();
}

/// RPC-5, TR-10: a desktop that does not read gets what fits; when it goes, what never left is told
/// apart from what may have, and what was called undelivered was not read by it.
#[tokio::test]
async fn undelivered_requests_are_told_apart() {
    const REQUESTS: usize = 24;
    let relay = Relay::start_with(&[("limits.close_timeout", "300ms")]).await;
    let account = Account::new();
    let device = account.new_desktop();
    relay.enrol(&device).await;
    let mut frozen = relay.raw(&device).await;
    frozen.register(&device).await;
    let mut phone = relay.phone(&device).await;
    let body = "x".repeat(1024 * 1024);
    for number in 0..REQUESTS {
        phone.request(&format!("r{number}"), "m", json!(body)).await;
    }
    phone.ping().await;
    let mut newer = relay.connect(&device).await;

    let mut delivered = Vec::new();
    for _ in 0..REQUESTS {
        let answer = phone.next_response().await;
        let id = answer["id"].as_str().unwrap().to_owned();
        let was = answer["error"]["data"]["delivered"].as_bool().unwrap();
        assert_eq!(answer, pending(&id, was));
        delivered.push((id[1..].parse::<usize>().unwrap(), was));
    }
    delivered.sort_unstable();
    let count = delivered.iter().filter(|(_, was)| *was).count();
    assert!(
        (1..REQUESTS).contains(&count),
        "{count} of {REQUESTS} began to leave"
    );
    let first = delivered.iter().take_while(|(_, was)| *was).count();
    assert_eq!(
        first, count,
        "those that left are the first ones: {delivered:?}"
    );

    let received = frozen.read_to_end().await;
    let begun = received
        .windows(13)
        .filter(|bytes| bytes == b"\"rpc.request\"")
        .count();
    assert!(
        begun <= count,
        "{begun} were begun, {count} called delivered"
    );

    newer.ping().await;
    newer.assert_all_read();
}

/// RPC-5: requests that are no requests; the id comes back, cut to 256 bytes at a character.
#[tokio::test]
async fn invalid_requests() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let longest = "i".repeat(256);
    let too_long = "i".repeat(257);
    let wide = "é".repeat(200);
    let split = format!("i{wide}");
    for (payload, id) in [
        (json!({ "id": "", "method": "m" }), ""),
        (json!({ "id": too_long, "method": "m" }), &longest),
        (json!({ "id": wide, "method": "m" }), &wide[..256]),
        (json!({ "id": split, "method": "m" }), &split[..255]),
        (json!({ "id": "r" }), "r"),
        (json!({ "id": "r", "method": "" }), "r"),
    ] {
        phone
            .send(&json!({ "type": "rpc.request", "payload": payload }))
            .await;
        let answer = phone.next_response().await;
        assert_eq!(answer["id"], id, "{payload}");
        assert_eq!(answer["result"], Value::Null);
        assert_eq!(answer["isFinal"], json!(true));
        let error = &answer["error"];
        assert_eq!(error["code"], -32600);
        assert_eq!(error["message"], "Invalid request");
        assert_eq!(error["data"]["retryable"], json!(false));
        assert_eq!(error["data"]["delivered"], json!(false));
        assert!(error["data"]["reason"].is_string(), "{answer}");
    }
    phone.request(&longest, "m", json!(1)).await;
    assert_eq!(desktop.next_request().await["id"], longest);
    desktop.assert_all_read();
}

/// RPC-5, TR-7: an id that is missing or no string cannot be answered as RPC; so do other fields of
/// the wrong type make a bad frame.
#[tokio::test]
async fn requests_without_an_id_are_bad_frames() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    for (payload, field) in [
        (json!({ "method": "m" }), "id"),
        (json!({ "id": null, "method": "m" }), "id"),
        (json!({ "id": 7, "method": "m" }), "id"),
        (json!({ "id": ["r"], "method": "m" }), "id"),
        (json!({ "id": "r", "method": 7 }), "method"),
        (json!([]), "payload"),
        (json!("r"), "payload"),
    ] {
        phone
            .send(&json!({ "type": "rpc.request", "payload": payload }))
            .await;
        let error = phone.expect_error("invalidPayload").await;
        assert_eq!(error["requestType"], "rpc.request");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(field), "{field}: {message}");
    }
    desktop.ping().await;
    desktop.assert_all_read();
}

/// RPC-5: desktops do not ask.
#[tokio::test]
async fn a_desktop_may_not_ask() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    desktop.send(&rpc_request("r", "m", json!(1))).await;
    let refused = failure("r", -32601, "Not allowed", false, false);
    assert_eq!(desktop.next_response().await, refused);
}

/// RPC-5: a target that has never connected is offline.
#[tokio::test]
async fn a_desktop_that_never_came_is_offline() {
    let relay = Relay::start().await;
    let account = Account::new();
    let desktop = account.new_desktop();
    relay.enrol(&desktop).await;
    let mut phone = relay.phone(&desktop).await;
    phone.request("r", "m", json!(1)).await;
    let offline = failure("r", -32010, "Desktop is offline", false, false);
    assert_eq!(phone.next_response().await, offline);
    let mut desktop = relay.connect(&desktop).await;
    assert_eq!(phone.next_status().await["status"], "online");
    phone.request("r", "m", json!(2)).await;
    assert_eq!(desktop.next_request().await["params"], json!(2));
}
