//! Requests and answers through the real actors, on a paused clock.

use std::time::Duration;

use relay_tests::paused::{Run, pass};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

fn error(code: i64, message: &str, retryable: bool, delivered: bool) -> Value {
    let data = json!({"retryable": retryable, "delivered": delivered});
    json!({"code": code, "message": message, "data": data})
}

fn reconnecting(delivered: bool) -> Value {
    error(-32011, "Desktop is reconnecting", !delivered, delivered)
}

/// RPC-1, RPC-2, TR-8: a request reaches the desktop with who asks, its answer the phone without;
/// what is opaque passes byte for byte.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_request_reaches_the_desktop_and_its_answer_the_phone() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;

    let opaque = "{ \"b\":1.0e400, \"a\" : [ 1,2 ],\"a\":\"\\ud800\\u0000\" }";
    phone
        .send_text(format!(
            r#"{{"x":0,"payload":{{"params":{opaque},"method":"m","id":"é1","y":1}},"type":"rpc.request"}}"#
        ))
        .await;
    assert_eq!(
        desktop.next_text().await,
        format!(
            r#"{{"type":"rpc.request","payload":{{"id":"é1","method":"m","clientId":"{}","userId":"{}","params":{opaque}}}}}"#,
            phone.id, account
        )
    );
    desktop
        .send_text(format!(
            r#"{{"type":"rpc.response","payload":{{"id":"\u00e91","clientId":"x","result":{opaque}}}}}"#
        ))
        .await;
    assert_eq!(
        phone.next_text().await,
        format!(
            r#"{{"type":"rpc.response","payload":{{"id":"\u00e91","isFinal":true,"result":{opaque}}}}}"#
        )
    );
}

/// RPC-2, RPC-3: answers keep their order, one that is not final keeps the request, what comes after
/// the final one is dropped.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_request_is_answered_until_its_final_answer() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    phone.request("a").await;
    assert_eq!(desktop.next_request().await, "a");
    for step in 0..3 {
        let payload = json!({"id": "a", "result": step, "isFinal": false});
        desktop
            .send(json!({"type": "rpc.response", "payload": payload}))
            .await;
    }
    desktop.answer("a", json!("end")).await;
    desktop.answer("a", json!("too late")).await;
    for expected in [json!(0), json!(1), json!(2), json!("end")] {
        assert_eq!(phone.next_result().await, ("a".to_owned(), expected));
    }
    phone.hears_nothing_for(Duration::from_secs(60)).await;
    let pair = run
        .relay
        .pair_state(account, desktop.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((pair.pending, pair.counts.unknown_responses), (0, 1));
}

/// RPC-4, RPC-5: a desktop that drops ends its requests at once, those that it got as delivered;
/// during the grace new ones fail at once, after it they find it offline.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_desktop_that_drops_ends_its_requests() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let desktop_id = desktop.id;
    let mut phone = run.phone(account, desktop_id).await;
    phone.request("a").await;
    assert_eq!(desktop.next_request().await, "a");
    desktop.vanish();
    let mut heard = [phone.next().await, phone.next().await];
    heard.sort_by_key(|frame| frame["type"].to_string());
    assert_eq!(heard[0]["payload"]["payload"]["status"], "reconnecting");
    assert_eq!(heard[1]["payload"]["error"], reconnecting(true));

    phone.request("b").await;
    assert_eq!(
        phone.next_failure().await,
        ("b".to_owned(), reconnecting(false))
    );
    pass(Duration::from_millis(89_900)).await;
    phone.request("c").await;
    assert_eq!(
        phone.next_failure().await,
        ("c".to_owned(), reconnecting(false))
    );
    assert_eq!(phone.next_status().await.0, "disconnected");
    phone.request("d").await;
    let offline = error(-32010, "Desktop is offline", false, false);
    assert_eq!(phone.next_failure().await, ("d".to_owned(), offline));
}

/// RPC-5: `delivered:false` is said of exactly the requests of which nothing left the relay.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn undelivered_is_said_of_what_never_left() {
    let run = Run::start();
    let account = run.account();
    let desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    // The pipe to a desktop that does not read takes the first request's begin and no more.
    let large = "x".repeat(20_000);
    for id in ["a", "b", "c"] {
        let payload = json!({"id": id, "method": "m", "params": large});
        phone
            .send(json!({"type": "rpc.request", "payload": payload}))
            .await;
    }
    pass(Duration::from_secs(1)).await;
    desktop.vanish();
    let mut failures = Vec::new();
    while failures.len() < 3 {
        let frame = phone.next().await;
        if frame["type"] == "rpc.response" {
            let payload = &frame["payload"];
            failures.push((payload["id"].clone(), payload["error"]["data"].clone()));
        }
    }
    let data = |delivered: bool| json!({"retryable": !delivered, "delivered": delivered});
    let expected = [
        (json!("a"), data(true)),
        (json!("b"), data(false)),
        (json!("c"), data(false)),
    ];
    assert_eq!(failures, expected);
}

/// RPC-6: a record ends silently 15 minutes after it was last answered; a later answer is dropped.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_request_without_an_answer_expires() {
    // Silent devices must not be closed for their silence here.
    let run = Run::with_limits(|limits| limits.client_timeout = Duration::from_secs(3_600));
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    phone.request("a").await;
    desktop.next_request().await;
    pass(Duration::from_secs(10 * 60)).await;
    let partial = json!({"id": "a", "result": 1, "isFinal": false});
    desktop
        .send(json!({"type": "rpc.response", "payload": partial}))
        .await;
    assert_eq!(phone.next_result().await.1, json!(1));
    let pending = async || {
        run.relay
            .pair_state(account, desktop_id(&run, account).await)
            .await
    };
    pass(Duration::from_millis(15 * 60 * 1_000 - 10)).await;
    assert_eq!(pending().await.unwrap().unwrap().pending, 1);
    pass(Duration::from_millis(20)).await;
    let state = pending().await.unwrap().unwrap();
    assert_eq!((state.pending, state.counts.expired), (0, 1));
    desktop.answer("a", json!(2)).await;
    phone.hears_nothing_for(Duration::from_secs(1)).await;
}

async fn desktop_id(run: &Run, account: relay_model::ids::AccountId) -> relay_model::ids::DeviceId {
    let devices = run
        .relay
        .devices(account, Default::default())
        .await
        .unwrap();
    devices[0].id
}

/// RPC-6, RPC-7: limits of records, and ids that are pending already.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn records_are_limited_and_never_pointed_at_another_phone() {
    let run = Run::with_limits(|limits| {
        limits.records_per_pair = 3;
        limits.records_per_phone = 2;
    });
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut first = run.phone(account, desktop.id).await;
    let mut second = run.phone(account, desktop.id).await;
    first.request("a").await;
    first.request("a").await;
    first.request("b").await;
    first.request("c").await;
    let congested = error(-32012, "Desktop is congested", true, false);
    assert_eq!(
        first.next_failure().await,
        ("c".to_owned(), congested.clone())
    );
    second.request("a").await;
    let (id, refused) = second.next_failure().await;
    assert_eq!((id.as_str(), &refused["code"]), ("a", &json!(-32600)));
    assert!(
        refused["data"]["reason"]
            .as_str()
            .unwrap()
            .contains("another phone")
    );
    second.request("d").await;
    second.request("e").await;
    assert_eq!(second.next_failure().await, ("e".to_owned(), congested));
    let mut arrived = Vec::new();
    for _ in 0..3 {
        arrived.push(desktop.next_request().await);
    }
    assert_eq!(arrived, ["a", "b", "d"]);
    desktop.answer("a", json!(1)).await;
    assert_eq!(first.next_result().await, ("a".to_owned(), json!(1)));
    second.hears_nothing_for(Duration::from_secs(1)).await;
}

/// RPC-2, RPC-3, RPC-8: the phone's requests outlive its connection; an answer in the gap is lost
/// and ends the request, one after its return arrives.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_phone_that_returns_gets_its_answers() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let phone_id = phone.id;
    for id in ["in the gap", "later"] {
        phone.request(id).await;
        desktop.next_request().await;
    }
    phone.close().await;
    desktop.answer("in the gap", json!(1)).await;
    pass(Duration::from_secs(1)).await;
    let mut phone = run.phone_again(account, phone_id, desktop.id).await;
    desktop.answer("later", json!(2)).await;
    assert_eq!(phone.next_result().await, ("later".to_owned(), json!(2)));
    let pair = run
        .relay
        .pair_state(account, desktop.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((pair.pending, pair.counts.undeliverable_responses), (0, 1));
}

/// REG-10: a phone that changes its target still gets the answers of the former desktop.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn answers_of_a_former_target_still_arrive() {
    let run = Run::start();
    let account = run.account();
    let mut first = run.desktop(account).await;
    let mut second = run.desktop(account).await;
    assert_eq!(first.next_status().await.0, "online");
    let mut phone = run.phone(account, first.id).await;
    phone.request("a").await;
    first.next_request().await;
    phone
        .register_with(json!({"targetDesktopDeviceId": second.id}))
        .await;
    assert_eq!(phone.session["type"], "registered");
    phone.next_status().await;
    phone.request("b").await;
    assert_eq!(second.next_request().await, "b");
    first.answer("a", json!(1)).await;
    assert_eq!(phone.next_result().await, ("a".to_owned(), json!(1)));
    second.answer("b", json!(2)).await;
    assert_eq!(phone.next_result().await, ("b".to_owned(), json!(2)));
}

/// RPC-5: requests that the relay answers itself.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn bad_requests_are_answered_by_the_relay() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let long = "é".repeat(200);
    for (payload, id) in [
        (json!({"id": "", "method": "m"}), String::new()),
        (json!({"id": long, "method": "m"}), "é".repeat(128)),
        (json!({"id": "a"}), "a".to_owned()),
        (json!({"id": "a", "method": ""}), "a".to_owned()),
    ] {
        phone
            .send(json!({"type": "rpc.request", "payload": payload}))
            .await;
        let (answered, refused) = phone.next_failure().await;
        assert_eq!(
            (answered, &refused["code"]),
            (id, &json!(-32600)),
            "{payload}"
        );
        assert_eq!(refused["data"]["retryable"], false);
        assert!(refused["data"]["reason"].is_string());
    }
    desktop.request("a").await;
    let not_allowed = error(-32601, "Not allowed", false, false);
    assert_eq!(desktop.next_failure().await, ("a".to_owned(), not_allowed));
    phone.answer("a", json!(1)).await;
    assert_eq!(phone.next().await["code"], "forbidden");
}

/// TR-10: a desktop that does not read costs the phones an immediate -32012, and stays.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_desktop_that_does_not_read_is_congested() {
    let run = Run::with_limits(|limits| limits.rpc_lane_messages = 4);
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let params = "x".repeat(10_000);
    for number in 0..10 {
        let payload = json!({"id": number.to_string(), "method": "m", "params": params});
        phone
            .send(json!({"type": "rpc.request", "payload": payload}))
            .await;
    }
    let congested = error(-32012, "Desktop is congested", true, false);
    let mut refused = Vec::new();
    while let Some(relay_tests::paused::Received::Frame(frame)) =
        phone.receive_within(Duration::from_secs(1)).await
    {
        assert_eq!(frame["payload"]["error"], congested, "{frame}");
        refused.push(frame["payload"]["id"].as_str().unwrap().to_owned());
    }
    assert!(!refused.is_empty() && refused.len() < 10, "{refused:?}");
    let expected: Vec<_> = (10 - refused.len()..10)
        .map(|number| number.to_string())
        .collect();
    assert_eq!(refused, expected, "the first ones wait for the desktop");
    for number in 0..10 - refused.len() {
        assert_eq!(desktop.next_request().await, number.to_string());
    }
}

/// TR-6: a burst of 300 passes, what is more is dropped; a dropped request that can be told is
/// answered with -32028.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn messages_over_the_rate_are_dropped() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    // Without an answer nobody waits, so no time passes; the registration took a token.
    for _ in 0..299 {
        phone.send(json!({"type": "event-ack"})).await;
    }
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let payload = json!({"id": "a", "method": "m", "traceparent": trace});
    phone.send(json!({"type": "ping"})).await;
    phone.request("unanswered").await;
    phone
        .send(json!({"type": "rpc.request", "payload": payload}))
        .await;
    let limited = error(-32028, "Rate limit exceeded", true, false);
    assert_eq!(phone.next_failure().await, ("a".to_owned(), limited));
    pass(Duration::from_secs(1)).await;
    phone.request("b").await;
    assert_eq!(desktop.next_request().await, "b");
}

/// TR-6, TR-10: what a peer can take leaves between the messages that it sends. A burst of pings, each
/// with a reply, longer than the lane, costs a peer that reads neither a reply nor its connection.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_burst_of_pings_is_answered_one_by_one() {
    let run = Run::with_limits(|limits| limits.control_lane_messages = 8);
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    for _ in 0..60 {
        desktop.send(json!({"type": "ping"})).await;
    }
    for _ in 0..60 {
        assert_eq!(desktop.next().await["type"], "pong");
    }
    for _ in 0..20 {
        assert!(desktop.try_send(Message::Ping(Default::default())).await);
    }
    assert_eq!(desktop.pongs_within(Duration::from_secs(1)).await, 20);
}
