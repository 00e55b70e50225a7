//! The exchange that makes a socket a route: what comes before it, during it and after it (REG-1,
//! REG-2, REG-7, REG-9 to REG-11, TR-9).

use relay_tests::blackbox::{Account, OpCode, RawSocket, Relay, encode, rpc_request};
use serde_json::{Value, json};

/// REG-2, SES-4, SES-5: the reply carries a session, a token of 256 bits and this process's id.
#[tokio::test]
async fn the_reply_carries_a_session() {
    let relay = Relay::start().await;
    let desktop = relay.desktop(&Account::new()).await;
    let reply = desktop.session.as_object().unwrap();
    let mut fields: Vec<_> = reply.keys().map(String::as_str).collect();
    fields.sort_unstable();
    let expected = [
        "expiresAt",
        "relayInstanceId",
        "resumeToken",
        "sessionId",
        "type",
    ];
    assert_eq!(fields, expected);
    assert_eq!(reply["sessionId"].as_str().unwrap().len(), 36);
    // 256 bits are 43 characters of base64url.
    assert!(reply["resumeToken"].as_str().unwrap().len() >= 43);
    let version = relay.get("/api/version").await.body;
    assert_eq!(reply["relayInstanceId"], version["relayInstanceId"]);
}

/// REG-1, ENV-3: before `register` only `ping` is served; the socket stays and can register.
#[tokio::test]
async fn everything_but_ping_needs_a_registration() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut socket = relay.upgrade(&device).await;
    socket.send(&json!({ "type": "ping" })).await;
    socket.expect_pong().await;
    for frame in [
        json!({ "type": "heartbeat", "payload": {} }),
        rpc_request("1", "m", json!(null)),
        json!({ "type": "rpc.response", "payload": { "id": "1", "result": 1 } }),
        json!({ "type": "event", "payload": { "eventType": "x", "payload": 1 } }),
        json!({ "type": "event", "payload": { "eventType": "" } }),
        json!({ "type": "auth.renew", "payload": { "token": "t" } }),
    ] {
        socket.send(&frame).await;
        let error = socket.expect_error("registrationRequired").await;
        assert_eq!(error["requestType"], frame["type"]);
    }
    socket.register().await;
    socket.ping().await;
    socket.assert_all_read();
}

/// REG-1, REG-7, RPC-1: what comes right behind `register` is served in order once the reply is
/// sent, except for `ping`, which is answered at once, and events, which are refused.
#[tokio::test]
async fn frames_right_behind_register_wait_for_the_reply() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let phone = account.new_phone().targeting(&desktop.device);
    relay.enrol(&phone).await;
    let mut raw = relay.raw(&phone).await;
    send_at_once(
        &mut raw,
        &[
            json!({ "type": "register", "payload": phone.registration() }),
            rpc_request("first", "m", json!(1)),
            json!({ "type": "event", "payload": { "eventType": "x", "payload": 1 } }),
            json!({ "type": "heartbeat", "payload": {} }),
            json!({ "type": "ping" }),
            rpc_request("second", "m", json!(2)),
        ],
    )
    .await;
    let refused = raw.next_json().await;
    assert_eq!(refused["code"], "registrationRequired");
    assert_eq!(refused["requestType"], "event");
    assert_eq!(raw.next_json().await["type"], "pong", "of the ping");
    assert_eq!(raw.next_json().await["type"], "registered");
    let status = raw.next_json().await;
    assert_eq!(status["payload"]["eventType"], "device-status");
    assert_eq!(raw.next_json().await["type"], "pong", "of the heartbeat");
    assert_eq!(desktop.next_request().await["id"], "first");
    assert_eq!(desktop.next_request().await["id"], "second");
}

/// REG-1: 16 frames wait, a seventeenth is refused.
#[tokio::test]
async fn at_most_16_frames_wait() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut raw = relay.raw(&device).await;
    let mut frames = vec![json!({ "type": "register", "payload": device.registration() })];
    frames.resize(18, json!({ "type": "heartbeat", "payload": {} }));
    send_at_once(&mut raw, &frames).await;
    let refused = raw.next_json().await;
    assert_eq!(refused["code"], "registrationRequired");
    assert_eq!(refused["requestType"], "heartbeat");
    assert_eq!(raw.next_json().await["type"], "registered");
    for _ in 0..16 {
        assert_eq!(raw.next_json().await["type"], "pong");
    }
}

/// REG-1: what waits is limited in bytes too; what fits is served.
#[tokio::test]
async fn the_bytes_that_wait_are_limited() {
    // So small that all of it is read before the registration can be over.
    let relay = Relay::start_with(&[("limits.waiting_bytes", "1KiB")]).await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let phone = account.new_phone().targeting(&desktop.device);
    relay.enrol(&phone).await;
    let mut raw = relay.raw(&phone).await;
    let half = "x".repeat(500);
    send_at_once(
        &mut raw,
        &[
            json!({ "type": "register", "payload": phone.registration() }),
            rpc_request("fits", "m", json!(half)),
            rpc_request("does not", "m", json!(half)),
        ],
    )
    .await;
    let refused = raw.next_json().await;
    assert_eq!(refused["code"], "registrationRequired");
    assert_eq!(raw.next_json().await["type"], "registered");
    assert_eq!(desktop.next_request().await["id"], "fits");
}

/// REG-1: frames that waited for a registration which is refused are dropped.
#[tokio::test]
async fn frames_behind_a_refused_register_are_dropped() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    let mut raw = relay.raw(&device).await;
    send_at_once(
        &mut raw,
        &[
            json!({ "type": "register", "payload": device.registration() }),
            json!({ "type": "heartbeat", "payload": {} }),
        ],
    )
    .await;
    assert_eq!(raw.next_json().await["code"], "deviceNotRegistered");
    let close = raw.next_frame().await;
    assert_eq!(close.close_code(), Some(1008), "{close:?}");
}

/// REG-7, PR-5: a phone's reply comes first and its target's status right behind it.
#[tokio::test]
async fn the_reply_comes_before_the_status() {
    let relay = Relay::start().await;
    let account = Account::new();
    let desktop = relay.desktop(&account).await;
    let phone = account.new_phone().targeting(&desktop.device);
    relay.enrol(&phone).await;
    let mut socket = relay.upgrade(&phone).await;
    socket.send_register(phone.registration()).await;
    assert_eq!(socket.next().await["type"], "registered");
    let status = socket.next_frame().await;
    assert_eq!(status.event_type.as_deref(), Some("device-status"));
}

/// REG-9: the floor is the database's: raised without a restart, and 0 admits even a missing version.
#[tokio::test]
async fn the_protocol_floor_comes_from_the_database() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut early = relay.desktop(&account).await;
    let device = account.new_desktop();
    relay.enrol(&device).await;
    let mut database = relay.site().database();
    let with_version = |version: Value| {
        let mut payload = device.registration();
        payload["relayProtocolVersion"] = version;
        payload
    };

    database.execute("UPDATE relay_policy SET min_protocol_version = 3");
    for version in [json!(2), json!("2"), json!(null)] {
        let mut socket = relay.upgrade(&device).await;
        socket.send_register(with_version(version)).await;
        socket.expect_error("protocolVersionUnsupported").await;
        socket.expect_close(1008).await;
    }
    let mut socket = relay.upgrade(&device).await;
    socket.register_with(with_version(json!("3"))).await;
    assert_eq!(socket.session["type"], "registered");
    assert_eq!(
        relay.get("/api/version").await.body["minProtocolVersion"],
        3
    );
    early.ping().await;

    database.execute("UPDATE relay_policy SET min_protocol_version = 0");
    let mut payload = device.registration();
    payload
        .as_object_mut()
        .unwrap()
        .remove("relayProtocolVersion");
    let mut socket = relay.upgrade(&device).await;
    socket.register_with(payload).await;
    assert_eq!(socket.session["type"], "registered");
}

/// REG-10: the same device registers again on its socket: a new session; another device may not.
#[tokio::test]
async fn a_socket_registers_again_for_the_same_device() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut phone = relay.phone(&desktop.device).await;
    let former = desktop.session.clone();
    desktop.register().await;
    assert_ne!(desktop.session["sessionId"], former["sessionId"]);
    assert_eq!(phone.next_status().await["status"], "online");
    phone.request("r", "m", json!(1)).await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!("still here")).await;
    assert_eq!(phone.next_response().await["result"], "still here");

    // Another id. The header that binds this socket to one is left out, so it is not what refuses.
    let headers = desktop.device.upgrade_headers();
    let headers: Vec<_> = headers
        .into_iter()
        .filter(|(name, _)| name != "X-Device-ID")
        .collect();
    let mut socket = relay.upgrade_with(&desktop.device, &headers).await;
    socket.register().await;
    let other = account.new_desktop();
    relay.enrol(&other).await;
    socket.send_register(other.registration()).await;
    socket.expect_error("invalidDeviceId").await;
    socket.expect_close(1008).await;
}

/// REG-10, RPC-2: a phone changes its target on its socket and still hears the former desktop.
#[tokio::test]
async fn a_phone_changes_its_target() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut first = relay.desktop(&account).await;
    let mut second = relay.desktop(&account).await;
    let mut phone = relay.phone(&first.device).await;
    phone.request("asked first", "m", json!(1)).await;
    let pending = first.next_request().await;

    let payload = phone
        .device
        .clone()
        .targeting(&second.device)
        .registration();
    phone.register_with(payload).await;
    assert_eq!(phone.session["type"], "registered");
    assert_eq!(phone.next_status().await["deviceId"], second.device.id);
    phone.request("asked second", "m", json!(2)).await;
    let request = second.next_request().await;
    second.answer(&request, json!("second")).await;
    assert_eq!(phone.next_response().await["result"], "second");
    first.answer(&pending, json!("first")).await;
    let late = phone.next_response().await;
    assert_eq!(
        (&late["id"], &late["result"]),
        (&json!("asked first"), &json!("first"))
    );
}

/// TR-9: a socket that does not register in time is closed, whatever else it sends.
#[tokio::test]
async fn sockets_that_do_not_register_are_closed() {
    let relay = Relay::start_with(&[("limits.registration_timeout", "200ms")]).await;
    let device = Account::new().new_desktop();
    let mut silent = relay.upgrade(&device).await;
    let mut busy = relay.upgrade(&device).await;
    busy.ping().await;
    silent.expect_close(4408).await;
    busy.expect_close(4408).await;

    relay.enrol(&device).await;
    let mut registered = relay.connect(&device).await;
    let mut late = relay.upgrade(&device).await;
    late.expect_close(4408).await;
    registered.ping().await;
}

/// TR-2: an id in upper case is the same device, and is written in lower case.
#[tokio::test]
async fn device_ids_compare_without_case() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let phone = account.new_phone();
    relay.enrol(&phone).await;
    let mut shouting = phone.clone().targeting(&desktop.device);
    shouting.id = shouting.id.to_uppercase();
    shouting.target = shouting.target.map(|target| target.to_uppercase());
    let mut socket = relay.connect(&shouting).await;
    assert_eq!(socket.next_status().await["deviceId"], desktop.device.id);
    socket.request("r", "m", json!(null)).await;
    let request = desktop.next_request().await;
    assert_eq!(request["clientId"], phone.id);
    assert_eq!(request["userId"], account.id);
}

async fn send_at_once(raw: &mut RawSocket, frames: &[Value]) {
    let texts = frames.iter().map(Value::to_string);
    let bytes: Vec<u8> = texts
        .flat_map(|text| encode(OpCode::Text, true, text.as_bytes()))
        .collect();
    raw.send(&bytes).await;
}
