//! What the store keeps of presence changes (PR-6).

use std::time::Duration;

use relay_model::ids::{ConnectionGeneration, DeviceId, RelayInstanceId};
use relay_model::store::{DeviceStatus, OfflineReason, PresenceWrite};
use uuid::Uuid;

use crate::memory_store::PresenceChange;

use super::{
    BLUE, DESKTOP, GREEN, NOBODY, OTHER_DESKTOP, OURS, Offline, Online, Reconnecting, Subject,
    THEIRS, at, change, online, with_desktop, write,
};

fn kept(
    device: DeviceId,
    (instance, generation): (RelayInstanceId, u64),
    status: DeviceStatus,
    reason: Option<OfflineReason>,
    seconds: u64,
) -> PresenceChange {
    PresenceChange {
        account: OURS,
        device,
        at: at(seconds),
        instance,
        generation: ConnectionGeneration::new(generation),
        status: status.as_str(),
        reason: reason.map(OfflineReason::as_str),
    }
}

/// PR-6: what took effect is kept, once, with why and under which connection; what did not is not.
pub async fn the_history_keeps_what_took_effect(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    let mine = (BLUE, u64::MAX);
    let reasons = [
        OfflineReason::ReconnectTimeout,
        OfflineReason::Disconnected,
        OfflineReason::Hidden,
        OfflineReason::Unlinked,
        OfflineReason::SignedOut,
    ];
    let mut expected = Vec::new();
    for (round, reason) in (0..).zip(reasons) {
        let start = 10 * round;
        let batch = vec![
            online(DESKTOP, mine, start + 1),
            // A reason means something for offline only.
            change(DESKTOP, mine, Reconnecting, Some(reason), start + 2),
            change(DESKTOP, mine, Offline, Some(reason), start + 3),
        ];
        store.write_presence(batch.clone()).await.unwrap();
        // Once more, as after an answer that was lost.
        store.write_presence(batch).await.unwrap();
        expected.extend([
            kept(DESKTOP, mine, Online, None, start + 1),
            kept(DESKTOP, mine, Reconnecting, None, start + 2),
            kept(DESKTOP, mine, Offline, Some(reason), start + 3),
        ]);
    }
    let idle = vec![
        online(DESKTOP, (GREEN, 1), 5),
        change(DESKTOP, (GREEN, 1), Offline, None, 90),
        online(NOBODY, mine, 90),
        PresenceWrite {
            account: THEIRS,
            ..online(DESKTOP, (GREEN, 1), 90)
        },
    ];
    store.write_presence(idle).await.unwrap();
    assert_eq!(subject.history(DESKTOP), expected);
    assert_eq!(subject.history(NOBODY), []);
}

/// PR-6: of changes that differ in why alone the first is kept; one that differs in anything else is
/// another change.
pub async fn a_change_is_known_by_all_but_why(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    let (mine, moment) = ((BLUE, 1), 10);
    let lost = Some(OfflineReason::RelayLost);
    // Each takes effect: who was lost may be connected again in the same moment.
    write(store, online(DESKTOP, mine, moment)).await;
    assert_eq!(store.sweep_lost(at(moment)).await, Ok(1));
    write(store, online(DESKTOP, mine, moment)).await;
    store.release_instance(BLUE, at(moment)).await.unwrap();
    write(store, online(DESKTOP, (GREEN, 1), moment)).await;
    assert_eq!(store.sweep_lost(at(moment)).await, Ok(1));
    write(store, online(DESKTOP, (GREEN, 2), moment)).await;
    assert_eq!(store.sweep_lost(at(moment)).await, Ok(1));

    let mut expected = Vec::new();
    for holder in [mine, (GREEN, 1), (GREEN, 2)] {
        expected.push(kept(DESKTOP, holder, Offline, lost, moment));
        expected.push(kept(DESKTOP, holder, Online, None, moment));
    }
    expected.sort_by_key(|change| (change.instance, change.generation));
    assert_eq!(subject.history(DESKTOP), expected);
}

/// PR-6, DR-3: the marks of a sweep and of a stop are in the history of each device that they met.
pub async fn the_history_keeps_marks(subject: &dyn Subject) {
    let store = subject.store();
    let id = |number: u128| DeviceId::from_uuid(Uuid::from_u128(0x4000 + number));
    // More than one statement can hold on SQLite.
    const MANY: u128 = 5_000;
    with_desktop(store, DESKTOP).await;
    with_desktop(store, OTHER_DESKTOP).await;
    store.renew_instance(GREEN, at(0), at(90)).await.unwrap();
    let mut batch = Vec::new();
    for number in 0..MANY {
        with_desktop(store, id(number)).await;
        batch.push(online(id(number), (BLUE, number as u64), 10));
    }
    store.write_presence(batch).await.unwrap();
    write(store, online(DESKTOP, (GREEN, 7), 10)).await;
    assert_eq!(store.sweep_lost(at(20)).await, Ok(MANY as usize));
    store.release_instance(GREEN, at(30)).await.unwrap();

    let lost = Some(OfflineReason::RelayLost);
    for number in [0, 999, 1_000, MANY - 1] {
        let holder = (BLUE, number as u64);
        let expected = [
            kept(id(number), holder, Online, None, 10),
            kept(id(number), holder, Offline, lost, 20),
        ];
        assert_eq!(subject.history(id(number)), expected);
    }
    let stopped = Some(OfflineReason::RelayStopped);
    let expected = [
        kept(DESKTOP, (GREEN, 7), Online, None, 10),
        kept(DESKTOP, (GREEN, 7), Offline, stopped, 30),
    ];
    assert_eq!(subject.history(DESKTOP), expected);
    assert_eq!(subject.history(OTHER_DESKTOP), []);
}

/// PR-6: a purge drops what is older than it is told, and nothing of the devices themselves.
pub async fn a_purge_drops_old_history_only(subject: &dyn Subject) {
    let store = subject.store();
    let before = with_desktop(store, DESKTOP).await;
    for seconds in 0..10 {
        write(store, online(DESKTOP, (BLUE, seconds), seconds)).await;
    }
    let purge = async |before| store.purge_presence_history(before).await.unwrap();
    assert_eq!(purge(at(0)).await, 0);
    assert_eq!(purge(at(3).plus(Duration::from_micros(1))).await, 4);
    assert_eq!(purge(at(3).plus(Duration::from_micros(1))).await, 0);
    let left: Vec<_> = subject
        .history(DESKTOP)
        .iter()
        .map(|change| change.at)
        .collect();
    assert_eq!(left, [4, 5, 6, 7, 8, 9].map(at));
    assert_eq!(purge(at(1_000)).await, 6);
    assert_eq!(subject.history(DESKTOP), []);
    let after = super::row(store, DESKTOP).await;
    assert_eq!((after.id, after.status), (before.id, Online));
}
