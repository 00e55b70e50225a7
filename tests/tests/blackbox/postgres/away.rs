//! A server that goes away while the relay runs, and comes back (REG-4, OP-8, PR-6).

use relay_tests::blackbox::{Account, Network, Socket};
use serde_json::json;

use super::{Behind, row_becomes};

const SETTINGS: [(&str, &str); 2] = [
    ("database.timeout", "1s"),
    ("presence.heartbeat_interval", "50ms"),
];

/// A request and its answer.
async fn exchange(phone: &mut Socket, desktop: &mut Socket, id: &str) {
    phone.request(id, "m", json!(1)).await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!(id)).await;
    assert_eq!(phone.next_response().await["result"], id);
}

/// REG-4, OP-8, PR-6: whether it is cut off or says nothing more: who registers is refused and closed
/// 1011, who is connected talks on, and afterwards, without a restart, the rows say what is true.
#[tokio::test]
async fn away_and_back() {
    for state in [Network::Cut, Network::Silent] {
        let behind = Behind::start(&SETTINGS).await;
        let relay = &behind.relay;
        let account = Account::new();
        let mut desktop = relay.desktop(&account).await;
        let mut phone = relay.phone(&desktop.device).await;
        let leaving = relay.desktop(&account).await;
        let left = leaving.device.clone();
        let late = account.new_desktop();
        relay.enrol(&late).await;
        for device in [&desktop.device, &phone.device, &left] {
            row_becomes(relay, device, "online").await;
        }

        behind.set(state);
        let mut refused = relay.upgrade(&late).await;
        refused.send_register(late.registration()).await;
        exchange(&mut phone, &mut desktop, "while it is asked").await;
        refused.expect_error("relayUnavailable").await;
        refused.expect_close(1011).await;
        refused.assert_all_read();
        let stranger = account.new_desktop();
        let body = json!({ "deviceName": "n", "platform": "linux", "appVersion": "1" });
        let answer = relay.enrol_with(&stranger, &body).await;
        answer.assert_problem(503, "relayUnavailable");
        assert_eq!(relay.get("/healthz").await.status, 200);
        assert_eq!(relay.get("/readyz").await.status, 503);
        leaving.close().await;
        desktop
            .send(&json!({ "type": "heartbeat", "payload": {} }))
            .await;
        desktop.take_kind("pong").await;
        exchange(&mut phone, &mut desktop, "while it is away").await;
        let retried = |line: &str| {
            line.contains("presence waits for the database")
                .then_some(())
        };
        relay.evidence().wait_for("a retry", retried).await;

        behind.set(Network::Fine);
        relay
            .eventually("readiness", async || {
                relay.get("/readyz").await.status == 200
            })
            .await;
        row_becomes(relay, &left, "reconnecting").await;
        let late = relay.connect(&late).await;
        relay.enrol(&stranger).await;
        row_becomes(relay, &late.device, "online").await;
        row_becomes(relay, &desktop.device, "online").await;
        exchange(&mut phone, &mut desktop, "afterwards").await;
        let log = relay.evidence().lines().join("\n");
        let url = relay.site().database_url();
        let (_, password) = url.split_once('@').unwrap().0.rsplit_once(':').unwrap();
        assert!(!log.contains(password), "{log}");
    }
}

/// Every pooled connection is dead after a cut that ended before anybody noticed; the first callers
/// behind it are served all the same.
#[tokio::test]
async fn a_short_cut_is_not_noticed() {
    let behind = Behind::start(&[]).await;
    let relay = &behind.relay;
    let account = Account::new();
    for round in 0..5 {
        let desktop = relay.desktop(&account).await;
        // All connections of the pool are in use at once, so that more than one of them dies.
        let lists = (0..16).map(|_| relay.devices(&account, ""));
        futures_util::future::join_all(lists).await;
        behind.network.cut_once().await;
        let lists = (0..16).map(|_| relay.devices(&account, ""));
        for devices in futures_util::future::join_all(lists).await {
            assert_eq!(devices.len(), round + 1);
        }
        desktop.close().await;
    }
}

/// DR-4: a relay that is told to stop does not wait for a database that says nothing.
#[tokio::test]
async fn a_stop_does_not_wait_for_the_server() {
    for state in [Network::Cut, Network::Silent] {
        let mut behind = Behind::start(&SETTINGS).await;
        let account = Account::new();
        let mut desktop = behind.relay.desktop(&account).await;
        let late = account.new_desktop();
        behind.relay.enrol(&late).await;
        row_becomes(&behind.relay, &desktop.device, "online").await;
        behind.set(state);
        let mut asking = Vec::new();
        for _ in 0..10 {
            let mut socket = behind.relay.upgrade(&late).await;
            socket.send_register(late.registration()).await;
            asking.push(socket);
        }
        desktop.ping().await;
        behind.relay.signal("TERM").await;
        desktop.expect_close(1012).await;
        let status = behind.relay.exit_status().await;
        assert_eq!(status.code(), Some(0), "{}", behind.relay.evidence().tail());
        // A server keeps who stopped in the middle of its login for a minute, and the test's database
        // as long.
        behind.network.cut_once().await;
    }
}
