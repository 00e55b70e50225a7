//! Relays that share the database: which rows are whose, and what becomes of those of a dead one (PR-6,
//! PR-8, DR-3, DR-5).

use std::time::Duration;

use relay_model::ids::{DeviceId, RelayInstanceId};
use relay_model::store::{Asker, DeviceStore, Elsewhere, HeartbeatWrite, Holder, OfflineReason};
use uuid::Uuid;

use super::{
    BLUE, DESKTOP, GREEN, OTHER_DESKTOP, OURS, Offline, Online, PHONE, Reconnecting, Subject,
    asker, at, change, list, online, row, row_for, with_desktop, with_phone, write,
};

/// What the asker is told of the desktop, by both queries that tell it, which must agree.
async fn elsewhere(store: &dyn DeviceStore, asker: Asker) -> Option<Elsewhere> {
    let listed = row_for(store, DESKTOP, asker).await.elsewhere;
    let facts = store
        .registration_facts(asker, OURS, PHONE, Some(DESKTOP))
        .await
        .unwrap();
    assert_eq!(facts.target.unwrap().elsewhere, listed);
    listed
}

/// Another relay holds the device.
fn held(seconds: u64) -> Option<Elsewhere> {
    was_seen(seconds, Holder::Live)
}

/// Another relay held the device and owns it no more.
fn left(seconds: u64) -> Option<Elsewhere> {
    was_seen(seconds, Holder::Gone)
}

/// Another relay holds the device until its drain is over.
fn leaving(seconds: u64) -> Option<Elsewhere> {
    was_seen(seconds, Holder::Draining)
}

fn was_seen(seconds: u64, holder: Holder) -> Option<Elsewhere> {
    let seen = at(seconds);
    Some(Elsewhere { seen, holder })
}

/// DR-3, DR-5: once a relay has released its rows, what it still had to say changes none of them,
/// neither those that it held nor those that moved on.
pub async fn late_writes_of_a_stopped_relay_change_nothing(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    with_desktop(blue, OTHER_DESKTOP).await;
    blue.renew_instance(BLUE, at(0), at(30)).await.unwrap();
    green.renew_instance(GREEN, at(0), at(30)).await.unwrap();
    write(blue, online(DESKTOP, (BLUE, 1), 10)).await;
    write(blue, online(OTHER_DESKTOP, (BLUE, 2), 10)).await;
    write(green, online(OTHER_DESKTOP, (GREEN, 1), 15)).await;
    blue.release_instance(BLUE, at(20)).await.unwrap();

    let stopped = row_for(blue, DESKTOP, asker(GREEN, 21)).await;
    assert_eq!(stopped.offline_reason, Some(OfflineReason::RelayStopped));
    assert_eq!((stopped.status, stopped.last_seen), (Offline, Some(at(20))));
    let moved = row_for(blue, OTHER_DESKTOP, asker(GREEN, 21)).await;
    assert_eq!((moved.status, moved.elsewhere), (Online, None));

    let timeout = Some(OfflineReason::ReconnectTimeout);
    for seconds in [19, 20, 25] {
        for (device, generation) in [(DESKTOP, 1), (OTHER_DESKTOP, 2)] {
            for status in [Reconnecting, Offline] {
                write(
                    blue,
                    change(device, (BLUE, generation), status, timeout, seconds),
                )
                .await;
            }
        }
    }
    write(blue, online(DESKTOP, (BLUE, 3), 19)).await;
    write(blue, online(OTHER_DESKTOP, (BLUE, 4), 14)).await;
    assert_eq!(row_for(blue, DESKTOP, asker(GREEN, 21)).await, stopped);
    assert_eq!(row_for(blue, OTHER_DESKTOP, asker(GREEN, 21)).await, moved);
}

/// DR-5, PR-6: a device that came to this relay before the mark of a stop or a sweep was made is
/// online, though the write comes after the mark.
pub async fn a_device_that_moved_is_online_whatever_the_mark(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    with_desktop(blue, OTHER_DESKTOP).await;
    green.renew_instance(GREEN, at(0), at(90)).await.unwrap();
    write(blue, online(DESKTOP, (BLUE, 1), 10)).await;
    write(blue, online(OTHER_DESKTOP, (BLUE, 2), 10)).await;
    blue.release_instance(BLUE, at(20)).await.unwrap();
    write(green, online(DESKTOP, (GREEN, 1), 19)).await;
    let moved = row_for(green, DESKTOP, asker(GREEN, 21)).await;
    assert_eq!((moved.status, moved.offline_reason), (Online, None));
    // When it was last known to be connected never moves back.
    assert_eq!(moved.last_seen, Some(at(20)));

    let lost = RelayInstanceId::from_uuid(Uuid::from_u128(0xB3));
    write(blue, online(OTHER_DESKTOP, (lost, 1), 30)).await;
    assert_eq!(green.sweep_lost(at(40)).await, Ok(1));
    write(green, online(OTHER_DESKTOP, (GREEN, 2), 39)).await;
    assert_eq!(row(green, OTHER_DESKTOP).await.status, Online);
    // A relay that was taken for dead and is not may say so as well.
    write(blue, online(OTHER_DESKTOP, (lost, 3), 41)).await;
    assert_eq!(green.sweep_lost(at(50)).await, Ok(1));
    write(blue, online(OTHER_DESKTOP, (lost, 4), 49)).await;
    assert_eq!(row(green, OTHER_DESKTOP).await.status, Online);
}

/// PR-6: a relay whose lease lapsed finds its rows that a sweep marked as lost, until somebody has said
/// anything else of them.
pub async fn a_relay_finds_what_was_marked_lost(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    with_desktop(blue, OTHER_DESKTOP).await;
    with_phone(blue).await;
    blue.renew_instance(BLUE, at(0), at(30)).await.unwrap();
    write(blue, online(DESKTOP, (BLUE, 1), 10)).await;
    write(blue, online(OTHER_DESKTOP, (BLUE, 2), 10)).await;
    write(blue, online(PHONE, (BLUE, 3), 10)).await;
    write(blue, change(DESKTOP, (BLUE, 1), Reconnecting, None, 20)).await;
    let closed = Some(OfflineReason::Disconnected);
    write(blue, change(PHONE, (BLUE, 3), Offline, closed, 20)).await;
    assert_eq!(blue.marked_lost(BLUE).await, Ok(vec![]));
    assert_eq!(green.sweep_lost(at(31)).await, Ok(2));
    let both = vec![(OURS, DESKTOP), (OURS, OTHER_DESKTOP)];
    assert_eq!(blue.marked_lost(BLUE).await, Ok(both));
    assert_eq!(blue.marked_lost(GREEN).await, Ok(vec![]));

    // The relay that holds a device knows better, also when it says so later than the device went.
    write(blue, change(DESKTOP, (BLUE, 2), Offline, closed, 32)).await;
    assert_eq!(
        row(blue, DESKTOP).await.offline_reason,
        Some(OfflineReason::RelayLost)
    );
    write(blue, change(DESKTOP, (BLUE, 1), Reconnecting, None, 25)).await;
    let left = vec![(OURS, OTHER_DESKTOP)];
    assert_eq!(blue.marked_lost(BLUE).await, Ok(left));
    write(green, online(OTHER_DESKTOP, (GREEN, 1), 33)).await;
    assert_eq!(blue.marked_lost(BLUE).await, Ok(vec![]));
    assert_eq!(row(blue, DESKTOP).await.status, Reconnecting);
    // What a relay left at its stop is no mistake of another.
    blue.release_instance(BLUE, at(34)).await.unwrap();
    assert_eq!(blue.marked_lost(BLUE).await, Ok(vec![]));
}

/// PR-8: what is told of a row that another relay holds: live, lapsed, draining, gone.
pub async fn elsewhere_is_told_of_other_relays_only(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    with_phone(blue).await;
    assert_eq!(elsewhere(green, asker(GREEN, 5)).await, None);

    // Without a row of its own the relay counts as gone, and the device's own time is told.
    write(blue, online(DESKTOP, (BLUE, 1), 10)).await;
    assert_eq!(elsewhere(green, asker(GREEN, 15)).await, left(10));
    // Live, to the last moment of its lease; its own rows are never "elsewhere".
    blue.renew_instance(BLUE, at(12), at(42)).await.unwrap();
    for seconds in [15, 42] {
        let told = elsewhere(green, asker(GREEN, seconds)).await;
        assert_eq!(told, held(seconds));
        assert_eq!(elsewhere(blue, asker(BLUE, seconds)).await, None);
    }
    write(blue, change(DESKTOP, (BLUE, 1), Reconnecting, None, 20)).await;
    assert_eq!(elsewhere(green, asker(GREEN, 25)).await, held(25));
    // Lapsed: its last renewal, or the row's time if that is later.
    assert_eq!(elsewhere(green, asker(GREEN, 43)).await, left(20));
    blue.renew_instance(BLUE, at(22), at(52)).await.unwrap();
    assert_eq!(elsewhere(green, asker(GREEN, 53)).await, left(22));
    // Draining: it owns nothing, and its renewals still tell until when the device was connected.
    blue.mark_draining(BLUE, at(53), at(83)).await.unwrap();
    assert_eq!(elsewhere(green, asker(GREEN, 51)).await, leaving(22));
    assert_eq!(elsewhere(green, asker(GREEN, 54)).await, left(22), "lapsed");
    blue.renew_instance(BLUE, at(55), at(85)).await.unwrap();
    assert_eq!(elsewhere(green, asker(GREEN, 56)).await, leaving(55));
    // Also when a sweep has marked the row.
    assert_eq!(green.sweep_lost(at(57)).await, Ok(1));
    assert_eq!(elsewhere(green, asker(GREEN, 58)).await, leaving(55));
    write(blue, online(DESKTOP, (BLUE, 1), 59)).await;
    // Released: the moment of the stop.
    blue.release_instance(BLUE, at(60)).await.unwrap();
    assert_eq!(elsewhere(green, asker(GREEN, 70)).await, left(60));
    // A late word under a draining relay: not live, whatever its lease says.
    write(blue, online(DESKTOP, (BLUE, 2), 61)).await;
    blue.renew_instance(BLUE, at(62), at(99)).await.unwrap();
    assert_eq!(elsewhere(green, asker(GREEN, 70)).await, leaving(62));
    // Its own relay saw it go.
    write(green, online(DESKTOP, (GREEN, 1), 80)).await;
    let closed = Some(OfflineReason::ReconnectTimeout);
    write(green, change(DESKTOP, (GREEN, 1), Offline, closed, 81)).await;
    assert_eq!(elsewhere(green, asker(GREEN, 82)).await, None);
    assert_eq!(elsewhere(blue, asker(BLUE, 82)).await, None);
}

/// PR-6, PR-8: a sweep does not change what a starting relay is told of a lost device, and what it
/// is told is the latest that is known.
pub async fn elsewhere_does_not_jump_when_swept(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    with_phone(blue).await;
    // Each story: renewal, what happened before and after, and the time that should be told.
    let beat = |seconds| HeartbeatWrite {
        account: OURS,
        device: DESKTOP,
        at: at(seconds),
    };
    for (start, renewed, seen, dropped, told) in [
        (1_000, None, None, None, 1_000),
        (2_000, Some(2_020), None, None, 2_020),
        (3_000, Some(3_020), Some(3_025), None, 3_025),
        (4_000, Some(4_020), Some(4_005), Some(4_010), 4_020),
        (5_000, Some(4_999), Some(5_003), Some(5_010), 5_010),
    ] {
        let relay = RelayInstanceId::from_uuid(Uuid::from_u128(u128::from(start)));
        write(blue, online(DESKTOP, (relay, 1), start)).await;
        if let Some(renewed) = renewed {
            blue.renew_instance(relay, at(renewed), at(renewed + 30))
                .await
                .unwrap();
        }
        if let Some(seen) = seen {
            blue.write_heartbeats(vec![beat(seen)]).await.unwrap();
        }
        if let Some(dropped) = dropped {
            write(
                blue,
                change(DESKTOP, (relay, 1), Reconnecting, None, dropped),
            )
            .await;
        }
        let later = asker(GREEN, start + 100);
        assert_eq!(elsewhere(green, later).await, left(told), "{start}");
        assert_eq!(green.sweep_lost(later.now).await, Ok(1), "{start}");
        assert_eq!(elsewhere(green, later).await, left(told), "{start}");
        let swept = row(green, DESKTOP).await;
        assert_eq!(swept.offline_reason, Some(OfflineReason::RelayLost));
        assert_eq!((swept.status, swept.last_seen), (Offline, Some(at(told))));
    }
}

/// PR-6: rows of relays that are gone, draining or lapsed are corrected, others are not touched.
pub async fn a_sweep_marks_the_dead_only(subject: &dyn Subject) {
    let store = subject.store();
    let id = |number: u128| DeviceId::from_uuid(Uuid::from_u128(0x2000 + number));
    let relay = |number: u128| RelayInstanceId::from_uuid(Uuid::from_u128(0x3000 + number));
    const LIVE: u128 = 0;
    const LAPSED: u128 = 1;
    const DRAINING: u128 = 2;
    const GONE: u128 = 3;
    for number in 0..4 {
        with_desktop(store, id(number)).await;
        with_desktop(store, id(number + 10)).await;
        with_desktop(store, id(number + 20)).await;
    }
    store
        .renew_instance(relay(LIVE), at(5), at(35))
        .await
        .unwrap();
    store
        .renew_instance(relay(LAPSED), at(4), at(34))
        .await
        .unwrap();
    store
        .renew_instance(relay(DRAINING), at(5), at(35))
        .await
        .unwrap();
    store
        .release_instance(relay(DRAINING), at(6))
        .await
        .unwrap();
    for number in [LIVE, LAPSED, DRAINING, GONE] {
        for (device, status) in [
            (id(number), Online),
            (id(number + 10), Reconnecting),
            (id(number + 20), Offline),
        ] {
            let holder = (relay(number), 1);
            write(store, online(device, holder, 10)).await;
            if status != Online {
                write(store, change(device, holder, status, None, 11)).await;
            }
        }
    }
    let before = list(store, OURS, asker(BLUE, 35)).await;
    assert_eq!(store.sweep_lost(at(35)).await, Ok(6));
    for old in before {
        let new = row_for(store, old.id, asker(BLUE, 35)).await;
        let number = (old.id.as_uuid().as_u128() - 0x2000) % 10;
        if number == LIVE || old.status == Offline {
            assert_eq!(new, old);
        } else {
            assert_eq!(new.status, Offline);
            let reason = if number == DRAINING {
                OfflineReason::RelayStopped
            } else {
                OfflineReason::RelayLost
            };
            assert_eq!(new.offline_reason, Some(reason));
        }
    }
    assert_eq!(store.sweep_lost(at(35)).await, Ok(0));
    // A moment later the last lease has ended too.
    let after_lease = at(35).plus(Duration::from_micros(1));
    assert_eq!(store.sweep_lost(after_lease).await, Ok(2));
}

/// PR-6, DR-3: a release marks what the relay holds, nothing else, and no late renewal undoes it.
pub async fn a_released_relay_stays_dead(subject: &dyn Subject) {
    let store = subject.store();
    let closed = DeviceId::from_uuid(Uuid::from_u128(0xD3));
    for device in [DESKTOP, OTHER_DESKTOP, closed] {
        with_desktop(store, device).await;
    }
    with_phone(store).await;
    store.renew_instance(BLUE, at(0), at(30)).await.unwrap();
    store.renew_instance(GREEN, at(0), at(90)).await.unwrap();
    write(store, online(DESKTOP, (BLUE, 1), 10)).await;
    write(store, change(DESKTOP, (BLUE, 1), Reconnecting, None, 12)).await;
    write(store, online(PHONE, (BLUE, 2), 10)).await;
    write(store, online(OTHER_DESKTOP, (GREEN, 1), 10)).await;
    write(store, online(closed, (BLUE, 3), 10)).await;
    let timeout = Some(OfflineReason::ReconnectTimeout);
    write(store, change(closed, (BLUE, 3), Offline, timeout, 11)).await;
    let untouched = [row(store, OTHER_DESKTOP).await, row(store, closed).await];

    store.release_instance(BLUE, at(20)).await.unwrap();
    for device in [DESKTOP, PHONE] {
        let row = row(store, device).await;
        assert_eq!((row.status, row.last_seen), (Offline, Some(at(20))));
        assert_eq!(row.offline_reason, Some(OfflineReason::RelayStopped));
    }
    let others = [row(store, OTHER_DESKTOP).await, row(store, closed).await];
    assert_eq!(others, untouched);

    // A relay that never renewed can be released as well; renewing makes neither live again.
    let unborn = RelayInstanceId::from_uuid(Uuid::from_u128(0xB3));
    store.release_instance(unborn, at(20)).await.unwrap();
    for relay in [BLUE, unborn] {
        store.renew_instance(relay, at(21), at(51)).await.unwrap();
        write(store, online(DESKTOP, (relay, 5), 25)).await;
        assert_eq!(store.sweep_lost(at(26)).await, Ok(1));
    }
}
