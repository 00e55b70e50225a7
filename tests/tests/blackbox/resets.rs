//! Peers that reset the connection while something large is being written to them (REG-6, RPC-4, PR-2).

use relay_tests::blackbox::{
    Account, Relay, by_length, interest, pending, rpc_request, snapshot, snapshot_payload,
};
use serde_json::{Value, json};

/// Bytes of what is being written.
const LARGE: usize = 8 * 1024 * 1024;
/// How much of it a peer takes before it resets.
const TAKEN: usize = 100_000;

/// What the relay is in the middle of writing to the phone that resets.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Answer,
    Event,
    Snapshot,
}

/// RPC-3, RPC-8, TL-3: a phone's reset in the middle of an answer, an event or a snapshot ends its route
/// and leaves no descriptor; the desktop's next words reach the others.
#[tokio::test]
async fn a_phone_resets_in_the_middle() {
    let relay = Relay::start_with(&[("timeline.flush_interval", "5ms")]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let account = desktop.device.account.clone();
    let mut other = relay.phone(&desktop.device).await;
    let body = json!("x".repeat(LARGE));
    for round in 0..by_length(2, 40) {
        for kind in [Kind::Answer, Kind::Event, Kind::Snapshot] {
            let device = account.new_phone().targeting(&desktop.device);
            relay.enrol(&device).await;
            let mut phone = relay.raw(&device).await;
            phone.register(&device).await;
            assert_eq!(phone.next_json().await["type"], "event");
            match kind {
                Kind::Answer => {
                    phone.send_json(&rpc_request("r", "m", json!(1))).await;
                    let request = desktop.next_request().await;
                    desktop.answer(&request, body.clone()).await;
                }
                Kind::Event => desktop.publish("x", body.clone()).await,
                Kind::Snapshot => {
                    phone.send_json(&interest("s", true)).await;
                    let state = desktop.next_lease_state().await;
                    let proof = &state["authorizationGeneration"];
                    let payload = snapshot_payload("s", "main", 1, proof, &body);
                    desktop.send_text(&snapshot(&payload)).await;
                }
            }
            phone.read_bytes(TAKEN).await;
            let port = phone.port();
            phone.reset();
            relay.until_gone(port).await;
            relay.until_listed_as(&device, "offline").await;
            match kind {
                Kind::Answer => {}
                Kind::Event => assert!(other.next_event("x").await.text.len() > LARGE),
                Kind::Snapshot => {
                    let state = desktop.next_lease_state().await;
                    assert_eq!(state["active"], false, "its lease went with it");
                }
            }
            let id = format!("{kind:?}{round}");
            other.request(&id, "m", json!(1)).await;
            let request = desktop.next_request().await;
            desktop.answer(&request, json!(id)).await;
            assert_eq!(other.next_response().await["result"], id);
            other.assert_quiet_behind(&mut desktop).await;
        }
    }
    desktop.assert_all_read();
}

/// RPC-4, RPC-5, PR-2: a desktop's reset in the middle of a request ends that one as delivered and the
/// one behind it as not; the phone is told, and the desktop that comes back is asked again.
#[tokio::test]
async fn a_desktop_resets_in_the_middle() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut phone = relay.phone(&device).await;
    let body = json!("x".repeat(LARGE));
    for _ in 0..by_length(3, 60) {
        let mut desktop = relay.raw(&device).await;
        desktop.register(&device).await;
        assert_eq!(phone.next_status().await["status"], "online");
        phone.request("begun", "m", body.clone()).await;
        phone.request("behind", "m", body.clone()).await;
        desktop.read_bytes(TAKEN).await;
        // Both have been taken when the phone's next frame is answered.
        phone.ping().await;
        let port = desktop.port();
        desktop.reset();
        assert_eq!(phone.next_status().await["status"], "reconnecting");
        let mut answers = [phone.next_response().await, phone.next_response().await];
        answers.sort_by_key(|answer| answer["id"] == "behind");
        let expected: [Value; 2] = [pending("begun", true), pending("behind", false)];
        assert_eq!(answers, expected);
        relay.until_gone(port).await;
    }
    let mut desktop = relay.connect(&device).await;
    phone.request("last", "m", json!(1)).await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!(2)).await;
    assert_eq!(phone.next_response().await["result"], 2);
    phone.next_status().await;
    phone.assert_all_read();
}
