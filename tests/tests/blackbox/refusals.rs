//! Every refusal of a registration that this version can give, in its order, with the close that
//! follows it (REG-4).

use relay_tests::blackbox::{Account, ClientType, Device, Relay, Socket, fresh_id};
use serde_json::{Value, json};

/// Registers with `payload` and expects a refusal and the end.
async fn refused(relay: &Relay, device: &Device, payload: Value, code: &str, close: u16) {
    let socket = relay.upgrade(device).await;
    refused_on(socket, payload, code, close).await;
}

async fn refused_on(mut socket: Socket, payload: Value, code: &str, close: u16) {
    socket.send_register(payload).await;
    let error = socket.expect_error(code).await;
    assert_eq!(error["requestType"], "register");
    socket.expect_close(close).await;
    socket.assert_all_read();
}

/// REG-4, TR-2: a missing or odd client type shows at `register`, before everything else.
#[tokio::test]
async fn invalid_client_type() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    for client_type in [None, Some("tablet"), Some("")] {
        let mut headers = device.upgrade_headers();
        headers.retain(|(name, _)| name == "Authorization");
        if let Some(client_type) = client_type {
            headers.push(("X-Client-Type".to_owned(), client_type.to_owned()));
        }
        let socket = relay.upgrade_with(&device, &headers).await;
        let payload = json!({ "deviceId": "no uuid", "relayProtocolVersion": "x" });
        refused_on(socket, payload, "invalidClientType", 1008).await;
    }
}

/// REG-4, TR-2: an id that is no UUID, or not the one of the upgrade request.
#[tokio::test]
async fn invalid_device_id() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let other = fresh_id();
    for id in ["", "no uuid", &device.id[..35], &other] {
        let payload = json!({ "deviceId": id, "relayProtocolVersion": "x" });
        refused(&relay, &device, payload, "invalidDeviceId", 1008).await;
    }
}

/// REG-4: what a protocol version may look like; what cannot be parsed is told from what is too old.
#[tokio::test]
async fn protocol_versions() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let with = |version: &Value| {
        let mut payload = device.registration();
        payload["relayProtocolVersion"] = version.clone();
        payload
    };
    for version in [
        json!(""),
        json!("1a"),
        json!(" 1"),
        json!("+1"),
        json!("-1"),
        json!("1.0"),
        json!("1234567890"),
        json!("١"),
        json!(1.5),
        json!(true),
        json!([1]),
        json!({}),
    ] {
        refused(
            &relay,
            &device,
            with(&version),
            "invalidProtocolVersion",
            1008,
        )
        .await;
    }
    for version in [
        json!(null),
        json!(0),
        json!("0"),
        json!("000000000"),
        json!(-1),
    ] {
        refused(
            &relay,
            &device,
            with(&version),
            "protocolVersionUnsupported",
            1008,
        )
        .await;
    }
    for version in [json!(1), json!("1"), json!("000000001"), json!(999_999_999)] {
        let mut socket = relay.upgrade(&device).await;
        socket.register_with(with(&version)).await;
        assert_eq!(socket.session["type"], "registered", "{version}");
    }
}

/// REG-4: a database that cannot answer is the relay's fault, and clients come back.
#[tokio::test]
async fn relay_unavailable() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut database = relay.site().database();
    database.execute("ALTER TABLE relay_policy RENAME TO hidden_policy");
    refused(
        &relay,
        &device,
        device.registration(),
        "relayUnavailable",
        1011,
    )
    .await;
    database.execute("ALTER TABLE hidden_policy RENAME TO relay_policy");
    relay.connect(&device).await.ping().await;
}

/// REG-4: a device that never registered over HTTP, whatever its target.
#[tokio::test]
async fn device_not_registered() {
    let relay = Relay::start().await;
    let device = Account::new().new_phone();
    let mut payload = device.registration();
    payload["targetDesktopDeviceId"] = json!("no uuid");
    refused(&relay, &device, payload, "deviceNotRegistered", 1008).await;
}

/// REG-4: a device of another account, told before its type.
#[tokio::test]
async fn device_ownership_failed() {
    let relay = Relay::start().await;
    let owned = Account::new().new_desktop();
    relay.enrol(&owned).await;
    let mut thief = Account::new().new_phone();
    thief.id.clone_from(&owned.id);
    refused(
        &relay,
        &thief,
        thief.registration(),
        "deviceOwnershipFailed",
        1008,
    )
    .await;
    relay.connect(&owned).await.ping().await;
}

/// REG-4: a desktop that connects as a phone, told before that it was forgotten.
#[tokio::test]
async fn device_type_mismatch() {
    let relay = Relay::start().await;
    let mut device = Account::new().new_desktop();
    relay.enrol(&device).await;
    relay.site().database().forget(&device);
    device.client_type = ClientType::Mobile;
    refused(
        &relay,
        &device,
        device.registration(),
        "deviceTypeMismatch",
        1008,
    )
    .await;
}

/// REG-4: a forgotten desktop, told before that it is hidden; the close says so too.
#[tokio::test]
async fn desktop_forgotten() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    relay.site().database().forget(&device);
    relay.site().database().hide(&device);
    refused(
        &relay,
        &device,
        device.registration(),
        "desktopForgotten",
        4403,
    )
    .await;
}

/// REG-4, EV-5: a desktop that is not admitted.
#[tokio::test]
async fn desktop_not_eligible() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    let hidden = json!({
        "deviceName": "n", "platform": "macos", "appVersion": "1", "relayEligible": false,
    });
    assert_eq!(relay.enrol_with(&device, &hidden).await.status, 201);
    refused(
        &relay,
        &device,
        device.registration(),
        "desktopNotEligible",
        4403,
    )
    .await;
    // A registration without the field keeps it, one with it admits the desktop again.
    relay.enrol(&device).await;
    refused(
        &relay,
        &device,
        device.registration(),
        "desktopNotEligible",
        4403,
    )
    .await;
    let mut shown = hidden;
    shown["relayEligible"] = json!(true);
    assert_eq!(relay.enrol_with(&device, &shown).await.status, 201);
    relay.connect(&device).await.ping().await;
}

/// REG-4, REG-5: a target that is no UUID, unknown, foreign or a phone; told before a bad resume.
#[tokio::test]
async fn invalid_target_desktop() {
    let relay = Relay::start().await;
    let account = Account::new();
    let foreign = Account::new().new_desktop();
    let other_phone = account.new_phone();
    let phone = account.new_phone();
    for device in [&foreign, &other_phone, &phone] {
        relay.enrol(device).await;
    }
    for target in ["no uuid", &fresh_id(), &foreign.id, &other_phone.id] {
        let mut payload = phone.registration();
        payload["targetDesktopDeviceId"] = json!(target);
        payload["resumeToken"] = json!("half a resume");
        refused(&relay, &phone, payload, "invalidTargetDesktop", 1008).await;
    }
}

/// TR-7, REG-1: a `register` whose fields are missing or ill-typed is a bad frame, not a refusal.
#[tokio::test]
async fn malformed_registrations_keep_the_socket() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut socket = relay.upgrade(&device).await;
    for (payload, field) in [
        (json!({ "relayProtocolVersion": 1 }), "deviceId"),
        (
            json!({ "deviceId": 1, "relayProtocolVersion": 1 }),
            "deviceId",
        ),
        (
            json!({ "deviceId": null, "relayProtocolVersion": 1 }),
            "deviceId",
        ),
        (json!([device.id]), "payload"),
        (json!(null), "payload"),
    ] {
        socket.send_register(payload).await;
        let error = socket.expect_error("invalidPayload").await;
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(field), "{field}: {message}");
        assert_eq!(error["requestType"], "register");
    }
    socket.register().await;
}
