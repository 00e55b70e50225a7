//! Registrations over the socket and over HTTP: which one counts, and what waits for it.

use std::time::Duration;

use relay_model::store::{DesktopRegistration, DeviceStatus, DeviceType, RegistrationOutcome};
use relay_tests::paused::{Run, pass};
use serde_json::json;

/// REG-6, REG-11: a registration that was read earlier, but checked later, never replaces a newer
/// one: its socket is closed 4410.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_slow_registration_does_not_replace_a_newer_one() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    let mut slow = run.connect(account, DeviceType::Desktop, id, None).await;
    run.store.set_delay(Duration::from_secs(3));
    slow.send_register(json!({})).await;
    pass(Duration::from_secs(1)).await;
    run.store.set_delay(Duration::ZERO);
    let mut fast = run.desktop_again(account, id).await;
    assert_eq!(slow.next_close().await, 4410);
    let mut phone = run.phone(account, id).await;
    phone.request("a").await;
    assert_eq!(fast.next_request().await, "a");
}

/// REG-4: a database that is away, or too slow, is the relay's fault and says so.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_registration_without_the_database_is_refused() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    for fault in ["away", "slow"] {
        run.store.set_failing(fault == "away");
        run.store
            .set_delay(Duration::from_secs(if fault == "slow" { 6 } else { 0 }));
        let mut desktop = run.connect(account, DeviceType::Desktop, id, None).await;
        desktop.register_with(json!({})).await;
        assert_eq!(desktop.session["code"], "relayUnavailable", "{fault}");
        assert_eq!(desktop.session["requestType"], "register");
        assert_eq!(desktop.next_close().await, 1011);
    }
    run.store.set_failing(false);
    run.store.set_delay(Duration::from_secs(4));
    run.desktop_again(account, id).await;
}

/// REG-1: while a registration is checked, pings are answered, events refused, requests wait and
/// are handled after the reply, which comes before them and before any status (REG-7).
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn frames_during_a_registration() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let id = run.phone_row(account).await;
    run.store.set_delay(Duration::from_secs(2));
    let mut phone = run
        .connect(account, DeviceType::Mobile, id, Some(desktop.id))
        .await;
    phone.request("before").await;
    assert_eq!(phone.next().await["code"], "registrationRequired");
    phone.send_register(json!({})).await;
    phone.send(json!({"type": "heartbeat"})).await;
    phone.request("behind").await;
    phone.event("x", json!(1)).await;
    phone.send(json!({"type": "ping"})).await;
    assert_eq!(phone.next().await["code"], "registrationRequired");
    assert_eq!(phone.next().await["type"], "pong");
    assert_eq!(phone.next().await["type"], "registered");
    assert_eq!(phone.next_status().await.0, "online");
    assert_eq!(phone.next().await["type"], "pong", "the heartbeat");
    assert_eq!(desktop.next_request().await, "behind");
}

/// REG-10: registering again on a socket is answered like a new registration; another device id is
/// refused and closes.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn registering_again() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    phone.request("a").await;
    desktop.next_request().await;
    let first = desktop.session["sessionId"].clone();
    desktop.register().await;
    assert_ne!(desktop.session["sessionId"], first);
    assert_eq!(phone.next_status().await.0, "online");
    desktop.answer("a", json!(1)).await;
    assert_eq!(
        phone.next_result().await.0,
        "a",
        "its requests are still its own"
    );
    phone.register_with(json!({"deviceId": desktop.id})).await;
    assert_eq!(phone.session["code"], "invalidDeviceId");
    assert_eq!(phone.next_close().await, 1008);
}

/// PR-6: a device that registers over HTTP while it is connected is told so, also before the database
/// has heard of its connection.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn http_registration_tells_the_presence_that_holds() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    run.store.set_delay(Duration::from_secs(4));
    let _desktop = run.desktop_again(account, id).await;
    run.store.set_delay(Duration::ZERO);
    let registration = DesktopRegistration {
        device_name: "desk".to_owned(),
        platform: "linux".to_owned(),
        platform_version: None,
        app_version: "2".to_owned(),
        capabilities: None,
        relay_eligible: None,
        rejoin: false,
    };
    let outcome = run.relay.register_desktop(account, id, registration).await;
    let Ok(RegistrationOutcome::Registered(changed)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(changed.row.status, DeviceStatus::Online);
    let stored = run.store.row(id).expect("a row");
    assert_eq!(
        stored.status,
        DeviceStatus::Offline,
        "the write is under way"
    );
}
