//! What a registration reads and writes (section 3, REG-4, REG-9, HTTP-1).

use relay_model::ids::DeviceId;
use relay_model::limits::DEFAULT_PROTOCOL_FLOOR;
use relay_model::store::{
    DesktopRegistration, DeviceRow, DeviceStanding, DeviceType, HeartbeatWrite, RegistrationOutcome,
};
use serde_json::json;
use uuid::Uuid;

use super::{
    BLUE, DESKTOP, NOBODY, OTHER_DESKTOP, OURS, Offline, Online, PHONE, Reconnecting, Subject,
    THEIRS, asker, at, change, desktop, facts, list, online, phone, registered, row, with_desktop,
    with_phone, write,
};

/// REG-9, OP-8: the floor of a new database is 1, and the database answers.
pub async fn a_new_database_has_the_default_floor(subject: &dyn Subject) {
    let store = subject.store();
    assert_eq!(store.protocol_floor().await, Ok(DEFAULT_PROTOCOL_FLOOR));
    assert_eq!(store.check().await, Ok(()));
    assert_eq!(facts(store, OURS, NOBODY, None).await.protocol_floor, 1);
}

/// REG-9: the floor can be raised, or turned off, without a deploy.
pub async fn the_floor_is_read_each_time(subject: &dyn Subject) {
    for floor in [7, 0, 999_999_999] {
        subject.set_protocol_floor(floor);
        let store = subject.second();
        assert_eq!(store.protocol_floor().await, Ok(floor));
        assert_eq!(facts(store, OURS, NOBODY, None).await.protocol_floor, floor);
    }
}

/// The first registration makes a row that is offline and eligible, with defaults for the rest.
pub async fn a_registration_makes_the_row(subject: &dyn Subject) {
    let store = subject.store();
    let mut expected = DeviceRow {
        id: DESKTOP,
        device_type: DeviceType::Desktop,
        device_name: "Desk \u{1F5A5}".to_owned(),
        platform: "linux".to_owned(),
        platform_version: Some("6.1".to_owned()),
        app_version: "1.2.3".to_owned(),
        capabilities: json!({}),
        relay_eligible: true,
        status: Offline,
        offline_reason: None,
        elsewhere: None,
        last_seen: None,
        last_heartbeat: None,
        active_project_directory: None,
        created_at: at(3),
        updated_at: at(3),
    };
    let made = store
        .register_desktop(OURS, DESKTOP, desktop("Desk \u{1F5A5}"), at(3))
        .await;
    assert_eq!(registered(made.unwrap()), expected);
    assert_eq!(row(store, DESKTOP).await, expected);

    expected.id = PHONE;
    expected.device_type = DeviceType::Mobile;
    expected.device_name = "Pocket".to_owned();
    expected.platform = "ios".to_owned();
    expected.platform_version = None;
    expected.app_version = "4.5".to_owned();
    let made = store
        .register_phone(OURS, PHONE, phone("Pocket"), at(3))
        .await;
    assert_eq!(registered(made.unwrap()), expected);
    assert_eq!(row(subject.second(), PHONE).await, expected);
}

/// EV-5: what a registration does not name is kept, the rest is as it says.
pub async fn a_registration_updates_the_row_and_keeps_what_it_does_not_name(subject: &dyn Subject) {
    let store = subject.store();
    let capabilities = json!({"tools": ["a", {"b": [1, 2.5, null]}], "x": "\u{0} \u{1F600}"});
    let first = DesktopRegistration {
        capabilities: Some(capabilities.clone()),
        relay_eligible: Some(false),
        ..desktop("Old")
    };
    store
        .register_desktop(OURS, DESKTOP, first, at(0))
        .await
        .unwrap();
    let second = DesktopRegistration {
        platform: "macos".to_owned(),
        platform_version: None,
        app_version: "2.0".to_owned(),
        ..desktop("New")
    };
    let updated = registered(
        store
            .register_desktop(OURS, DESKTOP, second, at(5))
            .await
            .unwrap(),
    );
    assert_eq!(updated.device_name, "New");
    assert_eq!(updated.platform, "macos");
    assert_eq!(updated.platform_version, None);
    assert_eq!(updated.app_version, "2.0");
    assert_eq!(updated.capabilities, capabilities);
    assert!(!updated.relay_eligible);
    assert_eq!((updated.created_at, updated.updated_at), (at(0), at(5)));
    assert_eq!(row(store, DESKTOP).await, updated);

    let third = DesktopRegistration {
        capabilities: Some(json!(null)),
        relay_eligible: Some(true),
        ..desktop("New")
    };
    let updated = registered(
        store
            .register_desktop(OURS, DESKTOP, third, at(6))
            .await
            .unwrap(),
    );
    assert_eq!(updated.capabilities, json!(null));
    assert!(updated.relay_eligible);
}

/// A desktop registers over HTTP before each connect, also while another connection of it lives.
pub async fn a_registration_leaves_presence_alone(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    write(store, online(DESKTOP, (BLUE, 1), 10)).await;
    store
        .write_heartbeats(vec![HeartbeatWrite {
            account: OURS,
            device: DESKTOP,
            at: at(12),
        }])
        .await
        .unwrap();
    let before = row(store, DESKTOP).await;
    let after = registered(
        store
            .register_desktop(OURS, DESKTOP, desktop("Desk"), at(20))
            .await
            .unwrap(),
    );
    let expected = DeviceRow {
        updated_at: at(20),
        ..before
    };
    assert_eq!(
        (expected.status, expected.last_seen),
        (Online, Some(at(12)))
    );
    assert_eq!(after, expected);
    // Its relay still holds it.
    write(store, change(DESKTOP, (BLUE, 1), Reconnecting, None, 21)).await;
    assert_eq!(row(store, DESKTOP).await.status, Reconnecting);
}

/// A shipped desktop registers before every connect: that may not undo a forget, `rejoin` does.
pub async fn a_forgotten_device_rejoins_only_on_request(subject: &dyn Subject) {
    let store = subject.store();
    let before = with_desktop(store, DESKTOP).await;
    with_phone(store).await;
    subject.forget(DESKTOP);
    subject.forget(PHONE);
    assert_eq!(list(store, OURS, asker(BLUE, 0)).await, []);

    let refused = store
        .register_desktop(OURS, DESKTOP, desktop("Other"), at(5))
        .await;
    assert_eq!(refused, Ok(RegistrationOutcome::Forgotten));
    let refused = store
        .register_phone(OURS, PHONE, phone("Other"), at(5))
        .await;
    assert_eq!(refused, Ok(RegistrationOutcome::Forgotten));
    assert_eq!(list(store, OURS, asker(BLUE, 0)).await, []);

    let rejoin = DesktopRegistration {
        rejoin: true,
        ..desktop("Desk")
    };
    let joined = registered(
        store
            .register_desktop(OURS, DESKTOP, rejoin, at(6))
            .await
            .unwrap(),
    );
    let expected = DeviceRow {
        updated_at: at(6),
        ..before
    };
    assert_eq!(joined, expected);
    assert_eq!(list(store, OURS, asker(BLUE, 0)).await, [expected]);
    let again = store
        .register_desktop(OURS, DESKTOP, desktop("Desk"), at(7))
        .await;
    assert_eq!(registered(again.unwrap()).updated_at, at(7));
}

/// A row never changes its type, whatever else is asked.
pub async fn a_device_keeps_its_type(subject: &dyn Subject) {
    let store = subject.store();
    let mut before = vec![with_desktop(store, DESKTOP).await, with_phone(store).await];
    before.sort_by_key(|row| (row.created_at, row.id));
    let refused = store
        .register_phone(OURS, DESKTOP, phone("Other"), at(5))
        .await;
    assert_eq!(refused, Ok(RegistrationOutcome::TypeMismatch));
    let rejoin = DesktopRegistration {
        rejoin: true,
        ..desktop("Other")
    };
    let refused = store
        .register_desktop(OURS, PHONE, rejoin.clone(), at(5))
        .await;
    assert_eq!(refused, Ok(RegistrationOutcome::TypeMismatch));
    assert_eq!(list(store, OURS, asker(BLUE, 0)).await, before);

    subject.forget(PHONE);
    let refused = store.register_desktop(OURS, PHONE, rejoin, at(6)).await;
    assert_eq!(refused, Ok(RegistrationOutcome::TypeMismatch));
    assert_eq!(list(store, OURS, asker(BLUE, 0)).await.len(), 1);
}

/// HTTP-1: of two first registrations of one id at once, by two accounts over two relays, one makes
/// the row and the other learns that it is foreign.
pub async fn first_registrations_that_race_end_well(subject: &dyn Subject) {
    for round in 0..20 {
        let device = DeviceId::from_uuid(Uuid::from_u128(0x1000 + round));
        let ours = subject
            .store()
            .register_desktop(OURS, device, desktop("Ours"), at(0));
        let theirs = subject
            .second()
            .register_desktop(THEIRS, device, desktop("Theirs"), at(0));
        let (ours, theirs) = tokio::join!(ours, theirs);
        let (owner, row) = match (ours.unwrap(), theirs.unwrap()) {
            (RegistrationOutcome::Registered(made), RegistrationOutcome::Foreign) => {
                (OURS, made.row)
            }
            (RegistrationOutcome::Foreign, RegistrationOutcome::Registered(made)) => {
                (THEIRS, made.row)
            }
            others => panic!("{others:?}"),
        };
        assert!(
            list(subject.store(), owner, asker(BLUE, 0))
                .await
                .contains(&row)
        );
    }
}

/// REG-4: each standing that a refusal depends on.
pub async fn standings_follow_the_row(subject: &dyn Subject) {
    let store = subject.store();
    assert_eq!(
        facts(store, OURS, DESKTOP, None).await.device,
        DeviceStanding::Unknown
    );
    with_desktop(store, DESKTOP).await;
    with_phone(store).await;
    let hidden = DesktopRegistration {
        relay_eligible: Some(false),
        ..desktop("Hidden")
    };
    store
        .register_desktop(OURS, OTHER_DESKTOP, hidden, at(0))
        .await
        .unwrap();
    let standing = |device_type, forgotten, relay_eligible| DeviceStanding::Owned {
        device_type,
        forgotten,
        relay_eligible,
    };
    use DeviceType::{Desktop, Mobile};
    for (device, expected) in [
        (DESKTOP, standing(Desktop, false, true)),
        (OTHER_DESKTOP, standing(Desktop, false, false)),
        (PHONE, standing(Mobile, false, true)),
        (NOBODY, DeviceStanding::Unknown),
    ] {
        assert_eq!(facts(store, OURS, device, None).await.device, expected);
    }
    subject.forget(DESKTOP);
    subject.forget(PHONE);
    for (device, expected) in [
        (DESKTOP, standing(Desktop, true, true)),
        (PHONE, standing(Mobile, true, true)),
    ] {
        assert_eq!(facts(store, OURS, device, None).await.device, expected);
    }
}

/// REG-4, REG-5: a target is a desktop of this account, hidden and forgotten ones included; unknown,
/// foreign and mobile ones are none.
pub async fn targets_are_desktops_of_the_account(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    with_phone(store).await;
    store
        .register_desktop(THEIRS, OTHER_DESKTOP, desktop("Theirs"), at(0))
        .await
        .unwrap();
    for target in [None, Some(NOBODY), Some(OTHER_DESKTOP), Some(PHONE)] {
        let told = facts(store, OURS, PHONE, target).await;
        assert_eq!(told.target, None, "{target:?}");
    }
    let admitted = async || {
        let told = facts(store, OURS, PHONE, Some(DESKTOP)).await;
        told.target.unwrap().admitted
    };
    assert!(admitted().await);
    let hide = DesktopRegistration {
        relay_eligible: Some(false),
        ..desktop("Desk")
    };
    store
        .register_desktop(OURS, DESKTOP, hide, at(1))
        .await
        .unwrap();
    assert!(!admitted().await);
    let show = DesktopRegistration {
        relay_eligible: Some(true),
        ..desktop("Desk")
    };
    store
        .register_desktop(OURS, DESKTOP, show, at(2))
        .await
        .unwrap();
    assert!(admitted().await);
    subject.forget(DESKTOP);
    assert!(!admitted().await);
    // A device that is no row yet may still be told of its target.
    let told = facts(store, OURS, NOBODY, Some(DESKTOP)).await;
    assert_eq!(told.device, DeviceStanding::Unknown);
    assert!(told.target.is_some());
}
