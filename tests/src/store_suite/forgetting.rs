//! Devices that their user forgets (PR-4), and the race with their return.

use relay_model::push::PushTokenSetting;
use relay_model::store::{
    ChangedDevice, DesktopRegistration, DeviceRow, DeviceStore, DeviceType, ForgottenDevice,
    OfflineReason, PhoneRegistration, RegistrationOutcome,
};

use super::push_tokens::token;
use super::{
    BLUE, DESKTOP, GREEN, NOBODY, OURS, Offline, Online, PHONE, Reconnecting, Subject, asker, at,
    change, desktop, facts, list, online, phone, row, with_desktop, with_phone, write,
};

async fn forget(store: &dyn DeviceStore, seconds: u64) -> ForgottenDevice {
    let forgotten = store.forget_device(OURS, DESKTOP, at(seconds)).await;
    forgotten.unwrap().expect("the desktop is there")
}

async fn rejoin(store: &dyn DeviceStore, seconds: u64) -> ChangedDevice {
    let said = DesktopRegistration {
        rejoin: true,
        ..desktop("Desk")
    };
    let outcome = store.register_desktop(OURS, DESKTOP, said, at(seconds));
    match outcome.await {
        Ok(RegistrationOutcome::Registered(changed)) => *changed,
        other => panic!("{other:?}"),
    }
}

/// PR-4, REG-4: a forgotten device is not listed, refused, and offline at once, whoever holds it; it
/// comes back, phones too, when its user says so.
pub async fn a_forgotten_device_is_gone_from_then_on(subject: &dyn Subject) {
    let store = subject.store();
    let made = with_desktop(store, DESKTOP).await;
    with_phone(store).await;
    write(store, online(DESKTOP, (GREEN, 3), 10)).await;
    let expected = ForgottenDevice {
        device_type: DeviceType::Desktop,
        was_forgotten: false,
        updated_at: at(20),
    };
    assert_eq!(forget(store, 20).await, expected);
    let left = list(subject.second(), OURS, asker(BLUE, 20)).await;
    assert_eq!(left.iter().map(|row| row.id).collect::<Vec<_>>(), [PHONE]);
    let told = facts(store, OURS, PHONE, Some(DESKTOP)).await.target;
    let told = told.expect("a forgotten desktop is one still");
    assert!(!told.admitted && told.elsewhere.is_none(), "{told:?}");
    let history = subject.history(DESKTOP);
    let last = history.last().expect("it was online");
    assert_eq!(
        (last.status, last.reason, last.at),
        ("offline", Some("unlinked"), at(20))
    );
    assert_eq!((history.len(), last.instance), (2, GREEN));

    let refused = store
        .register_desktop(OURS, DESKTOP, desktop("Desk"), at(21))
        .await;
    assert_eq!(refused, Ok(RegistrationOutcome::Forgotten));
    let back = rejoin(store, 22).await;
    assert!(back.was_forgotten && back.was_eligible);
    let expected = DeviceRow {
        status: Offline,
        offline_reason: Some(OfflineReason::Unlinked),
        last_seen: Some(at(20)),
        updated_at: at(22),
        ..made
    };
    assert_eq!(row(store, DESKTOP).await, expected);
    assert!(!rejoin(store, 23).await.was_forgotten);
    write(store, online(DESKTOP, (BLUE, 1), 24)).await;
    assert_eq!(row(store, DESKTOP).await.status, Online);

    let gone = store.forget_device(OURS, PHONE, at(30)).await.unwrap();
    assert_eq!(gone.unwrap().device_type, DeviceType::Mobile);
    let refused = store.register_phone(OURS, PHONE, phone("Pocket"), at(31));
    assert_eq!(refused.await, Ok(RegistrationOutcome::Forgotten));
    let said = PhoneRegistration {
        rejoin: true,
        ..phone("Pocket")
    };
    let back = store.register_phone(OURS, PHONE, said, at(32)).await;
    assert!(
        matches!(&back, Ok(RegistrationOutcome::Registered(changed)) if changed.was_forgotten),
        "{back:?}"
    );
}

/// PR-4, SES-2: a forgotten phone's push token goes with it, and nobody else's; after a rejoin it has none.
pub async fn a_forget_takes_the_push_token(subject: &dyn Subject) {
    let store = subject.store();
    with_phone(store).await;
    let other = store.register_phone(OURS, NOBODY, phone("Other"), at(0));
    other.await.unwrap();
    for (device, text) in [(PHONE, "a"), (NOBODY, "b")] {
        let set = store.set_push_token(OURS, device, token(text), at(1));
        assert_eq!(set.await, Ok(PushTokenSetting::Set));
    }
    store.forget_device(OURS, PHONE, at(2)).await.unwrap();
    let held_by = async || -> Vec<_> {
        let rows = store.push_tokens(OURS).await.unwrap();
        rows.iter().map(|row| row.device).collect()
    };
    assert_eq!(held_by().await, [NOBODY]);
    let said = PhoneRegistration {
        rejoin: true,
        ..phone("Pocket")
    };
    let back = store.register_phone(OURS, PHONE, said, at(3)).await;
    assert!(matches!(back, Ok(RegistrationOutcome::Registered(_))));
    assert_eq!(held_by().await, [NOBODY]);
}

/// PR-4: forgetting again keeps the first time, and says so; there is nothing to forget of nobody.
pub async fn forgetting_again_changes_nothing(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    assert!(!forget(store, 5).await.was_forgotten);
    let again = ForgottenDevice {
        device_type: DeviceType::Desktop,
        was_forgotten: true,
        updated_at: at(5),
    };
    assert_eq!(forget(subject.second(), 9).await, again);
    assert_eq!(store.forget_device(OURS, NOBODY, at(9)).await, Ok(None));
}

/// PR-4, DR-5: what the relay that held a forgotten device says of that connection later changes
/// nothing, and what it says late of its beginning is undone by its own word of its end.
pub async fn a_forgotten_device_takes_no_late_word(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    write(store, online(DESKTOP, (BLUE, 1), 10)).await;
    forget(store, 20).await;
    let history = subject.history(DESKTOP);
    write(store, online(DESKTOP, (BLUE, 1), 19)).await;
    for (status, reason) in [
        (Reconnecting, None),
        (Offline, Some(OfflineReason::Unlinked)),
        (Offline, Some(OfflineReason::ReconnectTimeout)),
    ] {
        write(store, change(DESKTOP, (BLUE, 1), status, reason, 25)).await;
    }
    assert_eq!(subject.history(DESKTOP), history);
    rejoin(store, 30).await;
    let is = row(store, DESKTOP).await;
    assert_eq!(
        (is.status, is.offline_reason),
        (Offline, Some(OfflineReason::Unlinked))
    );

    // One whose first connection was not stored yet when it was forgotten.
    with_phone(store).await;
    store.forget_device(OURS, PHONE, at(20)).await.unwrap();
    write(store, online(PHONE, (BLUE, 2), 19)).await;
    let unlinked = Some(OfflineReason::Unlinked);
    write(store, change(PHONE, (BLUE, 2), Offline, unlinked, 20)).await;
    let asker = asker(GREEN, 30);
    let facts = store.registration_facts(asker, OURS, PHONE, Some(PHONE));
    assert!(facts.await.is_ok());
    assert_eq!(subject.history(PHONE).last().unwrap().status, "offline");
}

/// REG-11: of a forget and a rejoin at once over two relays one comes later, by the row's own time,
/// whatever their clocks say.
pub async fn a_forget_and_a_rejoin_that_race_follow_each_other(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    for round in 0..20 {
        // One of the clocks is behind.
        let (early, late) = (at(100 + round % 2), at(100 + (round + 1) % 2));
        let said = DesktopRegistration {
            rejoin: true,
            ..desktop("Desk")
        };
        let (forgotten, back) = tokio::join!(
            store.forget_device(OURS, DESKTOP, early),
            subject.second().register_desktop(OURS, DESKTOP, said, late),
        );
        let forgotten = forgotten.unwrap().unwrap();
        let Ok(RegistrationOutcome::Registered(back)) = back else {
            panic!("{back:?}");
        };
        let is_there = !list(store, OURS, asker(BLUE, 0)).await.is_empty();
        let came_last = back.row.updated_at > forgotten.updated_at;
        assert_ne!(back.row.updated_at, forgotten.updated_at);
        assert_eq!(is_there, came_last, "round {round}");
        // Whichever came last, the next round begins with a device that is there.
        rejoin(store, 100).await;
    }
}
