//! What is changed of a device's row after its registration (EV-5).

use relay_model::store::{
    ChangedDevice, DesktopRegistration, DeviceChange, DeviceRow, DeviceStanding, DeviceStore,
    DeviceType, RegistrationOutcome,
};

use super::{
    DESKTOP, NOBODY, OURS, PHONE, Subject, asker, at, desktop, list, row, with_desktop, with_phone,
};

async fn change(store: &dyn DeviceStore, change: DeviceChange, seconds: u64) -> ChangedDevice {
    let changed = store
        .change_device(OURS, DESKTOP, change, at(seconds))
        .await;
    changed.unwrap().expect("the desktop is there")
}

/// EV-5: a change sets what it names and the row's time, and tells whether the device was admitted
/// before.
pub async fn a_change_sets_what_it_names(subject: &dyn Subject) {
    let store = subject.store();
    let before = with_desktop(store, DESKTOP).await;
    let renamed = DeviceChange {
        device_name: Some("Bench".to_owned()),
        ..DeviceChange::default()
    };
    let mut expected = ChangedDevice {
        row: DeviceRow {
            device_name: "Bench".to_owned(),
            updated_at: at(5),
            ..before
        },
        was_eligible: true,
        was_forgotten: false,
    };
    assert_eq!(change(store, renamed, 5).await, expected);
    let moved = DeviceChange {
        project_directory: Some("/home/a/\u{1F4C1}".to_owned()),
        ..DeviceChange::default()
    };
    expected.row.active_project_directory = Some("/home/a/\u{1F4C1}".to_owned());
    expected.row.updated_at = at(6);
    assert_eq!(change(store, moved, 6).await, expected);

    for (seconds, eligible, was_eligible) in [(7, false, true), (8, false, false), (9, true, false)]
    {
        let shown = DeviceChange {
            relay_eligible: Some(eligible),
            ..DeviceChange::default()
        };
        expected.row.relay_eligible = eligible;
        expected.row.updated_at = at(seconds);
        expected.was_eligible = was_eligible;
        assert_eq!(change(store, shown, seconds).await, expected);
        assert_eq!(row(subject.second(), DESKTOP).await, expected.row);
    }
    let nothing = DeviceChange::default();
    expected.row.updated_at = at(10);
    expected.was_eligible = true;
    assert_eq!(change(store, nothing, 10).await, expected);
}

/// EV-5: only what is there and not forgotten can be changed. A phone's flag is kept, and it is
/// admitted whatever its flag says.
pub async fn what_cannot_be_changed_is_not(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    let before = with_phone(store).await;
    let hidden = DeviceChange {
        device_name: Some("Other".to_owned()),
        relay_eligible: Some(false),
        project_directory: None,
    };
    let unknown = store
        .change_device(OURS, NOBODY, hidden.clone(), at(5))
        .await;
    assert_eq!(unknown, Ok(None));
    let phone = store
        .change_device(OURS, PHONE, hidden.clone(), at(5))
        .await;
    let expected = ChangedDevice {
        row: DeviceRow {
            device_name: "Other".to_owned(),
            relay_eligible: false,
            updated_at: at(5),
            ..before
        },
        was_eligible: true,
        was_forgotten: false,
    };
    assert_eq!(phone, Ok(Some(expected)));
    let facts = store
        .registration_facts(asker(super::BLUE, 5), OURS, PHONE, None)
        .await;
    let standing = facts.map(|facts| facts.device);
    let admitted = DeviceStanding::Owned {
        device_type: DeviceType::Mobile,
        forgotten: false,
        relay_eligible: true,
    };
    assert_eq!(standing, Ok(admitted));

    subject.forget(DESKTOP);
    let forgotten = store.change_device(OURS, DESKTOP, hidden, at(6)).await;
    assert_eq!(forgotten, Ok(None));
    let rejoin = DesktopRegistration {
        rejoin: true,
        ..desktop("Desk")
    };
    let back = store.register_desktop(OURS, DESKTOP, rejoin, at(7)).await;
    assert!(matches!(back, Ok(RegistrationOutcome::Registered(_))));
    assert!(row(store, DESKTOP).await.relay_eligible);
    assert_eq!(list(store, OURS, asker(super::BLUE, 0)).await.len(), 2);
}

/// EV-5: a registration, too, tells whether the desktop was admitted before; of a new one, whether
/// it is.
pub async fn a_registration_tells_whether_it_was_admitted(subject: &dyn Subject) {
    let store = subject.store();
    for (seconds, named, was_eligible, is_eligible) in [
        (0, Some(false), false, false),
        (1, None, false, false),
        (2, Some(true), false, true),
        (3, Some(false), true, false),
    ] {
        let said = DesktopRegistration {
            relay_eligible: named,
            ..desktop("Desk")
        };
        let outcome = store
            .register_desktop(OURS, DESKTOP, said, at(seconds))
            .await;
        let Ok(RegistrationOutcome::Registered(changed)) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(changed.was_eligible, was_eligible, "{seconds}");
        assert_eq!(changed.row.relay_eligible, is_eligible, "{seconds}");
    }
}

/// EV-5: of many changes at once over two relays, each finds what the one before it left.
pub async fn changes_that_race_follow_each_other(subject: &dyn Subject) {
    let stores = [subject.store(), subject.second()];
    with_desktop(stores[0], DESKTOP).await;
    let flips = (0..20).map(|number| {
        let eligible = DeviceChange {
            relay_eligible: Some(number % 2 == 0),
            ..DeviceChange::default()
        };
        stores[number % 2].change_device(OURS, DESKTOP, eligible, at(number as u64))
    });
    let changed: Vec<ChangedDevice> = futures_util::future::join_all(flips)
        .await
        .into_iter()
        .map(|changed| changed.unwrap().unwrap())
        .collect();
    // Each change but one took over what another left: as many were found hidden as were left so,
    // give or take the first and the last.
    let left_hidden = changed.iter().filter(|one| !one.row.relay_eligible).count();
    let found_hidden = changed.iter().filter(|one| !one.was_eligible).count();
    let last_hidden = usize::from(!row(stores[0], DESKTOP).await.relay_eligible);
    assert_eq!(found_hidden + last_hidden, left_hidden);
}
