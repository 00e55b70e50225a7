//! More connections than the relay may have files open: every one is answered or refused, and the
//! devices that are in stay in (TR-1, OP-5).

use relay_tests::blackbox::{Account, OpCode, RawSocket, Relay, Site};

/// Open files that the relay of these tests may have.
const OPEN_FILES: u32 = 128;
/// Connections that come at once.
const CROWD: usize = 200;

/// Opens the crowd's connections and sends an upgrade request on each, without waiting for answers.
async fn crowd(relay: &Relay) -> Vec<RawSocket> {
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut raw = relay.tcp().await;
        let request = format!(
            "GET /ws/device-link HTTP/1.1\r\nHost: relay\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Client-Type: mobile\r\n\
             Authorization: Bearer {}\r\n\r\n",
            Account::new().token
        );
        // A relay that has refused already may have ended the connection.
        raw.try_send(request.as_bytes()).await;
        crowd.push(raw);
    }
    crowd
}

/// Every connection is upgraded or refused while all others stay, the log has no line for each, the
/// processor rests, and the place of those who leave is free again.
#[tokio::test]
async fn a_crowd_is_answered() {
    let settings = [
        ("limits.ping_interval", "250ms"),
        ("limits.client_timeout", "1m"),
        ("limits.registration_timeout", "1m"),
    ];
    let relay = Site::new(&settings)
        .with_open_files(OPEN_FILES)
        .start()
        .await;
    let account = Account::new();
    let mut phone = relay.upgrade(&account.new_phone()).await;
    let device = account.new_desktop();
    relay.enrol(&device).await;
    let mut desktop = relay.raw(&device).await;
    desktop.register(&device).await;
    for round in 0..2 {
        let mut crowd = crowd(&relay).await;
        let (mut upgraded, mut refused) = (0, 0);
        for raw in &mut crowd {
            match raw.head_or_end().await {
                Some(head) if head.starts_with("HTTP/1.1 101 ") => upgraded += 1,
                Some(head) => {
                    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
                    let head = head.to_ascii_lowercase();
                    assert!(head.contains("\r\nretry-after: "), "{head}");
                    refused += 1;
                }
                None => refused += 1,
            }
        }
        assert!(upgraded >= 32, "round {round}: {upgraded} upgraded");
        assert!(refused >= CROWD - OPEN_FILES as usize, "{refused} refused");
        phone.ping().await;

        // While they are all there nothing turns in circles: eight looks of the watchdog take two
        // seconds, in which a busy thread would use 200 ticks.
        let before = relay.processor_ticks();
        let mut looks = 0;
        while looks < 8 {
            looks += usize::from(desktop.next_frame().await.op == OpCode::Ping);
        }
        let used = relay.processor_ticks() - before;
        assert!(used < 100, "{used} ticks");
        drop(crowd);
        relay
            .eventually("room for the next", async || {
                let mut raw = relay.tcp().await;
                raw.try_send(b"GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n")
                    .await;
                let head = raw.head_or_end().await;
                head.is_some_and(|head| head.starts_with("HTTP/1.1 200 "))
            })
            .await;
    }
    relay.desktop(&account).await.ping().await;
    let log = relay.evidence().lines();
    let about_files = log
        .iter()
        .filter(|line| line.contains("\"WARN\"") || line.contains("\"ERROR\""));
    let about_files: Vec<_> = about_files.collect();
    assert!(about_files.len() < CROWD / 4, "{about_files:#?}");
    assert!(!about_files.is_empty(), "an operator is told why");
}
