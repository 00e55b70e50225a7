//! What another account can do to a device or a key: nothing. Every method of the store takes part.

use relay_model::credentials::{Scope, Scopes};
use relay_model::push::PushTokenSetting;
use relay_model::store::{
    DesktopRegistration, DeviceChange, DeviceStanding, DeviceStore, HeartbeatWrite, NewApiKey,
    OfflineReason, PresenceWrite, RegistrationOutcome,
};
use serde_json::json;

use super::keys::{KEY, new_key};
use super::push_tokens::token;
use super::recorder::Recorder;
use super::{
    BLUE, DESKTOP, GREEN, NOBODY, OURS, Offline, Online, PHONE, Reconnecting, Subject, THEIRS,
    asker, at, change, desktop, facts, list, online, phone, with_phone, write,
};

/// The methods in which no account names a device or a key of its choice.
const NAME_NOTHING_OF_AN_ACCOUNT: [&str; 13] = [
    "renew_instance",
    "mark_draining",
    "sweep_lost",
    "marked_lost",
    "release_instance",
    "purge_presence_history",
    "protocol_floor",
    "set_protocol_floor",
    "check",
    // By the id alone: for whoever presents the secret, and for keys that are connected.
    "api_key",
    "ended_api_keys",
    // By what was read of the row: for whoever has pushed to it.
    "remove_push_registration",
    "record_push_outcomes",
];

/// HTTP-1, HTTP-4, REG-4: every method that names a device or a key, asked by another account, tells
/// nothing of it and changes nothing.
pub async fn foreign_accounts_read_and_write_nothing(subject: &dyn Subject) {
    let store = subject.store();
    let first = DesktopRegistration {
        capabilities: Some(json!({"a": 1})),
        ..desktop("Desk")
    };
    store
        .register_desktop(OURS, DESKTOP, first, at(0))
        .await
        .unwrap();
    with_phone(store).await;
    write(store, online(DESKTOP, (BLUE, 1), 10)).await;
    write(store, online(PHONE, (BLUE, 2), 10)).await;
    store.create_api_key(new_key(KEY, OURS)).await.unwrap();
    let set = store.set_push_token(OURS, PHONE, token("ours"), at(10));
    assert_eq!(set.await, Ok(PushTokenSetting::Set));
    let everything = async || {
        (
            list(store, OURS, asker(GREEN, 20)).await,
            facts(store, OURS, PHONE, Some(DESKTOP)).await,
            [DESKTOP, PHONE].map(|device| subject.history(device)),
            store.api_keys(OURS).await.unwrap(),
            store.api_key(KEY).await.unwrap(),
            store.push_tokens(OURS).await.unwrap(),
        )
    };
    let before = everything().await;
    assert_eq!(before.0.len(), 2);

    let recorder = Recorder::over(subject.shared());
    attack_devices(&recorder).await;
    attack_keys(&recorder).await;
    attack_push_tokens(&recorder).await;
    assert_eq!(everything().await, before);
    let missed = recorder.not_called(&NAME_NOTHING_OF_AN_ACCOUNT);
    assert!(missed.is_empty(), "attack these as well: {missed:?}");

    // A forgotten device stays its account's, and stays forgotten.
    subject.forget(DESKTOP);
    let taken = DesktopRegistration {
        rejoin: true,
        ..desktop("Taken")
    };
    let outcome = store.register_desktop(THEIRS, DESKTOP, taken, at(40)).await;
    assert_eq!(outcome, Ok(RegistrationOutcome::Foreign));
    let told = facts(store, THEIRS, DESKTOP, None).await;
    assert_eq!(told.device, DeviceStanding::Foreign);
    assert_eq!(list(store, OURS, asker(GREEN, 20)).await.len(), 1);
}

async fn attack_devices(store: &dyn DeviceStore) {
    for device in [DESKTOP, PHONE] {
        for target in [None, Some(DESKTOP), Some(PHONE), Some(NOBODY)] {
            let told = facts(store, THEIRS, device, target).await;
            assert_eq!(told.device, DeviceStanding::Foreign);
            assert_eq!(told.target, None);
        }
        for rejoin in [false, true] {
            let taken = DesktopRegistration {
                capabilities: Some(json!({"stolen": true})),
                relay_eligible: Some(false),
                rejoin,
                ..desktop("Taken")
            };
            let outcome = store.register_desktop(THEIRS, device, taken, at(30)).await;
            assert_eq!(outcome, Ok(RegistrationOutcome::Foreign));
        }
        let outcome = store
            .register_phone(THEIRS, device, phone("Taken"), at(30))
            .await;
        assert_eq!(outcome, Ok(RegistrationOutcome::Foreign));
        let taken = DeviceChange {
            device_name: Some("Taken".to_owned()),
            relay_eligible: Some(false),
            project_directory: Some("/stolen".to_owned()),
        };
        let changed = store.change_device(THEIRS, device, taken, at(30)).await;
        assert_eq!(changed, Ok(None));
        let forgotten = store.forget_device(THEIRS, device, at(30)).await;
        assert_eq!(forgotten, Ok(None));
        for (status, generation) in [(Online, 9), (Reconnecting, 1), (Offline, 1), (Offline, 2)] {
            let reason = Some(OfflineReason::Disconnected);
            let foreign = PresenceWrite {
                account: THEIRS,
                ..change(device, (BLUE, generation), status, reason, 30)
            };
            write(store, foreign).await;
        }
        let beat = HeartbeatWrite {
            account: THEIRS,
            device,
            at: at(30),
        };
        store.write_heartbeats(vec![beat]).await.unwrap();
    }
    assert_eq!(list(store, THEIRS, asker(GREEN, 20)).await, []);
    let known = store.known_devices(asker(GREEN, 20), THEIRS).await;
    assert_eq!(known, Ok(Vec::new()));
    let changes = store.presence_history(THEIRS, vec![DESKTOP, PHONE], 10);
    assert_eq!(changes.await, Ok(Vec::new()));
}

async fn attack_keys(store: &dyn DeviceStore) {
    assert_eq!(store.revoke_api_key(THEIRS, KEY, at(30)).await, Ok(false));
    assert_eq!(store.api_keys(THEIRS).await, Ok(Vec::new()));
    let same_id = NewApiKey {
        scopes: Scopes::from_iter([Scope::Rpc]),
        secret_hash: [9; 32],
        ..new_key(KEY, THEIRS)
    };
    store.create_api_key(same_id).await.unwrap_err();
}

async fn attack_push_tokens(store: &dyn DeviceStore) {
    for device in [DESKTOP, PHONE] {
        for text in ["ours", "theirs"] {
            let set = store.set_push_token(THEIRS, device, token(text), at(30));
            assert_eq!(set.await, Ok(PushTokenSetting::Foreign));
        }
        assert_eq!(store.remove_push_tokens(THEIRS, Some(device)).await, Ok(0));
    }
    assert_eq!(store.remove_push_tokens(THEIRS, None).await, Ok(0));
    assert_eq!(store.push_tokens(THEIRS).await, Ok(Vec::new()));
}
