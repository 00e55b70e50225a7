//! The device listener with a certificate: `https` and `wss`, what comes before the handshake, and what a
//! SIGHUP changes.

use relay_tests::blackbox::{Account, OpCode, Relay, Site, Trust, encode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::certificates::{Authority, Pair};
use crate::frozen_reader;

const RELOADED: &str = "reloaded the TLS certificate";
const REFUSED: &str = "the TLS files cannot be used; the certificate in force stays";

/// A site whose relays speak TLS, whom its devices trust, and its first certificate.
struct Secured {
    site: Site,
    trust: Trust,
    authority: Authority,
    pair: Pair,
}

impl Secured {
    fn new(settings: &[(&str, &str)]) -> Self {
        let authority = Authority::new();
        let trust = Trust::in_authority(&authority.pem);
        let files = [
            ("server.tls_cert", "cert.pem"),
            ("server.tls_key", "key.pem"),
        ];
        let secured = Self {
            site: Site::new(&files).with(settings).trusting(&trust),
            trust,
            pair: authority.issue(),
            authority,
        };
        secured.install(&secured.pair, &secured.pair);
        secured
    }

    /// Puts the certificate of one pair and the key of the other in their places.
    fn install(&self, certificate: &Pair, key: &Pair) {
        certificate.write_certificate(&self.site.path("cert.pem"));
        key.write_key(&self.site.path("key.pem"));
    }

    async fn shown_by(&self, relay: &Relay) -> Vec<u8> {
        let shown = self.trust.certificate_at(relay.address()).await;
        shown.unwrap_or_else(|error| panic!("{error}{}", relay.evidence().tail()))
    }
}

/// Waits for a line of the log with this message whose `field` contains `words`.
async fn told(relay: &Relay, message: &str, field: &str, words: &str) {
    let what = format!("{words:?} in {field} of {message:?}");
    let found = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let right = line["message"] == message && line[field].as_str()?.contains(words);
        right.then_some(())
    };
    relay.evidence().wait_for(&what, found).await;
}

/// TR-1, HTTP-2: devices register, talk and close over TLS, on whatever thread their account lives, with
/// messages that take many records.
#[tokio::test]
async fn devices_talk_over_tls() {
    let relay = Secured::new(&[("server.workers", "3")]).site.start().await;
    let big = json!("x".repeat(3 * 1024 * 1024));
    for _ in 0..6 {
        let mut desktop = relay.desktop(&Account::new()).await;
        let mut phone = relay.phone(&desktop.device).await;
        phone.request("r1", "files.read", big.clone()).await;
        let request = desktop.next_request().await;
        assert_eq!(request["params"], big);
        desktop.answer(&request, big.clone()).await;
        assert_eq!(phone.next_response().await["result"], big);
        phone.close().await;
        desktop.close().await;
    }
    let lines = relay.evidence().lines();
    assert!(lines.iter().any(|line| line.contains("wss://127.0.0.1:")));
    assert_eq!(
        relay.figures().await.of("relay_tls_handshake_errors_total"),
        0.0
    );
}

/// TR-10, TL-8, TL-14: a phone that reads nothing hurts nobody over TLS either, where a layer more keeps
/// bytes: its lanes are bounded, and it is given up in time.
#[tokio::test]
async fn frozen_phones_hurt_nobody_over_tls() {
    let secured = Secured::new(&[]);
    frozen_reader::events_pile_up(&secured.site).await;
    frozen_reader::snapshots_coalesce(&secured.site).await;
}

/// TR-3: fragments and control frames between them, however they fall into the records of TLS: a record for
/// each few bytes, and all in one.
#[tokio::test]
async fn fragments_come_in_any_records() {
    let relay = Secured::new(&[]).site.start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let account = &desktop.device.account;
    let device = account.new_phone().targeting(&desktop.device);
    relay.enrol(&device).await;
    let mut phone = relay.raw(&device).await;
    phone.register(&device).await;
    assert_eq!(
        phone.next_json().await["payload"]["eventType"],
        "device-status"
    );
    let params = json!("ä".repeat(40));
    for (id, record) in [("r1", 7), ("r2", usize::MAX)] {
        let payload = json!({ "id": id, "method": "m", "params": params });
        let text = json!({ "type": "rpc.request", "payload": payload }).to_string();
        let mut frames = Vec::new();
        let fragments: Vec<&[u8]> = text.as_bytes().chunks(33).collect();
        for (number, fragment) in fragments.iter().enumerate() {
            let op = if number == 0 {
                OpCode::Text
            } else {
                OpCode::Continuation
            };
            frames.extend(encode(op, number + 1 == fragments.len(), fragment));
            frames.extend(encode(OpCode::Ping, true, b"between"));
        }
        for piece in frames.chunks(record) {
            phone.send(piece).await;
        }
        for _ in &fragments {
            assert_eq!(phone.next_frame().await.op, OpCode::Pong);
        }
        let request = desktop.next_request().await;
        assert_eq!(request["params"], params);
        desktop.answer(&request, params.clone()).await;
        assert_eq!(phone.next_json().await["payload"]["result"], params);
    }
}

/// DR-3: a relay with TLS says 1012 too when it ends.
#[tokio::test]
async fn a_drain_reaches_sockets_over_tls() {
    let mut relay = Secured::new(&[]).site.start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    relay.signal("TERM").await;
    desktop.expect_close(1012).await;
    assert_eq!(relay.exit_status().await.code(), Some(0));
}

/// OP-4: after a SIGHUP new connections are shown the next certificate, also to a client that could
/// resume a session under the first one; an open connection goes on.
#[tokio::test]
async fn certificates_are_replaced() {
    let secured = Secured::new(&[]);
    let relay = secured.site.start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    assert_eq!(secured.shown_by(&relay).await, secured.pair.der);
    let next = secured.authority.issue();
    secured.install(&next, &next);
    let line = relay.reload(RELOADED).await;
    assert!(line["ends"].is_string(), "{line}");
    assert_eq!(secured.shown_by(&relay).await, next.der);
    desktop.ping().await;
    let mut phone = relay.phone(&desktop.device).await;
    phone.ping().await;
}

/// OP-4: a pair that does not belong together, or a file that is none, is refused with a line in the log
/// that names the key; the certificate in force stays. No line of the private key is in the log.
#[tokio::test]
async fn bad_pairs_are_refused_at_a_reload() {
    let secured = Secured::new(&[]);
    let relay = secured.site.start().await;
    let next = secured.authority.issue();
    let is_refused = async |words: &str| {
        let line = relay.reload(REFUSED).await;
        assert!(line["problem"].as_str().unwrap().contains(words), "{line}");
        assert_eq!(secured.shown_by(&relay).await, secured.pair.der);
    };
    let mismatch = "is not the key of the certificate in server.tls_cert = ";
    secured.install(&next, &secured.pair);
    is_refused(mismatch).await;
    secured.install(&secured.pair, &next);
    is_refused(mismatch).await;
    std::fs::write(secured.site.path("cert.pem"), "no PEM").unwrap();
    is_refused("no certificate").await;
    let keys = [secured.pair.key_pem(), next.key_pem()];
    let secrets = keys.iter().map(|key| key.lines().nth(1).unwrap());
    relay.evidence().assert_hidden(&secrets.collect::<Vec<_>>());
    // The next one that is good is taken.
    secured.install(&next, &next);
    relay.reload(RELOADED).await;
    assert_eq!(secured.shown_by(&relay).await, next.der);
}

/// OP-1: files that cannot be used end the start with 64 and a message with their key; so does one of the
/// two keys alone.
#[tokio::test]
async fn bad_files_end_the_start() {
    let secured = Secured::new(&[]);
    let start = async |settings: &[(&str, &str)]| {
        let output = secured.site.with(settings).serve().output().await.unwrap();
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let errors = start(&[("server.tls_cert", "missing.pem")]).await;
    assert!(
        errors.contains("server.tls_cert = missing.pem (environment"),
        "{errors}"
    );
    let errors = start(&[("server.tls_key", "cert.pem")]).await;
    assert!(errors.contains("server.tls_key = cert.pem"), "{errors}");
    for alone in ["server.tls_cert", "server.tls_key"] {
        let errors = start(&[(alone, "")]).await;
        let both = errors.contains("server.tls_cert") && errors.contains("server.tls_key");
        assert!(both && errors.contains("set beside"), "{errors}");
    }
    secured.install(&secured.pair, &secured.authority.issue());
    let errors = start(&[]).await;
    assert!(
        errors.contains("is not the key of the certificate"),
        "{errors}"
    );
}

/// TR-1: who speaks plain HTTP or nonsense to the address of TLS gets no HTTP, is named in the log and
/// counted, and disturbs nobody.
#[tokio::test]
async fn plain_clients_are_turned_away() {
    let relay = Secured::new(&[]).site.start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    for bytes in [
        &b"GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n"[..],
        b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00",
    ] {
        let mut plain = relay.tcp().await;
        plain.send(bytes).await;
        let answer = plain.read_to_end().await;
        assert!(!answer.starts_with(b"HTTP"), "{}", answer.escape_ascii());
    }
    told(&relay, "connection dropped", "reason", "speaks no TLS").await;
    let counted = "relay_tls_handshake_errors_total";
    assert_eq!(relay.figures().await.of(counted), 2.0);
    desktop.ping().await;
    assert_eq!(relay.get("/healthz").await.status, 200);
}

/// TR-1: who says nothing, or stops within the handshake, is dropped after
/// `limits.tls_handshake_timeout`; until then others come in as ever.
#[tokio::test]
async fn silent_clients_are_dropped() {
    let secured = Secured::new(&[("limits.tls_handshake_timeout", "60s")]);
    let relay = secured.site.start().await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(relay.tcp().await);
    }
    let mut desktop = relay.desktop(&Account::new()).await;
    desktop.ping().await;
    drop(silent);

    // Nothing of the test comes in there: on a busy machine its own handshake could be too slow.
    let hasty = [("limits.tls_handshake_timeout", "100ms")];
    let relay = secured.site.with(&hasty).listen().await;
    for bytes in [&b""[..], b"\x16\x03\x01\x02"] {
        let mut silent = relay.tcp().await;
        silent.send(bytes).await;
        silent.expect_end().await;
    }
    told(&relay, "connection dropped", "reason", "within 0.1 s").await;
}

/// TR-11: the header of the PROXY protocol comes before the handshake, and the client that it names is the
/// one of the connection.
#[tokio::test]
async fn proxy_headers_come_before_the_handshake() {
    let secured = Secured::new(&[
        ("server.trusted_proxies", "127.0.0.1"),
        ("server.proxy_protocol", "true"),
    ]);
    let relay = secured.site.listen().await;
    let address = relay.address();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let header =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc6\x33\x64\x01\x7f\x00\x00\x01\x30\x39\x22\x53";
    stream.write_all(header).await.unwrap();
    let mut stream = secured.trust.secure(address, stream).await.unwrap();
    let request = "GET /ws/device-link HTTP/1.1\r\nHost: relay\r\nUpgrade: websocket\r\n\
                   Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    // To its end: a refusal ends properly, as TLS has it.
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    told(&relay, "upgrade refused", "peer", "198.51.100.1:12345").await;

    // A handshake without the header is none that this relay takes.
    assert!(secured.trust.certificate_at(address).await.is_err());
    told(&relay, "connection dropped", "reason", "PROXY protocol").await;
}

/// Operators: with a certificate on the only address, commands ask for a name to call; on an address of
/// their own they need none. `relay doctor` says how long the certificate is good, and what is wrong.
#[tokio::test]
async fn operators_are_told() {
    let secured = Secured::new(&[("admin.token", relay_tests::blackbox::OPERATOR_TOKEN)]);
    let run = async |arguments: &[&str]| {
        let mut command = secured.site.command();
        let output = command.args(arguments).output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = run(&["status"]).await;
    assert_eq!(code, Some(64), "{text}");
    assert!(
        text.contains("speaks TLS") && text.contains("--url"),
        "{text}"
    );

    let relay = secured.site.with(&[("server.admin_listen", "127.0.0.1:0")]);
    let relay = relay.start().await;
    let admin = format!("http://{}", relay.admin_address());
    let (code, text) = run(&["status", "--url", &admin]).await;
    assert_eq!(code, Some(0), "{text}");

    let listen = relay.address().to_string();
    let database = secured.site.database_url();
    let doctor = ["doctor", "--listen", &listen, "--database-url", &database];
    let (code, text) = run(&doctor).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("ok    certificate      it is good until "),
        "{text}"
    );
    assert!(text.contains("ok    listen address   relay "), "{text}");
    secured.install(&secured.pair, &secured.authority.issue());
    let (code, text) = run(&doctor).await;
    assert_eq!(code, Some(64), "{text}");
    assert!(
        text.contains("fail  certificate      server.tls_key = "),
        "{text}"
    );
}
