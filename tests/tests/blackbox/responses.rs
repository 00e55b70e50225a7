//! Answers on their way back: who may give them, who hears them, and when they end a request (RPC-2,
//! RPC-3, RPC-8).

use relay_tests::blackbox::{Account, Relay, fresh_id, pending, rpc_response};
use serde_json::json;

/// RPC-2, TR-8: an answer is rebuilt from the known fields, without `clientId`.
#[tokio::test]
async fn answers_are_rebuilt_from_the_known_fields() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone.request("r", "m", json!(1)).await;
    desktop.next_request().await;
    let payload = json!({
        "id": "r", "clientId": phone.device.id, "result": { "ok": true }, "more": 1, "isFinal": true,
    });
    desktop
        .send(&json!({ "type": "rpc.response", "payload": payload, "extra": 1 }))
        .await;
    let payload = json!({ "id": "r", "result": { "ok": true }, "isFinal": true });
    let expected = json!({ "type": "rpc.response", "payload": payload });
    assert_eq!(phone.next().await, expected);
}

/// RPC-2: answers that are not final keep the request and their order; the final one ends it, and
/// what comes behind is dropped.
#[tokio::test]
async fn partial_answers_come_in_order_and_end_once() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone.request("r", "m", json!(1)).await;
    let request = desktop.next_request().await;
    for part in 0..100 {
        desktop.send(&rpc_response("r", json!(part), false)).await;
    }
    desktop.answer(&request, json!("end")).await;
    desktop.answer(&request, json!("again")).await;
    desktop.send(&rpc_response("r", json!("more"), false)).await;
    for part in 0..100 {
        let answer = phone.next_response().await;
        assert_eq!(answer["result"], json!(part));
        assert_eq!(answer["isFinal"], json!(false));
    }
    let last = phone.next_response().await;
    assert_eq!(last["result"], "end");
    assert_ne!(last["isFinal"], json!(false));

    // RPC answers of one pair keep their order, so what was dropped would be here by now.
    phone.request("next", "m", json!(1)).await;
    let next = desktop.next_request().await;
    desktop.answer(&next, json!("next")).await;
    assert_eq!(phone.next_response().await["result"], "next");
    phone.assert_all_read();
    desktop.assert_all_read();
}

/// RPC-2: the `clientId` that a desktop writes decides nothing.
#[tokio::test]
async fn a_forged_client_id_changes_nothing() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut asker = relay.phone(&desktop.device).await;
    let mut other = relay.phone(&desktop.device).await;
    for (round, forged) in [other.device.id.clone(), fresh_id(), "no uuid".to_owned()]
        .into_iter()
        .enumerate()
    {
        asker.request("r", "m", json!(round)).await;
        desktop.next_request().await;
        let payload = json!({ "id": "r", "clientId": forged, "result": round });
        desktop
            .send(&json!({ "type": "rpc.response", "payload": payload }))
            .await;
        assert_eq!(asker.next_response().await["result"], json!(round));
    }
    other.assert_quiet_behind(&mut desktop).await;
}

/// RPC-2: only the desktop that was asked can answer: not another desktop of the account, not a
/// phone (RPC-3).
#[tokio::test]
async fn nobody_else_can_answer() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut asked = relay.desktop(&account).await;
    let mut other = relay.desktop(&account).await;
    let mut phone = relay.phone(&asked.device).await;
    assert_eq!(asked.next_status().await["deviceId"], other.device.id);
    phone.request("r", "m", json!(1)).await;
    let request = asked.next_request().await;

    other.answer(&request, json!("not asked")).await;
    other.ping().await;
    other.assert_all_read();
    phone.answer(&request, json!("myself")).await;
    let error = phone.expect_error("forbidden").await;
    assert_eq!(error["requestType"], "rpc.response");

    asked.answer(&request, json!("asked")).await;
    assert_eq!(phone.next_response().await["result"], "asked");
    phone.assert_quiet_behind(&mut other).await;
}

/// RPC-3: an error that is null beside a result is a success.
#[tokio::test]
async fn a_null_error_is_a_success() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone.request("r", "m", json!(1)).await;
    desktop.next_request().await;
    let payload = json!({ "id": "r", "error": null, "result": [1] });
    desktop
        .send(&json!({ "type": "rpc.response", "payload": payload }))
        .await;
    let answer = phone.next_response().await;
    assert_eq!(answer["result"], json!([1]));
    assert!(
        answer.get("error").is_none_or(serde_json::Value::is_null),
        "{answer}"
    );
}

/// RPC-3: an answer to an id that nobody asked is dropped, and the desktop stays.
#[tokio::test]
async fn unknown_ids_are_dropped() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    desktop
        .send(&rpc_response("never asked", json!(1), true))
        .await;
    phone.request("r", "m", json!(1)).await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!(2)).await;
    assert_eq!(phone.next_response().await["id"], "r");
    phone.assert_all_read();
    desktop.assert_all_read();
}

/// RPC-8, RPC-2: a phone that goes and comes back while the desktop works gets the answer.
#[tokio::test]
async fn a_phone_that_comes_back_is_answered() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let device = phone.device.clone();
    phone.request("r", "m", json!(1)).await;
    let request = desktop.next_request().await;
    desktop.send(&rpc_response("r", json!("part"), false)).await;
    assert_eq!(phone.next_response().await["result"], "part");
    phone.close().await;
    relay.until_listed_as(&device, "offline").await;
    let mut phone = relay.connect(&device).await;
    desktop.answer(&request, json!("end")).await;
    assert_eq!(phone.next_response().await["result"], "end");
}

/// RPC-3: what comes while the phone is away is dropped; a final answer ends the request, another
/// one does not.
#[tokio::test]
async fn answers_in_the_gap_are_dropped() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let device = phone.device.clone();
    phone.request("ended", "m", json!(1)).await;
    phone.request("going on", "m", json!(1)).await;
    let ended = desktop.next_request().await;
    let going_on = desktop.next_request().await;
    phone.close().await;
    relay.until_listed_as(&device, "offline").await;
    desktop.answer(&ended, json!("missed")).await;
    desktop
        .send(&rpc_response("going on", json!("missed"), false))
        .await;
    // The pair has handled both once it answers another phone behind them.
    let mut other = relay.phone(&desktop.device).await;
    other.request("behind", "m", json!(1)).await;
    let behind = desktop.next_request().await;
    desktop.answer(&behind, json!("behind")).await;
    other.next_response().await;

    let mut phone = relay.connect(&device).await;
    phone.next_status().await;
    desktop.answer(&going_on, json!("end")).await;
    assert_eq!(phone.next_response().await["result"], "end");
    phone.request("ended", "m", json!("again")).await;
    let again = desktop.next_request().await;
    assert_eq!(again["params"], "again", "its record has ended");
    phone.assert_all_read();
}

/// RPC-2, RPC-4: a request ends exactly once when its desktop dies: what the desktop answers later,
/// on its next connection, is dropped.
#[tokio::test]
async fn a_late_answer_is_dropped() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone.request("r", "m", json!(1)).await;
    let request = desktop.next_request().await;
    let device = desktop.device.clone();
    desktop.vanish();
    assert_eq!(phone.next_response().await, pending("r", true));

    let mut desktop = relay.connect(&device).await;
    desktop.answer(&request, json!("late")).await;
    phone.request("next", "m", json!(2)).await;
    let next = desktop.next_request().await;
    desktop.answer(&next, json!("next")).await;
    assert_eq!(phone.next_response().await["id"], "next");
    assert_eq!(phone.next_status().await["status"], "reconnecting");
    assert_eq!(phone.next_status().await["status"], "online");
    phone.assert_quiet_behind(&mut desktop).await;
}
