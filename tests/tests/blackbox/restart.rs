//! What devices see of a relay that is restarted, or that died (PR-6, PR-8, SES-5).

use relay_tests::blackbox::{Account, Device, Relay, Site, Socket, failure, pending};
use serde_json::json;

/// Relays that are taken for lost soon after their last word.
const SHORT_LEASES: [(&str, &str); 4] = [
    ("presence.instance_renewal", "100ms"),
    ("presence.instance_lease", "1s"),
    ("presence.sweep_interval", "100ms"),
    ("presence.startup_grace", "0ms"),
];

/// A relay that stops, be it gently or not, with one desktop connected, and its successor.
async fn successor(settings: &[(&str, &str)], gentle: bool) -> (Relay, Device, Device) {
    let relay = Site::new(settings).start().await;
    let desktop = relay.desktop(&Account::new()).await;
    let phone = relay.phone(&desktop.device).await;
    let devices = (desktop.device.clone(), phone.device.clone());
    relay.until_listed_as(&devices.0, "online").await;
    // The list is ahead of the rows, which are written in batches; PR-8 is about the rows.
    let row = "SELECT count(*) AS number FROM devices WHERE device_type = 'desktop' AND status = 'online'";
    let written = async || relay.site().database().number(row) == 1;
    relay.eventually("the row", written).await;
    let relay = if gentle {
        relay.restart().await
    } else {
        relay.crash().await
    };
    (relay, devices.0, devices.1)
}

async fn connect_phone(relay: &Relay, phone: &Device, status: &str) -> Socket {
    let mut phone = relay.connect(phone).await;
    let event = phone.next_status().await;
    assert_eq!(event["status"], status, "{event}");
    phone
}

/// PR-8: after a restart and after a crash a desktop is expected back, and is not shown as gone.
#[tokio::test]
async fn a_desktop_is_expected_back() {
    for gentle in [true, false] {
        let (relay, desktop, phone) = successor(&[], gentle).await;
        assert_eq!(
            relay.listed(&desktop).await["status"],
            "reconnecting",
            "gentle: {gentle}"
        );
        let mut phone = connect_phone(&relay, &phone, "reconnecting").await;
        phone.request("early", "m", json!(1)).await;
        assert_eq!(phone.next_response().await, pending("early", false));
        let mut desktop = relay.connect(&desktop).await;
        assert_eq!(phone.next_status().await["status"], "online");
        phone.request("r", "m", json!(1)).await;
        let request = desktop.next_request().await;
        desktop.answer(&request, json!("back")).await;
        assert_eq!(phone.next_response().await["result"], "back");
        phone.assert_quiet_behind(&mut desktop).await;
    }
}

/// PR-8, PR-2: a desktop that does not come back after a restart is gone in the end.
#[tokio::test]
async fn a_desktop_that_does_not_come_back_is_gone() {
    let settings = [("presence.startup_grace", "1s")];
    let (relay, desktop, phone) = successor(&settings, true).await;
    let mut phone = connect_phone(&relay, &phone, "reconnecting").await;
    let event = phone.next_status().await;
    assert_eq!(event["status"], "disconnected");
    assert_eq!(event["reason"], "reconnect_timeout");
    phone.request("r", "m", json!(1)).await;
    let offline = failure("r", -32010, "Desktop is offline", false, false);
    assert_eq!(phone.next_response().await, offline);
    assert_eq!(relay.listed(&desktop).await["status"], "offline");
}

/// PR-8: a desktop that was offline before the restart is not expected.
#[tokio::test]
async fn a_desktop_that_was_gone_before_is_not_expected() {
    let relay = Relay::start_with(&[("presence.reconnect_grace", "50ms")]).await;
    let desktop = relay.desktop(&Account::new()).await;
    let device = desktop.device.clone();
    let phone = relay.phone(&device).await.device;
    desktop.close().await;
    relay.until_listed_as(&device, "offline").await;
    let row = "SELECT count(*) AS number FROM devices WHERE offline_reason = 'reconnect_timeout'";
    relay
        .eventually("the row", async || relay.site().database().number(row) == 1)
        .await;
    let relay = relay.restart().await;
    assert_eq!(relay.listed(&device).await["status"], "offline");
    connect_phone(&relay, &phone, "disconnected").await;
}

/// PR-6: rows of a relay that died are corrected, with the reason; those of a live one beside it
/// are left alone.
#[tokio::test]
async fn rows_of_a_dead_relay_are_corrected() {
    let site = Site::new(&SHORT_LEASES);
    let doomed = site.start().await;
    let living = site.start().await;
    let account = Account::new();
    let lost = doomed.desktop(&account).await.device;
    let kept = living.desktop(&account).await;
    // The connection of `lost` ended with its socket; the row is what matters here.
    let lost_socket = doomed.connect(&lost).await;
    let online = "SELECT count(*) AS number FROM devices WHERE status = 'online'";
    living
        .eventually("both rows", async || site.database().number(online) == 2)
        .await;
    let successor = doomed.crash().await;
    drop(lost_socket);
    let corrected = "SELECT count(*) AS number FROM devices WHERE offline_reason = 'relay_lost'";
    living
        .eventually("the correction", async || {
            site.database().number(corrected) == 1
        })
        .await;
    assert_eq!(site.database().number(online), 1);
    let listed = living.listed(&lost).await;
    assert_eq!(listed["status"], "offline");
    assert_eq!(listed["offlineReason"], "relay_lost");
    assert_eq!(living.listed(&kept.device).await["status"], "online");
    drop(successor);
}

/// PR-6: a relay that stood still for longer than its lease, and was taken for lost by another, puts the
/// rows of its devices right when it goes on; their connections have not noticed.
#[tokio::test]
async fn a_relay_that_stood_still_puts_its_rows_right() {
    let site = Site::new(&SHORT_LEASES);
    let still = site.start().await;
    let other = site.start().await;
    let mut desktop = still.desktop(&Account::new()).await;
    let mut phone = still.phone(&desktop.device).await;
    for device in [&desktop.device, &phone.device] {
        other.until_listed_as(device, "online").await;
    }
    still.signal("STOP").await;
    for device in [&desktop.device, &phone.device] {
        other.until_listed_as(device, "offline").await;
    }
    still.signal("CONT").await;
    for device in [&desktop.device, &phone.device] {
        other.until_listed_as(device, "online").await;
    }
    phone.request("r", "m", json!(1)).await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!("still here")).await;
    assert_eq!(phone.next_response().await["result"], "still here");
}

/// PR-6, DR-3: a relay that stops leaves its rows offline, with the reason.
#[tokio::test]
async fn a_stopped_relay_leaves_its_rows_offline() {
    let relay = Relay::start_with(&[("presence.startup_grace", "0ms")]).await;
    let desktop = relay.desktop(&Account::new()).await;
    let phone = relay.phone(&desktop.device).await;
    for device in [&desktop.device, &phone.device] {
        relay.until_listed_as(device, "online").await;
    }
    let relay = relay.restart().await;
    for device in [&desktop.device, &phone.device] {
        let listed = relay.listed(device).await;
        assert_eq!(listed["status"], "offline");
        assert_eq!(listed["offlineReason"], "relay_stopped");
    }
}

/// SES-5, REG-4: after a restart no session can be resumed; the same socket registers anew.
#[tokio::test]
async fn sessions_do_not_outlive_their_relay() {
    let relay = Relay::start().await;
    let desktop = relay.desktop(&Account::new()).await;
    let (device, former) = (desktop.device.clone(), desktop.session.clone());
    let relay = relay.restart().await;
    let mut socket = relay.upgrade(&device).await;
    socket.resume(&former).await;
    assert_eq!(socket.session["code"], "invalidResume");
    socket.register().await;
    assert_ne!(socket.session["relayInstanceId"], former["relayInstanceId"]);
}
