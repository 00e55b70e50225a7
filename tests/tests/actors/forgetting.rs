//! Devices that their user forgets, through the real actors on a paused clock.

use std::time::Duration;

use futures_util::future::join;
use relay_model::ids::{AccountId, DeviceId};
use relay_model::limits::{
    DATABASE_TIMEOUT, DESKTOP_RECONNECT_GRACE, PRESENCE_WRITE_INTERVAL, REGISTRATION_TIMEOUT,
};
use relay_model::store::{
    DesktopRegistration, DeviceFilter, DeviceStatus, DeviceType, OfflineReason, PhoneRegistration,
    RegistrationOutcome,
};
use relay_tests::memory_store::MemoryStore;
use relay_tests::paused::{Device, Received, Run, pass};
use serde_json::{Value, json};

const MOMENT: Duration = Duration::from_millis(5);
const SLOW: Duration = Duration::from_secs(4);

async fn forget(run: &Run, account: AccountId, device: DeviceId) {
    let forgotten = run.relay.forget_device(account, device).await;
    assert_eq!(forgotten, Ok(true));
}

/// Registers the device's row again, on its user's word.
async fn rejoin(run: &Run, account: AccountId, device: DeviceId, device_type: DeviceType) {
    let outcome = match device_type {
        DeviceType::Desktop => {
            let desktop = DesktopRegistration {
                device_name: "desk".to_owned(),
                platform: "linux".to_owned(),
                platform_version: None,
                app_version: "1".to_owned(),
                capabilities: None,
                relay_eligible: None,
                rejoin: true,
            };
            run.relay.register_desktop(account, device, desktop).await
        }
        DeviceType::Mobile => {
            let phone = PhoneRegistration {
                device_name: "phone".to_owned(),
                platform: "ios".to_owned(),
                app_version: "1".to_owned(),
                capabilities: None,
                rejoin: true,
                push_token: None,
            };
            run.relay.register_phone(account, device, phone).await
        }
    };
    assert!(matches!(outcome, Ok(RegistrationOutcome::Registered(_))));
}

/// A row of either type.
async fn row_of(run: &Run, account: AccountId, device_type: DeviceType) -> DeviceId {
    match device_type {
        DeviceType::Desktop => run.desktop_row(account).await,
        DeviceType::Mobile => run.phone_row(account).await,
    }
}

/// The next frame, which must be the relay's word that this device is forgotten.
async fn hears_unlinked(device: &mut Device, forgotten: DeviceId) {
    let frame = device.next().await;
    assert_eq!(
        (&frame["type"], &frame["sourceDeviceId"], &frame["payload"]),
        (
            &json!("event"),
            &Value::Null,
            &json!({"eventType": "device-unlinked", "payload": {"deviceId": forgotten}})
        ),
        "{frame}"
    );
}

async fn is_refused(device: &mut Device) {
    let refusal = device.next().await;
    assert_eq!(
        (&refusal["type"], &refusal["code"], &refusal["requestType"]),
        (
            &json!("error"),
            &json!("desktopForgotten"),
            &json!("register")
        ),
        "{refusal}"
    );
    assert_eq!(device.next_close().await, 4403);
}

/// EV-3, PR-4, RPC-4: a forgotten desktop is told, then closed 4403; all others are told, and that it
/// is gone, without a grace; open requests get -32011, new ones -32010; its row is offline at once.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_forgotten_desktop_is_gone_at_once() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let id = desktop.id;
    let mut phone = run.phone(account, id).await;
    let mut other = run.desktop(account).await;
    assert_eq!(desktop.next_status().await.0, "online");
    assert_eq!(phone.next_status().await.0, "online");
    let mut stranger = run.desktop(run.account()).await;
    phone.request("open").await;
    desktop.next_request().await;

    forget(&run, account, id).await;
    let row = run.store.row(id).expect("the row stays");
    assert_eq!(row.status, DeviceStatus::Offline, "in the same transaction");
    hears_unlinked(&mut desktop, id).await;
    assert_eq!(desktop.next_close().await, 4403);
    hears_unlinked(&mut phone, id).await;
    let (failure, status) = {
        let (first, second) = (phone.next().await, phone.next().await);
        match first["type"].as_str() {
            Some("event") => (second, first),
            _ => (first, second),
        }
    };
    let told = &status["payload"]["payload"];
    assert_eq!(
        (&told["status"], &told["reason"], &told["deviceId"]),
        (&json!("disconnected"), &json!("unlinked"), &json!(id))
    );
    let error = &failure["payload"]["error"];
    assert_eq!(
        (&error["code"], &error["data"]["delivered"]),
        (&json!(-32011), &json!(true)),
        "{failure}"
    );
    hears_unlinked(&mut other, id).await;
    assert_eq!(other.next_status().await.0, "disconnected");
    phone.request("new").await;
    assert_eq!(phone.next_failure().await.1["code"], json!(-32010));

    // Presence is written in batches.
    pass(2 * PRESENCE_WRITE_INTERVAL).await;
    let row = run.store.row(id).expect("the row stays");
    assert_eq!(
        (row.status, row.offline_reason),
        (DeviceStatus::Offline, Some(OfflineReason::Unlinked))
    );
    let listed = run.relay.devices(account, DeviceFilter::default()).await;
    assert!(listed.unwrap().iter().all(|row| row.id != id));
    let ends = run.store.history(id);
    let ends = ends.iter().filter(|change| change.status == "offline");
    assert_eq!(ends.count(), 1, "the history has its end once");

    phone
        .hears_nothing_for(DESKTOP_RECONNECT_GRACE + MOMENT)
        .await;
    for device in [&mut other, &mut stranger] {
        device.hears_nothing_for(MOMENT).await;
    }
    let state = run.state().await;
    assert_eq!((state.graces, state.directory.removals), (0, 0));
    assert_eq!((state.directory.routes, state.sessions), (3, 3));
}

/// RPC-5, PR-4: of requests that are on their way to a desktop that reads nothing, each is called
/// delivered or not as it is: what is not never leaves.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn delivered_is_exact_when_a_desktop_is_forgotten() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let id = desktop.id;
    let mut phone = run.phone(account, id).await;
    let pad = "x".repeat(12 * 1024);
    for number in 0..6 {
        let payload = json!({"id": number.to_string(), "method": "m", "params": pad});
        phone
            .send(json!({"type": "rpc.request", "payload": payload}))
            .await;
    }
    pass(MOMENT).await;
    forget(&run, account, id).await;
    let mut delivered = Vec::new();
    let mut undelivered = Vec::new();
    while delivered.len() + undelivered.len() < 6 {
        let frame = phone.next().await;
        if frame["type"] == "rpc.response" {
            let error = &frame["payload"]["error"];
            assert_eq!(error["code"], json!(-32011));
            let id = frame["payload"]["id"].as_str().expect("an id").to_owned();
            match error["data"]["delivered"].as_bool() {
                Some(true) => delivered.push(id),
                _ => undelivered.push(id),
            }
        }
    }
    assert!(!delivered.is_empty() && !undelivered.is_empty());
    let mut came = Vec::new();
    loop {
        match desktop.receive_within(SLOW).await {
            Some(Received::Frame(frame)) if frame["type"] == "rpc.request" => {
                came.push(frame["payload"]["id"].as_str().expect("an id").to_owned());
            }
            Some(Received::Frame(_)) => {}
            Some(Received::Close(code)) => {
                assert_eq!(code, 4403);
                break;
            }
            Some(Received::End) | None => break,
        }
    }
    assert!(came.iter().all(|id| delivered.contains(id)), "{came:?}");
}

/// PR-4, TL-3, RPC-2: a forgotten phone is told and closed 4403; its lease ends, and so does what it
/// waits for: an answer that comes later is for nobody, not even for the phone that has rejoined.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_forgotten_phone_leaves_nothing() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let (id, target) = (phone.id, desktop.id);
    phone.interest("s", true).await;
    assert_eq!(desktop.next_lease_state().await["active"], json!(true));
    phone.request("open").await;
    desktop.next_request().await;

    forget(&run, account, id).await;
    hears_unlinked(&mut phone, id).await;
    assert_eq!(phone.next_close().await, 4403);
    let (first, second) = (desktop.next().await, desktop.next().await);
    let types = [&first, &second].map(|frame| frame["payload"]["eventType"].clone());
    assert!(types.contains(&json!("device-unlinked")), "{types:?}");
    let lease = [first, second]
        .into_iter()
        .find(|frame| frame["payload"]["eventType"] == "chat:timeline-interest-updated")
        .expect("its lease has ended");
    assert_eq!(lease["payload"]["payload"]["active"], json!(false));
    let pair = async || run.relay.pair_state(account, target).await.unwrap();
    let state = pair().await.expect("the desktop is there");
    assert_eq!((state.phones, state.pending, state.leases), (0, 0, 0));

    let mut refused = run.connect(account, DeviceType::Mobile, id, None).await;
    refused.send_register(json!({})).await;
    is_refused(&mut refused).await;

    rejoin(&run, account, id, DeviceType::Mobile).await;
    let mut back = run.phone_again(account, id, target).await;
    desktop.answer("open", json!("late")).await;
    back.hears_nothing_for(MOMENT).await;
    let state = pair().await.expect("the desktop is there");
    assert_eq!(state.counts.unknown_responses, 1);
    back.request("open").await;
    assert_eq!(desktop.next_request().await, "open");
}

/// PR-4: a phone that is away is forgotten with all that it waits for.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_phone_that_is_away_is_forgotten_with_its_requests() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let id = phone.id;
    phone.request("open").await;
    desktop.next_request().await;
    phone.close().await;
    forget(&run, account, id).await;
    hears_unlinked(&mut desktop, id).await;
    let state = run.relay.pair_state(account, desktop.id).await.unwrap();
    assert_eq!(state.expect("the desktop is there").pending, 0);
}

/// PR-4, PR-7: a desktop that is forgotten within its grace is gone at once, and its timer does nothing.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_desktop_that_is_forgotten_within_its_grace() {
    let run = Run::start();
    let account = run.account();
    let desktop = run.desktop(account).await;
    let id = desktop.id;
    let mut phone = run.phone(account, id).await;
    desktop.vanish();
    assert_eq!(phone.next_status().await.0, "reconnecting");
    pass(DESKTOP_RECONNECT_GRACE - MOMENT).await;
    forget(&run, account, id).await;
    hears_unlinked(&mut phone, id).await;
    let status = phone.next().await;
    assert_eq!(status["payload"]["payload"]["reason"], json!("unlinked"));
    phone.request("r").await;
    assert_eq!(phone.next_failure().await.1["code"], json!(-32010));
    phone.hears_nothing_for(2 * DESKTOP_RECONNECT_GRACE).await;

    let mut refused = run.connect(account, DeviceType::Desktop, id, None).await;
    refused.send_register(json!({})).await;
    is_refused(&mut refused).await;
    phone.hears_nothing_for(MOMENT).await;
}

/// EV-3, HTTP-1: a device that is not connected is forgotten and all are told; what is unknown or
/// another account's is not there to be forgotten.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn what_is_not_connected_is_forgotten_too() {
    let run = Run::start();
    let (ours, theirs) = (run.account(), run.account());
    let mut witness = run.desktop(ours).await;
    let mut desktop = run.desktop(theirs).await;
    for device in [desktop.id, DeviceId::from_uuid(uuid::Uuid::nil())] {
        assert_eq!(run.relay.forget_device(ours, device).await, Ok(false));
    }
    desktop.hears_nothing_for(MOMENT).await;
    witness.hears_nothing_for(MOMENT).await;
    for device_type in [DeviceType::Desktop, DeviceType::Mobile] {
        let away = row_of(&run, ours, device_type).await;
        forget(&run, ours, away).await;
        hears_unlinked(&mut witness, away).await;
        forget(&run, ours, away).await;
        witness.hears_nothing_for(MOMENT).await;
    }
}

/// PR-4: forgotten twice at once: all are told once, and both callers that it is done.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_device_is_forgotten_once() {
    for delay in [Duration::ZERO, SLOW] {
        let run = Run::start();
        let account = run.account();
        let mut desktop = run.desktop(account).await;
        let id = desktop.id;
        let mut phone = run.phone(account, id).await;
        run.store.set_delay(delay);
        let twice = join(
            run.relay.forget_device(account, id),
            run.relay.forget_device(account, id),
        );
        assert_eq!(twice.await, (Ok(true), Ok(true)));
        hears_unlinked(&mut desktop, id).await;
        assert_eq!(desktop.next_close().await, 4403);
        hears_unlinked(&mut phone, id).await;
        assert_eq!(phone.next_status().await.0, "disconnected");
        phone.hears_nothing_for(2 * DESKTOP_RECONNECT_GRACE).await;
        assert_eq!(run.state().await.directory.removals, 0);
    }
}

/// PR-4: all are told once also if the answer to who forgot the device comes after the one to who came
/// too late, and acted on it.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_device_is_forgotten_once_whoever_hears_first() {
    for device_type in [DeviceType::Desktop, DeviceType::Mobile] {
        for is_here in [true, false] {
            let run = Run::start();
            let account = run.account();
            let mut witness = run.desktop(account).await;
            let id = row_of(&run, account, device_type).await;
            let _device = if !is_here {
                None
            } else if device_type == DeviceType::Desktop {
                Some(run.desktop_again(account, id).await)
            } else {
                Some(run.phone_again(account, id, witness.id).await)
            };
            let first = async {
                run.store.set_answer_delay(SLOW);
                let forgotten = run.relay.forget_device(account, id).await;
                (forgotten, tokio::time::Instant::now())
            };
            let second = async {
                pass(MOMENT).await;
                run.store.set_answer_delay(Duration::ZERO);
                let forgotten = run.relay.forget_device(account, id).await;
                (forgotten, tokio::time::Instant::now())
            };
            let (first, second) = join(first, second).await;
            assert_eq!((first.0, second.0), (Ok(true), Ok(true)));
            assert!(second.1 < first.1);
            if device_type == DeviceType::Desktop && is_here {
                assert_eq!(witness.next_status().await.0, "online");
            }
            hears_unlinked(&mut witness, id).await;
            if device_type == DeviceType::Desktop && is_here {
                assert_eq!(witness.next_status().await.0, "disconnected");
            }
            witness.hears_nothing_for(MOMENT).await;
        }
    }
}

/// PR-4: what was stored after its caller was told that it failed is acted on when it is asked again.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_forget_that_was_stored_too_late_is_made_up_for() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let id = desktop.id;
    run.store.set_delay(DATABASE_TIMEOUT + MOMENT);
    assert!(run.relay.forget_device(account, id).await.is_err());
    run.store.set_delay(Duration::ZERO);
    desktop.hears_nothing_for(2 * MOMENT).await;
    let row = run.store.row(id).expect("the row stays");
    assert_eq!(row.offline_reason, Some(OfflineReason::Unlinked));
    forget(&run, account, id).await;
    hears_unlinked(&mut desktop, id).await;
    assert_eq!(desktop.next_close().await, 4403);
}

/// PR-4: whoever asked for it and hung up is obeyed all the same; without the database nothing happens
/// at all.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn what_is_stored_is_acted_on() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let id = desktop.id;
    run.store.set_failing(true);
    assert!(run.relay.forget_device(account, id).await.is_err());
    desktop.hears_nothing_for(MOMENT).await;
    run.store.set_failing(false);
    run.store.set_delay(SLOW);
    let hung_up = tokio::time::timeout(MOMENT, run.relay.forget_device(account, id));
    assert!(hung_up.await.is_err());
    hears_unlinked(&mut desktop, id).await;
    assert_eq!(desktop.next_close().await, 4403);
}

/// REG-11: a forget between the check of a registration and its attach wins, one that a rejoin took back
/// meanwhile does not, and neither is remembered for longer than a registration may take.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_forget_during_a_registration_wins() {
    for device_type in [DeviceType::Desktop, DeviceType::Mobile] {
        for rejoined in [false, true] {
            let run = Run::start();
            let account = run.account();
            let mut witness = run.desktop(account).await;
            let id = row_of(&run, account, device_type).await;
            let mut device = run.connect(account, device_type, id, None).await;
            // The facts are read before, and known to the registration after the forget.
            run.store.set_answer_delay(SLOW);
            device.send_register(json!({})).await;
            pass(MOMENT).await;
            run.store.set_answer_delay(Duration::ZERO);
            forget(&run, account, id).await;
            hears_unlinked(&mut witness, id).await;
            if rejoined {
                rejoin(&run, account, id, device_type).await;
                assert_eq!(device.next().await["type"], "registered");
            } else {
                is_refused(&mut device).await;
                witness.hears_nothing_for(MOMENT).await;
                assert_eq!(run.state().await.sessions, 1);
            }
            assert_eq!(run.state().await.directory.removals, 1);
            pass(DATABASE_TIMEOUT + REGISTRATION_TIMEOUT).await;
            assert_eq!(run.state().await.directory.removals, 0);
        }
    }
}

/// REG-11: a registration that reads its facts after the forget was stored is refused by them.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_registration_behind_a_forget_is_refused() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    let mut device = run.connect(account, DeviceType::Desktop, id, None).await;
    run.store.set_delay(SLOW);
    device.send_register(json!({})).await;
    pass(MOMENT).await;
    run.store.set_delay(Duration::ZERO);
    forget(&run, account, id).await;
    is_refused(&mut device).await;
}

/// REG-10, PR-4: a connection that is about to register again when its device is forgotten is told and
/// closed as any other.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_connection_that_registers_again_is_closed() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let id = desktop.id;
    run.store.set_answer_delay(SLOW);
    desktop.send_register(json!({})).await;
    pass(MOMENT).await;
    run.store.set_answer_delay(Duration::ZERO);
    forget(&run, account, id).await;
    hears_unlinked(&mut desktop, id).await;
    is_refused(&mut desktop).await;
    pass(SLOW).await;
    assert_eq!(run.state().await.directory.routes, 0);
}

/// SES-1, PR-4: the session ends with the device: after a rejoin it cannot be resumed.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_session_ends_with_its_device() {
    for connected in [true, false] {
        let run = Run::start();
        let account = run.account();
        let desktop = run.desktop(account).await;
        let (id, resume) = (desktop.id, desktop.resume());
        let kept = connected.then_some(desktop);
        pass(MOMENT).await;
        forget(&run, account, id).await;
        assert_eq!(run.state().await.sessions, 0);
        rejoin(&run, account, id, DeviceType::Desktop).await;
        let mut back = run.connect(account, DeviceType::Desktop, id, None).await;
        back.register_with(resume).await;
        assert_eq!(back.session["code"], json!("invalidResume"));
        back.register().await;
        drop(kept);
    }
}

/// REG-11, PR-8: a desktop that is forgotten while a phone registers for it is not waited for, although
/// another relay knew it a moment ago.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_forgotten_target_is_not_waited_for() {
    for forgotten in [false, true] {
        let store = MemoryStore::new();
        let old = Run::on_store(store.clone(), |_| ());
        let account = old.account();
        let desktop = old.desktop(account).await;
        let id = desktop.id;
        pass(Duration::from_secs(1)).await;
        old.drain().await;
        let new = Run::on_store(store, |_| ());
        let phone_id = new.phone_row(account).await;
        let mut phone = new
            .connect(account, DeviceType::Mobile, phone_id, Some(id))
            .await;
        new.store.set_answer_delay(SLOW);
        phone.send_register(json!({})).await;
        pass(MOMENT).await;
        new.store.set_answer_delay(Duration::ZERO);
        if forgotten {
            forget(&new, account, id).await;
        }
        assert_eq!(phone.next().await["type"], "registered");
        let expected = if forgotten {
            "disconnected"
        } else {
            "reconnecting"
        };
        assert_eq!(phone.next_status().await.0, expected);
    }
}

/// PR-4: everything of a forgotten device is gone in the end, also if all were forgotten.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn nothing_is_left_when_all_are_forgotten() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    phone.interest("s", true).await;
    phone.request("r").await;
    pass(MOMENT).await;
    for id in [desktop.id, phone.id] {
        forget(&run, account, id).await;
    }
    for device in [&mut desktop, &mut phone] {
        while let Received::Frame(_) = device.receive_within(SLOW).await.expect("a close") {}
    }
    drop((desktop, phone));
    pass(DATABASE_TIMEOUT + REGISTRATION_TIMEOUT + MOMENT).await;
    assert_eq!(run.state().await, Default::default());
}
