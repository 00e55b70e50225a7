//! A user renames and hides devices: `PATCH /api/devices/{id}` (section 11, EV-5, HTTP-3).

use relay_tests::blackbox::{Account, Device, HttpAnswer, Relay, fresh_id};
use reqwest::Method;
use serde_json::{Value, json};

async fn patch(relay: &Relay, account: &Account, id: &str, body: &str) -> HttpAnswer {
    let authorization = format!("Bearer {}", account.token);
    let headers = [("Authorization", &*authorization)];
    let path = format!("/api/devices/{id}");
    let body = Some(body.to_owned());
    relay.call(Method::PATCH, &path, &headers, body).await
}

async fn change(relay: &Relay, device: &Device, body: Value) -> Value {
    let answer = patch(relay, &device.account, &device.id, &body.to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// Section 11, HTTP-3: a device is renamed, in any case of its id, and answered as it is listed.
#[tokio::test]
async fn devices_are_renamed() {
    let relay = Relay::start().await;
    let account = Account::new();
    let desktop = relay.desktop(&account).await;
    let phone = account.new_phone();
    relay.enrol(&phone).await;
    relay.until_listed_as(&desktop.device, "online").await;
    for device in [&desktop.device, &phone] {
        let before = relay.listed(device).await;
        let mut shouting = device.clone();
        shouting.id = shouting.id.to_uppercase();
        let body = json!({ "deviceName": "  Ada's ", "relayEligible": null, "platform": "x" });
        let changed = change(&relay, &shouting, body).await;
        assert_eq!(changed["deviceName"], "Ada's");
        assert!(changed["updatedAt"].as_str() > before["updatedAt"].as_str());
        let mut expected = before;
        for field in ["deviceName", "updatedAt"] {
            expected[field] = changed[field].clone();
        }
        assert_eq!(changed, expected);
        assert_eq!(relay.listed(device).await, changed);
        for nothing in [json!({}), json!({ "deviceName": null, "more": 1 })] {
            assert_eq!(change(&relay, device, nothing).await, changed);
        }
    }
}

/// EV-5: a desktop that is turned off is hidden and closed with 4403, and comes back when it is
/// turned on.
#[tokio::test]
async fn desktops_are_hidden_and_shown() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let device = desktop.device.clone();
    let hidden = change(&relay, &device, json!({ "relayEligible": false })).await;
    assert_eq!(hidden["isConnected"], json!(false), "{hidden}");
    desktop.expect_close(4403).await;
    let listed = relay.until_listed_as(&device, "offline").await;
    assert_eq!(listed["offlineReason"], "hidden");
    change(&relay, &device, json!({ "relayEligible": true })).await;
    relay.connect(&device).await.ping().await;
}

/// Section 11: unknown, foreign and forgotten ids, and what is none, are answered alike.
#[tokio::test]
async fn other_devices_are_not_found() {
    let relay = Relay::start().await;
    let account = Account::new();
    let foreign = Account::new().new_desktop();
    relay.enrol(&foreign).await;
    let before = relay.listed(&foreign).await;
    let forgotten = account.new_desktop();
    relay.enrol(&forgotten).await;
    relay.site().database().forget(&forgotten);
    let unknown = fresh_id();
    let mut answers = Vec::new();
    for id in [
        &unknown,
        &foreign.id,
        &forgotten.id,
        "no-uuid",
        &unknown[1..],
    ] {
        for body in [r#"{"deviceName":"n"}"#, r#"{"relayEligible":false}"#, "{}"] {
            let answer = patch(&relay, &account, id, body).await;
            answer.assert_problem(404, "deviceNotRegistered");
            answers.push(answer.body);
        }
    }
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    assert_eq!(relay.listed(&foreign).await, before);
}

/// HTTP-2, HTTP-3, HTTP-4: what is refused, and that nothing is changed then.
#[tokio::test]
async fn bad_changes_are_refused() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let before = relay.listed(&device).await;
    for (body, code) in [
        (json!({ "deviceName": "" }).to_string(), "invalidPayload"),
        (
            json!({ "deviceName": " unknown " }).to_string(),
            "invalidPayload",
        ),
        (
            json!({ "deviceName": "n".repeat(256) }).to_string(),
            "invalidPayload",
        ),
        (json!({ "deviceName": 7 }).to_string(), "invalidPayload"),
        (
            json!({ "relayEligible": "no" }).to_string(),
            "invalidPayload",
        ),
        ("[]".to_owned(), "invalidPayload"),
        ("{".to_owned(), "invalidJson"),
        (String::new(), "invalidJson"),
    ] {
        let answer = patch(&relay, &device.account, &device.id, &body).await;
        answer.assert_problem(400, code);
    }
    let large = format!(
        "{{\"deviceName\":\"n\",\"x\":\"{}\"}}",
        "x".repeat(256 * 1024)
    );
    let answer = patch(&relay, &device.account, &device.id, &large).await;
    answer.assert_problem(413, "bodyTooLarge");
    let path = format!("/api/devices/{}", device.id);
    let anonymous = relay
        .call(Method::PATCH, &path, &[], Some("{}".to_owned()))
        .await;
    anonymous.assert_problem(401, "authRequired");
    for method in [Method::GET, Method::PUT, Method::POST] {
        let answer = relay.call(method, &path, &[], None).await;
        answer.assert_problem(405, "methodNotAllowed");
        assert!(
            answer.header("allow").unwrap().contains("PATCH"),
            "{answer:?}"
        );
    }
    assert_eq!(relay.listed(&device).await, before);
}
