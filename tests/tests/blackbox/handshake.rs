//! The opening handshake in every spelling, right and wrong, and HTTP heads that are broken, endless
//! or cut: each is accepted or answered in full (TR-1, TR-2).

use relay_tests::blackbox::{Account, OpCode, RawSocket, Relay, encode};
use serde_json::{Value, json};

const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";

/// An upgrade request, line by line; a test replaces what it is about.
#[derive(Clone)]
struct Handshake {
    request_line: &'static str,
    host: Vec<&'static str>,
    upgrade: Vec<&'static str>,
    connection: Vec<&'static str>,
    version: Vec<&'static str>,
    key: Vec<&'static str>,
    more: Vec<String>,
}

impl Handshake {
    fn new() -> Self {
        Self {
            request_line: "GET /ws/device-link HTTP/1.1",
            host: vec!["Host: relay"],
            upgrade: vec!["Upgrade: websocket"],
            connection: vec!["Connection: Upgrade"],
            version: vec!["Sec-WebSocket-Version: 13"],
            key: vec![KEY],
            more: vec![
                format!("Authorization: Bearer {}", Account::new().token),
                "X-Client-Type: desktop".to_owned(),
            ],
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{}\r\n", self.request_line);
        let groups = [
            &self.host,
            &self.upgrade,
            &self.connection,
            &self.version,
            &self.key,
        ];
        for line in groups.into_iter().flatten() {
            head.push_str(&format!("{line}\r\n"));
        }
        for line in &self.more {
            head.push_str(&format!("{line}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Expects the switch, and that the relay reads frames behind it.
    async fn is_accepted(&self, relay: &Relay, case: &str) {
        let mut raw = relay.tcp().await;
        raw.send(&self.bytes()).await;
        let head = raw.read_head().await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{case}: {head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        raw.send_json(&json!({ "type": "ping" })).await;
        assert_eq!(raw.next_json().await, json!({ "type": "pong" }), "{case}");
    }

    /// Expects a problem document with this status, in full.
    async fn is_refused(&self, relay: &Relay, status: u16, case: &str) -> String {
        let mut raw = relay.tcp().await;
        raw.send(&self.bytes()).await;
        let (head, body) = answer(&mut raw, status, case).await;
        let body: Value = serde_json::from_slice(&body)
            .unwrap_or_else(|error| panic!("{case}: {error}: {}", body.escape_ascii()));
        assert!(head.contains("\r\ncontent-type: application/problem+json\r\n"));
        assert_eq!(body["status"], status, "{case}: {body}");
        assert_eq!(body["code"], status, "{case}: {body}");
        for member in ["errorType", "message", "title", "type", "detail"] {
            assert!(body[member].is_string(), "{case}: {member}: {body}");
        }
        head
    }
}

/// Reads one whole answer: its head in lower case, and as many bytes as that announces.
async fn answer(raw: &mut RawSocket, status: u16, case: &str) -> (String, Vec<u8>) {
    let head = raw.read_head().await.to_ascii_lowercase();
    let right = ["http/1.1 ", "http/1.0 "].map(|version| format!("{version}{status} "));
    let right = right.iter().any(|start| head.starts_with(start.as_str()));
    assert!(right, "{case}: {status} expected: {head}");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.expect("a length").parse().unwrap();
    let body = raw.read_bytes(length).await;
    (head, body)
}

type Change = Box<dyn Fn(&mut Handshake)>;

fn upgrade(lines: &[&'static str]) -> Change {
    let lines = lines.to_vec();
    Box::new(move |handshake| handshake.upgrade.clone_from(&lines))
}

fn connection(lines: &[&'static str]) -> Change {
    let lines = lines.to_vec();
    Box::new(move |handshake| handshake.connection.clone_from(&lines))
}

fn version(lines: &[&'static str]) -> Change {
    let lines = lines.to_vec();
    Box::new(move |handshake| handshake.version.clone_from(&lines))
}

fn key(lines: &[&'static str]) -> Change {
    let lines = lines.to_vec();
    Box::new(move |handshake| handshake.key.clone_from(&lines))
}

fn request_line(line: &'static str) -> Change {
    Box::new(move |handshake| handshake.request_line = line)
}

fn more(line: String) -> Change {
    Box::new(move |handshake| handshake.more.push(line.clone()))
}

/// TR-1, TR-2: every spelling that HTTP allows for the two lists, the version and the key.
#[tokio::test]
async fn spellings_that_are_accepted() {
    let relay = Relay::start().await;
    for (case, change) in [
        ("Upgrade in capitals", upgrade(&["Upgrade: WEBSOCKET"])),
        ("Upgrade in mixed case", upgrade(&["uPgRaDe: WebSocket"])),
        ("Upgrade in tabs", upgrade(&["Upgrade:\twebsocket \t"])),
        ("Upgrade without a blank", upgrade(&["Upgrade:websocket"])),
        (
            "Upgrade behind another line",
            upgrade(&["Upgrade: h2c", "Upgrade: websocket"]),
        ),
        (
            "Upgrade before another line",
            upgrade(&["Upgrade: websocket", "Upgrade: h2c"]),
        ),
        (
            "Connection in small letters",
            connection(&["connection: upgrade"]),
        ),
        (
            "Connection in capitals",
            connection(&["CONNECTION: UPGRADE"]),
        ),
        (
            "keep-alive first",
            connection(&["Connection: keep-alive, Upgrade"]),
        ),
        (
            "keep-alive last",
            connection(&["Connection: Upgrade, keep-alive"]),
        ),
        (
            "without blanks, with empty items",
            connection(&["Connection: ,keep-alive,,uPGRADE,"]),
        ),
        (
            "tabs in the list",
            connection(&["Connection: keep-alive\t,\tUpgrade"]),
        ),
        (
            "two lines, Upgrade last",
            connection(&["Connection: keep-alive", "Connection: Upgrade"]),
        ),
        (
            "two lines, Upgrade first",
            connection(&["Connection: Upgrade", "Connection: keep-alive"]),
        ),
        (
            "close beside Upgrade",
            connection(&["Connection: close, Upgrade"]),
        ),
        (
            "blanks around the version",
            version(&["Sec-WebSocket-Version:  13 "]),
        ),
        (
            "a key of 22 random letters",
            key(&["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]),
        ),
        ("no body, said so", more("Content-Length: 0".to_owned())),
        (
            "a query",
            request_line("GET /ws/device-link?from=app HTTP/1.1"),
        ),
        (
            "a whole URI",
            request_line("GET http://relay/ws/device-link HTTP/1.1"),
        ),
        (
            "a long header",
            more(format!("X-L: {}", "x".repeat(64_000))),
        ),
    ] {
        let mut handshake = Handshake::new();
        change(&mut handshake);
        handshake.is_accepted(&relay, case).await;
    }
}

/// TR-1: whatever is wrong with a handshake is told, in full, with its status.
#[tokio::test]
async fn wrong_handshakes_are_refused_in_full() {
    let relay = Relay::start().await;
    for (case, status, change) in [
        ("no key", 400, key(&[])),
        ("two keys", 400, key(&[KEY, KEY])),
        ("an empty key", 400, key(&["Sec-WebSocket-Key:"])),
        ("a short key", 400, key(&["Sec-WebSocket-Key: c2hvcnQ="])),
        (
            "15 bytes",
            400,
            key(&["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j"]),
        ),
        (
            "17 bytes",
            400,
            key(&["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWU="]),
        ),
        (
            "no padding",
            400,
            key(&["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ"]),
        ),
        (
            "not base64",
            400,
            key(&["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub2-jZQ=="]),
        ),
        (
            "a list of keys",
            400,
            key(&["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==, x"]),
        ),
        ("no Connection", 400, connection(&[])),
        (
            "keep-alive only",
            400,
            connection(&["Connection: keep-alive"]),
        ),
        ("close only", 400, connection(&["Connection: close"])),
        (
            "a word that begins so",
            400,
            connection(&["Connection: upgraded"]),
        ),
        (
            "HTTP/1.0",
            400,
            request_line("GET /ws/device-link HTTP/1.0"),
        ),
        ("a body", 400, more("Content-Length: 5".to_owned())),
        (
            "a chunked body",
            400,
            more("Transfer-Encoding: chunked".to_owned()),
        ),
        ("no Upgrade", 426, upgrade(&[])),
        ("another protocol", 426, upgrade(&["Upgrade: h2c"])),
        ("a version of it", 426, upgrade(&["Upgrade: websocket/13"])),
        ("a list, first", 426, upgrade(&["Upgrade: websocket, h2c"])),
        ("a list, last", 426, upgrade(&["Upgrade: h2c, websocket"])),
        ("POST", 405, request_line("POST /ws/device-link HTTP/1.1")),
        ("PUT", 405, request_line("PUT /ws/device-link HTTP/1.1")),
        (
            "a method in small letters",
            405,
            request_line("get /ws/device-link HTTP/1.1"),
        ),
        ("CONNECT", 405, request_line("CONNECT relay:443 HTTP/1.1")),
        ("another path", 404, request_line("GET /ws/other HTTP/1.1")),
        (
            "a slash too many",
            404,
            request_line("GET /ws/device-link/ HTTP/1.1"),
        ),
    ] {
        let mut handshake = Handshake::new();
        change(&mut handshake);
        let head = handshake.is_refused(&relay, status, case).await;
        match status {
            405 => assert!(head.contains("\r\nallow: get\r\n"), "{case}: {head}"),
            426 => assert!(
                head.contains("\r\nupgrade: websocket\r\n"),
                "{case}: {head}"
            ),
            _ => {}
        }
    }
}

/// TR-1, RFC 6455 4.4: another version is told the one that is spoken.
#[tokio::test]
async fn other_versions_are_told_the_right_one() {
    let relay = Relay::start().await;
    for lines in [
        &[][..],
        &["Sec-WebSocket-Version: 7"],
        &["Sec-WebSocket-Version: 8"],
        &["Sec-WebSocket-Version: 12"],
        &["Sec-WebSocket-Version: 14"],
        &["Sec-WebSocket-Version: 130"],
        &["Sec-WebSocket-Version: 013"],
        &["Sec-WebSocket-Version:"],
        &["Sec-WebSocket-Version: 13, 8"],
        &["Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 13"],
        &["Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8"],
        &["Sec-WebSocket-Version: 8", "Sec-WebSocket-Version: 13"],
    ] {
        let mut handshake = Handshake::new();
        version(lines)(&mut handshake);
        let case = format!("{lines:?}");
        let head = handshake.is_refused(&relay, 426, &case).await;
        assert!(
            head.contains("\r\nsec-websocket-version: 13\r\n"),
            "{case}: {head}"
        );
    }
}

/// TR-1: a POST with a body that nobody reads is refused in full all the same.
#[tokio::test]
async fn a_refusal_does_not_wait_for_the_body() {
    let relay = Relay::start().await;
    for sent in [0, 5, 100_000] {
        let mut handshake = Handshake::new();
        handshake.request_line = "POST /ws/device-link HTTP/1.1";
        handshake.more.push("Content-Length: 100000".to_owned());
        let mut raw = relay.tcp().await;
        raw.send(&handshake.bytes()).await;
        raw.send(&vec![b'x'; sent]).await;
        let (_, body) = answer(&mut raw, 405, &format!("{sent} bytes of the body")).await;
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["errorType"], "methodNotAllowed");
    }
}

/// RFC 9112, OP-5: a head that is no head, or not one of HTTP/1.1, gets its status and no line in the
/// log; an upgrade behind a plain request is served.
#[tokio::test]
async fn broken_heads_are_answered() {
    let relay = Relay::start().await;
    let with = |change: &dyn Fn(&mut Handshake)| {
        let mut handshake = Handshake::new();
        change(&mut handshake);
        handshake.bytes()
    };
    let line = |line: &'static str| with(&|handshake| handshake.request_line = line);
    let header = |line: &str| with(&|handshake| handshake.more.push(line.to_owned()));
    for (case, status, bytes) in [
        ("no Host", 400, with(&|handshake| handshake.host.clear())),
        (
            "two Hosts",
            400,
            with(&|handshake| handshake.host = vec!["Host: a", "Host: b"]),
        ),
        ("HTTP/0.9", 400, b"GET /ws/device-link\r\n\r\n".to_vec()),
        ("HTTP/1.2", 400, line("GET /ws/device-link HTTP/1.2")),
        ("HTTP/2.0", 400, line("GET /ws/device-link HTTP/2.0")),
        (
            "HTTP/2's preface",
            400,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        ),
        (
            "TLS",
            400,
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(),
        ),
        ("a blank in a name", 400, header("X Y: z")),
        ("a NUL in a value", 400, header("X-Y: a\0b")),
        ("a folded line", 400, header("X-Y: a\r\n b")),
        ("a length that is none", 400, header("Content-Length: x")),
        (
            "two lengths",
            400,
            header("Content-Length: 0\r\nContent-Length: 1"),
        ),
        (
            "120 headers",
            431,
            header("X-Y: z\r\n".repeat(120).trim_end()),
        ),
    ] {
        let mut raw = relay.tcp().await;
        raw.send(&bytes).await;
        answer(&mut raw, status, case).await;
    }
    let log = relay.evidence().lines().join("\n");
    assert!(!log.contains("stream error"), "{log}");
    let mut raw = relay.tcp().await;
    let plain = b"GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n".to_vec();
    let early = encode(OpCode::Text, true, br#"{"type":"ping"}"#);
    let behind = [plain, Handshake::new().bytes(), early].concat();
    raw.send(&behind).await;
    let head = raw.read_head().await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(
        raw.read_bytes(br#"{"status":"ok"}"#.len()).await,
        br#"{"status":"ok"}"#
    );
    let head = raw.read_head().await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(raw.next_json().await, json!({ "type": "pong" }));
}

/// A head without an end costs no memory without end: it gets 431 once it is too long, while the
/// client is still sending it.
#[tokio::test]
async fn an_endless_head_is_answered() {
    let relay = Relay::start().await;
    let mut handshake = Handshake::new().bytes();
    handshake.truncate(handshake.len() - 2);
    for long in ["X-Long: ", "X-Many: y\r\n"] {
        let mut raw = relay.tcp().await;
        raw.send(&handshake).await;
        raw.send(long.as_bytes()).await;
        let block = long.repeat(16_384 / long.len());
        let mut sent = 0;
        while !raw.has_answer() && raw.try_send(block.as_bytes()).await {
            sent += block.len();
            assert!(sent < 64 * 1024 * 1024, "the relay reads without end");
        }
        answer(&mut raw, 431, long).await;
    }
    relay.get("/healthz").await;
}

/// TR-1: a head that ends in its middle, at every place, is an end: nothing is answered as if it
/// were whole, nothing hangs, and the relay goes on.
#[tokio::test]
async fn heads_that_are_cut() {
    let relay = Relay::start().await;
    let whole = Handshake::new().bytes();
    for cut in 0..whole.len() {
        let mut closed = relay.tcp().await;
        closed.send(&whole[..cut]).await;
        let mut half = relay.tcp().await;
        half.send(&whole[..cut]).await;
        if cut % 2 == 0 {
            closed.reset();
        } else {
            drop(closed);
        }
        half.shut_down_sending().await;
        let rest = half.read_to_end().await;
        // A refusal of what is not whole would be in order too, if it is whole itself.
        assert!(
            rest.is_empty() || rest.starts_with(b"HTTP/1.1 400 "),
            "{cut}: {}",
            rest.escape_ascii()
        );
    }
    Handshake::new().is_accepted(&relay, "the whole").await;
}
