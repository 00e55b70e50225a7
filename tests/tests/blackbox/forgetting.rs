//! A user forgets devices: `DELETE /api/devices/{id}` (section 11, EV-3, PR-4, REG-4).

use relay_tests::blackbox::{
    Account, ClientType, Device, Frame, HttpAnswer, Relay, Socket, failure, fresh_id, pending,
};
use reqwest::Method;
use serde_json::{Value, json};

async fn delete(relay: &Relay, account: &Account, id: &str) -> HttpAnswer {
    let authorization = format!("Bearer {}", account.token);
    let path = format!("/api/devices/{id}");
    relay
        .call_as(&authorization, Method::DELETE, &path, None)
        .await
}

/// What a device says when it registers over HTTP, on its user's word or of itself.
fn enrolment(device: &Device, rejoin: bool) -> Value {
    let platform = match device.client_type {
        ClientType::Desktop => "linux",
        ClientType::Mobile => "ios",
    };
    json!({ "deviceName": "n", "platform": platform, "appVersion": "1", "rejoin": rejoin })
}

/// The next frame, whatever it is, must tell that this device is forgotten.
async fn hears_unlinked(socket: &mut Socket, forgotten: &Device) {
    let frame = socket.next_frame().await;
    is_unlinked(&frame, forgotten);
}

fn is_unlinked(frame: &Frame, forgotten: &Device) {
    let value = frame.value();
    let expected =
        json!({ "eventType": "device-unlinked", "payload": { "deviceId": forgotten.id } });
    assert_eq!(value["payload"], expected, "{value}");
    assert_eq!(value["sourceDeviceId"], Value::Null, "{value}");
}

async fn is_refused(relay: &Relay, device: &Device) {
    let mut socket = relay.upgrade(device).await;
    socket.send_register(device.registration()).await;
    socket.expect_error("desktopForgotten").await;
    socket.expect_close(4403).await;
    socket.assert_all_read();
}

/// EV-3, PR-4, RPC-4: every device of the account hears of it, the forgotten desktop before it is closed
/// with 4403; it is gone at once; open requests get -32011 and new ones -32010; nobody else hears
/// anything.
#[tokio::test]
async fn a_desktop_is_forgotten() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let forgotten = desktop.device.clone();
    let mut phone = relay.phone(&forgotten).await;
    let mut other = relay.phone(&forgotten).await;
    let mut stranger = relay.desktop(&Account::new()).await;
    let mut acquaintance = relay.phone(&stranger.device).await;
    phone.request("open", "m", json!(1)).await;
    desktop.next_request().await;
    relay.until_listed_as(&forgotten, "online").await;

    let answer = delete(&relay, &account, &forgotten.id.to_uppercase()).await;
    assert_eq!((answer.status, &answer.body), (204, &json!("")));
    desktop.expect_close(4403).await;
    hears_unlinked(&mut desktop, &forgotten).await;
    desktop.assert_all_read();

    assert_eq!(phone.next_response().await, pending("open", true));
    hears_unlinked(&mut phone, &forgotten).await;
    hears_unlinked(&mut other, &forgotten).await;
    for socket in [&mut phone, &mut other] {
        let status = socket.next_status().await;
        assert_eq!(status["status"], "disconnected");
        assert_eq!(status["reason"], "unlinked");
        assert_eq!(status["deviceId"], forgotten.id);
    }
    phone.request("new", "m", json!(1)).await;
    let offline = failure("new", -32010, "Desktop is offline", false, false);
    assert_eq!(phone.next_response().await, offline);
    phone.assert_quiet_behind(&mut other).await;
    stranger.assert_quiet_behind(&mut acquaintance).await;

    let listed = relay.devices(&account, "").await;
    assert!(listed.iter().all(|row| row["deviceId"] != forgotten.id));
    let id = relay.site().database().id(&forgotten.id);
    let row = format!(
        "SELECT status || ' ' || offline_reason AS line FROM devices
         WHERE id = {id} AND forgotten_at IS NOT NULL"
    );
    assert_eq!(relay.site().database().lines(&row), ["offline unlinked"]);
}

/// REG-4, section 11: a forgotten device, desktop or phone, is refused over HTTP and over the socket, and
/// comes back on its user's word only, with a session of its own.
#[tokio::test]
async fn forgotten_devices_rejoin_on_request() {
    let relay = Relay::start().await;
    let account = Account::new();
    let target = relay.desktop(&account).await;
    for mut socket in [
        relay.desktop(&account).await,
        relay.phone(&target.device).await,
    ] {
        let (device, former) = (socket.device.clone(), socket.session.clone());
        relay.forget(&device).await;
        socket.expect_close(4403).await;
        is_refused(&relay, &device).await;
        let answer = relay.enrol_with(&device, &enrolment(&device, false)).await;
        answer.assert_problem(403, "desktopForgotten");
        is_refused(&relay, &device).await;

        let answer = relay.enrol_with(&device, &enrolment(&device, true)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let mut back = relay.upgrade(&device).await;
        back.resume(&former).await;
        assert_eq!(back.session["code"], "invalidResume");
        back.register().await;
        relay.until_listed_as(&device, "online").await;
    }
}

/// PR-4: a desktop that is forgotten while it is away is gone at once.
#[tokio::test]
async fn a_desktop_is_forgotten_within_its_grace() {
    let relay = Relay::start().await;
    let account = Account::new();
    let desktop = relay.desktop(&account).await;
    let forgotten = desktop.device.clone();
    let mut phone = relay.phone(&forgotten).await;
    desktop.vanish();
    assert_eq!(phone.next_status().await["status"], "reconnecting");
    relay.forget(&forgotten).await;
    hears_unlinked(&mut phone, &forgotten).await;
    let status = phone.next_status().await;
    assert_eq!(status["reason"], "unlinked", "{status}");
    phone.assert_all_read();
}

/// PR-4: asked again, also many times at once, it is done once and answered alike.
#[tokio::test]
async fn a_device_is_forgotten_once() {
    let relay = Relay::start().await;
    let account = Account::new();
    let desktop = relay.desktop(&account).await;
    let forgotten = desktop.device.clone();
    let mut phone = relay.phone(&forgotten).await;
    let mut other = relay.phone(&forgotten).await;
    let calls = (0..8).map(|_| delete(&relay, &account, &forgotten.id));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.status, 204, "{answer:?}");
    }
    relay.forget(&forgotten).await;
    for socket in [&mut phone, &mut other] {
        hears_unlinked(socket, &forgotten).await;
        socket.next_status().await;
    }
    phone.assert_quiet_behind(&mut other).await;
    other.assert_quiet_behind(&mut phone).await;
}

/// Section 11, HTTP-1, HTTP-4: unknown and foreign ids, and what is none, are answered alike; it takes
/// credentials, and of a key the scope `write`.
#[tokio::test]
async fn who_may_forget_what() {
    let relay = Relay::start().await;
    let account = Account::new();
    let foreign = relay.desktop(&Account::new()).await;
    let unknown = fresh_id();
    let mut answers = Vec::new();
    for id in [&unknown, &foreign.device.id, "no-uuid", &unknown[1..]] {
        let answer = delete(&relay, &account, id).await;
        answer.assert_problem(404, "deviceNotRegistered");
        answers.push(answer.body);
    }
    assert!(answers.iter().all(|body| *body == answers[0]));
    let listed = relay.listed(&foreign.device).await;
    assert_eq!(listed["status"], "online", "{listed}");

    let device = account.new_phone();
    relay.enrol(&device).await;
    let path = format!("/api/devices/{}", device.id);
    let anonymous = relay.call(Method::DELETE, &path, &[], None).await;
    anonymous.assert_problem(401, "authRequired");
    for (scopes, allowed) in [(["rpc", "read"], false), (["read", "write"], true)] {
        let authorization = format!("Bearer {}", account.token);
        let body = Some(json!({ "scopes": scopes }));
        let made = relay.call_as(&authorization, Method::POST, "/api/keys", body);
        let key = made.await.body["key"].as_str().unwrap().to_owned();
        let authorization = format!("ApiKey {key}");
        let answer = relay.call_as(&authorization, Method::DELETE, &path, None);
        let answer = answer.await;
        if allowed {
            assert_eq!(answer.status, 204, "{answer:?}");
        } else {
            answer.assert_problem(403, "forbidden");
        }
    }
    assert!(relay.devices(&account, "").await.is_empty());
}

/// REG-11, PR-4: many devices that register while they are forgotten: each ends refused or closed, none
/// stays, and what remains is true.
#[tokio::test]
async fn nobody_slips_through() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut devices = Vec::new();
    for _ in 0..20 {
        let device = account.new_desktop();
        relay.enrol(&device).await;
        devices.push(device);
    }
    let races = devices.iter().map(|device| async {
        let mut socket = relay.upgrade(device).await;
        socket.send_register(device.registration()).await;
        relay.forget(device).await;
        socket.expect_close(4403).await;
    });
    futures_util::future::join_all(races).await;
    for device in &devices {
        is_refused(&relay, device).await;
    }
    let wrong = "SELECT count(*) AS number FROM devices
         WHERE status <> 'offline' OR offline_reason <> 'unlinked' OR forgotten_at IS NULL";
    let all_offline = async || relay.site().database().number(wrong) == 0;
    relay.eventually("the rows", all_offline).await;
}
