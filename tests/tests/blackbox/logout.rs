//! A user signs out: `POST /api/auth/logout` (SES-2, HTTP-4).

use relay_tests::blackbox::{Account, Device, HttpAnswer, Relay, failure, fresh_id, pending};
use reqwest::Method;
use serde_json::json;

const LOGOUT: &str = "/api/auth/logout";

async fn logout(
    relay: &Relay,
    account: &Account,
    device: Option<&str>,
    body: Option<&str>,
) -> HttpAnswer {
    let authorization = format!("Bearer {}", account.token);
    let mut headers = vec![("Authorization", authorization.as_str())];
    headers.extend(device.map(|id| ("X-Device-ID", id)));
    let body = body.map(str::to_owned);
    relay.call(Method::POST, LOGOUT, &headers, body).await
}

async fn sign_out(relay: &Relay, device: &Device) {
    let answer = logout(relay, &device.account, Some(&device.id), None).await;
    assert_eq!(
        (answer.status, answer.body),
        (200, json!({"success": true}))
    );
}

/// SES-2, PR-4, RPC-4: a desktop that is signed out is closed 4401 and gone without a grace; its session
/// is over; it may come back with a token that is still valid.
#[tokio::test]
async fn a_desktop_is_signed_out() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let (device, former) = (desktop.device.clone(), desktop.session.clone());
    let mut phone = relay.phone(&device).await;
    let mut other = relay.phone(&device).await;
    phone.request("open", "m", json!(1)).await;
    desktop.next_request().await;
    sign_out(&relay, &device).await;
    desktop.expect_close(4401).await;
    desktop.assert_all_read();
    assert_eq!(phone.next_response().await, pending("open", true));
    for socket in [&mut phone, &mut other] {
        let status = socket.next_status().await;
        assert_eq!(status["status"], "disconnected");
        assert_eq!(status["reason"], "signed_out");
    }
    phone.request("new", "m", json!(1)).await;
    let offline = failure("new", -32010, "Desktop is offline", false, false);
    assert_eq!(phone.next_response().await, offline);
    phone.assert_quiet_behind(&mut other).await;
    let listed = relay.until_listed_as(&device, "offline").await;
    assert_eq!(listed["offlineReason"], "signed_out");

    let mut back = relay.upgrade(&device).await;
    back.resume(&former).await;
    assert_eq!(back.session["code"], "invalidResume");
    back.register().await;
    assert_eq!(phone.next_status().await["status"], "online");
}

/// SES-2: `allDevices` signs out on every device of the account, whatever the header says, and on no
/// other account's.
#[tokio::test]
async fn all_devices_are_signed_out() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut phone = relay.phone(&desktop.device).await;
    let mut stranger = relay.desktop(&Account::new()).await;
    let id = desktop.device.id.clone();
    for named in [None, Some(id.as_str())] {
        let answer = logout(&relay, &account, named, Some(r#"{"allDevices":true}"#)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        phone.expect_close(4401).await;
        desktop.expect_close(4401).await;
        desktop = relay.connect(&desktop.device.clone()).await;
        phone = relay.connect(&phone.device.clone()).await;
    }
    stranger.ping().await;
    stranger.assert_all_read();
}

/// SES-2, HTTP-2, HTTP-4: what a sign-out must say, and who may.
#[tokio::test]
async fn bad_sign_outs_are_refused() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let device = desktop.device.clone();
    for body in [None, Some(""), Some("{}"), Some(r#"{"allDevices":false}"#)] {
        for id in [None, Some(""), Some("no-uuid")] {
            let answer = logout(&relay, &account, id, body).await;
            answer.assert_problem(400, "invalidDeviceId");
        }
    }
    for (body, code) in [
        ("{", "invalidJson"),
        ("[]", "invalidPayload"),
        (r#"{"allDevices":"true"}"#, "invalidPayload"),
    ] {
        let answer = logout(&relay, &account, Some(&device.id), Some(body)).await;
        answer.assert_problem(400, code);
    }
    let large = format!("{{\"x\":\"{}\"}}", "x".repeat(256 * 1024));
    let answer = logout(&relay, &account, Some(&device.id), Some(&large)).await;
    answer.assert_problem(413, "bodyTooLarge");
    let headers = [("X-Device-ID", device.id.as_str())];
    let anonymous = relay.call(Method::POST, LOGOUT, &headers, None).await;
    anonymous.assert_problem(401, "authRequired");
    let get = relay.call(Method::GET, LOGOUT, &headers, None).await;
    get.assert_problem(405, "methodNotAllowed");

    let authorization = format!("Bearer {}", account.token);
    let body = Some(json!({ "scopes": ["rpc", "read", "write"] }));
    let made = relay.call_as(&authorization, Method::POST, "/api/keys", body);
    let key = made.await.body["key"].as_str().unwrap().to_owned();
    let headers = [("X-API-Key", key.as_str()), ("X-Device-ID", &device.id)];
    let by_key = relay.call(Method::POST, LOGOUT, &headers, None).await;
    by_key.assert_problem(403, "forbidden");
    desktop.ping().await;
    desktop.assert_all_read();
}

/// SES-2: whoever is not there is signed out already, and an id of another account tells nothing.
#[tokio::test]
async fn nobody_is_signed_out_twice() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut foreign = relay.desktop(&Account::new()).await;
    let away = account.new_phone();
    relay.enrol(&away).await;
    for id in [&away.id, &away.id, &foreign.device.id, &fresh_id()] {
        let answer = logout(&relay, &account, Some(id), Some("{}")).await;
        assert_eq!(
            (answer.status, answer.body),
            (200, json!({"success": true}))
        );
    }
    foreign.ping().await;
    foreign.assert_all_read();
}
