//! Events from one device to the others (EV-1, EV-3, ENV-1, ENV-2).

use relay_tests::blackbox::{Account, Relay, is_time};
use serde_json::{Value, json};

/// EV-1, ENV-1, ENV-2: to every other route of the account, from phones and desktops, and not back.
#[tokio::test]
async fn events_go_to_all_others() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut phone = relay.phone(&desktop.device).await;
    let mut other = relay.phone(&desktop.device).await;
    phone.publish("app:said", json!({ "n": 1 })).await;
    for socket in [&mut desktop, &mut other] {
        let event = socket.next_event("app:said").await.value();
        let timestamp = event["timestamp"].as_str().unwrap();
        assert!(is_time(timestamp), "{timestamp}");
        let expected = json!({
            "type": "event",
            "payload": { "eventType": "app:said", "payload": { "n": 1 } },
            "sourceDeviceId": phone.device.id,
            "timestamp": timestamp,
        });
        assert_eq!(event, expected);
    }
    desktop.publish("app:said", json!(2)).await;
    for socket in [&mut phone, &mut other] {
        let event = socket.next_event("app:said").await.value();
        assert_eq!(event["sourceDeviceId"], desktop.device.id);
    }
    phone.assert_quiet_behind(&mut other).await;
}

/// TR-8, ENV-1: fields that the protocol does not name are not passed on; an event without payload
/// has none.
#[tokio::test]
async fn events_are_rebuilt_from_the_known_fields() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone
        .send(&json!({
            "type": "event",
            "sourceDeviceId": "forged",
            "timestamp": "forged",
            "payload": { "eventType": "x", "payload": null, "more": 1 },
        }))
        .await;
    let event = desktop.next_event("x").await.value();
    assert_eq!(
        event["payload"],
        json!({ "eventType": "x", "payload": null })
    );
    assert_eq!(event["sourceDeviceId"], phone.device.id);
    assert_eq!(event.as_object().unwrap().len(), 4, "{event}");
}

/// EV-1: one sender's events keep their order.
#[tokio::test]
async fn events_keep_their_order() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    for number in 0..250 {
        desktop.publish("x", json!(number)).await;
    }
    for number in 0..250 {
        let event = phone.next_event("x").await.value();
        assert_eq!(event["payload"]["payload"], json!(number));
    }
}

/// EV-1: a device that is not connected misses events; nothing is kept for it.
#[tokio::test]
async fn events_are_not_kept() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let phone = relay.phone(&desktop.device).await;
    let device = phone.device.clone();
    phone.close().await;
    relay.until_listed_as(&device, "offline").await;
    desktop.publish("missed", json!(1)).await;
    desktop.ping().await;
    let mut phone = relay.connect(&device).await;
    phone.next_status().await;
    phone.assert_quiet_behind(&mut desktop).await;
}

/// EV-3: shape first, then reserved types, then the sender's role; nothing of it is sent.
#[tokio::test]
async fn events_that_are_refused() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let timeline = json!({ "appSessionId": "s", "settlementEpoch": 1, "revision": 1 });
    for (payload, code) in [
        (json!({}), "invalidPayload"),
        (json!({ "eventType": "" }), "invalidPayload"),
        (json!({ "eventType": null }), "invalidPayload"),
        (json!({ "eventType": 7, "payload": 1 }), "invalidPayload"),
        (json!("x"), "invalidPayload"),
        (json!(null), "invalidPayload"),
        (
            event("device-visibility-updated", json!({ "visible": "no" })),
            "invalidPayload",
        ),
        (
            event("device-visibility-updated", json!({})),
            "invalidPayload",
        ),
        (
            event(
                "project-directory-updated",
                json!({ "projectDirectory": 1 }),
            ),
            "invalidPayload",
        ),
        (
            event("device-status", json!({ "status": "online" })),
            "reservedEventType",
        ),
        (
            event("device-unlinked", json!({ "deviceId": "x" })),
            "reservedEventType",
        ),
        (
            event("chat:timeline-stale", json!({ "all": true })),
            "reservedEventType",
        ),
        (
            event("chat:timeline-interest-updated", json!({})),
            "reservedEventType",
        ),
        (event("chat:timeline-updated", timeline), "forbidden"),
    ] {
        phone
            .send(&json!({ "type": "event", "payload": payload }))
            .await;
        let error = phone.expect_error(code).await;
        assert_eq!(error["requestType"], "event");
    }
    for (payload, code) in [
        (
            event("agent-notification-requested", json!({ "title": "t" })),
            "invalidPayload",
        ),
        (event("device-status", json!({})), "reservedEventType"),
        (
            event(
                "chat:timeline-interest",
                json!({ "appSessionId": "s", "active": true }),
            ),
            "forbidden",
        ),
    ] {
        desktop
            .send(&json!({ "type": "event", "payload": payload }))
            .await;
        desktop.expect_error(code).await;
    }
    desktop.assert_quiet_behind(&mut phone).await;
    phone.assert_quiet_behind(&mut desktop).await;
}

fn event(event_type: &str, payload: Value) -> Value {
    json!({ "eventType": event_type, "payload": payload })
}

/// TL-1, TL-5: timeline frames reach nobody who holds no lease.
#[tokio::test]
async fn timelines_reach_nobody_without_a_lease() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let snapshot = json!({
        "appSessionId": "s", "settlementEpoch": 1, "revision": 1, "authorizationGeneration": 1,
    });
    desktop.publish("chat:timeline-updated", snapshot).await;
    phone.assert_quiet_behind(&mut desktop).await;
}

/// EV-1, section 7: events of the table that all may send reach all.
#[tokio::test]
async fn known_events_reach_all() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    for (event_type, payload) in [
        ("device-visibility-updated", json!({ "visible": true })),
        (
            "project-directory-updated",
            json!({ "projectDirectory": "/src" }),
        ),
        (
            "agent-notification-requested",
            json!({ "sessionId": "s", "title": "Done", "body": "All tests pass" }),
        ),
    ] {
        desktop.publish(event_type, payload.clone()).await;
        let event = phone.next_event(event_type).await.value();
        assert_eq!(event["payload"]["payload"], payload);
    }
}
