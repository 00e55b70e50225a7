//! Which desktop a phone works with (REG-5).

use relay_tests::blackbox::{Account, Database, Device, Relay, Socket, failure};
use serde_json::{Value, json};

const TARGET: &str = "X-Target-Desktop-Device-ID";

/// Connects `phone` with a target in the header, and registers it with one in the payload.
async fn connect(relay: &Relay, phone: &Device, header: Option<&str>, field: Value) -> Socket {
    let mut headers = phone.upgrade_headers();
    headers.extend(header.map(|target| (TARGET.to_owned(), target.to_owned())));
    let mut socket = relay.upgrade_with(phone, &headers).await;
    let mut payload = phone.registration();
    if field != json!("absent") {
        payload["targetDesktopDeviceId"] = field;
    }
    socket.register_with(payload).await;
    socket
}

/// REG-5: the payload decides if it says anything, else the header.
#[tokio::test]
async fn the_payload_wins_over_the_header() {
    let relay = Relay::start().await;
    let account = Account::new();
    let (one, other) = (relay.desktop(&account).await, relay.desktop(&account).await);
    let (one, other) = (one.device.id.as_str(), other.device.id.as_str());
    let phone = account.new_phone();
    relay.enrol(&phone).await;
    for (header, field, target) in [
        (None, json!(one), one),
        (Some(other), json!(one), one),
        (Some("no uuid"), json!(one), one),
        (Some(one), json!("absent"), one),
        (Some(one), json!(null), one),
        (Some(one), json!(""), one),
    ] {
        let mut socket = connect(&relay, &phone, header, field).await;
        assert_eq!(socket.session["type"], "registered");
        assert_eq!(socket.next_status().await["deviceId"], target);
    }
    let mut socket = connect(&relay, &phone, Some("no uuid"), json!("absent")).await;
    assert_eq!(socket.session["code"], "invalidTargetDesktop");
    socket.expect_close(1008).await;
}

/// REG-5, RPC-5: without a target a phone gets no status, and its requests find no desktop.
#[tokio::test]
async fn a_phone_without_target_is_registered() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let phone = account.new_phone();
    relay.enrol(&phone).await;
    let mut socket = relay.connect(&phone).await;
    socket.request("r", "m", json!(1)).await;
    let offline = failure("r", -32010, "Desktop is offline", false, false);
    assert_eq!(socket.next_response().await, offline);
    socket.assert_quiet_behind(&mut desktop).await;
}

/// REG-5: the target is not remembered by the session.
#[tokio::test]
async fn a_resumed_session_brings_no_target() {
    let relay = Relay::start().await;
    let desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let session = phone.session.clone();
    let mut device = phone.device.clone();
    device.target = None;
    phone.close().await;
    phone = relay.upgrade(&device).await;
    phone.resume(&session).await;
    assert_eq!(phone.session["type"], "resumed");
    phone.request("r", "m", json!(1)).await;
    assert_eq!(phone.next_response().await["error"]["code"], -32010);
    phone.assert_all_read();
}

/// REG-5: a hidden or forgotten desktop can be a target, and is shown as gone.
#[tokio::test]
async fn hidden_and_forgotten_targets_show_disconnected() {
    let relay = Relay::start().await;
    let account = Account::new();
    for change in [Database::hide, Database::forget] {
        let desktop = account.new_desktop();
        relay.enrol(&desktop).await;
        change(&mut relay.site().database(), &desktop);
        let phone = account.new_phone().targeting(&desktop);
        relay.enrol(&phone).await;
        let mut socket = relay.connect(&phone).await;
        let status = socket.next_status().await;
        assert_eq!(status["deviceId"], desktop.id);
        assert_eq!(status["status"], "disconnected");
        socket.request("r", "m", json!(1)).await;
        assert_eq!(socket.next_response().await["error"]["code"], -32010);
    }
}

/// REG-5: a desktop's target means nothing.
#[tokio::test]
async fn a_desktop_has_no_target() {
    let relay = Relay::start().await;
    let desktop = Account::new().new_desktop();
    relay.enrol(&desktop).await;
    let mut socket = connect(&relay, &desktop, Some("no uuid"), json!("no uuid")).await;
    assert_eq!(socket.session["type"], "registered");
    socket.ping().await;
    socket.assert_all_read();
}
