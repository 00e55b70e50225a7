//! Another account's device ids, tried at every door: nothing is written, nothing is told (REG-4,
//! REG-5, HTTP-1).

use relay_tests::blackbox::{Account, ClientType, Device, Relay, Socket};
use reqwest::Method;
use serde_json::{Value, json};

/// So long that the relay writes nothing by itself while a test looks at the tables.
const STILL: [(&str, &str); 4] = [
    ("presence.instance_renewal", "10m"),
    ("presence.instance_lease", "1h"),
    ("presence.sweep_interval", "1h"),
    ("presence.heartbeat_interval", "10m"),
];

/// A desktop and a phone of one account, connected.
struct Household {
    desktop: Socket,
    phone: Socket,
}

impl Household {
    async fn new(relay: &Relay) -> Self {
        let desktop = relay.desktop(&Account::new()).await;
        let phone = relay.phone(&desktop.device).await;
        Self { desktop, phone }
    }

    fn account(&self) -> &Account {
        &self.desktop.device.account
    }

    async fn assert_quiet(&mut self) {
        self.phone.assert_quiet_behind(&mut self.desktop).await;
        self.desktop.assert_quiet_behind(&mut self.phone).await;
    }
}

/// Two accounts, and a relay that has written all that it knows of them.
async fn neighbours() -> (Relay, Household, Household) {
    let relay = Relay::start_with(&STILL).await;
    let owner = Household::new(&relay).await;
    let thief = Household::new(&relay).await;
    let written = "SELECT (SELECT count(*) FROM devices WHERE status = 'online') \
         + (SELECT count(*) FROM relay_instances) AS number";
    let all = async || relay.site().database().number(written) == 5;
    relay.eventually("all rows", all).await;
    (relay, owner, thief)
}

/// `device` as `account` would have it.
fn claimed_by(account: &Account, device: &Device, client_type: ClientType) -> Device {
    let mut claimed = device.clone();
    claimed.account = account.clone();
    claimed.client_type = client_type;
    claimed.target = None;
    claimed
}

/// REG-4, REG-5: `register` with a foreign id as the device, as either type and with or without the
/// header, or as the target.
#[tokio::test]
async fn sockets_of_another_account() {
    let (relay, mut owner, mut thief) = neighbours().await;
    let before = relay.site().database().dump();
    for device in [&owner.desktop.device, &owner.phone.device] {
        for client_type in [ClientType::Desktop, ClientType::Mobile] {
            let claimed = claimed_by(thief.account(), device, client_type);
            let mut headers = claimed.upgrade_headers();
            for with_header in [true, false] {
                headers.retain(|(name, _)| with_header || name != "X-Device-ID");
                for resume in [
                    None,
                    Some(&owner.desktop.session),
                    Some(&owner.phone.session),
                ] {
                    let mut payload = claimed.registration();
                    if let Some(session) = resume {
                        payload["sessionId"] = session["sessionId"].clone();
                        payload["resumeToken"] = session["resumeToken"].clone();
                    }
                    let mut socket = relay.upgrade_with(&claimed, &headers).await;
                    socket.send_register(payload).await;
                    socket.expect_error("deviceOwnershipFailed").await;
                    socket.expect_close(1008).await;
                    socket.assert_all_read();
                }
            }
        }
    }
    let phone = thief.phone.device.clone().targeting(&owner.desktop.device);
    let mut socket = relay.upgrade(&phone).await;
    socket.send_register(phone.registration()).await;
    socket.expect_error("invalidTargetDesktop").await;
    socket.expect_close(1008).await;
    owner.assert_quiet().await;
    thief.assert_quiet().await;
    assert_eq!(relay.site().database().dump(), before);
}

/// REG-10: a registered socket cannot become a foreign device either; its own end is told, to its own
/// account only.
#[tokio::test]
async fn a_registered_socket_of_another_account() {
    let (relay, mut owner, mut thief) = neighbours().await;
    let before = relay.listed(&owner.desktop.device).await;
    let stolen = claimed_by(thief.account(), &owner.desktop.device, ClientType::Desktop);
    thief.desktop.send_register(stolen.registration()).await;
    thief.desktop.expect_error("invalidDeviceId").await;
    thief.desktop.expect_close(1008).await;
    assert_eq!(thief.phone.next_status().await["status"], "reconnecting");
    thief.phone.assert_all_read();
    owner.assert_quiet().await;
    assert_eq!(relay.listed(&owner.desktop.device).await, before);
}

/// HTTP-1: every call of the device API that names a device.
#[tokio::test]
async fn calls_of_another_account() {
    let (relay, mut owner, mut thief) = neighbours().await;
    let before = relay.site().database().dump();
    for device in [&owner.desktop.device, &owner.phone.device] {
        for client_type in [ClientType::Desktop, ClientType::Mobile] {
            let platform = match client_type {
                ClientType::Desktop => "linux",
                ClientType::Mobile => "ios",
            };
            let body = json!({
                "deviceName": "mine", "platform": platform, "appVersion": "9", "relayEligible": false,
                "rejoin": true, "capabilities": ["x"], "pushToken": "x",
            });
            let claimed = claimed_by(thief.account(), device, client_type);
            let answer = relay.enrol_with(&claimed, &body).await;
            answer.assert_problem(409, "deviceOwnershipFailed");
        }
        let path = format!("/api/devices/{}", device.id);
        let push = json!({ "platform": "ios", "token": "x" });
        for (method, path, body) in [
            (
                Method::PATCH,
                path.as_str(),
                json!({ "deviceName": "mine" }),
            ),
            (Method::PATCH, &path, json!({ "relayEligible": false })),
            (Method::DELETE, &path, Value::Null),
            (Method::PUT, "/api/devices/push-token", push),
            (Method::DELETE, "/api/devices/push-token", Value::Null),
            (Method::POST, "/api/auth/logout", json!({})),
        ] {
            call_as(&relay, thief.account(), device, method, path, body).await;
        }
    }
    owner.assert_quiet().await;
    thief.assert_quiet().await;
    assert_eq!(relay.site().database().dump(), before);
    assert_eq!(relay.devices(thief.account(), "").await.len(), 2);
}

/// Makes a call with `account`'s token and a foreign device's id; a refusal names nobody.
async fn call_as(
    relay: &Relay,
    account: &Account,
    device: &Device,
    method: Method,
    path: &str,
    body: Value,
) {
    let authorization = format!("Bearer {}", account.token);
    let headers = [
        ("Authorization", authorization.as_str()),
        ("X-Device-ID", &device.id),
        ("X-Client-Type", device.client_type.header()),
    ];
    let body = (!body.is_null()).then(|| body.to_string());
    let case = format!("{method} {path}");
    let answer = relay.call(method, path, &headers, body).await;
    // What is idempotent may say that it is done.
    let fine = (200..500).contains(&answer.status);
    assert!(fine, "{case}: {answer:?}{}", relay.evidence().tail());
    if path.contains(&device.id) {
        assert!((400..500).contains(&answer.status), "{case}: {answer:?}");
    }
    let told = answer.body.to_string();
    assert!(!told.contains(&device.account.id), "{case}: {told}");
}
