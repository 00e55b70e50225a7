//! The door counts connections by client (TR-11): who is refused, when in the order of checks, and
//! whom it takes for the client.

use std::sync::Arc;

use relay_http::authentication::Authenticator;
use relay_http::client_address::Proxies;
use relay_http::upgrade::{StartConnection, UpgradeDoor};
use relay_model::limits::Limits;

use crate::support::{KeyRing, authenticator, authenticator_with};
use crate::upgrade::{Started, answer_at, greeter, refusal, request_with};

/// Connections that an address may open at once in these tests.
const BURST: usize = 3;

/// A door behind proxies in 10.0.0.0/8. The tests pause the clock, so that nothing is refilled.
fn door(authenticator: Authenticator, started: &Started) -> UpgradeDoor<impl StartConnection> {
    let limits = Limits {
        connect_burst: BURST,
        connects_per_second: 1,
        ..Limits::default()
    };
    let proxies = Proxies {
        trusted: "10.0.0.0/8".parse().unwrap(),
        proxy_protocol: false,
    };
    UpgradeDoor::new(
        authenticator,
        Arc::new(limits),
        greeter(Arc::clone(started)),
    )
    .with_proxies(proxies)
}

async fn status<S: StartConnection>(
    door: &UpgradeDoor<S>,
    peer: &str,
    changes: &[(&str, &[&str])],
) -> u16 {
    let peer = Some(peer.parse().unwrap());
    let answer = answer_at(door.clone(), request_with(changes).as_bytes(), peer).await;
    answer[9..12].parse().unwrap()
}

/// TR-11: the burst comes in, the next is told when to come back, and another address is not
/// touched. What the door's clones count is one count.
#[actix_rt::test]
async fn the_burst_comes_in() {
    tokio::time::pause();
    let started = Started::default();
    let door = door(authenticator(), &started);
    for _ in 0..BURST {
        assert_eq!(status(&door, "192.0.2.1:1", &[]).await, 101);
    }
    let peer = Some("192.0.2.1:2".parse().unwrap());
    let answer = answer_at(door.clone(), request_with(&[]).as_bytes(), peer).await;
    let (code, head, body) = refusal(&answer);
    assert_eq!((code, &body["errorType"]), (429, &"tooManyRequests".into()));
    assert!(head.contains("\r\nretry-after: 1\r\n"), "{head}");
    assert_eq!(started.lock().unwrap().len(), BURST);
    assert_eq!(status(&door, "192.0.2.2:1", &[]).await, 101);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(status(&door, "192.0.2.1:1", &[]).await, 101);
    assert_eq!(status(&door, "192.0.2.1:1", &[]).await, 429);
}

/// TR-11: bad credentials count, and over the limit nobody looks at them: a database that is away
/// would be noticed.
#[actix_rt::test]
async fn the_limit_stands_before_the_credentials() {
    tokio::time::pause();
    let keys = Arc::new(KeyRing::unavailable());
    let door = door(authenticator_with(keys), &Started::default());
    let key = format!("rk_{}_{}", "0".repeat(32), "A".repeat(43));
    let with_key = [("Authorization", &[][..]), ("X-API-Key", &[&*key])];
    let without = [("Authorization", &[][..])];
    assert_eq!(status(&door, "192.0.2.1:1", &without).await, 401);
    let asked = status(&door, "192.0.2.1:1", &with_key).await;
    assert!([401, 503].contains(&asked), "{asked}");
    assert_eq!(status(&door, "192.0.2.1:1", &without).await, 401);
    assert_eq!(status(&door, "192.0.2.1:1", &with_key).await, 429);
    assert_eq!(status(&door, "192.0.2.1:1", &without).await, 429);
}

/// TR-11, TR-12: requests that are no upgrades, and those of strangers' pages, use nothing up and are
/// told what is wrong with them, over the limit too.
#[actix_rt::test]
async fn broken_attempts_do_not_count() {
    tokio::time::pause();
    let door = door(authenticator(), &Started::default());
    for _ in 0..2 * BURST {
        let old = [("Sec-WebSocket-Version", &["8"][..])];
        assert_eq!(status(&door, "192.0.2.1:1", &old).await, 426);
        let page = [("Origin", &["https://evil.example"][..])];
        assert_eq!(status(&door, "192.0.2.1:1", &page).await, 403);
    }
    for _ in 0..BURST {
        assert_eq!(status(&door, "192.0.2.1:1", &[]).await, 101);
    }
    assert_eq!(status(&door, "192.0.2.1:1", &[]).await, 429);
}

/// TR-11: the owner of a connection learns its client: the peer, or whom a trusted proxy names.
#[actix_rt::test]
async fn connections_know_their_client() {
    tokio::time::pause();
    for (peer, header, client) in [
        ("192.0.2.1:77", "198.51.100.1", "192.0.2.1:77"),
        ("10.0.0.1:77", "198.51.100.1", "198.51.100.1:0"),
        (
            "10.0.0.1:77",
            "1.1.1.1, 198.51.100.1:5, 10.0.0.2",
            "198.51.100.1:5",
        ),
        ("10.0.0.1:77", "[2001:db8::1]:5", "[2001:db8::1]:5"),
        ("10.0.0.1:77", "unknown", "10.0.0.1:77"),
    ] {
        let started = Started::default();
        let door = door(authenticator(), &started);
        let changes = [("X-Forwarded-For", &[header][..])];
        assert_eq!(status(&door, peer, &changes).await, 101);
        let seen = started.lock().unwrap()[0].0.peer;
        assert_eq!(seen, Some(client.parse().unwrap()), "{peer} {header}");
    }
}

/// TR-11: clients of one proxy have their own counts, forged headers have none, and loopback and
/// proxies that name nobody are exempt.
#[actix_rt::test]
async fn who_is_counted() {
    tokio::time::pause();
    let door = door(authenticator(), &Started::default());
    let forwarded = |client: &'static str| [("X-Forwarded-For", vec![client])];
    for client in ["198.51.100.1", "198.51.100.2"] {
        for expected in [101, 101, 101, 429] {
            let [(name, values)] = &forwarded(client);
            let got = status(&door, "10.0.0.1:1", &[(*name, values)]).await;
            assert_eq!(got, expected, "{client}");
        }
    }
    for (attempt, forged) in ["1.1.1.1", "2.2.2.2", "127.0.0.1", "10.0.0.1"]
        .iter()
        .enumerate()
    {
        let changes = [("X-Forwarded-For", &[*forged][..])];
        let expected = if attempt < BURST { 101 } else { 429 };
        assert_eq!(
            status(&door, "192.0.2.1:1", &changes).await,
            expected,
            "{forged}"
        );
    }
    for _ in 0..2 * BURST {
        for exempt in [
            "127.0.0.1:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
            "10.0.0.1:1",
        ] {
            assert_eq!(status(&door, exempt, &[]).await, 101, "{exempt}");
        }
    }
}
