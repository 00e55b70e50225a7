//! Users that sign out, on one device or on all, through the real actors on a paused clock.

use std::time::Duration;

use relay_model::ids::{AccountId, DeviceId};
use relay_model::limits::{
    DATABASE_TIMEOUT, DESKTOP_RECONNECT_GRACE, PRESENCE_WRITE_INTERVAL, REGISTRATION_TIMEOUT,
};
use relay_model::push::{NewPushToken, PushPlatform, PushTokenSetting};
use relay_model::store::{DeviceStatus, DeviceType, OfflineReason};
use relay_tests::paused::{Device, Received, Run, pass};
use serde_json::json;

const MOMENT: Duration = Duration::from_millis(5);
const SLOW: Duration = Duration::from_secs(4);

async fn sign_out(run: &Run, account: AccountId, device: Option<DeviceId>) {
    assert_eq!(run.relay.sign_out(account, device).await, Ok(()));
}

/// The next frame, which must say that a desktop is gone as its user signed out.
async fn hears_signed_out(device: &mut Device, desktop: DeviceId) {
    let status = device.next_event("device-status").await;
    assert_eq!(
        (&status["status"], &status["reason"], &status["deviceId"]),
        (
            &json!("disconnected"),
            &json!("signed_out"),
            &json!(desktop)
        ),
        "{status}"
    );
}

/// SES-2: a desktop that is signed out is closed 4401 and gone without a grace; open requests get
/// -32011, new ones -32010; its session is over, and it may register anew. Nobody else is touched.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_desktop_is_signed_out() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let (id, resume) = (desktop.id, desktop.resume());
    let mut phone = run.phone(account, id).await;
    let mut other = run.desktop(account).await;
    assert_eq!(phone.next_status().await.0, "online");
    assert_eq!(desktop.next_status().await.0, "online");
    phone.request("open").await;
    desktop.next_request().await;

    sign_out(&run, account, Some(id)).await;
    assert_eq!(desktop.next_close().await, 4401);
    hears_signed_out(&mut other, id).await;
    let (first, second) = (phone.next().await, phone.next().await);
    let failure = [&first, &second]
        .into_iter()
        .find(|frame| frame["type"] == "rpc.response")
        .expect("the open request ends");
    let error = &failure["payload"]["error"];
    assert_eq!(
        (&error["code"], &error["data"]["delivered"]),
        (&json!(-32011), &json!(true))
    );
    phone.request("new").await;
    assert_eq!(phone.next_failure().await.1["code"], json!(-32010));
    assert_eq!(run.state().await.sessions, 2);
    pass(2 * PRESENCE_WRITE_INTERVAL).await;
    let row = run.store.row(id).expect("a row");
    assert_eq!(
        (row.status, row.offline_reason),
        (DeviceStatus::Offline, Some(OfflineReason::SignedOut))
    );
    phone.hears_nothing_for(2 * DESKTOP_RECONNECT_GRACE).await;
    other.hears_nothing_for(MOMENT).await;

    let mut back = run.connect(account, DeviceType::Desktop, id, None).await;
    back.register_with(resume).await;
    assert_eq!(back.session["code"], json!("invalidResume"));
    back.register().await;
    assert_eq!(phone.next_status().await.0, "online");
}

/// SES-2: all devices of the account are signed out at once, and no other account's.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn all_devices_are_signed_out() {
    let run = Run::start();
    let account = run.account();
    let away = run.desktop(account).await;
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let mut stranger = run.desktop(run.account()).await;
    away.vanish();
    pass(MOMENT).await;
    sign_out(&run, account, None).await;
    for device in [&mut desktop, &mut phone] {
        device.is_closed(4401).await;
    }
    let state = run.state().await;
    assert_eq!((state.sessions, state.graces), (1, 0));
    assert_eq!(state.directory.devices, 1);
    stranger.hears_nothing_for(MOMENT).await;
    pass(DATABASE_TIMEOUT + REGISTRATION_TIMEOUT).await;
    assert_eq!(run.state().await.directory.removals, 0);
}

/// SES-2, PR-2: a desktop that is signed out within its grace is gone at once.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_grace_ends_with_the_session() {
    let run = Run::start();
    let account = run.account();
    let desktop = run.desktop(account).await;
    let id = desktop.id;
    let mut phone = run.phone(account, id).await;
    desktop.vanish();
    assert_eq!(phone.next_status().await.0, "reconnecting");
    sign_out(&run, account, Some(id)).await;
    hears_signed_out(&mut phone, id).await;
    phone.hears_nothing_for(2 * DESKTOP_RECONNECT_GRACE).await;
}

/// SES-2, TL-3, RPC-8: a phone's lease ends with its connection; what it waits for stays, as whenever
/// it goes: the answer finds the phone on its next connection.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_phone_is_signed_out() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let id = phone.id;
    phone.interest("s", true).await;
    assert_eq!(desktop.next_lease_state().await["active"], json!(true));
    phone.request("open").await;
    desktop.next_request().await;
    sign_out(&run, account, Some(id)).await;
    assert_eq!(phone.next_close().await, 4401);
    assert_eq!(desktop.next_lease_state().await["active"], json!(false));
    pass(2 * PRESENCE_WRITE_INTERVAL).await;
    let row = run.store.row(id).expect("a row");
    assert_eq!(row.offline_reason, Some(OfflineReason::SignedOut));

    let mut back = run.phone_again(account, id, desktop.id).await;
    desktop.answer("open", json!(1)).await;
    assert_eq!(back.next_result().await.0, "open");
}

/// SES-2: the push tokens of those who sign out are removed before anything else happens; without the
/// database nothing happens at all.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn push_tokens_go_first() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let other = run.phone_row(account).await;
    for (device, text) in [(phone.id, "pushtoken-a"), (other, "pushtoken-b")] {
        let token = NewPushToken {
            platform: PushPlatform::Android,
            environment: None,
            token: text.parse().expect("a token"),
        };
        let set = run.relay.set_push_token(account, device, token).await;
        assert_eq!(set, Ok(PushTokenSetting::Set));
    }
    run.store.set_failing(true);
    assert!(run.relay.sign_out(account, None).await.is_err());
    run.store.set_failing(false);
    phone.hears_nothing_for(MOMENT).await;
    desktop.hears_nothing_for(MOMENT).await;

    let tokens = async || run.relay.push_tokens(account).await.expect("tokens");
    assert_eq!(tokens().await.len(), 2);
    sign_out(&run, account, Some(phone.id)).await;
    assert_eq!(phone.next_close().await, 4401);
    let left = tokens().await;
    assert_eq!(
        left.iter().map(|row| row.device).collect::<Vec<_>>(),
        [other]
    );
    sign_out(&run, account, None).await;
    assert!(tokens().await.is_empty());
    assert_eq!(desktop.next_close().await, 4401);
}

/// SES-2: who is not there, or another account's, is signed out already; nothing is heard of it.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn nobody_is_signed_out_twice() {
    let run = Run::start();
    let (ours, theirs) = (run.account(), run.account());
    let mut desktop = run.desktop(theirs).await;
    let away = run.desktop_row(ours).await;
    for device in [
        away,
        desktop.id,
        DeviceId::from_uuid(uuid::Uuid::nil()),
        away,
    ] {
        sign_out(&run, ours, Some(device)).await;
    }
    sign_out(&run, ours, None).await;
    desktop.hears_nothing_for(MOMENT).await;
    assert_eq!(run.state().await.sessions, 1);
    run.desktop_again(ours, away).await;
}

/// REG-11, SES-2: a registration that was read before the sign-out loses, with a session to resume or
/// without, alone or of all; one that was read after it goes through.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_sign_out_during_a_registration_wins() {
    for all in [false, true] {
        for resumes in [false, true] {
            let run = Run::start();
            let account = run.account();
            let mut witness = run.phone(account, run.desktop_row(account).await).await;
            let id = run.desktop_row(account).await;
            let mut resume = json!({});
            if resumes {
                let desktop = run.desktop_again(account, id).await;
                assert_eq!(witness.next_status().await.0, "online");
                resume = desktop.resume();
                desktop.vanish();
                assert_eq!(witness.next_status().await.0, "reconnecting");
            }
            let mut device = run.connect(account, DeviceType::Desktop, id, None).await;
            run.store.set_answer_delay(SLOW);
            device.send_register(resume).await;
            pass(MOMENT).await;
            run.store.set_answer_delay(Duration::ZERO);
            sign_out(&run, account, (!all).then_some(id)).await;
            let heard = device.receive_within(2 * SLOW).await;
            let resumed_nothing = matches!(
                &heard,
                Some(Received::Frame(frame)) if frame["code"] == "invalidResume"
            );
            // The session is asked for behind the facts, and is over by then.
            assert!(
                heard == Some(Received::Close(4401)) || resumes && resumed_nothing,
                "{heard:?}"
            );
            assert_eq!(run.state().await.graces, 0);
            let mut next = run.connect(account, DeviceType::Desktop, id, None).await;
            next.register().await;
        }
    }
}
