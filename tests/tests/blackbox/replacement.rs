//! A device that connects while it is still connected (REG-6, REG-11, PR-3).

use relay_tests::blackbox::{Account, Relay, pending};
use serde_json::json;
use tokio::task::JoinSet;

/// REG-6, PR-3, RPC-4: the newer connection takes over; what was pending on the older one ends, once.
#[tokio::test]
async fn a_desktop_replaces_itself() {
    let relay = Relay::start().await;
    let mut old = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&old.device).await;
    phone.request("old", "m", json!(1)).await;
    old.next_request().await;

    let mut new = relay.connect(&old.device).await;
    old.expect_close(4410).await;
    assert_eq!(phone.next_response().await, pending("old", true));
    assert_eq!(phone.next_status().await["status"], "online");
    phone.request("new", "m", json!(2)).await;
    let request = new.next_request().await;
    new.answer(&request, json!("new")).await;
    assert_eq!(phone.next_response().await["result"], "new");
    phone.assert_quiet_behind(&mut new).await;
}

/// REG-6: nothing that an old socket still sends touches the new route: no answer, no event, no
/// registration, no close.
#[tokio::test]
async fn an_old_socket_has_no_effect() {
    let relay = Relay::start().await;
    let account = Account::new();
    let device = account.new_desktop();
    relay.enrol(&device).await;
    let mut old = relay.raw(&device).await;
    old.register(&device).await;
    let mut new = relay.connect(&device).await;
    let mut phone = relay.phone(&device).await;
    phone.request("r", "m", json!(1)).await;
    let request = new.next_request().await;

    old.send_json(&json!({ "type": "rpc.response", "payload": { "id": "r", "result": "old" } }))
        .await;
    old.send_json(&json!({ "type": "event", "payload": { "eventType": "x", "payload": "old" } }))
        .await;
    old.send_json(&json!({ "type": "register", "payload": device.registration() }))
        .await;
    old.expect_close_frame(4410).await;
    old.reset();

    new.answer(&request, json!("new")).await;
    assert_eq!(phone.next_response().await["result"], "new");
    phone.assert_quiet_behind(&mut new).await;
    new.ping().await;
    new.assert_all_read();
}

/// REG-6: phones replace themselves too; the newer one gets the answers (RPC-2).
#[tokio::test]
async fn a_phone_replaces_itself() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut old = relay.phone(&desktop.device).await;
    old.request("r", "m", json!(1)).await;
    let request = desktop.next_request().await;
    let mut new = relay.connect(&old.device).await;
    new.next_status().await;
    old.expect_close(4410).await;
    old.assert_all_read();
    desktop
        .answer(&request, json!("for whoever you are now"))
        .await;
    assert_eq!(
        new.next_response().await["result"],
        "for whoever you are now"
    );
}

/// REG-11: however many sockets of one device register at once, one remains, and it is reachable.
#[tokio::test]
async fn simultaneous_registrations_leave_one_route() {
    let relay = Relay::start().await;
    let account = Account::new();
    let device = account.new_desktop();
    relay.enrol(&device).await;
    let mut sockets = Vec::new();
    for _ in 0..20 {
        sockets.push(relay.upgrade(&device).await);
    }
    for socket in &mut sockets {
        socket.send_register(device.registration()).await;
    }
    let mut outcomes = JoinSet::new();
    for mut socket in sockets {
        outcomes.spawn(async move {
            let outcome = socket.request_or_close().await;
            (socket, outcome)
        });
    }
    for _ in 1..20 {
        let (_, outcome) = outcomes.join_next().await.unwrap().unwrap();
        assert_eq!(outcome, Err(Some(4410)));
    }
    let mut phone = relay.phone(&device).await;
    phone.request("r", "m", json!(1)).await;
    let (mut last, request) = outcomes.join_next().await.unwrap().unwrap();
    last.answer(&request.unwrap(), json!("here")).await;
    assert_eq!(phone.next_response().await["result"], "here");
}
