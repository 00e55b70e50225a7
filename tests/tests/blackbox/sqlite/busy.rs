//! Another process that writes to the database file all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use relay_tests::blackbox::{Account, Backend, Database, Relay, Site};
use serde_json::json;

/// Writes of the other process in a second.
const WRITES_PER_SECOND: u32 = 2_000;

/// A thread that writes, each time in a transaction of its own, until it is stopped.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<i64>,
}

impl Writer {
    #[expect(
        clippy::disallowed_methods,
        reason = "a thread of its own, and the pace that the test is about; nothing is waited for"
    )]
    fn start(mut database: Database) -> Self {
        database.execute("CREATE TABLE theirs (number INTEGER)");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut written = 0;
            while !stopped.load(Ordering::Relaxed) {
                database.execute(&format!("INSERT INTO theirs VALUES ({written})"));
                written += 1;
                thread::sleep(Duration::from_secs(1) / WRITES_PER_SECOND);
            }
            written
        });
        Self { stop, thread }
    }

    /// Stops it and tells how often it has written.
    fn stop(self) -> i64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("every write succeeded")
    }
}

/// REG-4, KA-1, PR-6: registrations over HTTP and sockets and heartbeats all succeed, and every one is
/// in the database in the end.
#[tokio::test]
async fn nothing_is_lost_beside_a_busy_writer() {
    let settings = [("presence.heartbeat_interval", "20ms")];
    let relay = Site::on(Backend::Sqlite, &settings).start().await;
    let writer = Writer::start(relay.site().database());
    let households = (0..20).map(|_| household(&relay));
    let mut sockets: Vec<_> = futures_util::future::join_all(households)
        .await
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(sockets.len(), 60);
    for _ in 0..5 {
        for socket in &mut sockets {
            socket
                .send(&json!({ "type": "heartbeat", "payload": {} }))
                .await;
            socket.take_kind("pong").await;
        }
    }
    let stored = "SELECT count(*) AS number FROM devices \
         WHERE status = 'online' AND last_heartbeat IS NOT NULL";
    relay
        .eventually("every presence and heartbeat", async || {
            relay.site().database().number(stored) == 60
        })
        .await;
    let written = writer.stop();
    let theirs = relay
        .site()
        .database()
        .number("SELECT count(*) AS number FROM theirs");
    assert_eq!(theirs, written);
    assert!(written > 0);
    for line in relay.evidence().lines() {
        assert!(!line.contains("\"WARN\""), "{line}");
        assert!(!line.contains("\"ERROR\""), "{line}");
    }
}

/// A desktop and two phones of a new account, all made known and connected.
async fn household(relay: &Relay) -> [relay_tests::blackbox::Socket; 3] {
    let desktop = relay.desktop(&Account::new()).await;
    let first = relay.phone(&desktop.device).await;
    let second = relay.phone(&desktop.device).await;
    [desktop, first, second]
}
