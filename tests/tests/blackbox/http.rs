//! The device API (section 11, HTTP-1 to HTTP-4, OP-8).

use relay_tests::blackbox::{Account, Device, HttpAnswer, Relay, is_time};
use reqwest::Method;
use serde_json::{Value, json};

fn desktop_body() -> Value {
    json!({
        "deviceName": "  Ada's workstation ",
        "platform": "macos",
        "platformVersion": "15.1",
        "appVersion": "2.4.0",
        "capabilities": { "terminal": true, "x_y": [1] },
        "extra": "ignored",
    })
}

/// Section 11, HTTP-3, ENV-2: a desktop's row, as it is answered and as it is listed.
#[tokio::test]
async fn a_desktop_registers() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    let answer = relay.enrol_with(&device, &desktop_body()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let created = answer.body;
    assert_eq!(created["deviceId"], device.id);
    assert_eq!(created["status"], "offline");
    for field in ["createdAt", "updatedAt"] {
        assert!(is_time(created[field].as_str().unwrap()), "{created}");
    }
    let listed = relay.listed(&device).await;
    let expected = json!({
        "deviceId": device.id,
        "deviceName": "Ada's workstation",
        "deviceType": "desktop",
        "platform": "macos",
        "platformVersion": "15.1",
        "appVersion": "2.4.0",
        "status": "offline",
        "isConnected": false,
        "capabilities": { "terminal": true, "x_y": [1] },
        "createdAt": created["createdAt"],
        "updatedAt": created["updatedAt"],
    });
    assert_eq!(listed, expected);
}

/// Section 11: registering again updates the row; what is left out stays.
#[tokio::test]
async fn a_desktop_registers_again() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    let first = relay.enrol_with(&device, &desktop_body()).await.body;
    let body = json!({ "deviceName": "New name", "platform": "linux", "appVersion": "3.0.0" });
    let mut shouting = device.clone();
    shouting.id = shouting.id.to_uppercase();
    let again = relay.enrol_with(&shouting, &body).await;
    assert_eq!(again.status, 201, "{again:?}");
    assert_eq!(again.body["deviceId"], device.id);
    assert_eq!(again.body["createdAt"], first["createdAt"]);
    assert!(again.body["updatedAt"].as_str() > first["updatedAt"].as_str());
    let listed = relay.devices(&device.account, "").await;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["deviceName"], "New name");
    assert_eq!(listed[0]["platform"], "linux");
    assert_eq!(listed[0]["capabilities"], desktop_body()["capabilities"]);
}

/// Section 11: a phone's row.
#[tokio::test]
async fn a_phone_registers() {
    let relay = Relay::start().await;
    let device = Account::new().new_phone();
    let body = json!({
        "deviceName": "unknown", "platform": "ios", "appVersion": "1", "capabilities": {"a": 1},
    });
    let answer = relay.enrol_with(&device, &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let expected = json!({
        "deviceId": device.id,
        "deviceName": "unknown",
        "deviceType": "mobile",
        "platform": "ios",
        "appVersion": "1",
        "isConnected": false,
    });
    assert_eq!(answer.body, expected);
    let phone = relay.connect(&device).await;
    let again = relay.enrol_with(&device, &body).await;
    assert_eq!(again.body["isConnected"], json!(true), "{again:?}");
    drop(phone);
}

/// HTTP-1: an id of another account is refused and nothing of it is changed or told.
#[tokio::test]
async fn foreign_ids_are_refused() {
    let relay = Relay::start().await;
    let owner = Account::new().new_desktop();
    relay.enrol_with(&owner, &desktop_body()).await;
    let before = relay.listed(&owner).await;
    let thief = Account::new();
    let mut stolen = thief.new_desktop();
    stolen.id.clone_from(&owner.id);
    let answer = relay.enrol_with(&stolen, &desktop_body()).await;
    answer.assert_problem(409, "deviceOwnershipFailed");
    assert_eq!(relay.listed(&owner).await, before);
    assert!(relay.devices(&thief, "").await.is_empty());
}

/// Section 11: a desktop's id cannot become a phone's.
#[tokio::test]
async fn types_do_not_change() {
    let relay = Relay::start().await;
    let desktop = Account::new().new_desktop();
    relay.enrol(&desktop).await;
    let mut phone = desktop.account.new_phone();
    phone.id.clone_from(&desktop.id);
    let body = json!({ "deviceName": "n", "platform": "ios", "appVersion": "1" });
    let answer = relay.enrol_with(&phone, &body).await;
    answer.assert_problem(409, "deviceTypeMismatch");
    assert_eq!(relay.listed(&desktop).await["deviceType"], "desktop");
}

/// Section 11: a forgotten desktop is not listed, and comes back on its user's word only.
#[tokio::test]
async fn forgotten_desktops_rejoin_on_request() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    relay.site().database().forget(&device);
    assert!(relay.devices(&device.account, "").await.is_empty());
    let mut body = desktop_body();
    for rejoin in [Value::Null, json!(false)] {
        body["rejoin"] = rejoin;
        let answer = relay.enrol_with(&device, &body).await;
        answer.assert_problem(403, "desktopForgotten");
    }
    assert!(relay.devices(&device.account, "").await.is_empty());
    body["rejoin"] = json!(true);
    assert_eq!(relay.enrol_with(&device, &body).await.status, 201);
    relay.connect(&device).await.ping().await;
}

/// HTTP-3, section 11: what a body must say, and how a refusal names what is wrong with it.
#[tokio::test]
async fn bodies_are_checked() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    let with = |field: &str, value: Value| {
        let mut body = desktop_body();
        body[field] = value;
        body
    };
    let longest = "é".repeat(255);
    for (body, field) in [
        (with("deviceName", json!("")), "deviceName"),
        (with("deviceName", json!("  \t")), "deviceName"),
        (
            with("deviceName", json!(format!("{longest}x"))),
            "deviceName",
        ),
        (with("deviceName", json!("a\u{0}b")), "deviceName"),
        (with("appVersion", json!("1\u{0}")), "appVersion"),
        (with("deviceName", json!("unknown")), "deviceName"),
        (with("deviceName", json!(" Unknown ")), "deviceName"),
        (with("deviceName", json!(null)), ""),
        (with("platform", json!("ios")), "ios"),
        (with("platform", json!(7)), ""),
        (with("relayEligible", json!("yes")), ""),
        (
            json!({ "deviceName": "n", "platform": "linux" }),
            "appVersion",
        ),
        (json!([]), ""),
        (json!(null), ""),
    ] {
        let answer = relay.enrol_with(&device, &body).await;
        answer.assert_problem(400, "invalidPayload");
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains(field), "{field}: {message}");
    }
    assert!(relay.devices(&device.account, "").await.is_empty());
    let answer = relay
        .enrol_with(&device, &with("deviceName", json!(longest)))
        .await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(relay.listed(&device).await["deviceName"], longest);
}

/// Section 11: what is no JSON is told from what has wrong fields.
#[tokio::test]
async fn broken_bodies_are_refused() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    for body in ["", "{", "{\"deviceName\":}", "nonsense"] {
        let answer = post(&relay, &device, "desktop", body.to_owned()).await;
        answer.assert_problem(400, "invalidJson");
    }
}

/// HTTP-2: a body has at most 256 KiB.
#[tokio::test]
async fn bodies_are_limited() {
    const LIMIT: usize = 256 * 1024;
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    let of_size = |size: usize| {
        let body = desktop_body().to_string();
        let space = " ".repeat(size - body.len());
        format!("{body}{space}")
    };
    let fits = post(&relay, &device, "desktop", of_size(LIMIT)).await;
    assert_eq!(fits.status, 201, "{fits:?}");
    let over = post(&relay, &device, "desktop", of_size(LIMIT + 1)).await;
    over.assert_problem(413, "bodyTooLarge");
}

/// TR-2, section 11: the headers that name the device.
#[tokio::test]
async fn device_headers_are_checked() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    for client_type in ["mobile", "tablet", ""] {
        let answer = post(&relay, &device, client_type, desktop_body().to_string()).await;
        answer.assert_problem(400, "invalidClientType");
    }
    for id in ["", "no uuid", &device.id[1..]] {
        let mut wrong = device.clone();
        wrong.id = id.to_owned();
        let answer = post(&relay, &wrong, "desktop", desktop_body().to_string()).await;
        answer.assert_problem(400, "invalidDeviceId");
    }
}

/// HTTP-4: every call of the device API wants credentials, and says so.
#[tokio::test]
async fn credentials_are_needed() {
    let relay = Relay::start().await;
    for (method, path) in [
        (Method::GET, "/api/devices"),
        (Method::POST, "/api/devices/register"),
        (Method::POST, "/api/devices/mobile/register"),
    ] {
        for headers in [&[][..], &[("Authorization", "Bearer nonsense")]] {
            let body = (method == Method::POST).then(|| "{".to_owned());
            let answer = relay.call(method.clone(), path, headers, body).await;
            answer.assert_problem(401, "authRequired");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
}

/// Section 11: the list of an account, filtered in both spellings.
#[tokio::test]
async fn devices_are_listed_and_filtered() {
    let relay = Relay::start().await;
    let account = Account::new();
    assert!(relay.devices(&account, "").await.is_empty());
    let desktop = relay.desktop(&account).await;
    let phone = account.new_phone();
    relay.enrol(&phone).await;
    relay.until_listed_as(&desktop.device, "online").await;
    for (query, ids) in [
        ("", vec![&desktop.device.id, &phone.id]),
        ("?deviceType=desktop", vec![&desktop.device.id]),
        ("?device_type=mobile", vec![&phone.id]),
        ("?connectedOnly=true", vec![&desktop.device.id]),
        ("?connected_only=true&deviceType=mobile", vec![]),
        ("?connectedOnly=false", vec![&desktop.device.id, &phone.id]),
    ] {
        let listed = relay.devices(&account, query).await;
        let listed: Vec<_> = listed
            .iter()
            .map(|row| row["deviceId"].as_str().unwrap())
            .collect();
        assert_eq!(listed, ids, "{query}");
    }
    let authorization = format!("Bearer {}", account.token);
    let headers = [("Authorization", &*authorization)];
    let answer = relay
        .call(Method::GET, "/api/devices?deviceType=car", &headers, None)
        .await;
    answer.assert_problem(400, "invalidPayload");
}

/// Section 11: paths and methods that there are not.
#[tokio::test]
async fn unknown_paths_and_methods() {
    let relay = Relay::start().await;
    for path in ["/", "/api", "/api/nothing", "/ws"] {
        relay.get(path).await.assert_problem(404, "notFound");
    }
    for (method, path, allow) in [
        (Method::DELETE, "/api/devices", "GET"),
        (Method::GET, "/api/devices/register", "POST"),
        (Method::POST, "/healthz", "GET"),
    ] {
        let answer = relay.call(method, path, &[], None).await;
        answer.assert_problem(405, "methodNotAllowed");
        assert!(
            answer.header("allow").unwrap().contains(allow),
            "{answer:?}"
        );
    }
}

/// OP-8, REG-9: health, readiness and version, without credentials.
#[tokio::test]
async fn the_relay_tells_how_it_is() {
    let relay = Relay::start().await;
    assert_eq!(relay.get("/healthz").await.status, 200);
    assert_eq!(relay.get("/readyz").await.status, 200);
    let version = relay.get("/api/version").await;
    assert_eq!(version.status, 200);
    assert_eq!(version.body["name"], "relay");
    assert_eq!(version.body["minProtocolVersion"], json!(1));
    assert_eq!(version.body["relayInstanceId"].as_str().unwrap().len(), 36);
    assert!(version.body["version"].is_string());
}

/// OP-8: a relay without its database lives, and says that it is not ready and what is missing.
#[tokio::test]
async fn readiness_says_what_is_missing() {
    let relay = Relay::start().await;
    relay
        .site()
        .database()
        .execute("ALTER TABLE relay_policy RENAME TO mislaid");
    let answer = relay.get("/readyz").await;
    answer.assert_problem(503, "relayUnavailable");
    assert_eq!(answer.body["missing"], json!(["database"]));
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    let told = answer.body["message"].as_str().unwrap();
    assert!(told.contains("database"), "{told}");
    assert!(!answer.body.to_string().contains("relay_policy"), "{told}");
    assert_eq!(relay.get("/healthz").await.status, 200);
    relay
        .get("/api/version")
        .await
        .assert_problem(503, "relayUnavailable");

    relay
        .site()
        .database()
        .execute("ALTER TABLE mislaid RENAME TO relay_policy");
    let answer = relay.get("/readyz").await;
    assert_eq!(
        (answer.status, &answer.body),
        (200, &json!({ "status": "ready" }))
    );
}

async fn post(relay: &Relay, device: &Device, client_type: &str, body: String) -> HttpAnswer {
    let authorization = format!("Bearer {}", device.account.token);
    let headers = [
        ("Authorization", authorization.as_str()),
        ("X-Device-ID", &device.id),
        ("X-Client-Type", client_type),
    ];
    relay
        .call(Method::POST, "/api/devices/register", &headers, Some(body))
        .await
}
