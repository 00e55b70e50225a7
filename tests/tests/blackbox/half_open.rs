//! The device that reconnects again and again while its former connections are still half open: the
//! everyday of phones and laptops that change networks (REG-6, PR-3).

use std::collections::VecDeque;

use relay_tests::blackbox::{Account, Relay};
use serde_json::json;

const TIMES: usize = 1_000;

/// Former connections that are kept without a word; older ones end, late, in the middle of things.
const HALF_OPEN: usize = 50;

/// REG-6, PR-3, RPC-2: the desktop is reachable after each of 1,000 reconnects, the phone never sees
/// it away, its generation rises, and one route is left in the end.
#[tokio::test]
async fn a_desktop_reconnects_a_thousand_times() {
    let relay = Relay::start_with(&[
        ("limits.rate_burst", "100000"),
        ("limits.rate_per_second", "100000"),
    ])
    .await;
    let account = Account::new();
    let device = account.new_desktop();
    relay.enrol(&device).await;
    let mut first = relay.raw(&device).await;
    first.register(&device).await;
    let mut phone = relay.phone(&device).await;
    let mut half_open = VecDeque::from([first]);
    let mut generation = 0;

    for round in 0..TIMES {
        let mut desktop = relay.raw(&device).await;
        desktop.register(&device).await;
        let id = format!("r{round}");
        phone.request(&id, "m", json!(round)).await;
        let request = desktop.next_json().await;
        assert_eq!(request["type"], "rpc.request");
        assert_eq!(request["payload"]["id"], id);
        let answer = json!({ "id": id, "result": round });
        desktop
            .send_json(&json!({ "type": "rpc.response", "payload": answer }))
            .await;
        let answer = phone.next_response().await;
        assert_eq!(answer["result"], round, "{answer}");

        let status = phone.next_status().await;
        assert_eq!(status["status"], "online");
        let next = status["connectionGeneration"].as_u64().unwrap();
        assert!(next > generation, "{next} follows {generation}");
        generation = next;

        half_open.push_back(desktop);
        if half_open.len() > HALF_OPEN {
            half_open.pop_front();
        }
    }

    // One route in the end: once the newest connection goes, and only then, the desktop is away.
    let newest = half_open.pop_back().unwrap();
    half_open.clear();
    phone.ping().await;
    phone.assert_all_read();
    newest.reset();
    let status = phone.next_status().await;
    assert_eq!(status["status"], "reconnecting");
    assert_eq!(status["connectionGeneration"], generation);
    phone.request("last", "m", json!(null)).await;
    assert_eq!(phone.next_response().await["error"]["code"], -32011);
}

/// REG-6, RPC-8: the same for the phone; it is answered on its newest connection.
#[tokio::test]
async fn a_phone_reconnects_with_a_request_open() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let device = desktop
        .device
        .account
        .new_phone()
        .targeting(&desktop.device);
    relay.enrol(&device).await;
    let mut half_open = Vec::new();
    for round in 0..50 {
        let mut phone = relay.raw(&device).await;
        phone.register(&device).await;
        assert_eq!(
            phone.next_json().await["payload"]["eventType"],
            "device-status"
        );
        let id = format!("r{round}");
        phone
            .send_json(&relay_tests::blackbox::rpc_request(&id, "m", json!(1)))
            .await;
        let request = desktop.next_request().await;
        half_open.push(phone);

        let mut newer = relay.raw(&device).await;
        newer.register(&device).await;
        assert_eq!(
            newer.next_json().await["payload"]["eventType"],
            "device-status"
        );
        desktop.answer(&request, json!(round)).await;
        let answer = newer.next_json().await;
        assert_eq!(answer["payload"]["result"], round);
        half_open.push(newer);
    }
    desktop.ping().await;
    desktop.assert_all_read();
}
