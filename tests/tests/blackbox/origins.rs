//! Web pages that may use the relay (TR-12), and requests that do not say where they go.

use relay_tests::blackbox::{Account, Device, Relay};
use reqwest::Method;
use serde_json::Value;

/// The answer to an upgrade request, as status and `errorType`.
async fn upgrade(relay: &Relay, device: Option<&Device>, origins: &[&str]) -> (u16, String) {
    let mut raw = relay.tcp().await;
    let mut headers: Vec<_> = origins
        .iter()
        .map(|origin| ("Origin".to_owned(), (*origin).to_owned()))
        .collect();
    if let Some(device) = device {
        headers.push((
            "Authorization".to_owned(),
            format!("Bearer {}", device.account.token),
        ));
    }
    let head = raw.ask_for_upgrade(&headers).await;
    let status = head[9..12].parse().unwrap();
    if status == 101 {
        return (status, String::new());
    }
    let head = head.to_ascii_lowercase();
    assert!(
        head.contains("\r\ncontent-type: application/problem+json\r\n"),
        "{head}"
    );
    let body: Value = serde_json::from_slice(&raw.read_to_end().await).unwrap();
    assert_eq!(
        (&body["status"], &body["code"]),
        (&status.into(), &status.into())
    );
    assert!(body["message"].is_string(), "{body}");
    (status, body["errorType"].as_str().unwrap().to_owned())
}

fn refused() -> (u16, String) {
    (403, "originNotAllowed".to_owned())
}

/// TR-12: with nothing configured pages of the same host may connect, whatever the scheme, and no
/// others; with and without credentials the answer is definite.
#[tokio::test]
async fn the_same_host_may_connect() {
    let relay = Relay::start().await;
    let desktop = Account::new().new_desktop();
    let unauthorized = (401, "authRequired".to_owned());
    // The raw socket's Host is `relay`.
    for origins in [
        &[][..],
        &["http://relay"],
        &["https://relay"],
        &["https://relay:443"],
        &["HTTP://RELAY:80"],
    ] {
        let answer = upgrade(&relay, Some(&desktop), origins).await;
        assert_eq!(answer.0, 101, "{origins:?}");
        let answer = upgrade(&relay, None, origins).await;
        assert_eq!(answer, unauthorized, "{origins:?}");
    }
    for origins in [
        &["https://evil.example"][..],
        &["https://relay.evil.example"],
        &["https://relay:8443"],
        &["capacitor://relay"],
        &["null"],
        &[""],
        &["relay"],
        &["https://relay/"],
        &["http://[::1"],
        &["http://relay", "http://relay"],
        &["http://relay, http://evil.example"],
    ] {
        for device in [Some(&desktop), None] {
            let answer = upgrade(&relay, device, origins).await;
            assert_eq!(answer, refused(), "{origins:?}");
        }
    }
}

/// TR-12: a configured list takes the place of the default.
#[tokio::test]
async fn listed_pages_may_connect() {
    let list = "https://app.example, http://[::1]:3000, capacitor://localhost";
    let relay = Relay::start_with(&[("server.allowed_origins", list)]).await;
    let desktop = Account::new().new_desktop();
    for origin in [
        "https://app.example",
        "https://APP.example:443",
        "http://[0:0::1]:3000",
        "capacitor://localhost",
    ] {
        let answer = upgrade(&relay, Some(&desktop), &[origin]).await;
        assert_eq!(answer.0, 101, "{origin}");
    }
    for origin in ["http://app.example", "http://[::1]", "http://relay"] {
        let answer = upgrade(&relay, Some(&desktop), &[origin]).await;
        assert_eq!(answer, refused(), "{origin}");
    }
}

/// TR-12: the rule holds for every other path too, whether or not it exists or wants credentials.
#[tokio::test]
async fn calls_are_held_to_it_too() {
    let relay = Relay::start().await;
    let account = Account::new();
    let authorization = format!("Bearer {}", account.token);
    let here = format!("http://{}", relay.address());
    for (method, path, status) in [
        (Method::GET, "/api/devices", 200),
        (Method::GET, "/api/version", 200),
        (Method::GET, "/healthz", 200),
        (Method::GET, "/ws/device-link", 426),
    ] {
        let call = async |origin: &str| {
            let headers = [("Authorization", &*authorization), ("Origin", origin)];
            relay.call(method.clone(), path, &headers, None).await
        };
        assert_eq!(call(&here).await.status, status, "{path}");
        for origin in ["https://evil.example", "null"] {
            call(origin).await.assert_problem(403, "originNotAllowed");
        }
    }
    let headers = [("Origin", "https://evil.example")];
    let body = Some("{".to_owned());
    let answer = relay
        .call(Method::POST, "/api/devices/register", &headers, body)
        .await;
    answer.assert_problem(403, "originNotAllowed");
}

/// Section 11: a head that is no HTTP, or names no host or two, gets a whole 400 and then the end.
#[tokio::test]
async fn broken_heads_are_answered() {
    let relay = Relay::start().await;
    for request in [
        "GET /healthz HTTP/1.1\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /ws/device-link HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "\u{16}\u{3}\u{1}no HTTP\r\n\r\n",
    ] {
        let mut raw = relay.tcp().await;
        raw.send(request.as_bytes()).await;
        let head = raw.read_head().await.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 400 "), "{request:?}: {head}");
        assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
        assert!(head.contains("\r\ncontent-length: 0\r\n"), "{head}");
        assert!(raw.read_to_end().await.is_empty(), "{request:?}");
    }
    let mut raw = relay.tcp().await;
    raw.send(b"GET /healthz HTTP/1.0\r\n\r\n").await;
    let head = raw.read_head().await;
    assert!(
        head.starts_with("HTTP/1.0 200 "),
        "HTTP/1.0 names no host: {head}"
    );
}
