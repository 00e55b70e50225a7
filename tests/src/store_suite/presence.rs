//! What connections make of a device's row (PR-2, PR-6, PR-7).

use std::time::Duration;

use relay_model::store::{HeartbeatWrite, OfflineReason, PresenceWrite};

use super::{
    BLUE, DESKTOP, GREEN, NOBODY, OTHER_DESKTOP, OURS, Offline, Online, PHONE, Reconnecting,
    Subject, asker, at, change, list, online, row, row_for, with_desktop, with_phone, write,
};

/// PR-2, PR-6, OP-9: the row follows the device, keeps when it was last connected, and tells why it
/// is offline only while it is.
pub async fn presence_is_written_as_it_changes(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    let shown = async || {
        let row = row(store, DESKTOP).await;
        (row.status, row.offline_reason, row.last_seen)
    };
    let timeout = Some(OfflineReason::ReconnectTimeout);
    let closed = Some(OfflineReason::Disconnected);

    write(store, online(DESKTOP, (BLUE, 1), 10)).await;
    assert_eq!(shown().await, (Online, None, Some(at(10))));
    // A reason means something for offline only.
    write(
        store,
        change(DESKTOP, (BLUE, 1), Reconnecting, timeout, 100),
    )
    .await;
    assert_eq!(shown().await, (Reconnecting, None, Some(at(100))));
    write(store, change(DESKTOP, (BLUE, 1), Offline, timeout, 190)).await;
    assert_eq!(shown().await, (Offline, timeout, Some(at(100))));
    write(store, online(DESKTOP, (BLUE, 2), 300)).await;
    assert_eq!(shown().await, (Online, None, Some(at(300))));
    write(store, change(DESKTOP, (BLUE, 2), Offline, closed, 400)).await;
    assert_eq!(shown().await, (Offline, closed, Some(at(400))));
    assert_eq!(row(store, DESKTOP).await.updated_at, at(0));
    // The highest generation there is survives the database.
    write(store, online(DESKTOP, (BLUE, u64::MAX), 500)).await;
    write(store, change(DESKTOP, (BLUE, u64::MAX), Offline, None, 501)).await;
    assert_eq!(shown().await, (Offline, None, Some(at(501))));
}

/// DR-5: of two relays that hold a device one after the other, the later word stays.
pub async fn an_older_online_changes_nothing(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    write(green, online(DESKTOP, (GREEN, 1), 20)).await;
    let before = row_for(blue, DESKTOP, asker(BLUE, 21)).await;
    write(blue, online(DESKTOP, (BLUE, 7), 19)).await;
    assert_eq!(row_for(blue, DESKTOP, asker(BLUE, 21)).await, before);
    write(blue, online(DESKTOP, (BLUE, 7), 20)).await;
    let own = row_for(blue, DESKTOP, asker(BLUE, 21)).await;
    assert_eq!((own.status, own.elsewhere), (Online, None));
    // A first word counts whenever it was said: clocks of two machines differ.
    with_desktop(blue, OTHER_DESKTOP).await;
    let early = PresenceWrite {
        at: at(0).minus(Duration::from_millis(1)),
        ..online(OTHER_DESKTOP, (BLUE, 8), 0)
    };
    write(blue, early).await;
    assert_eq!(row(blue, OTHER_DESKTOP).await.status, Online);
}

/// PR-7, DR-5: a change other than online needs the row's instance and its generation.
pub async fn only_the_holder_may_take_a_device_offline(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    // Nobody holds it yet.
    write(blue, change(DESKTOP, (BLUE, 1), Reconnecting, None, 5)).await;
    assert_eq!(row(blue, DESKTOP).await.status, Offline);

    write(blue, online(DESKTOP, (BLUE, 1), 10)).await;
    write(green, online(DESKTOP, (GREEN, 1), 20)).await;
    let before = row(blue, DESKTOP).await;
    let timeout = Some(OfflineReason::ReconnectTimeout);
    for holder in [(BLUE, 1), (BLUE, 2), (GREEN, 2), (GREEN, 0)] {
        for status in [Reconnecting, Offline] {
            write(blue, change(DESKTOP, holder, status, timeout, 30)).await;
        }
    }
    // Nor may the holder by a word older than its last.
    write(green, change(DESKTOP, (GREEN, 1), Offline, timeout, 19)).await;
    assert_eq!(row(blue, DESKTOP).await, before);
    write(green, change(DESKTOP, (GREEN, 1), Offline, timeout, 30)).await;
    assert_eq!(row(blue, DESKTOP).await.status, Offline);
}

/// Changes of one batch are written in its order, and of several devices at once.
pub async fn a_batch_is_written_in_order(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    with_phone(store).await;
    let closed = Some(OfflineReason::Disconnected);
    store
        .write_presence(vec![
            online(DESKTOP, (BLUE, 1), 10),
            online(PHONE, (BLUE, 2), 10),
            change(DESKTOP, (BLUE, 1), Reconnecting, None, 11),
            change(PHONE, (BLUE, 2), Offline, closed, 11),
            online(DESKTOP, (BLUE, 3), 11),
        ])
        .await
        .unwrap();
    assert_eq!(row(store, DESKTOP).await.status, Online);
    assert_eq!(row(store, PHONE).await.offline_reason, closed);
    // The last generation is the one that counts.
    write(store, change(DESKTOP, (BLUE, 1), Offline, None, 12)).await;
    assert_eq!(row(store, DESKTOP).await.status, Online);
    store.write_presence(Vec::new()).await.unwrap();
    store.write_heartbeats(Vec::new()).await.unwrap();
}

/// A device without a row stops nobody else's changes of the batch.
pub async fn unknown_devices_are_passed_over(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    store
        .write_presence(vec![
            online(NOBODY, (BLUE, 1), 10),
            online(DESKTOP, (BLUE, 2), 10),
        ])
        .await
        .unwrap();
    let beat = |device| HeartbeatWrite {
        account: OURS,
        device,
        at: at(11),
    };
    store
        .write_heartbeats(vec![beat(NOBODY), beat(DESKTOP)])
        .await
        .unwrap();
    let rows = list(store, OURS, asker(BLUE, 0)).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].status, Online);
    assert_eq!(rows[0].last_heartbeat, Some(at(11)));
}

/// KA-1: a heartbeat counts as seen; an older one that comes late moves nothing back.
pub async fn heartbeats_move_forward_only(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    write(store, online(DESKTOP, (BLUE, 1), 10)).await;
    let times = async || {
        let row = row(store, DESKTOP).await;
        (row.last_heartbeat, row.last_seen)
    };
    for (beat, heartbeat, seen) in [(5, 5, 10), (20, 20, 20), (15, 20, 20)] {
        store
            .write_heartbeats(vec![HeartbeatWrite {
                account: OURS,
                device: DESKTOP,
                at: at(beat),
            }])
            .await
            .unwrap();
        assert_eq!(times().await, (Some(at(heartbeat)), Some(at(seen))));
    }
    let row = row(store, DESKTOP).await;
    assert_eq!((row.status, row.updated_at), (Online, at(0)));
}
