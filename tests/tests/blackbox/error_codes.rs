//! Every code of an `error` frame, provoked on purpose, with what becomes of the connection (ENV-3,
//! REG-4). The match below has an arm per code, so that one without a test does not compile.

use relay_model::wire::codes::ErrorCode;
use relay_tests::blackbox::{Account, ClientType, Device, Relay, Socket, fresh_id};
use serde_json::{Value, json};

/// What follows an error.
enum After {
    /// The connection is what it was.
    GoesOn,
    /// The same socket may register.
    RegistersAgain,
    /// The relay closes with this code.
    Close(u16),
}

/// Provokes `code`: returns the socket, whose next frame is the error, the type of the offending
/// frame, if that is readable, and what has to follow.
async fn provoke(relay: &Relay, code: ErrorCode) -> (Socket, Option<&'static str>, After) {
    let account = Account::new();
    let register = Some("register");
    match code {
        ErrorCode::InvalidJson => {
            let socket = saying(relay.desktop(&account).await, "{").await;
            (socket, None, After::GoesOn)
        }
        ErrorCode::InvalidPayload => {
            let socket = saying(relay.desktop(&account).await, r#"{"type":"event"}"#).await;
            (socket, Some("event"), After::GoesOn)
        }
        ErrorCode::UnknownMessageType => {
            let socket = saying(relay.desktop(&account).await, r#"{"type":"x"}"#).await;
            (socket, Some("x"), After::GoesOn)
        }
        ErrorCode::UnsupportedFrame => {
            let mut socket = relay.desktop(&account).await;
            socket.send_binary(b"x").await;
            (socket, None, After::GoesOn)
        }
        ErrorCode::RegistrationRequired => {
            let socket = relay.upgrade(&account.new_phone()).await;
            let socket = saying(socket, r#"{"type":"heartbeat","payload":{}}"#).await;
            (socket, Some("heartbeat"), After::GoesOn)
        }
        ErrorCode::Forbidden => {
            let phone = account.new_phone();
            relay.enrol(&phone).await;
            let response = r#"{"type":"rpc.response","payload":{"id":"r","result":1}}"#;
            let socket = saying(relay.connect(&phone).await, response).await;
            (socket, Some("rpc.response"), After::GoesOn)
        }
        ErrorCode::ReservedEventType => {
            let event = r#"{"type":"event","payload":{"eventType":"device-status","payload":{}}}"#;
            let socket = saying(relay.desktop(&account).await, event).await;
            (socket, Some("event"), After::GoesOn)
        }
        ErrorCode::AuthRequired => {
            let renewal = r#"{"type":"auth.renew","payload":{"token":"no token"}}"#;
            let socket = saying(relay.desktop(&account).await, renewal).await;
            (socket, Some("auth.renew"), After::GoesOn)
        }
        ErrorCode::RelayDraining => {
            let desktop = relay.desktop(&account).await;
            let mut phone = relay.phone(&desktop.device).await;
            let late = enrolled(relay, account.new_phone()).await;
            let socket = relay.upgrade(&late).await;
            // Open until the end of the test, so the drain waits.
            phone.request("open", "m", json!(1)).await;
            phone.ping().await;
            relay.signal("TERM").await;
            let drains = async || relay.get("/readyz").await.status == 503;
            relay.eventually("the drain begins", drains).await;
            let socket = registering(socket, late.registration()).await;
            (socket, register, After::Close(1012))
        }
        ErrorCode::InvalidClientType => {
            let device = account.new_desktop();
            let mut headers = device.upgrade_headers();
            headers.retain(|(name, _)| name != "X-Client-Type");
            let socket = relay.upgrade_with(&device, &headers).await;
            let socket = registering(socket, device.registration()).await;
            (socket, register, After::Close(1008))
        }
        ErrorCode::InvalidDeviceId => {
            let payload = json!({ "deviceId": "no uuid", "relayProtocolVersion": 1 });
            let socket = relay.upgrade(&account.new_desktop()).await;
            let socket = registering(socket, payload).await;
            (socket, register, After::Close(1008))
        }
        ErrorCode::InvalidProtocolVersion => {
            let desktop = enrolled(relay, account.new_desktop()).await;
            let socket = registering_with(relay, &desktop, "relayProtocolVersion", "1.0").await;
            (socket, register, After::Close(1008))
        }
        ErrorCode::RelayUnavailable => {
            let desktop = enrolled(relay, account.new_desktop()).await;
            let mut database = relay.site().database();
            database.execute("ALTER TABLE relay_policy RENAME TO hidden_policy");
            let mut socket =
                registering(relay.upgrade(&desktop).await, desktop.registration()).await;
            // The error is here before the table is back.
            socket.wait_for_frame().await;
            database.execute("ALTER TABLE hidden_policy RENAME TO relay_policy");
            (socket, register, After::Close(1011))
        }
        ErrorCode::ProtocolVersionUnsupported => {
            let desktop = enrolled(relay, account.new_desktop()).await;
            let socket = registering_with(relay, &desktop, "relayProtocolVersion", "0").await;
            (socket, register, After::Close(1008))
        }
        ErrorCode::DeviceNotRegistered => {
            let desktop = account.new_desktop();
            let socket = registering(relay.upgrade(&desktop).await, desktop.registration()).await;
            (socket, register, After::Close(1008))
        }
        ErrorCode::DeviceOwnershipFailed => {
            let mut desktop = enrolled(relay, Account::new().new_desktop()).await;
            desktop.account = account;
            let socket = registering(relay.upgrade(&desktop).await, desktop.registration()).await;
            (socket, register, After::Close(1008))
        }
        ErrorCode::DeviceTypeMismatch => {
            let mut device = enrolled(relay, account.new_desktop()).await;
            device.client_type = ClientType::Mobile;
            let socket = registering(relay.upgrade(&device).await, device.registration()).await;
            (socket, register, After::Close(1008))
        }
        ErrorCode::DesktopForgotten => {
            let desktop = enrolled(relay, account.new_desktop()).await;
            relay.site().database().forget(&desktop);
            let socket = registering(relay.upgrade(&desktop).await, desktop.registration()).await;
            (socket, register, After::Close(4403))
        }
        ErrorCode::DesktopNotEligible => {
            let desktop = enrolled(relay, account.new_desktop()).await;
            relay.site().database().hide(&desktop);
            let socket = registering(relay.upgrade(&desktop).await, desktop.registration()).await;
            (socket, register, After::Close(4403))
        }
        ErrorCode::InvalidTargetDesktop => {
            let phone = enrolled(relay, account.new_phone()).await;
            let target = fresh_id();
            let socket = registering_with(relay, &phone, "targetDesktopDeviceId", &target).await;
            (socket, register, After::Close(1008))
        }
        ErrorCode::InvalidResume => {
            let phone = enrolled(relay, account.new_phone()).await;
            let socket = registering_with(relay, &phone, "resumeToken", "unknown").await;
            (socket, register, After::RegistersAgain)
        }
    }
}

/// ENV-3, REG-4: each code comes in one frame that says what it is about, and is followed by what
/// section 3 says and by nothing else.
#[tokio::test]
async fn every_code_has_its_consequence() {
    let relay = Relay::start().await;
    // The drain comes last, as nothing registers after it.
    let drains = |code: &&ErrorCode| **code == ErrorCode::RelayDraining;
    let others = ErrorCode::ALL.iter().filter(|code| !drains(code));
    for &code in others.chain(ErrorCode::ALL.iter().filter(drains)) {
        let (mut socket, request_type, after) = provoke(&relay, code).await;
        let error = socket.expect_error(code.code()).await;
        assert_eq!(error["requestType"].as_str(), request_type, "{error}");
        match after {
            After::GoesOn => socket.ping().await,
            After::RegistersAgain => socket.register().await,
            After::Close(close) => socket.expect_close(close).await,
        }
        socket.assert_all_read();
    }
}

async fn saying(mut socket: Socket, text: &str) -> Socket {
    socket.send_text(text).await;
    socket
}

async fn registering(mut socket: Socket, payload: Value) -> Socket {
    socket.send_register(payload).await;
    socket
}

/// Registers `device` with one field of its payload changed.
async fn registering_with(relay: &Relay, device: &Device, field: &str, value: &str) -> Socket {
    let mut payload = device.registration();
    payload[field] = json!(value);
    registering(relay.upgrade(device).await, payload).await
}

async fn enrolled(relay: &Relay, device: Device) -> Device {
    relay.enrol(&device).await;
    device
}
