//! Requests on their way from a phone to its desktop (RPC-1, RPC-7, RPC-10, TR-8).

use relay_tests::blackbox::{Account, Relay, fresh_id};
use serde_json::{Value, json};

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// TR-8, section 6: what the relay adds, what it passes on, and that it passes on nothing else.
#[tokio::test]
async fn requests_are_rebuilt_from_the_known_fields() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut phone = relay.phone(&desktop.device).await;
    let frame = json!({
        "type": "rpc.request",
        "extra": 1,
        "clientId": "forged",
        "payload": {
            "userId": fresh_id(),
            "clientId": fresh_id(),
            "id": "r",
            "method": "session.prompt",
            "params": { "text": "hello" },
            "idempotencyKey": "k",
            "traceparent": TRACEPARENT,
            "more": { "x": 1 },
        },
    });
    phone.send(&frame).await;
    let expected = json!({
        "type": "rpc.request",
        "payload": {
            "id": "r",
            "method": "session.prompt",
            "params": { "text": "hello" },
            "idempotencyKey": "k",
            "traceparent": TRACEPARENT,
            "clientId": phone.device.id,
            "userId": account.id,
        },
    });
    assert_eq!(desktop.next().await, expected);

    phone
        .send(&json!({ "type": "rpc.request", "payload": { "id": "bare", "method": "m" } }))
        .await;
    let expected = json!({
        "id": "bare",
        "method": "m",
        "clientId": phone.device.id,
        "userId": account.id,
    });
    assert_eq!(desktop.next_request().await, expected);
}

/// RPC-10: a valid `traceparent` of the payload or the root goes on unchanged; an invalid one is
/// dropped and the request goes on.
#[tokio::test]
async fn traceparents_are_validated() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let upper = TRACEPARENT.to_uppercase();
    let zeros = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
    for (round, (payload, root, expected)) in [
        (json!(TRACEPARENT), Value::Null, Some(TRACEPARENT)),
        (Value::Null, json!(TRACEPARENT), Some(TRACEPARENT)),
        (json!(upper), Value::Null, None),
        (json!(zeros), Value::Null, None),
        (json!(""), Value::Null, None),
        (json!("00-abc"), Value::Null, None),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("r{round}");
        let mut frame = relay_tests::blackbox::rpc_request(&id, "m", json!(1));
        if !payload.is_null() {
            frame["payload"]["traceparent"] = payload;
        }
        if !root.is_null() {
            frame["traceparent"] = root;
        }
        phone.send(&frame).await;
        let request = desktop.next_request().await;
        assert_eq!(request["id"], id);
        let forwarded = request.get("traceparent").and_then(Value::as_str);
        assert_eq!(forwarded, expected, "{frame}");
    }
}

/// RPC-1: one phone's requests arrive in the order in which they were sent.
#[tokio::test]
async fn requests_keep_their_order() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    for round in 0..200 {
        phone.request(&format!("r{round}"), "m", json!(round)).await;
    }
    for round in 0..200 {
        assert_eq!(desktop.next_request().await["id"], format!("r{round}"));
    }
}

/// RPC-7: an id that this phone has pending is dropped; the one answer serves both.
#[tokio::test]
async fn an_id_that_is_pending_is_not_forwarded_again() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone.request("same", "m", json!(1)).await;
    phone.request("same", "m", json!(2)).await;
    phone.request("other", "m", json!(3)).await;
    let first = desktop.next_request().await;
    assert_eq!(
        (&first["id"], &first["params"]),
        (&json!("same"), &json!(1))
    );
    let other = desktop.next_request().await;
    assert_eq!(other["id"], "other");
    desktop.answer(&first, json!("one answer")).await;
    desktop.answer(&other, json!("behind it")).await;
    assert_eq!(phone.next_response().await["result"], "one answer");
    assert_eq!(phone.next_response().await["result"], "behind it");
    phone.assert_all_read();

    // Once it is answered the id is free.
    phone.request("same", "m", json!(4)).await;
    assert_eq!(desktop.next_request().await["params"], json!(4));
    desktop.assert_all_read();
}

/// RPC-7: an id that another phone has pending is refused to the asker only, and the record stays.
#[tokio::test]
async fn an_id_of_another_phone_is_refused() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut first = relay.phone(&desktop.device).await;
    let mut second = relay.phone(&desktop.device).await;
    first.request("same", "m", json!(1)).await;
    let request = desktop.next_request().await;
    second.request("same", "m", json!(2)).await;
    let refused = second.next_response().await;
    assert_eq!(refused["id"], "same");
    assert_eq!(refused["error"]["code"], -32600);
    assert_eq!(refused["error"]["data"]["retryable"], false);
    assert_eq!(refused["error"]["data"]["delivered"], false);
    assert!(refused["error"]["data"]["reason"].is_string(), "{refused}");
    desktop.answer(&request, json!("for the first")).await;
    assert_eq!(first.next_response().await["result"], "for the first");
    second.assert_quiet_behind(&mut desktop).await;
    desktop.assert_all_read();
}

/// RPC-1: ids are the business of one desktop; another one may have the same id pending.
#[tokio::test]
async fn ids_are_recorded_by_desktop() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut desktops = [relay.desktop(&account).await, relay.desktop(&account).await];
    let mut phones = [
        relay.phone(&desktops[0].device).await,
        relay.phone(&desktops[1].device).await,
    ];
    for (number, phone) in phones.iter_mut().enumerate() {
        phone.request("same", "m", json!(number)).await;
    }
    for (number, desktop) in desktops.iter_mut().enumerate() {
        let request = desktop.next_request().await;
        assert_eq!(request["params"], json!(number));
        desktop.answer(&request, json!(number)).await;
    }
    for (number, phone) in phones.iter_mut().enumerate() {
        assert_eq!(phone.next_response().await["result"], json!(number));
    }
}

/// RPC-1, EV-1, PR-1: two accounts never see each other, with equal request ids and at the same time.
#[tokio::test]
async fn accounts_never_meet() {
    let relay = Relay::start().await;
    let accounts = [Account::new(), Account::new()];
    let mut desktops = Vec::new();
    let mut phones = Vec::new();
    for account in &accounts {
        let desktop = relay.desktop(account).await;
        phones.push(relay.phone(&desktop.device).await);
        desktops.push(desktop);
    }
    for (phone, account) in phones.iter_mut().zip(&accounts) {
        phone.publish("x", json!(account.id)).await;
        phone.request("same", "m", json!(account.id)).await;
    }
    for (desktop, account) in desktops.iter_mut().zip(&accounts) {
        let event = desktop.next_event("x").await.value();
        assert_eq!(event["payload"]["payload"], account.id);
        let request = desktop.next_request().await;
        assert_eq!(request["userId"], account.id);
        assert_eq!(request["params"], account.id);
    }
    // Each desktop answers: the record decides, so each phone hears its own.
    for (desktop, account) in desktops.iter_mut().zip(&accounts) {
        desktop
            .answer(&json!({ "id": "same" }), json!(account.id))
            .await;
    }
    for (phone, account) in phones.iter_mut().zip(&accounts) {
        assert_eq!(phone.next_response().await["result"], account.id);
    }
    // One account's desktop goes; the other account hears nothing.
    desktops.remove(0).vanish();
    assert_eq!(phones[0].next_status().await["status"], "reconnecting");
    let listed = relay.devices(&accounts[1], "").await;
    assert_eq!(listed.len(), 2);
    assert!(
        listed.iter().all(|device| device["status"] == "online"),
        "{listed:?}"
    );
    phones[1].assert_quiet_behind(&mut desktops[0]).await;
    desktops[0].assert_all_read();
}
