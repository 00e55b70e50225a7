//! Events that change the sender's row, and desktops that are hidden, through the real actors on a
//! paused clock.

use std::time::Duration;

use relay_model::ids::{AccountId, DeviceId};
use relay_model::limits::{
    DATABASE_TIMEOUT, DESKTOP_RECONNECT_GRACE, PRESENCE_WRITE_INTERVAL, REGISTRATION_TIMEOUT,
    WAITING_EVENTS,
};
use relay_model::store::{
    DesktopRegistration, DeviceChange, DeviceStatus, DeviceType, OfflineReason,
};
use relay_tests::paused::{Device, Received, Run, pass};
use serde_json::{Value, json};

const MOMENT: Duration = Duration::from_millis(5);
const SLOW: Duration = Duration::from_secs(4);

const HIDE: DeviceChange = DeviceChange {
    device_name: None,
    relay_eligible: Some(false),
    project_directory: None,
};
const SHOW: DeviceChange = DeviceChange {
    relay_eligible: Some(true),
    ..HIDE
};

/// What the ways to hide a connected desktop are (EV-5).
#[derive(Debug, Clone, Copy)]
enum Way {
    Event,
    Patch,
    HttpRegistration,
}

const WAYS: [Way; 3] = [Way::Event, Way::Patch, Way::HttpRegistration];

fn registration(relay_eligible: Option<bool>) -> DesktopRegistration {
    DesktopRegistration {
        device_name: "desk".to_owned(),
        platform: "linux".to_owned(),
        platform_version: None,
        app_version: "1".to_owned(),
        capabilities: None,
        relay_eligible,
        rejoin: false,
    }
}

async fn change(run: &Run, account: AccountId, device: DeviceId, change: DeviceChange) {
    let changed = run.relay.change_device(account, device, change).await;
    assert!(matches!(changed, Ok(Some(_))), "{changed:?}");
}

async fn hide(run: &Run, way: Way, desktop: &mut Device) {
    let (account, id) = (desktop.account, desktop.id);
    match way {
        Way::Event => {
            let hidden = json!({"visible": false, "why": [1.50]});
            desktop.event("device-visibility-updated", hidden).await;
        }
        Way::Patch => change(run, account, id, HIDE).await,
        Way::HttpRegistration => {
            let hidden = registration(Some(false));
            let outcome = run.relay.register_desktop(account, id, hidden).await;
            assert!(outcome.is_ok(), "{outcome:?}");
        }
    }
}

/// The next two frames, whichever comes first: a status may overtake an event.
async fn next_two(device: &mut Device) -> (Value, Value) {
    let (first, second) = (device.next().await, device.next().await);
    if first["payload"]["eventType"] == "device-status" {
        (second, first)
    } else {
        (first, second)
    }
}

fn assert_error(frame: &Value, code: &str) {
    assert_eq!(
        (&frame["type"], &frame["code"]),
        (&json!("error"), &json!(code)),
        "{frame}"
    );
}

/// EV-4, EV-5, PR-4: however a connected desktop is hidden: stored, told to all, `disconnected` with
/// reason `hidden` and no grace, closed with 4403; open requests get -32011, new ones -32010.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_desktop_that_is_hidden_is_gone_at_once() {
    for way in WAYS {
        let run = Run::start();
        let account = run.account();
        let mut desktop = run.desktop(account).await;
        let id = desktop.id;
        let mut phone = run.phone(account, id).await;
        phone.request("open").await;
        desktop.next_request().await;
        hide(&run, way, &mut desktop).await;

        let mut frames = [phone.next().await, phone.next().await, phone.next().await];
        frames.sort_by_key(|frame| frame["payload"]["eventType"].to_string());
        let [status, visibility, failure] = &frames;
        assert_eq!(visibility["sourceDeviceId"], json!(id), "{way:?}");
        assert_eq!(visibility["payload"]["payload"]["visible"], json!(false));
        let told = &status["payload"]["payload"];
        assert_eq!(
            (&told["status"], &told["reason"], &told["deviceId"]),
            (&json!("disconnected"), &json!("hidden"), &json!(id)),
            "{way:?}"
        );
        let error = &failure["payload"]["error"];
        assert_eq!(
            (&error["code"], &error["data"]["delivered"]),
            (&json!(-32011), &json!(true)),
            "{way:?} {failure}"
        );
        assert_eq!(desktop.next_close().await, 4403, "{way:?}");
        phone.request("new").await;
        assert_eq!(phone.next_failure().await.1["code"], json!(-32010));

        // Presence is written in batches.
        pass(2 * PRESENCE_WRITE_INTERVAL).await;
        let row = run.store.row(id).expect("a row");
        assert!(!row.relay_eligible);
        assert_eq!(
            (row.status, row.offline_reason),
            (DeviceStatus::Offline, Some(OfflineReason::Hidden))
        );
        phone.hears_nothing_for(2 * DESKTOP_RECONNECT_GRACE).await;
        let state = run.state().await;
        assert_eq!((state.graces, state.directory.removals), (0, 0), "{way:?}");
    }
}

/// EV-1, TR-8: the event that hides goes on as it came, unknown fields and number forms included.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn the_event_goes_on_as_it_came() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let payload = r#"{ "projectDirectory":"\u00e9/x" , "n":1.50e0}"#;
    desktop
        .send_text(format!(
            r#"{{"type":"event","payload":{{"payload":{payload},"eventType":"project-directory-updated"}}}}"#
        ))
        .await;
    assert!(phone.next_text().await.contains(payload));
    let row = run.store.row(desktop.id).expect("a row");
    assert_eq!(row.active_project_directory.as_deref(), Some("é/x"));
}

/// EV-5, PR-4: a desktop that is hidden within its grace is gone at once; one that is not known here
/// is only stored, and told if the flag changed.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_desktop_that_is_hidden_while_away() {
    let run = Run::start();
    let account = run.account();
    let desktop = run.desktop(account).await;
    let id = desktop.id;
    let mut phone = run.phone(account, id).await;
    desktop.vanish();
    assert_eq!(phone.next_status().await.0, "reconnecting");
    change(&run, account, id, HIDE).await;
    let (visibility, status) = next_two(&mut phone).await;
    assert_eq!(visibility["payload"]["payload"], json!({"visible": false}));
    assert_eq!(status["payload"]["payload"]["reason"], json!("hidden"));
    phone.request("r").await;
    assert_eq!(phone.next_failure().await.1["code"], json!(-32010));

    change(&run, account, id, HIDE).await;
    phone.hears_nothing_for(MOMENT).await;
    change(&run, account, id, SHOW).await;
    let shown = phone.next().await;
    assert_eq!(shown["payload"]["payload"], json!({"visible": true}));
    change(&run, account, id, HIDE).await;
    let hidden = phone.next().await;
    assert_eq!(hidden["payload"]["payload"], json!({"visible": false}));
    phone.hears_nothing_for(2 * DESKTOP_RECONNECT_GRACE).await;
}

/// EV-5, REG-4: a hidden desktop is refused until HTTP shows it; its own `visible:true` shows
/// nothing, and a registration without the field keeps what is.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn only_http_shows_a_desktop_again() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let id = desktop.id;
    desktop
        .event("device-visibility-updated", json!({"visible": true}))
        .await;
    desktop.hears_nothing_for(MOMENT).await;
    hide(&run, Way::Event, &mut desktop).await;
    assert_eq!(desktop.next_close().await, 4403);

    let kept = run.relay.register_desktop(account, id, registration(None));
    assert!(kept.await.is_ok());
    let mut refused = run.connect(account, DeviceType::Desktop, id, None).await;
    refused.send_register(json!({})).await;
    assert_error(&refused.next().await, "desktopNotEligible");
    assert_eq!(refused.next_close().await, 4403);

    let shown = run
        .relay
        .register_desktop(account, id, registration(Some(true)));
    assert!(shown.await.is_ok());
    run.desktop_again(account, id).await;
}

/// EV-5: an own `visible:true` that is stored while HTTP hides the desktop does not undo it.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_late_visible_event_does_not_undo_a_hide() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    run.store.set_delay(SLOW);
    let hiding = run.relay.change_device(account, desktop.id, HIDE);
    let event = async {
        pass(SLOW / 2).await;
        desktop
            .event("device-visibility-updated", json!({"visible": true}))
            .await;
        desktop.next_close().await
    };
    let (hidden, closed) = futures_util::future::join(hiding, event).await;
    assert!(hidden.is_ok() && closed == 4403);
    let (visibility, _) = next_two(&mut phone).await;
    assert_eq!(visibility["payload"]["payload"], json!({"visible": false}));
    phone.hears_nothing_for(2 * SLOW).await;
    assert!(!run.store.row(desktop.id).expect("a row").relay_eligible);
}

/// REG-11: a hide between the check of a registration and its attach wins, one that was taken back
/// meanwhile does not, and neither is remembered for longer than a registration may take.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_hide_during_a_registration_wins() {
    for (shown_again, code) in [(false, "desktopNotEligible"), (true, "")] {
        let run = Run::start();
        let account = run.account();
        let id = run.desktop_row(account).await;
        let mut desktop = run.connect(account, DeviceType::Desktop, id, None).await;
        // The read looks at the data once its delay is over, then the answer is on its way: a
        // resume that is checked by another actor keeps the attach away for that long.
        run.store.set_answer_delay(SLOW);
        desktop.send_register(json!({})).await;
        pass(MOMENT).await;
        run.store.set_answer_delay(Duration::ZERO);
        change(&run, account, id, HIDE).await;
        if shown_again {
            change(&run, account, id, SHOW).await;
        }
        let reply = desktop.next().await;
        if shown_again {
            assert_eq!(reply["type"], "registered");
        } else {
            assert_error(&reply, code);
            assert_eq!(desktop.next_close().await, 4403);
        }
        assert_eq!(run.state().await.directory.removals, 1);
        pass(DATABASE_TIMEOUT + REGISTRATION_TIMEOUT).await;
        assert_eq!(run.state().await.directory.removals, 0);
    }
}

/// EV-4: while an event is stored only that sender's later events wait, in order; requests, pings and
/// the others' events pass.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn only_the_senders_later_events_wait() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    run.store.set_delay(SLOW);
    let event = |number: usize| json!({"projectDirectory": format!("/{number}")});
    phone.event("project-directory-updated", event(0)).await;
    phone.event("note", json!(1)).await;
    phone.event("project-directory-updated", event(2)).await;
    phone.event("note", json!(3)).await;
    phone.request("r").await;
    phone.send(json!({"type": "ping"})).await;
    assert_eq!(desktop.next_request().await, "r");
    assert_eq!(phone.next().await, json!({"type": "pong"}));
    desktop.event("note", json!("from another")).await;
    assert_eq!(
        phone.next().await["payload"]["payload"],
        json!("from another")
    );

    desktop.hears_nothing_for(SLOW - 2 * MOMENT).await;
    assert_eq!(desktop.next().await["payload"]["payload"], event(0));
    assert_eq!(desktop.next().await["payload"]["payload"], json!(1));
    desktop.hears_nothing_for(SLOW - 2 * MOMENT).await;
    assert_eq!(desktop.next().await["payload"]["payload"], event(2));
    assert_eq!(desktop.next().await["payload"]["payload"], json!(3));
    let row = run.store.row(phone.id).expect("a row");
    assert_eq!(row.active_project_directory.as_deref(), Some("/2"));
}

/// EV-4: an event that cannot be stored in time is not sent, its sender is told, and what waited
/// behind it is handled.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn what_cannot_be_stored_is_not_sent() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    run.store.set_delay(DATABASE_TIMEOUT + MOMENT);
    desktop
        .event("device-visibility-updated", json!({"visible": false}))
        .await;
    desktop.event("note", json!(1)).await;
    let refused = desktop.next().await;
    assert_error(&refused, "relayUnavailable");
    assert_eq!(refused["requestType"], "event");
    assert_eq!(phone.next().await["payload"]["payload"], json!(1));
    desktop.send(json!({"type": "ping"})).await;
    assert_eq!(desktop.next().await, json!({"type": "pong"}));

    run.store.set_delay(Duration::ZERO);
    run.store.set_failing(true);
    desktop
        .event(
            "project-directory-updated",
            json!({"projectDirectory": "/"}),
        )
        .await;
    assert_error(&desktop.next().await, "relayUnavailable");
    phone.hears_nothing_for(MOMENT).await;
}

/// EV-4: sixteen events wait, no more; the rest is refused and the order of those that were taken
/// holds.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn few_events_wait() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    run.store.set_delay(SLOW);
    let directory = json!({"projectDirectory": "/"});
    desktop.event("project-directory-updated", directory).await;
    for number in 0..WAITING_EVENTS + 2 {
        desktop.event("note", json!(number)).await;
    }
    for _ in 0..2 {
        assert_error(&desktop.next().await, "relayUnavailable");
    }
    let stored = phone.next().await;
    assert_eq!(stored["payload"]["eventType"], "project-directory-updated");
    for number in 0..WAITING_EVENTS {
        assert_eq!(phone.next().await["payload"]["payload"], json!(number));
    }
    phone.hears_nothing_for(MOMENT).await;
}

/// EV-4, REG-10: events that wait outlive a registration on the same socket, whatever its outcome.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn waiting_events_outlive_a_registration() {
    for target in [None, Some("no uuid")] {
        let run = Run::start();
        let account = run.account();
        let mut desktop = run.desktop(account).await;
        let mut phone = run.phone(account, desktop.id).await;
        run.store.set_delay(Duration::from_secs(2));
        let directory = json!({"projectDirectory": "/"});
        phone.event("project-directory-updated", directory).await;
        phone.event("note", json!(1)).await;
        pass(Duration::from_secs(1)).await;
        phone
            .send_register(json!({"targetDesktopDeviceId": target}))
            .await;
        let stored = desktop.next().await;
        assert_eq!(stored["payload"]["eventType"], "project-directory-updated");
        match target {
            None => assert_eq!(desktop.next().await["payload"]["payload"], json!(1)),
            Some(_) => assert_error(&phone.next().await, "invalidTargetDesktop"),
        }
    }
}

/// EV-4, EV-5: a desktop that hides itself and leaves without waiting is hidden all the same: what is
/// stored is acted on.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_sender_that_leaves_is_hidden_all_the_same() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    run.store.set_delay(SLOW);
    hide(&run, Way::Event, &mut desktop).await;
    pass(MOMENT).await;
    desktop.vanish();
    assert_eq!(phone.next_status().await.0, "reconnecting");
    let (visibility, status) = next_two(&mut phone).await;
    assert_eq!(visibility["payload"]["payload"]["visible"], json!(false));
    assert_eq!(status["payload"]["payload"]["reason"], json!("hidden"));
    phone.hears_nothing_for(2 * DESKTOP_RECONNECT_GRACE).await;
}

/// EV-5, REG-6, REG-11: a desktop that hides itself on a connection that is replaced while the row is
/// written is hidden all the same, and the newer connection goes with it.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_replaced_sender_is_hidden_all_the_same() {
    let run = Run::start();
    let account = run.account();
    let mut replaced = run.desktop(account).await;
    let id = replaced.id;
    let mut phone = run.phone(account, id).await;
    run.store.set_delay(SLOW);
    hide(&run, Way::Event, &mut replaced).await;
    pass(MOMENT).await;
    run.store.set_delay(Duration::ZERO);
    let mut newer = run.desktop_again(account, id).await;
    assert_eq!(replaced.next_close().await, 4410);
    assert_eq!(phone.next_status().await.0, "online");
    let (visibility, status) = next_two(&mut phone).await;
    assert_eq!(visibility["payload"]["payload"]["visible"], json!(false));
    assert_eq!(status["payload"]["payload"]["reason"], json!("hidden"));
    assert_eq!(newer.next_close().await, 4403);
    phone.hears_nothing_for(2 * DESKTOP_RECONNECT_GRACE).await;
}

/// EV-5: a phone's visibility is stored and sent; the phone stays connected and admitted.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_phone_that_hides_stays() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    for visible in [false, true, false] {
        let said = json!({"visible": visible});
        phone.event("device-visibility-updated", said.clone()).await;
        assert_eq!(desktop.next().await["payload"]["payload"], said);
        let row = run.store.row(phone.id).expect("a row");
        assert_eq!(row.relay_eligible, visible);
    }
    phone.request("r").await;
    assert_eq!(desktop.next_request().await, "r");
    let id = phone.id;
    phone.vanish();
    run.phone_again(account, id, desktop.id).await;
}

/// EV-3, EV-4: nothing of an ill-shaped event is stored or sent.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn ill_shaped_events_change_nothing() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let long = "x".repeat(relay_model::limits::PROJECT_DIRECTORY_BYTES + 1);
    for (event_type, payload) in [
        ("device-visibility-updated", json!({"visible": "false"})),
        ("device-visibility-updated", json!([false])),
        ("device-visibility-updated", json!({})),
        (
            "project-directory-updated",
            json!({"projectDirectory": null}),
        ),
        ("project-directory-updated", json!(["/"])),
        (
            "project-directory-updated",
            json!({"projectDirectory": long}),
        ),
        (
            "project-directory-updated",
            json!({"projectDirectory": "a\u{0}b"}),
        ),
    ] {
        desktop.event(event_type, payload).await;
        assert_error(&desktop.next().await, "invalidPayload");
    }
    phone.hears_nothing_for(MOMENT).await;
    let row = run.store.row(desktop.id).expect("a row");
    assert!(row.relay_eligible && row.active_project_directory.is_none());
    assert_eq!(run.store.counts().change_device, 0);
    let silent = desktop.receive_within(MOMENT).await;
    assert_eq!(silent, None::<Received>);
}
