//! "Why is it offline?" has an answer, whatever the reason (OP-9).

use relay_tests::blackbox::{Account, Device, Relay};
use reqwest::Method;
use serde_json::{Value, json};

/// A grace that is over soon.
const GRACE: (&str, &str) = ("presence.reconnect_grace", "50ms");

async fn offline(relay: &Relay, device: &Device) -> Value {
    relay
        .view_when(device, "offline", |view| view["status"] == "offline")
        .await
}

fn assert_explained(view: &Value, words: &[&str]) {
    let explanation = &view["explanation"];
    let told = format!("{} {}", explanation["summary"], explanation["whatToDo"]);
    for word in words {
        assert!(told.contains(word), "{word}: {told}");
    }
}

/// OP-9, PR-2: a desktop that closed its connection itself, and did not come back.
#[tokio::test]
async fn it_closed_the_connection_itself() {
    let relay = Relay::start_operated(&[GRACE]).await;
    let desktop = relay.desktop(&Account::new()).await;
    let device = desktop.device.clone();
    desktop.close().await;
    let view = offline(&relay, &device).await;
    let close = &view["lastClose"];
    assert_eq!(
        (&close["reason"], &close["side"]),
        (&json!("client_closed"), &json!("peer"))
    );
    // Its close frame had no code.
    assert_eq!(close.get("code"), None);
    assert_explained(&view, &["closed the connection itself", "start the app"]);
    // The reason reaches the row with the next batch.
    let reason = |view: &Value| view["offlineReason"] == "reconnect_timeout";
    let view = relay.view_when(&device, "the reason", reason).await;
    assert_explained(&view, &["did not come back within its grace"]);
    let statuses: Vec<_> = view["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["offline", "reconnecting", "online"]);
}

/// OP-9, PR-2: within its grace a desktop is not offline yet, and that is told too.
#[tokio::test]
async fn it_is_within_its_grace() {
    let relay = Relay::start_operated(&[]).await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut raw = relay.raw(&device).await;
    raw.register(&device).await;
    raw.reset();
    let view = relay
        .view_when(&device, "reconnecting", |view| {
            view["status"] == "reconnecting"
        })
        .await;
    assert_eq!(view["lastClose"]["side"], "peer");
    assert_eq!(view["lastClose"].get("code"), None);
    assert_explained(&view, &["within its grace"]);
}

/// OP-9, TR-5: a desktop that fell silent.
#[tokio::test]
async fn it_fell_silent() {
    let relay = Relay::start_operated(&[
        GRACE,
        ("limits.ping_interval", "50ms"),
        ("limits.client_timeout", "100ms"),
    ])
    .await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut raw = relay.raw(&device).await;
    raw.register(&device).await;
    raw.expect_close_frame(4411).await;
    let view = offline(&relay, &device).await;
    assert_eq!(view["lastClose"]["reason"], "peer_silent");
    assert_eq!(view["lastClose"]["code"], 4411);
    assert_eq!(view["lastClose"]["side"], "relay");
    assert_explained(&view, &["Nothing came from the client"]);
}

/// OP-9, REG-6: a desktop that is replaced is online, and its former connection's end is told.
#[tokio::test]
async fn it_was_replaced() {
    let relay = Relay::start_operated(&[]).await;
    let mut first = relay.desktop(&Account::new()).await;
    let device = first.device.clone();
    let before = relay.view(&device).await.unwrap();
    let second = relay.connect(&device).await;
    first.expect_close(4410).await;
    let view = relay.view(&device).await.unwrap();
    assert_eq!(view["status"], "online");
    assert_eq!(view["lastClose"]["reason"], "replaced");
    assert_eq!(
        view["lastClose"]["connectionId"],
        before["connection"]["connectionId"]
    );
    assert_ne!(
        view["connection"]["connectionId"],
        before["connection"]["connectionId"]
    );
    drop(second);
}

/// OP-9, EV-5, PR-4: a desktop that its user hid, and that keeps trying.
#[tokio::test]
async fn its_user_hid_it() {
    let relay = Relay::start_operated(&[]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let device = desktop.device.clone();
    let authorization = format!("Bearer {}", device.account.token);
    let path = format!("/api/devices/{}", device.id);
    let hide = json!({ "relayEligible": false });
    relay
        .call_as(&authorization, Method::PATCH, &path, Some(hide))
        .await;
    desktop.expect_close(4403).await;
    let view = offline(&relay, &device).await;
    assert_eq!(view["lastClose"]["reason"], "hidden");
    assert_eq!(view["registration"]["relayEligible"], false);
    assert_explained(&view, &["user hid"]);

    let mut again = relay.upgrade(&device).await;
    again.send_register(device.registration()).await;
    again.expect_error("desktopNotEligible").await;
    let view = relay
        .view_when(&device, "the refusal", |view| {
            view["lastRefusal"]["code"] == "desktopNotEligible"
        })
        .await;
    assert_explained(&view, &["user hid"]);
}

/// OP-9: a device that its user forgot is still shown to its operator.
#[tokio::test]
async fn its_user_forgot_it() {
    let relay = Relay::start_operated(&[]).await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    relay.site().database().forget(&device);
    assert!(relay.devices(&device.account, "").await.is_empty());
    let view = relay.view(&device).await.unwrap();
    assert_eq!(view["registration"]["forgotten"], true);
    assert_explained(&view, &["user forgot"]);
}

/// OP-9, REG-4: an app that is too old.
#[tokio::test]
async fn its_version_is_refused() {
    let relay = Relay::start_operated(&[]).await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut payload = device.registration();
    payload["relayProtocolVersion"] = json!(0);
    let mut socket = relay.upgrade(&device).await;
    socket.send_register(payload).await;
    socket.expect_error("protocolVersionUnsupported").await;
    socket.expect_close(1008).await;
    let view = relay.view(&device).await.unwrap();
    assert_eq!(view["status"], "offline");
    assert_eq!(view["lastRefusal"]["code"], "protocolVersionUnsupported");
    assert_eq!(
        (&view["lastClose"]["reason"], &view["lastClose"]["code"]),
        (&json!("refused"), &json!(1008))
    );
    assert_eq!(view.get("since"), None);
    assert_explained(&view, &["protocolVersionUnsupported", "Update the app"]);
}

/// OP-9, SES-6: an API key that was revoked under its desktop.
#[tokio::test]
async fn its_credentials_ended() {
    let relay = Relay::start_operated(&[GRACE, ("auth.api_key_check_interval", "50ms")]).await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let user = format!("Bearer {}", device.account.token);
    let wanted = json!({ "scopes": ["rpc", "read", "write"] });
    let made = relay
        .call_as(&user, Method::POST, "/api/keys", Some(wanted))
        .await;
    let key = made.body["key"].as_str().unwrap().to_owned();
    let mut headers = device.upgrade_headers();
    headers[0] = ("X-API-Key".to_owned(), key);
    let mut socket = relay.upgrade_with(&device, &headers).await;
    socket.register().await;
    let path = format!("/api/keys/{}", made.body["id"].as_str().unwrap());
    relay.call_as(&user, Method::DELETE, &path, None).await;
    socket.expect_close(4401).await;
    let view = offline(&relay, &device).await;
    assert_eq!(view["lastClose"]["reason"], "key_ended");
    assert_explained(&view, &["API key", "relay key create"]);
}

/// OP-9: a device that never registered over HTTP, and one that did and never connected.
#[tokio::test]
async fn it_never_registered() {
    let relay = Relay::start_operated(&[]).await;
    let account = Account::new();
    let unknown = account.new_desktop();
    let mut socket = relay.upgrade(&unknown).await;
    socket.send_register(unknown.registration()).await;
    socket.expect_error("deviceNotRegistered").await;
    let view = relay
        .view_when(&unknown, "the refusal", |view| {
            view.get("lastRefusal").is_some()
        })
        .await;
    assert_eq!(view.get("registration"), None);
    assert_explained(&view, &["deviceNotRegistered", "/api/devices/register"]);

    let waiting = account.new_desktop();
    relay.enrol(&waiting).await;
    let view = relay.view(&waiting).await.unwrap();
    assert_explained(&view, &["never connected", "401"]);
}

/// OP-9, TR-9: a client that connects and then says nothing.
#[tokio::test]
async fn it_connects_and_does_not_register() {
    let relay = Relay::start_operated(&[("limits.registration_timeout", "50ms")]).await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut socket = relay.upgrade(&device).await;
    socket.expect_close(4408).await;
    let view = relay.view(&device).await.unwrap();
    assert_eq!(view["lastClose"]["reason"], "registration_timeout");
    assert_explained(&view, &["did not register"]);
}

/// OP-9, DR-3: a relay that was stopped is told by the next one, from the database alone.
#[tokio::test]
async fn its_relay_was_stopped() {
    let relay = Relay::start_operated(&[("presence.startup_grace", "0ms")]).await;
    let desktop = relay.desktop(&Account::new()).await;
    let device = desktop.device.clone();
    let relay = relay.restart().await;
    let view = relay.view(&device).await.unwrap();
    assert_eq!(view["status"], "offline");
    assert_eq!(view["offlineReason"], "relay_stopped");
    assert_explained(&view, &["relay stopped", "address"]);
}

/// OP-9, PR-6: a relay that was killed is told by the next one, from the database alone.
#[tokio::test]
async fn its_relay_was_killed() {
    let relay = Relay::start_operated(&[
        ("presence.startup_grace", "0ms"),
        ("presence.instance_renewal", "50ms"),
        ("presence.instance_lease", "200ms"),
        ("presence.sweep_interval", "50ms"),
    ])
    .await;
    let desktop = relay.desktop(&Account::new()).await;
    let device = desktop.device.clone();
    relay
        .eventually("the row to be online", async || {
            relay.site().database().status(&device) == "online"
        })
        .await;
    let relay = relay.crash().await;
    let view = relay
        .view_when(&device, "the mark", |view| {
            view["offlineReason"] == "relay_lost"
        })
        .await;
    assert_eq!(view["status"], "offline");
    assert_eq!(view.get("lastClose"), None);
    assert_eq!(view["history"][0]["reason"], "relay_lost");
    assert_explained(&view, &["died"]);
}

/// OP-9: an account that nobody has heard of is none; another account's devices are not shown, also not
/// to explain who else has the device id.
#[tokio::test]
async fn accounts_are_told_apart() {
    let relay = Relay::start_operated(&[]).await;
    let owner = relay.desktop(&Account::new()).await;
    let thief = Account::new();
    relay
        .view_account(&thief)
        .await
        .assert_problem(404, "notFound");
    for id in ["me", "7f1c2f5e"] {
        let path = format!("/admin/accounts/{id}");
        let answer = relay.operate(Method::GET, &path, None).await;
        answer.assert_problem(404, "notFound");
    }

    let mut stolen = owner.device.clone();
    stolen.account = thief.clone();
    let mut socket = relay.upgrade(&stolen).await;
    socket.send_register(stolen.registration()).await;
    socket.expect_error("deviceOwnershipFailed").await;
    let view = relay
        .view_when(&stolen, "the refusal", |view| {
            view.get("lastRefusal").is_some()
        })
        .await;
    assert_eq!(view.get("registration"), None);
    assert_explained(&view, &["deviceOwnershipFailed"]);
    let owners = relay.view(&owner.device).await.unwrap();
    assert_eq!(owners["status"], "online");
    assert_eq!(owners.get("lastRefusal"), None);

    let upper = format!("/admin/accounts/{}", thief.id.to_uppercase());
    let answer = relay.operate(Method::GET, &upper, None).await;
    assert_eq!(answer.body["accountId"], json!(thief.id));
}
