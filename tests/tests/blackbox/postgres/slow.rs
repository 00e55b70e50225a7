//! A server that is slow: by less than the relay waits, and by more (REG-4, EV-4).

use std::time::Duration;

use relay_tests::blackbox::{Account, Network};
use serde_json::json;

use super::{Behind, row_becomes};

/// REG-4: answers that take two seconds are waited for; the registered talk on meanwhile.
#[tokio::test]
async fn slower_but_in_time() {
    let behind = Behind::start(&[("database.timeout", "20s")]).await;
    let relay = &behind.relay;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut phone = relay.phone(&desktop.device).await;
    let late = account.new_desktop();
    relay.enrol(&late).await;
    behind.set(Network::Slow(Duration::from_millis(500)));
    let mut waiting = relay.upgrade(&late).await;
    waiting.send_register(late.registration()).await;
    for number in 0..50 {
        phone.request(&format!("r{number}"), "m", json!(1)).await;
        let request = desktop.next_request().await;
        desktop.answer(&request, json!(2)).await;
        assert_eq!(phone.next_response().await["result"], 2);
    }
    assert_eq!(waiting.next().await["type"], "registered");
    row_becomes(relay, &late, "online").await;
}

/// REG-4: answers that come too late are refusals, not answers to somebody else; none of them harms who
/// asks next.
#[tokio::test]
async fn slower_than_the_timeout() {
    let behind = Behind::start(&[("database.timeout", "300ms")]).await;
    let relay = &behind.relay;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut phone = relay.phone(&desktop.device).await;
    let late = account.new_desktop();
    relay.enrol(&late).await;
    behind.set(Network::Slow(Duration::from_secs(2)));
    let mut refused = relay.upgrade(&late).await;
    refused.send_register(late.registration()).await;
    phone.request("r", "m", json!(1)).await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!(2)).await;
    assert_eq!(phone.next_response().await["result"], 2);
    refused.expect_error("relayUnavailable").await;
    refused.expect_close(1011).await;
    behind.set(Network::Fine);
    relay
        .eventually("readiness", async || {
            relay.get("/readyz").await.status == 200
        })
        .await;
    relay
        .eventually("a registration", async || {
            let mut socket = relay.upgrade(&late).await;
            socket.register_with(late.registration()).await;
            socket.session["type"] == "registered"
        })
        .await;
    // Each list is the asker's own: no answer of before was left on a connection.
    for _ in 0..16 {
        let other = Account::new();
        assert!(relay.devices(&other, "").await.is_empty());
        assert_eq!(relay.devices(&account, "").await.len(), 3);
    }
}
