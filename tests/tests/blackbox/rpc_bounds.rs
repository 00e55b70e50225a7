//! How many requests may be open, how long, and how large they are (RPC-6, TR-3, TR-10).

use relay_tests::blackbox::{Account, OpCode, Relay, Socket, encode, failure, rpc_response};
use serde_json::json;

fn congested(id: &str) -> serde_json::Value {
    failure(id, -32012, "Desktop is congested", true, false)
}

/// RPC-6: a phone's open requests are limited; another phone is not held up by it.
#[tokio::test]
async fn a_phone_has_a_limit_of_open_requests() {
    let relay = Relay::start_with(&[("rpc.records_per_phone", "3")]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let mut other = relay.phone(&desktop.device).await;
    for id in ["1", "2", "3"] {
        phone.request(id, "m", json!(1)).await;
    }
    let first = desktop.next_request().await;
    phone.request("4", "m", json!(1)).await;
    assert_eq!(phone.next_response().await, congested("4"));
    other.request("5", "m", json!(1)).await;
    desktop.answer(&first, json!(1)).await;
    assert_eq!(phone.next_response().await["id"], "1");
    phone.request("6", "m", json!(1)).await;
    for id in ["2", "3", "5", "6"] {
        assert_eq!(desktop.next_request().await["id"], id);
    }
}

/// RPC-6: a pair's open requests are limited.
#[tokio::test]
async fn a_pair_has_a_limit_of_open_requests() {
    let relay = Relay::start_with(&[
        ("rpc.records_per_phone", "2"),
        ("rpc.records_per_pair", "3"),
    ])
    .await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let mut other = relay.phone(&desktop.device).await;
    for id in ["1", "2"] {
        phone.request(id, "m", json!(1)).await;
        desktop.next_request().await;
    }
    other.request("3", "m", json!(1)).await;
    desktop.next_request().await;
    other.request("4", "m", json!(1)).await;
    assert_eq!(other.next_response().await, congested("4"));
}

/// RPC-6: a request that nobody answers ends silently; its id is free then, and a late answer is
/// dropped.
#[tokio::test]
async fn records_expire_in_silence() {
    let relay = Relay::start_with(&[("rpc.record_lifetime", "600ms")]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone.request("r", "m", json!("first")).await;
    assert_eq!(desktop.next_request().await["params"], "first");
    forwarded_again(&mut phone, &mut desktop, "r").await;
    phone.assert_all_read();

    // Now the second one is open; the answer to the first would serve it, since ids are all that
    // the wire has. Let it expire too.
    forwarded_again(&mut phone, &mut desktop, "r").await;
    desktop
        .send(&rpc_response("r", json!("serves the third"), true))
        .await;
    assert_eq!(phone.next_response().await["result"], "serves the third");
    desktop.send(&rpc_response("r", json!("late"), true)).await;
    phone.request("behind", "m", json!(1)).await;
    let behind = desktop.next_request().await;
    desktop.answer(&behind, json!(1)).await;
    assert_eq!(phone.next_response().await["id"], "behind");
    phone.assert_all_read();
}

/// RPC-6: an answer that is not final gives a request its whole time again.
#[tokio::test]
async fn partial_answers_keep_a_record_alive() {
    let relay = Relay::start_with(&[("rpc.record_lifetime", "2s")]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone.request("kept", "m", json!(1)).await;
    desktop.next_request().await;
    phone.request("clock", "m", json!(1)).await;
    desktop.next_request().await;
    // The clock is a request that gets no answers: once its id is free, more than a lifetime has
    // passed since both were forwarded.
    loop {
        desktop
            .send(&rpc_response("kept", json!("part"), false))
            .await;
        assert_eq!(phone.next_response().await["id"], "kept");
        if is_forwarded(&mut phone, &mut desktop, "clock").await {
            break;
        }
        tokio::time::sleep(relay_tests::blackbox::LOOK_AGAIN).await;
    }
    desktop
        .send(&rpc_response("kept", json!("end"), true))
        .await;
    assert_eq!(phone.next_response().await["result"], "end");
}

/// Asks again until the request is forwarded, which is when its record has ended (RPC-7).
async fn forwarded_again(phone: &mut Socket, desktop: &mut Socket, id: &str) {
    while !is_forwarded(phone, desktop, id).await {
        tokio::time::sleep(relay_tests::blackbox::LOOK_AGAIN).await;
    }
}

/// Asks once and tells whether the desktop was asked. The answers to a second request tell when it
/// would have been.
async fn is_forwarded(phone: &mut Socket, desktop: &mut Socket, id: &str) -> bool {
    phone.request(id, "m", json!("again")).await;
    phone.request("mark", "m", json!(1)).await;
    let next = desktop.next_request().await;
    let forwarded = next["id"] == id;
    let mark = if forwarded {
        desktop.next_request().await
    } else {
        next
    };
    assert_eq!(mark["id"], "mark");
    desktop.answer(&mark, json!(1)).await;
    assert_eq!(phone.next_response().await["id"], "mark");
    forwarded
}

/// TR-10, RPC-5: requests that do not fit the queue of a desktop that does not read are refused;
/// the desktop is not retired, and gets what was queued once it reads again.
#[tokio::test]
async fn a_full_queue_refuses_requests() {
    let relay = Relay::start_with(&[("limits.rpc_lane_bytes", "4MiB")]).await;
    let account = Account::new();
    let device = account.new_desktop();
    relay.enrol(&device).await;
    let mut desktop = relay.raw(&device).await;
    desktop.register(&device).await;
    let mut phone = relay.phone(&device).await;
    let body = "x".repeat(1024 * 1024);
    for number in 0..20 {
        phone.request(&format!("r{number}"), "m", json!(body)).await;
    }
    // One phone's requests keep their order, so the refusal of the last one is the last.
    let mut refused = Vec::new();
    while refused.last().is_none_or(|id| id != "r19") {
        let answer = phone.next_response().await;
        let id = answer["id"].as_str().unwrap().to_owned();
        assert_eq!(answer, congested(&id));
        refused.push(id);
    }
    // Three fit the queue, and the kernel has taken one or two.
    assert!((14..=17).contains(&refused.len()), "{refused:?}");
    for number in 0..20 {
        let id = format!("r{number}");
        if !refused.contains(&id) {
            let text = String::from_utf8(desktop.next_message().await).unwrap();
            assert!(text.contains(&format!("\"{id}\"")), "{id}");
        }
    }
    phone.request("r", "m", json!(1)).await;
    assert_eq!(desktop.next_json().await["payload"]["id"], "r");
    phone.assert_all_read();
}

/// TR-3, RPC-5: a request of 32 MiB is taken from the wire, but leaves no room for what the relay
/// adds: -32600. One of 32 MiB less 2 KiB arrives whole.
#[tokio::test]
async fn the_largest_requests() {
    const MAX: usize = 32 * 1024 * 1024;
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let phone_device = desktop
        .device
        .account
        .new_phone()
        .targeting(&desktop.device);
    relay.enrol(&phone_device).await;
    let mut phone = relay.raw(&phone_device).await;
    phone.register(&phone_device).await;
    assert_eq!(phone.next_json().await["type"], "event");
    let of_size = |id: &str, size: usize| {
        let start =
            format!(r#"{{"type":"rpc.request","payload":{{"id":"{id}","method":"m","params":""#);
        let body = "x".repeat(size - start.len() - 3);
        format!(r#"{start}{body}"}}}}"#)
    };

    let largest = of_size("largest", MAX);
    assert_eq!(largest.len(), MAX);
    phone
        .send(&encode(OpCode::Text, true, largest.as_bytes()))
        .await;
    let refused = phone.next_json().await;
    assert_eq!(refused["payload"]["id"], "largest");
    assert_eq!(refused["payload"]["error"]["code"], -32600);
    assert_eq!(refused["payload"]["error"]["data"]["reason"], "tooLarge");

    let fitting = of_size("fits", MAX - 2 * 1024);
    let sending = async {
        phone
            .send(&encode(OpCode::Text, true, fitting.as_bytes()))
            .await;
    };
    let ((), request) = tokio::join!(sending, desktop.take_kind("rpc.request"));
    let params = request.raw_member("params");
    assert!(fitting.contains(&params) && params.len() > MAX - 3 * 1024);
}
