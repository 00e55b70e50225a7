//! The upgrade door over a pipe in memory: who is let in, with what, and that every refusal is
//! written in full.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_http::Protocol;
use actix_service::{Service, ServiceFactory};
use bytes::Bytes;
use relay_actors::ConnectionOrigin;
use relay_actors::socket::transport::Transport;
use relay_http::authentication::Authenticator;
use relay_http::server;
use relay_http::upgrade::{StartConnection, UpgradeDoor};
use relay_model::credentials::Credentials;
use relay_model::limits::Limits;
use relay_model::store::DeviceType;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::support::{
    ACCOUNT, KeyRing, NOW, api_key, authenticator, authenticator_with, expired_token, token,
};

/// What the connection's owner says, so that a test sees that it was started.
const GREETING: &[u8] = b"<started>";
/// Longer than anything takes unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) type Started = Arc<Mutex<Vec<(ConnectionOrigin, Bytes)>>>;

/// Remembers each connection and ends it with a greeting.
pub(crate) fn greeter(started: Started) -> impl StartConnection {
    move |origin, mut transport: Box<dyn Transport>, early| {
        started.lock().unwrap().push((origin, early));
        actix_rt::spawn(async move { transport.write_all(GREETING).await });
    }
}

/// Serves one connection to its end.
async fn serve(stream: DuplexStream, authenticator: Authenticator, started: Started) {
    let door = UpgradeDoor::new(authenticator, Arc::new(Limits::default()), greeter(started));
    serve_at(door, stream, None).await;
}

/// Serves one connection from `peer` at `door` to its end.
async fn serve_at<S: StartConnection>(
    door: UpgradeDoor<S>,
    stream: DuplexStream,
    peer: Option<SocketAddr>,
) {
    let factory = server::service(door, |_| ());
    let service = factory.new_service(()).await.unwrap();
    // An error is the HTTP server's word for a client that left.
    let _ = service.call((stream, Protocol::Http1, peer)).await;
}

/// Sends `request` and reads until the end of the stream.
async fn answer(request: &[u8]) -> (String, Vec<(ConnectionOrigin, Bytes)>) {
    answer_of(request, authenticator()).await
}

/// The same from a door that lets in whom `authenticator` knows.
async fn answer_of(
    request: &[u8],
    authenticator: Authenticator,
) -> (String, Vec<(ConnectionOrigin, Bytes)>) {
    let started = Started::default();
    let limits = Arc::new(Limits::default());
    let door = UpgradeDoor::new(authenticator, limits, greeter(Arc::clone(&started)));
    let text = answer_at(door, request, None).await;
    let started = std::mem::take(&mut *started.lock().unwrap());
    (text, started)
}

/// The answer of `door` to `request` from `peer`.
pub(crate) async fn answer_at<S: StartConnection>(
    door: UpgradeDoor<S>,
    request: &[u8],
    peer: Option<SocketAddr>,
) -> String {
    let (mut client, server) = tokio::io::duplex(256 * 1024);
    client.write_all(request).await.unwrap();
    let read = async {
        let mut text = Vec::new();
        client.read_to_end(&mut text).await.unwrap();
        // A client that has its answer closes, and the server need not wait for it.
        drop(client);
        text
    };
    let talk = async { tokio::join!(read, serve_at(door, server, peer)) };
    let (text, ()) = tokio::time::timeout(PATIENCE, talk)
        .await
        .expect("the connection ends");
    String::from_utf8(text).unwrap()
}

/// The head of a good upgrade request, with the lines of `name` replaced by `values`.
pub(crate) fn request_with(changes: &[(&str, &[&str])]) -> String {
    let authorization = format!("Bearer {}", token(ACCOUNT));
    let mut lines: Vec<(&str, String)> = vec![
        ("Host", "relay.example".to_owned()),
        ("Upgrade", "websocket".to_owned()),
        ("Connection", "Upgrade".to_owned()),
        ("Sec-WebSocket-Version", "13".to_owned()),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==".to_owned()),
        ("Authorization", authorization),
    ];
    for (name, values) in changes {
        lines.retain(|(line, _)| !line.eq_ignore_ascii_case(name));
        lines.extend(values.iter().map(|value| (*name, (*value).to_owned())));
    }
    let lines: String = lines
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!("GET /ws/device-link HTTP/1.1\r\n{lines}\r\n")
}

/// Splits a refusal into its status, its head in lower case and its body, and checks what every
/// refusal has.
pub(crate) fn refusal(text: &str) -> (u16, String, Value) {
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no head: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let head = head.to_ascii_lowercase();
    assert!(
        head.contains("\r\ncontent-type: application/problem+json"),
        "{text}"
    );
    assert!(
        head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())),
        "{text}"
    );
    // HTTP/1.0 closes without saying so.
    assert!(
        head.starts_with("http/1.0") || head.contains("\r\nconnection: close"),
        "{text}"
    );
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&body["status"], &body["code"]),
        (&Value::from(status), &Value::from(status))
    );
    (status, head, body)
}

/// TR-1: a good request is answered with 101 and the accept key, in every legal spelling.
#[actix_rt::test]
async fn good_requests_are_accepted() {
    for changes in [
        &[][..],
        &[("Connection", &["keep-alive, Upgrade"][..])],
        &[("Connection", &["UPGRADE"])],
        &[("Connection", &["close, upgrade"])],
        &[("Connection", &["keep-alive", "upgrade"])],
        &[("Upgrade", &["WebSocket"])],
        &[("sec-websocket-extensions", &["permessage-deflate"])],
    ] {
        let (text, started) = answer(request_with(changes).as_bytes()).await;
        assert!(
            text.starts_with("HTTP/1.1 101 Switching Protocols\r\n"),
            "{changes:?}: {text}"
        );
        let head = text.to_ascii_lowercase();
        assert!(head.contains("\r\nconnection: upgrade\r\n"), "{text}");
        assert!(head.contains("\r\nupgrade: websocket\r\n"), "{text}");
        assert!(text.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{text}");
        assert!(!head.contains("sec-websocket-extensions"), "{text}");
        assert!(text.ends_with("<started>"), "{text}");
        assert_eq!(started.len(), 1);
    }
}

/// TR-2: the connection's owner learns account, client type and device headers, and gets the bytes
/// that came right behind the request.
#[actix_rt::test]
async fn connections_start_with_their_origin_and_early_bytes() {
    let mut request = request_with(&[
        ("x-client-type", &["mobile"]),
        ("X-DEVICE-ID", &["7F1C2F5E-0C0A-4D3B-9A51-2B8F6F9D7E99"]),
        ("X-Target-Desktop-Device-ID", &["abc"]),
    ])
    .into_bytes();
    request.extend_from_slice(b"\x81\x82frames");
    let (_, started) = answer(&request).await;
    let (origin, early) = &started[0];
    assert_eq!(origin.account, ACCOUNT.parse().unwrap());
    assert_eq!(origin.client_type, Some(DeviceType::Mobile));
    assert_eq!(
        origin.device_header.as_deref(),
        Some("7F1C2F5E-0C0A-4D3B-9A51-2B8F6F9D7E99")
    );
    assert_eq!(origin.target_header.as_deref(), Some("abc"));
    assert_eq!(&early[..], b"\x81\x82frames");
}

/// TR-2, HTTP-4: an API key lets its owner in, with its rights and its end; a user's token with its
/// `exp`.
#[actix_rt::test]
async fn connections_carry_their_credentials() {
    let end = NOW.plus(Duration::from_micros(1));
    let (key, stored) = api_key("rpc,read", |row| row.expires_at = Some(end));
    let expected = Credentials::ApiKey {
        id: stored.row.id,
        scopes: "rpc,read".parse().unwrap(),
        expires_at: Some(end),
    };
    let keys = Arc::new(KeyRing::of(vec![stored]));
    for changes in [
        &[("Authorization", &[&*format!("ApiKey {key}")][..])][..],
        &[("Authorization", &[]), ("x-api-key", &[&*key])],
    ] {
        let request = request_with(changes);
        let keys = authenticator_with(keys.clone());
        let (_, started) = answer_of(request.as_bytes(), keys).await;
        assert_eq!(started[0].0.account, ACCOUNT.parse().unwrap());
        assert_eq!(started[0].0.credentials, expected);
    }
    let (_, started) = answer(request_with(&[]).as_bytes()).await;
    let expires_at = NOW.plus(Duration::from_secs(60));
    let expected = Credentials::UserToken { expires_at };
    assert_eq!(started[0].0.credentials, expected);
}

/// TR-2, HTTP-4: a key that ended or is another one is refused in full; one that nobody can look up
/// is no verdict.
#[actix_rt::test]
async fn keys_that_do_not_hold_are_refused() {
    let (known, stored) = api_key("rpc", |_| ());
    let other = api_key("rpc", |_| ()).0;
    let (expired, expired_row) = api_key("rpc", |row| row.expires_at = Some(NOW));
    let (revoked, revoked_row) = api_key("rpc", |row| row.revoked_at = Some(NOW));
    for (key, keys, expected, reason) in [
        (&known, KeyRing::default(), 401, "not known"),
        (&other, KeyRing::of(vec![stored]), 401, "not known"),
        (&expired, KeyRing::of(vec![expired_row]), 401, "expired"),
        (&revoked, KeyRing::of(vec![revoked_row]), 401, "revoked"),
        (&known, KeyRing::unavailable(), 503, "database"),
    ] {
        let request = request_with(&[("Authorization", &[]), ("X-API-Key", &[key])]);
        let authenticator = authenticator_with(Arc::new(keys));
        let (text, started) = answer_of(request.as_bytes(), authenticator).await;
        let (status, head, body) = refusal(&text);
        assert_eq!(status, expected, "{text}");
        assert!(body["detail"].as_str().unwrap().contains(reason), "{text}");
        assert_eq!(head.contains("\r\nwww-authenticate: bearer"), status == 401);
        assert_eq!(head.contains("\r\nretry-after: "), status == 503);
        assert!(!text.contains(&key[36..]) && started.is_empty(), "{text}");
    }
}

/// TR-2: a missing or odd client type, and any device id, pass the upgrade.
#[actix_rt::test]
async fn odd_device_headers_pass_the_upgrade() {
    for changes in [
        &[("X-Client-Type", &["tablet"][..])],
        &[("X-Client-Type", &["desktop", "mobile"])],
        &[("X-Device-ID", &["not a uuid"])],
    ] {
        let (text, started) = answer(request_with(changes).as_bytes()).await;
        assert!(text.starts_with("HTTP/1.1 101 "), "{changes:?}: {text}");
        assert_eq!(started[0].0.client_type, None);
    }
}

/// TR-1: what is no handshake is refused in full.
#[actix_rt::test]
async fn bad_handshakes_are_refused() {
    let key = "dGhlIHNhbXBsZSBub25jZQ==";
    for (changes, expected) in [
        (("Connection", &["keep-alive"][..]), 400),
        (("Connection", &[]), 400),
        (("Connection", &["upgraded"]), 400),
        (("Sec-WebSocket-Key", &[]), 400),
        (("Sec-WebSocket-Key", &[key, key]), 400),
        (("Sec-WebSocket-Key", &["c2hvcnQ="]), 400),
        (("Sec-WebSocket-Version", &[]), 426),
        (("Sec-WebSocket-Version", &["7"]), 426),
        (("Sec-WebSocket-Version", &["8"]), 426),
        (("Sec-WebSocket-Version", &["12"]), 426),
        (("Sec-WebSocket-Version", &["13", "13"]), 426),
        // These are no upgrades for the HTTP server, and reach the App.
        (("Upgrade", &[]), 426),
        (("Upgrade", &["h2c, websocket"]), 426),
        (("Upgrade", &["h2c"]), 426),
    ] {
        let (text, started) = answer(request_with(&[changes]).as_bytes()).await;
        let (status, head, body) = refusal(&text);
        assert_eq!(status, expected, "{changes:?}: {text}");
        assert!(started.is_empty());
        if status == 426 {
            assert!(head.contains("\r\nsec-websocket-version: 13\r\n"), "{text}");
            assert!(head.contains("\r\nupgrade: websocket\r\n"), "{text}");
            assert_eq!(body["errorType"], "upgradeRequired");
        } else {
            assert_eq!(body["errorType"], "invalidHandshake");
        }
    }
    let old = request_with(&[]).replacen("HTTP/1.1", "HTTP/1.0", 1);
    let (status, _, _) = refusal(&answer(old.as_bytes()).await.0);
    assert_eq!(status, 400);
}

/// A head that the HTTP server itself refuses is answered too.
#[actix_rt::test]
async fn broken_heads_are_answered() {
    let endless = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}", "x".repeat(140_000));
    for (request, status) in [
        (request_with(&[("Host", &[])]), 400),
        (request_with(&[("Host", &["a", "b"])]), 400),
        ("nonsense\r\n\r\n".to_owned(), 400),
        (endless, 431),
    ] {
        let (text, started) = answer(request.as_bytes()).await;
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text:?}");
        assert!(text.contains("\r\n\r\n") && started.is_empty(), "{text:?}");
    }
}

/// Section 11: other paths are 404, other methods 405, whether or not the request is an upgrade.
#[actix_rt::test]
async fn other_paths_and_methods_are_refused() {
    let upgrade = request_with(&[]);
    let plain = request_with(&[("Upgrade", &[]), ("Connection", &["close"])]);
    for (request, status, code) in [
        (
            upgrade.replacen("/ws/device-link", "/ws/other", 1),
            404,
            "notFound",
        ),
        (upgrade.replacen("/ws/device-link", "/", 1), 404, "notFound"),
        (
            upgrade.replacen("/ws/device-link", "/ws/device-link/", 1),
            404,
            "notFound",
        ),
        (upgrade.replacen("GET", "POST", 1), 405, "methodNotAllowed"),
        (upgrade.replacen("GET", "HEAD", 1), 405, ""),
        (
            upgrade.replacen("GET /ws/device-link", "CONNECT relay:443", 1),
            405,
            "methodNotAllowed",
        ),
        (plain.clone(), 426, "upgradeRequired"),
        (plain.replacen("GET", "DELETE", 1), 405, "methodNotAllowed"),
        (
            plain.replacen("/ws/device-link", "/ws/other", 1),
            404,
            "notFound",
        ),
    ] {
        let (text, started) = answer(request.as_bytes()).await;
        assert!(started.is_empty());
        if request.starts_with("HEAD") {
            assert!(
                text.starts_with("HTTP/1.1 405 ") && text.ends_with("\r\n\r\n"),
                "{text}"
            );
            continue;
        }
        let (got, head, body) = refusal(&text);
        assert_eq!(
            (got, body["errorType"].as_str()),
            (status, Some(code)),
            "{request}"
        );
        assert_eq!(status == 405, head.contains("\r\nallow: get\r\n"), "{text}");
    }
    let (text, started) = answer(
        upgrade
            .replacen("device-link", "device-link?x=1", 1)
            .as_bytes(),
    )
    .await;
    assert!(
        text.starts_with("HTTP/1.1 101 ") && started.len() == 1,
        "{text}"
    );
}

/// TR-2: bad credentials are 401 with the scheme, before anything is started.
#[actix_rt::test]
async fn bad_credentials_are_refused() {
    let expired = format!("Bearer {}", expired_token(ACCOUNT));
    let altered = format!("Bearer {}x", token(ACCOUNT));
    for changes in [
        &[("Authorization", &[][..])][..],
        &[("Authorization", &[expired.as_str()])],
        &[("Authorization", &[altered.as_str()])],
        &[("Authorization", &["Bearer"])],
        &[("Authorization", &["Bearer x.y.z"])],
        &[("Authorization", &["Basic dTpw"])],
        &[("Authorization", &["ApiKey rk_1"])],
        &[("Authorization", &[]), ("X-API-Key", &["rk_1"])],
    ] {
        let (text, started) = answer(request_with(changes).as_bytes()).await;
        let (status, head, body) = refusal(&text);
        assert_eq!(
            (status, body["errorType"].as_str()),
            (401, Some("authRequired")),
            "{text}"
        );
        assert!(head.contains("\r\nwww-authenticate: bearer\r\n"), "{text}");
        assert!(started.is_empty());
    }
}

/// A client that speaks no WebSocket learns that, and not a verdict about its credentials.
#[actix_rt::test]
async fn the_handshake_is_judged_first() {
    let request = request_with(&[("Sec-WebSocket-Version", &["8"]), ("Authorization", &[])]);
    assert_eq!(refusal(&answer(request.as_bytes()).await.0).0, 426);
}

/// A refusal is whole even when frames came right behind the request.
#[actix_rt::test]
async fn refusals_survive_early_bytes() {
    let mut request = request_with(&[("Authorization", &[])]).into_bytes();
    request.extend(std::iter::repeat_n(0x81, 100_000));
    let (text, _) = answer(&request).await;
    assert_eq!(refusal(&text).0, 401);
}

/// A client that does not take its refusal, and one that does not close after it, are dropped at the
/// deadline.
#[actix_rt::test]
async fn refused_clients_cannot_stay() {
    tokio::time::pause();
    let request = request_with(&[("Authorization", &[])]);

    let (mut client, server) = tokio::io::duplex(16);
    let begin = tokio::time::Instant::now();
    let (sent, ()) = tokio::join!(
        client.write_all(request.as_bytes()),
        serve(server, authenticator(), Started::default())
    );
    sent.unwrap();
    assert_ends_at_deadline(begin);

    let (mut client, server) = tokio::io::duplex(64 * 1024);
    client.write_all(request.as_bytes()).await.unwrap();
    let begin = tokio::time::Instant::now();
    serve(server, authenticator(), Started::default()).await;
    assert_ends_at_deadline(begin);
    drop(client);
}

/// The timer of the runtime counts in milliseconds; time is virtual here.
fn assert_ends_at_deadline(begin: tokio::time::Instant) {
    let deadline = Limits::default().close_timeout;
    let took = begin.elapsed();
    assert!(
        deadline <= took && took <= deadline + Duration::from_millis(2),
        "{took:?}"
    );
}
