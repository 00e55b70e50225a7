//! The device API (section 11) over a real relay and a database in a file.

use std::sync::Arc;
use std::time::Duration;

use actix_http::Protocol;
use actix_service::ServiceFactory;
use actix_web::body::MessageBody;
use actix_web::dev::{Service, ServiceResponse};
use actix_web::test::{TestRequest, call_service, init_service, read_body};
use actix_web::{App, Error};
use relay_actors::Relay;
use relay_actors::push::PushServices;
use relay_http::device_api::DeviceApi;
use relay_http::server;
use relay_http::upgrade::UpgradeDoor;
use relay_model::limits::Limits;
use relay_model::store::{DatabaseUrl, DieselStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    ACCOUNT, NOW, OTHER_ACCOUNT, StillWorld, authenticator, authenticator_with, token, tokens,
};

const DESKTOP: &str = "11111111-1111-4111-8111-11111111111a";
const PHONE: &str = "22222222-2222-4222-8222-22222222222b";

async fn api_over(store: DieselStore, limits: Limits) -> DeviceApi {
    let relay = Relay::start(
        Arc::new(limits),
        Arc::new(StillWorld::default()),
        Arc::new(store),
        Arc::new(tokens(NOW)),
        PushServices::default(),
    );
    // Whatever it says: actors that never ran cannot be dropped with their runtime.
    let _ = relay.check_database().await;
    DeviceApi {
        authenticator: authenticator_with(Arc::new(relay.clone())),
        relay,
        environment: Arc::new(StillWorld::default()),
    }
}

async fn api() -> (TempDir, DeviceApi) {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits::default();
    let url = DatabaseUrl::Sqlite(folder.path().join("relay.db"));
    let store = DieselStore::open(&url, &limits).unwrap();
    store.migrate().await.unwrap();
    (folder, api_over(store, limits).await)
}

/// An API whose database file is something else.
async fn api_without_database() -> (TempDir, DeviceApi) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.db");
    std::fs::write(
        &path,
        "this is no database, and long enough to be looked at. ".repeat(100),
    )
    .unwrap();
    let limits = Limits {
        database_timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let store = DieselStore::open(&DatabaseUrl::Sqlite(path), &limits).unwrap();
    (folder, api_over(store, limits).await)
}

/// Makes an App of an API, as the server does.
macro_rules! app {
    ($api:expr) => {{
        let api = $api;
        init_service(App::new().configure(move |config| api.routes(config))).await
    }};
}

/// Status, headers and body of an answer; an error is always a problem.
async fn call<S, B>(app: &S, request: TestRequest) -> (u16, Value)
where
    S: Service<actix_http::Request, Response = ServiceResponse<B>, Error = Error>,
    B: MessageBody,
{
    let response = call_service(app, request.to_request()).await;
    let status = response.status().as_u16();
    let content_type = response.headers().get("content-type").cloned();
    let body = read_body(response).await;
    let body: Value = serde_json::from_slice(&body)
        .unwrap_or_else(|error| panic!("{status} with {body:?}: {error}"));
    if status >= 400 {
        assert_eq!(content_type.unwrap(), "application/problem+json");
        for (member, value) in [
            ("status", json!(status)),
            ("code", json!(status)),
            ("message", body["detail"].clone()),
        ] {
            assert_eq!(body[member], value, "{body}");
        }
        for member in ["type", "title", "detail", "errorType"] {
            assert!(body[member].is_string(), "{member}: {body}");
        }
    }
    (status, body)
}

fn signed_in(request: TestRequest, account: &str) -> TestRequest {
    request.insert_header(("authorization", format!("Bearer {}", token(account))))
}

fn register_desktop(account: &str, device: &str, body: &Value) -> TestRequest {
    signed_in(TestRequest::post().uri("/api/devices/register"), account)
        .insert_header(("x-device-id", device))
        .insert_header(("x-client-type", "desktop"))
        .set_payload(body.to_string())
}

fn register_phone(account: &str, device: &str, body: &Value) -> TestRequest {
    signed_in(
        TestRequest::post().uri("/api/devices/mobile/register"),
        account,
    )
    .insert_header(("x-device-id", device))
    .insert_header(("x-client-type", "mobile"))
    .set_payload(body.to_string())
}

fn list(account: &str, query: &str) -> TestRequest {
    signed_in(
        TestRequest::get().uri(&format!("/api/devices{query}")),
        account,
    )
}

fn desktop_body() -> Value {
    json!({ "deviceName": "Mac", "platform": "macos", "appVersion": "1.2.3" })
}

fn phone_body() -> Value {
    json!({ "deviceName": "Phone", "platform": "ios", "appVersion": "4.5" })
}

/// A body with one field changed; null takes it away.
fn with(mut body: Value, field: &str, value: Value) -> Value {
    let fields = body.as_object_mut().unwrap();
    if value.is_null() {
        fields.remove(field);
    } else {
        fields.insert(field.to_owned(), value);
    }
    body
}

/// ENV-2: RFC 3339 UTC with six digits.
fn assert_is_time(value: &Value) {
    let text = value.as_str().unwrap_or_else(|| panic!("no time: {value}"));
    assert!(
        text.len() == 27 && text.ends_with('Z') && text.as_bytes()[19] == b'.',
        "{text}"
    );
}

/// Section 11, HTTP-3, TR-2: a desktop registers; its id is emitted in lower case, its name trimmed,
/// unknown fields are ignored.
#[actix_rt::test]
async fn desktops_register() {
    let (_folder, api) = api().await;
    let app = app!(api);
    let body = with(
        with(desktop_body(), "deviceName", json!(" My Mac ")),
        "more",
        json!([1]),
    );
    let (status, answer) = call(
        &app,
        register_desktop(ACCOUNT, &DESKTOP.to_uppercase(), &body),
    )
    .await;
    assert_eq!(status, 201, "{answer}");
    assert_eq!(answer["deviceId"], DESKTOP);
    assert_eq!(answer["status"], "offline");
    assert_is_time(&answer["createdAt"]);
    assert_is_time(&answer["updatedAt"]);
    assert_eq!(answer.as_object().unwrap().len(), 4, "{answer}");

    let (_, devices) = call(&app, list(ACCOUNT, "")).await;
    assert_eq!(devices[0]["deviceName"], "My Mac");
}

/// Section 11: a phone registers.
#[actix_rt::test]
async fn phones_register() {
    let (_folder, api) = api().await;
    let app = app!(api);
    let (status, answer) = call(&app, register_phone(ACCOUNT, PHONE, &phone_body())).await;
    assert_eq!(status, 201, "{answer}");
    assert_eq!(
        answer,
        json!({
            "deviceId": PHONE,
            "deviceName": "Phone",
            "deviceType": "mobile",
            "platform": "ios",
            "appVersion": "4.5",
            "isConnected": false,
        })
    );
}

/// Section 11: a second registration updates the row and answers 201 too.
#[actix_rt::test]
async fn registrations_repeat() {
    let (_folder, api) = api().await;
    let app = app!(api);
    call(&app, register_desktop(ACCOUNT, DESKTOP, &desktop_body())).await;
    let renamed = with(desktop_body(), "deviceName", json!("Other"));
    let (status, _) = call(&app, register_desktop(ACCOUNT, DESKTOP, &renamed)).await;
    assert_eq!(status, 201);
    let (_, devices) = call(&app, list(ACCOUNT, "")).await;
    assert_eq!(devices.as_array().unwrap().len(), 1);
    assert_eq!(devices[0]["deviceName"], "Other");
}

/// Section 11: the list has the account's devices and no others, with optional fields left out;
/// ENV-2: times have one form, and no key contains `_`.
#[actix_rt::test]
async fn devices_are_listed() {
    let (_folder, api) = api().await;
    let app = app!(api);
    let desktop = with(desktop_body(), "platformVersion", json!("15.1"));
    let desktop = with(desktop, "capabilities", json!({ "terminal": true }));
    call(&app, register_desktop(ACCOUNT, DESKTOP, &desktop)).await;
    call(&app, register_phone(ACCOUNT, PHONE, &phone_body())).await;

    let (status, devices) = call(&app, list(ACCOUNT, "")).await;
    assert_eq!(status, 200);
    let devices = devices.as_array().unwrap();
    assert_eq!(devices.len(), 2);
    let desktop = devices
        .iter()
        .find(|device| device["deviceType"] == "desktop")
        .unwrap();
    assert_is_time(&desktop["createdAt"]);
    assert_eq!(
        with(
            with(desktop.clone(), "createdAt", Value::Null),
            "updatedAt",
            Value::Null
        ),
        json!({
            "deviceId": DESKTOP,
            "deviceName": "Mac",
            "deviceType": "desktop",
            "platform": "macos",
            "platformVersion": "15.1",
            "appVersion": "1.2.3",
            "status": "offline",
            "isConnected": false,
            "capabilities": { "terminal": true },
        })
    );
    let phone = devices
        .iter()
        .find(|device| device["deviceType"] == "mobile")
        .unwrap();
    assert!(phone.get("platformVersion").is_none(), "{phone}");
    for device in devices {
        assert!(
            device
                .as_object()
                .unwrap()
                .keys()
                .all(|key| !key.contains('_')),
            "{device}"
        );
    }

    for (query, expected) in [
        ("?deviceType=desktop", 1),
        ("?device_type=mobile", 1),
        ("?deviceType=&connectedOnly=", 2),
        ("?connectedOnly=true", 0),
        ("?connected_only=false", 2),
    ] {
        let (_, devices) = call(&app, list(ACCOUNT, query)).await;
        assert_eq!(devices.as_array().unwrap().len(), expected, "{query}");
    }
    let (_, devices) = call(&app, list(OTHER_ACCOUNT, "")).await;
    assert_eq!(devices, json!([]));
}

/// HTTP-1: a device id of another account is 409, and nothing has changed.
#[actix_rt::test]
async fn foreign_devices_are_refused() {
    let (_folder, api) = api().await;
    let app = app!(api);
    call(&app, register_desktop(ACCOUNT, DESKTOP, &desktop_body())).await;
    let stolen = with(desktop_body(), "deviceName", json!("Mine"));
    let (status, body) = call(&app, register_desktop(OTHER_ACCOUNT, DESKTOP, &stolen)).await;
    assert_eq!(
        (status, body["errorType"].as_str()),
        (409, Some("deviceOwnershipFailed"))
    );
    let (status, body) = call(&app, register_phone(OTHER_ACCOUNT, DESKTOP, &phone_body())).await;
    assert_eq!(
        (status, body["errorType"].as_str()),
        (409, Some("deviceOwnershipFailed"))
    );
    let (_, devices) = call(&app, list(ACCOUNT, "")).await;
    assert_eq!(devices[0]["deviceName"], "Mac");
}

/// Section 11: a device keeps its type.
#[actix_rt::test]
async fn devices_keep_their_type() {
    let (_folder, api) = api().await;
    let app = app!(api);
    call(&app, register_desktop(ACCOUNT, DESKTOP, &desktop_body())).await;
    let (status, body) = call(&app, register_phone(ACCOUNT, DESKTOP, &phone_body())).await;
    assert_eq!(
        (status, body["errorType"].as_str()),
        (409, Some("deviceTypeMismatch"))
    );
}

/// HTTP-3, section 11: fields that cannot be taken are refused by name.
#[actix_rt::test]
async fn bad_fields_are_refused() {
    let (_folder, api) = api().await;
    let app = app!(api);
    let long = json!("x".repeat(256));
    for (field, value) in [
        ("deviceName", Value::Null),
        ("deviceName", json!(" ")),
        ("deviceName", json!("Unknown")),
        ("deviceName", long.clone()),
        ("deviceName", json!(7)),
        ("platform", Value::Null),
        ("platform", json!("ios")),
        ("platform", json!("macOS")),
        ("platformVersion", json!("")),
        ("appVersion", Value::Null),
        ("appVersion", long),
        ("relayEligible", json!("yes")),
        ("rejoin", json!(1)),
    ] {
        let body = with(desktop_body(), field, value.clone());
        let (status, answer) = call(&app, register_desktop(ACCOUNT, DESKTOP, &body)).await;
        assert_eq!(
            (status, &answer["errorType"]),
            (400, &json!("invalidPayload")),
            "{body}"
        );
    }
    for (field, value) in [
        ("platform", json!("macos")),
        ("deviceName", json!("")),
        ("appVersion", json!(1)),
    ] {
        let body = with(phone_body(), field, value);
        let (status, answer) = call(&app, register_phone(ACCOUNT, PHONE, &body)).await;
        assert_eq!(
            (status, &answer["errorType"]),
            (400, &json!("invalidPayload")),
            "{body}"
        );
    }
    let phone_named_unknown = with(phone_body(), "deviceName", json!("unknown"));
    let (status, _) = call(&app, register_phone(ACCOUNT, PHONE, &phone_named_unknown)).await;
    assert_eq!(status, 201, "only desktops are chosen by name");
    let (status, _) = call(&app, list(ACCOUNT, "?deviceType=tablet")).await;
    assert_eq!(status, 400);
}

/// TR-2, section 11: the device's headers are needed and must fit the call.
#[actix_rt::test]
async fn bad_device_headers_are_refused() {
    let (_folder, api) = api().await;
    let app = app!(api);
    let base = || {
        signed_in(TestRequest::post().uri("/api/devices/register"), ACCOUNT)
            .set_payload(desktop_body().to_string())
    };
    for (request, code) in [
        (
            base().insert_header(("x-client-type", "desktop")),
            "invalidDeviceId",
        ),
        (
            base()
                .insert_header(("x-client-type", "desktop"))
                .insert_header(("x-device-id", "7")),
            "invalidDeviceId",
        ),
        (
            base().insert_header(("x-device-id", DESKTOP)),
            "invalidClientType",
        ),
        (
            base()
                .insert_header(("x-client-type", "mobile"))
                .insert_header(("x-device-id", DESKTOP)),
            "invalidClientType",
        ),
    ] {
        let (status, body) = call(&app, request).await;
        assert_eq!((status, body["errorType"].as_str()), (400, Some(code)));
    }
}

/// HTTP-4: without credentials nothing is said but that, whatever else is wrong.
#[actix_rt::test]
async fn credentials_come_first() {
    let (_folder, api) = api().await;
    let app = app!(api);
    for request in [
        TestRequest::get().uri("/api/devices?deviceType=tablet"),
        TestRequest::post()
            .uri("/api/devices/register")
            .set_payload("not json"),
        TestRequest::post().uri("/api/devices/mobile/register"),
        TestRequest::get()
            .uri("/api/devices")
            .insert_header(("x-api-key", "rk_1")),
        TestRequest::get()
            .uri("/api/devices")
            .insert_header(("authorization", "Bearer x.y.z")),
    ] {
        let response = call_service(&app, request.to_request()).await;
        assert_eq!(response.status(), 401);
        assert_eq!(
            response.headers().get("www-authenticate").unwrap(),
            "Bearer"
        );
    }
}

/// HTTP-2: bodies have a limit, announced or not, and what is no JSON is told apart.
#[actix_rt::test]
async fn bodies_are_bounded() {
    let (_folder, api) = api().await;
    let app = app!(api);
    let limit = Limits::default().http_body;
    let padded = |size: usize| {
        let mut body = desktop_body().to_string();
        body.extend(std::iter::repeat_n(' ', size - body.len()));
        body
    };
    for (size, expected) in [(limit, 201), (limit + 1, 413)] {
        let request = register_desktop(ACCOUNT, DESKTOP, &Value::Null).set_payload(padded(size));
        assert_eq!(call(&app, request).await.0, expected, "{size}");
    }
    let announced = register_desktop(ACCOUNT, DESKTOP, &desktop_body())
        .insert_header(("content-length", (limit + 1).to_string()));
    let (status, body) = call(&app, announced).await;
    assert_eq!(
        (status, body["errorType"].as_str()),
        (413, Some("bodyTooLarge"))
    );

    for (text, code) in [
        ("", "invalidJson"),
        ("{", "invalidJson"),
        ("[]", "invalidPayload"),
    ] {
        let request = register_desktop(ACCOUNT, DESKTOP, &Value::Null).set_payload(text);
        let (status, body) = call(&app, request).await;
        assert_eq!(
            (status, body["errorType"].as_str()),
            (400, Some(code)),
            "{text:?}"
        );
    }
}

/// A body that does not come is not waited for longer than the limit, and answered.
#[actix_rt::test]
async fn bodies_have_a_deadline() {
    tokio::time::pause();
    let (_folder, api) = api().await;
    let door = UpgradeDoor::new(authenticator(), Arc::new(Limits::default()), |_, _, _| {
        panic!("no upgrade was asked for")
    });
    let factory = server::service(door, move |config| api.routes(config));
    let service = factory.new_service(()).await.unwrap();
    let (mut client, stream) = tokio::io::duplex(64 * 1024);
    let request = format!(
        "POST /api/devices/register HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
         X-Client-Type: desktop\r\nX-Device-ID: {DESKTOP}\r\nContent-Length: 100\r\n\r\n{{",
        token(ACCOUNT)
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let begin = tokio::time::Instant::now();
    actix_rt::spawn(service.call((stream, Protocol::Http1, None)));
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(
        answer.contains("\"errorType\":\"requestTimeout\""),
        "{answer}"
    );
    assert!(begin.elapsed() >= Limits::default().http_timeout);
}

/// Section 11: a path takes its methods only.
#[actix_rt::test]
async fn other_methods_are_refused() {
    let (_folder, api) = api().await;
    let app = app!(api);
    for (request, allow) in [
        (TestRequest::get().uri("/api/devices/register"), "POST"),
        (
            TestRequest::put().uri("/api/devices/mobile/register"),
            "POST",
        ),
        (TestRequest::post().uri("/api/devices"), "GET, HEAD"),
        (TestRequest::delete().uri("/healthz"), "GET, HEAD"),
    ] {
        let response = call_service(&app, request.to_request()).await;
        assert_eq!(response.status(), 405);
        assert_eq!(response.headers().get("allow").unwrap(), allow);
        let body: Value = serde_json::from_slice(&read_body(response).await).unwrap();
        assert_eq!(body["errorType"], "methodNotAllowed");
    }
}

/// OP-8, section 11: health and version need no credentials.
#[actix_rt::test]
async fn health_and_version() {
    let (_folder, api) = api().await;
    let instance = api.relay.instance().to_string();
    let app = app!(api);
    assert_eq!(call(&app, TestRequest::get().uri("/healthz")).await.0, 200);
    assert_eq!(call(&app, TestRequest::get().uri("/readyz")).await.0, 200);
    let (_, version) = call(&app, TestRequest::get().uri("/api/version")).await;
    assert_eq!(
        version,
        json!({
            "name": "relay",
            "version": env!("CARGO_PKG_VERSION"),
            "relayInstanceId": instance,
            "minProtocolVersion": 1,
        })
    );
}

/// OP-8: without a database the relay lives but is not ready, and says what is missing; calls that
/// need it are 503 with a time to try again.
#[actix_rt::test]
async fn without_a_database() {
    let (_folder, api) = api_without_database().await;
    let app = app!(api);
    assert_eq!(call(&app, TestRequest::get().uri("/healthz")).await.0, 200);
    let (status, body) = call(&app, TestRequest::get().uri("/readyz")).await;
    assert_eq!(status, 503);
    assert!(
        body["detail"].as_str().unwrap().contains("database"),
        "{body}"
    );
    for request in [
        list(ACCOUNT, ""),
        register_desktop(ACCOUNT, DESKTOP, &desktop_body()),
        register_phone(ACCOUNT, PHONE, &phone_body()),
        TestRequest::get().uri("/api/version"),
    ] {
        let response = call_service(&app, request.to_request()).await;
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key("retry-after"));
        let body: Value = serde_json::from_slice(&read_body(response).await).unwrap();
        assert_eq!(body["errorType"], "relayUnavailable");
    }
}
