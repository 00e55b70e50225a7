//! The upgrade request and its refusals (TR-1, TR-2, HTTP-4).

use jsonwebtoken::Algorithm;
use relay_tests::blackbox::{Account, Claims, RawSocket, Relay, SECRET, fresh_id, mint};
use serde_json::{Value, json};

/// Asks for an upgrade that must be refused, and returns the head and the body of the answer.
async fn refused(relay: &Relay, headers: &[(&str, &str)]) -> (String, Value) {
    let mut raw = relay.tcp().await;
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let head = raw.ask_for_upgrade(&headers).await;
    let body = body(&mut raw).await;
    (head, body)
}

async fn body(raw: &mut RawSocket) -> Value {
    let bytes = raw.read_to_end().await;
    serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", bytes.escape_ascii()))
}

/// TR-2, HTTP-4: without valid credentials 401 as a problem document, never a bare end.
#[tokio::test]
async fn bad_credentials_get_401() {
    let relay = Relay::start().await;
    let account = fresh_id();
    let claims = Claims::new(&account);
    let expired = Claims {
        exp: Some(1),
        ..claims.clone()
    };
    let early = Claims {
        nbf: claims.exp,
        ..claims.clone()
    };
    let endless = Claims {
        exp: None,
        ..claims.clone()
    };
    let nobody = Claims::new("no uuid");
    let valid = mint(&account);
    let (head, rest) = valid.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    // {"alg":"none"}, with and without the signature of another algorithm.
    let none = "eyJhbGciOiJub25lIn0";
    for token in [
        String::new(),
        "no.token.at.all".to_owned(),
        valid[..valid.len() - 4].to_owned(),
        format!("{head}.{payload}."),
        format!("{none}.{payload}."),
        format!("{none}.{payload}.{signature}"),
        claims.sign("another secret, just as long as the right one"),
        claims.sign_as(Algorithm::HS384, SECRET),
        expired.sign(SECRET),
        early.sign(SECRET),
        endless.sign(SECRET),
        nobody.sign(SECRET),
    ] {
        let authorization = format!("Bearer {token}");
        let headers = [
            ("Authorization", &*authorization),
            ("X-Client-Type", "mobile"),
        ];
        let (head, body) = refused(&relay, &headers).await;
        assert_problem(&head, &body, &token);
    }
    let valid = format!("Basic {valid}");
    for headers in [
        &[][..],
        &[("Authorization", "")],
        &[("Authorization", &valid)],
        &[("X-API-Key", "rk_unknown")],
        &[("Authorization", "ApiKey rk_unknown")],
    ] {
        let (head, body) = refused(&relay, headers).await;
        assert_problem(&head, &body, &format!("{headers:?}"));
    }
    // The log never shows a token.
    let log = relay.evidence().lines().join("\n");
    assert!(!log.contains(&signature[..20]), "{log}");
}

fn assert_problem(head: &str, body: &Value, case: &str) {
    assert!(head.starts_with("HTTP/1.1 401 "), "{case}: {head}");
    let head = head.to_ascii_lowercase();
    assert!(
        head.contains("\r\nwww-authenticate: bearer\r\n"),
        "{case}: {head}"
    );
    assert!(
        head.contains("\r\ncontent-type: application/problem+json\r\n"),
        "{case}: {head}"
    );
    assert_eq!(body["status"], json!(401), "{case}");
    assert_eq!(body["code"], json!(401), "{case}");
    assert_eq!(body["errorType"], "authRequired", "{case}");
    assert!(
        body["message"].is_string() && body["title"].is_string(),
        "{case}: {body}"
    );
}

/// TR-1, TR-2: header names in any case, tokens of lists too; compression is not negotiated.
#[tokio::test]
async fn headers_are_read_in_any_case() {
    let relay = Relay::start().await;
    let desktop = relay.desktop(&Account::new()).await.device;
    let phone = desktop.account.new_phone();
    relay.enrol(&phone).await;
    let mut raw = relay.tcp().await;
    let request = format!(
        "GET /ws/device-link HTTP/1.1\r\nhOST: relay\r\nuPGRADE: WebSocket\r\n\
         cONNECTION: keep-alive, uPgrade\r\nsEC-wEBSOCKET-vERSION: 13\r\n\
         SEC-WEBSOCKET-KEY: dGhlIHNhbXBsZSBub25jZQ==\r\naUTHORIZATION: bearer {}\r\n\
         x-CLIENT-tYPE: mobile\r\nX-TARGET-DESKTOP-DEVICE-ID: {}\r\nx-device-id: {}\r\n\
         Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\
         Sec-WebSocket-Protocol: chat\r\n\r\n",
        phone.account.token,
        desktop.id.to_uppercase(),
        phone.id.to_uppercase(),
    );
    raw.send(request.as_bytes()).await;
    let head = raw.read_head().await.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(!head.contains("sec-websocket-extensions"), "{head}");
    assert!(!head.contains("sec-websocket-protocol"), "{head}");
    raw.send_json(&json!({ "type": "register", "payload": phone.registration() }))
        .await;
    assert_eq!(raw.next_json().await["type"], "registered");
    let status = raw.next_json().await;
    assert_eq!(status["payload"]["payload"]["deviceId"], desktop.id);
}

/// TR-1: bytes that come right behind the request, in one segment with it, are not lost.
#[tokio::test]
async fn early_frames_are_read() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    let mut raw = relay.tcp().await;
    let mut bytes = format!(
        "GET /ws/device-link HTTP/1.1\r\nHost: relay\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Client-Type: desktop\r\n\
         Authorization: Bearer {}\r\n\r\n",
        device.account.token,
    )
    .into_bytes();
    let ping = relay_tests::blackbox::encode(
        relay_tests::blackbox::OpCode::Text,
        true,
        br#"{"type":"ping"}"#,
    );
    bytes.extend(ping);
    raw.send(&bytes).await;
    let head = raw.read_head().await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(raw.next_json().await, json!({ "type": "pong" }));
}

/// TR-1: the refusal reaches a client that has sent frames behind its request already.
#[tokio::test]
async fn a_refusal_survives_early_frames() {
    let relay = Relay::start().await;
    for _ in 0..20 {
        let mut raw = relay.tcp().await;
        let request = "GET /ws/device-link HTTP/1.1\r\nHost: relay\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        let early = [request.as_bytes(), &[b'x'; 16 * 1024]].concat();
        raw.send(&early).await;
        let head = raw.read_head().await;
        assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
        assert_eq!(body(&mut raw).await["errorType"], "authRequired");
    }
}
