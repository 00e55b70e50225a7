//! New connections per client address, and who may say which that is (TR-11). Everything comes from
//! loopback here, so a proxy on it names the clients.

use relay_tests::blackbox::{Account, RawSocket, Relay, Site};
use serde_json::Value;

/// Connections that an address may open at once in these tests, with one a second after that: a machine
/// that stalls for less than this many seconds does not disturb them.
const BURST: usize = 10;
/// More than any of these tests lets in.
const MANY: usize = 3 * BURST;

const PROXY: (&str, &str) = ("server.trusted_proxies", "127.0.0.1, 10.0.0.0/8");

fn site(settings: &[(&str, &str)]) -> Site {
    Site::new(&[
        ("limits.connect_burst", "10"),
        ("limits.connects_per_second", "1"),
    ])
    .with(settings)
}

/// The head of the answer to an upgrade request without credentials, behind `before`.
async fn attempt(relay: &Relay, before: &[u8], forwarded: &[&str]) -> String {
    let mut raw = relay.tcp().await;
    if !before.is_empty() {
        raw.send(before).await;
    }
    let headers = forwarded
        .iter()
        .map(|value| ("X-Forwarded-For".to_owned(), (*value).to_owned()));
    let headers: Vec<_> = headers.collect();
    raw.ask_for_upgrade(&headers).await
}

/// How many attempts are let in, as far as to the credentials, before one is told to come back; at
/// most [`MANY`].
async fn let_in(relay: &Relay, before: impl Fn(usize) -> Vec<u8>, forwarded: &[&str]) -> usize {
    for count in 0..MANY {
        let head = attempt(relay, &before(count), forwarded).await;
        if head.starts_with("HTTP/1.1 429 ") {
            let head = head.to_ascii_lowercase();
            assert!(head.contains("\r\nretry-after: 1\r\n"), "{head}");
            assert!(
                head.contains("\r\ncontent-type: application/problem+json\r\n"),
                "{head}"
            );
            return count;
        }
        assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
    }
    MANY
}

async fn let_in_for(relay: &Relay, forwarded: &[&str]) -> usize {
    let_in(relay, |_| Vec::new(), forwarded).await
}

fn is_fresh(count: usize) -> bool {
    (BURST..MANY).contains(&count)
}

/// TR-11: the burst of an address passes and the next is refused; other addresses have their own,
/// and those of one IPv6 /64 share one.
#[tokio::test]
async fn clients_behind_a_proxy_are_limited() {
    let relay = site(&[PROXY]).start().await;
    for (client, fresh) in [
        ("198.51.100.1", true),
        ("198.51.100.1:4711", false),
        ("::ffff:198.51.100.1", false),
        ("1.1.1.1, 198.51.100.1, 10.0.0.7", false),
        ("198.51.100.2", true),
        ("2001:db8:0:1::1", true),
        ("[2001:db8:0:1:ffff::2]:4711", false),
        ("2001:db8:0:2::1", true),
    ] {
        let count = let_in_for(&relay, &[client]).await;
        assert_eq!(is_fresh(count), fresh, "{client}: {count}");
    }
    // Two lines are one list.
    let count = let_in_for(&relay, &["198.51.100.3, 198.51.100.1", "10.0.0.7"]).await;
    assert!(count < BURST, "{count}");

    let device = Account::new().new_desktop();
    let mut headers = device.upgrade_headers();
    headers.push(("X-Forwarded-For".to_owned(), "198.51.100.9:81".to_owned()));
    let _socket = relay.upgrade_with(&device, &headers).await;
    let peer = relay
        .evidence()
        .wait_for("the client in the log", |line| {
            let line: Value = serde_json::from_str(line).ok()?;
            (line["message"] == "connected").then(|| line["peer"].clone())
        })
        .await;
    assert_eq!(peer, "198.51.100.9:81");
}

/// TR-11: loopback is exempt, whatever it says about others when it is not trusted; so is a trusted
/// proxy that names no client.
#[tokio::test]
async fn loopback_and_silent_proxies_are_exempt() {
    let relay = site(&[]).start().await;
    for forwarded in [&[][..], &["198.51.100.1"]] {
        assert_eq!(let_in_for(&relay, forwarded).await, MANY);
    }
    let relay = site(&[PROXY]).start().await;
    for forwarded in [&[][..], &["10.0.0.7"], &["198.51.100.1, unknown"]] {
        assert_eq!(let_in_for(&relay, forwarded).await, MANY, "{forwarded:?}");
    }
}

/// A PROXY protocol header of version 2 for a client over IPv4.
fn proxy_header(client: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0f".to_vec();
    header.extend(client);
    header.extend(b"\x7f\x00\x00\x01\x30\x39\x22\x53");
    // Data that the relay does not know.
    header.extend(b"\xe0\x00\x00");
    header
}

/// The same by which the proxy speaks for itself.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

async fn behind_tcp_proxy() -> Relay {
    let settings = [PROXY, ("server.proxy_protocol", "true")];
    site(&settings).listen().await
}

/// TR-11: the source of a PROXY protocol header is the client, and what that client says about
/// others changes nothing; if the source is a proxy, its header is read.
#[tokio::test]
async fn tcp_proxies_name_their_clients() {
    let relay = behind_tcp_proxy().await;
    for (client, forwarded, fresh) in [
        ([198, 51, 100, 1], &[][..], true),
        ([198, 51, 100, 1], &["203.0.113.9"], false),
        ([198, 51, 100, 2], &["203.0.113.9"], true),
        ([10, 0, 0, 7], &["203.0.113.9"], true),
        ([10, 0, 0, 7], &["198.51.100.1"], false),
    ] {
        let count = let_in(&relay, |_| proxy_header(client), forwarded).await;
        assert_eq!(is_fresh(count), fresh, "{client:?} {forwarded:?}: {count}");
    }
    let count = let_in(&relay, |_| proxy_header([10, 0, 0, 7]), &[]).await;
    assert_eq!(count, MANY);
    assert_eq!(let_in(&relay, |_| LOCAL.to_vec(), &[]).await, MANY);
    let spread = |count| proxy_header([192, 0, 2, u8::try_from(count).unwrap()]);
    assert_eq!(let_in(&relay, spread, &[]).await, MANY);
}

/// TR-11: the header may come in pieces, together with the request, and calls are served behind it.
#[tokio::test]
async fn headers_may_come_in_pieces() {
    let relay = behind_tcp_proxy().await;
    let mut raw = relay.tcp().await;
    for byte in proxy_header([198, 51, 100, 1]) {
        raw.send(&[byte]).await;
    }
    let head = raw.ask_for_upgrade(&[]).await;
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");

    let mut raw = relay.tcp().await;
    let call = b"GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n";
    raw.send(&[LOCAL, call].concat()).await;
    let head = raw.read_head().await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
}

/// Waits until the log tells with `words` why a connection was dropped.
async fn told(relay: &Relay, words: &str) {
    let what = format!("{words:?} as the reason of a drop");
    relay
        .evidence()
        .wait_for(&what, |line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let reason = line["reason"].as_str()?;
            let found = line["message"] == "connection dropped" && reason.contains(words);
            found.then_some(())
        })
        .await;
}

async fn dropped(relay: &Relay, bytes: &[u8]) {
    let mut raw: RawSocket = relay.tcp().await;
    raw.try_send(bytes).await;
    raw.expect_end().await;
}

/// TR-11: what is no header of version 2, or a broken or a slow one, is dropped without an answer,
/// and the log says which it was.
#[tokio::test]
async fn other_connections_are_dropped() {
    let relay = behind_tcp_proxy().await;
    // A look at the port is no fault.
    let mut look = relay.tcp().await;
    look.shut_down_sending().await;
    look.expect_end().await;
    let mut long = LOCAL.to_vec();
    long[14] = 0xff;
    let mut third = LOCAL.to_vec();
    third[12] = 0x30;
    for (bytes, words) in [
        (
            &b"GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n"[..],
            "does not begin",
        ),
        (
            b"PROXY TCP4 198.51.100.1 10.0.0.7 1 2\r\nGET /",
            "of version 1;",
        ),
        (&third, "of version 3;"),
        (&long, "65296 bytes"),
    ] {
        dropped(&relay, bytes).await;
        told(&relay, words).await;
    }
    let mut half = relay.tcp().await;
    half.send(&LOCAL[..9]).await;
    half.shut_down_sending().await;
    half.expect_end().await;
    told(&relay, "ended within").await;
    let lines = relay.evidence().lines();
    assert!(!lines.iter().any(|line| line.contains("ended before")));

    let hasty = relay.site().with(&[("limits.http_timeout", "100ms")]);
    let relay = hasty.listen().await;
    dropped(&relay, &LOCAL[..9]).await;
    told(&relay, "did not arrive within 0.1 s").await;
}

/// TR-11: nobody but a trusted proxy may send a header.
#[tokio::test]
async fn strangers_headers_are_dropped() {
    let settings = [
        ("server.trusted_proxies", "10.0.0.0/8"),
        ("server.proxy_protocol", "true"),
    ];
    let relay = site(&settings).listen().await;
    dropped(&relay, &proxy_header([10, 0, 0, 7])).await;
    told(&relay, "server.trusted_proxies").await;
}
