//! The published description of the HTTP API (section 11), and that the harness notices what it does
//! not allow.

use relay_tests::blackbox::{Account, HttpAnswer, Relay, conforms};
use reqwest::Method;
use serde_json::{Value, json};

/// Section 11: the description is served to everybody, as JSON, and is the one that every other test
/// holds the answers against.
#[tokio::test]
async fn the_description_is_served() {
    let relay = Relay::start().await;
    let answer = relay.get("/api/openapi.json").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let known: Value = serde_json::from_str(relay_http::device_api::description()).unwrap();
    assert_eq!(answer.body, known, "is the binary current?");
    let head = relay
        .call(Method::HEAD, "/api/openapi.json", &[], None)
        .await;
    assert_eq!(head.status, 200);
}

/// ENV-2, section 11: answers that break the description do not pass for good ones.
#[tokio::test]
async fn broken_answers_are_noticed() {
    let relay = Relay::start().await;
    let desktop = relay.desktop(&Account::new()).await.device;
    let good = relay.devices(&desktop.account, "").await;
    let judge = |body: Value, status: u16, media_type: &str| {
        let headers = vec![("content-type".to_owned(), media_type.to_owned())];
        let answer = HttpAnswer {
            status,
            headers,
            body,
        };
        conforms(&Method::GET, "/api/devices?deviceType=", &answer)
    };
    let json = "application/json";
    assert_eq!(judge(json!(good), 200, json), Ok(()));
    for (field, value) in [
        ("createdAt", json!("2026-10-05T08:00:00Z")),
        ("createdAt", json!("2026-10-05T08:00:00.000001+00:00")),
        ("updatedAt", json!(1)),
        ("deviceId", json!(desktop.id.to_uppercase())),
        ("deviceType", json!("tablet")),
        ("status", json!("reachable")),
        ("isConnected", json!("true")),
        ("lastSeen", Value::Null),
        ("activeProjectDirectory", json!("2026-10-05T08:00:00.1Z")),
        ("device_name", json!("n")),
    ] {
        let mut broken = json!(good);
        broken[0][field] = value.clone();
        assert!(judge(broken, 200, json).is_err(), "{field}: {value}");
    }
    let mut incomplete = json!(good);
    incomplete[0].as_object_mut().unwrap().remove("platform");
    assert!(judge(incomplete, 200, json).is_err());
    assert!(judge(json!(good), 200, "text/html").is_err());
    assert!(judge(json!(good), 418, json).is_err());
    assert!(judge(json!({ "status": 401 }), 401, "application/problem+json").is_err());
}
