//! What operators read of an account, and what they set for all (OP-9, REG-9).

use relay_model::ids::ConnectionGeneration;
use relay_model::limits::MAX_PROTOCOL_FLOOR;
use relay_model::store::{OfflineReason, PresenceEntry};

use super::{
    BLUE, DESKTOP, GREEN, NOBODY, OTHER_DESKTOP, OURS, Offline, Online, PHONE, Reconnecting,
    Subject, asker, at, change, facts, list, online, with_desktop, with_phone, write,
};

/// REG-9: a floor that one relay sets holds for the next registration at every relay.
pub async fn a_floor_that_is_set_holds_everywhere(subject: &dyn Subject) {
    for floor in [5, 0, MAX_PROTOCOL_FLOOR, 1] {
        subject.store().set_protocol_floor(floor).await.unwrap();
        let second = subject.second();
        assert_eq!(second.protocol_floor().await, Ok(floor));
        assert_eq!(
            facts(second, OURS, NOBODY, None).await.protocol_floor,
            floor
        );
    }
}

/// OP-9: forgotten devices are known to operators, and each says since when it is what it is.
pub async fn operators_see_every_device(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    with_desktop(store, OTHER_DESKTOP).await;
    with_phone(store).await;
    write(store, online(DESKTOP, (BLUE, 1), 10)).await;
    subject.forget(OTHER_DESKTOP);

    let known = store.known_devices(asker(GREEN, 20), OURS).await.unwrap();
    let told = |device| {
        let known = known.iter().find(|known| known.row.id == device);
        known.map(|known| (known.row.status, known.forgotten, known.status_at))
    };
    assert_eq!(told(DESKTOP), Some((Online, false, at(10))));
    let forgotten = told(OTHER_DESKTOP).unwrap();
    assert_eq!((forgotten.0, forgotten.1), (Offline, true));
    assert_eq!(told(NOBODY), None);
    let listed = list(store, OURS, asker(GREEN, 20)).await;
    let same: Vec<_> = known.into_iter().filter(|known| !known.forgotten).collect();
    assert_eq!(same.len(), 2);
    let rows: Vec<_> = same.into_iter().map(|known| known.row).collect();
    assert_eq!(rows, listed, "the same rows in the same order");
}

/// OP-9: of each device the last changes, the newest first, and no more than asked for.
pub async fn operators_see_the_last_changes(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    with_phone(store).await;
    let holder = (BLUE, u64::MAX);
    let timeout = Some(OfflineReason::ReconnectTimeout);
    write(store, online(DESKTOP, holder, 10)).await;
    write(store, change(DESKTOP, holder, Reconnecting, None, 11)).await;
    write(store, change(DESKTOP, holder, Offline, timeout, 12)).await;
    write(store, online(PHONE, (GREEN, 2), 13)).await;

    let entry = |status, reason, seconds| PresenceEntry {
        device: DESKTOP,
        at: at(seconds),
        instance: BLUE,
        generation: ConnectionGeneration::new(u64::MAX),
        status,
        reason,
    };
    let phone = PresenceEntry {
        device: PHONE,
        at: at(13),
        instance: GREEN,
        generation: ConnectionGeneration::new(2),
        status: Online,
        reason: None,
    };
    let desktop = [
        entry(Offline, timeout, 12),
        entry(Reconnecting, None, 11),
        entry(Online, None, 10),
    ];
    for (limit, shown) in [(0, 0), (1, 1), (2, 2), (3, 3), (20, 3)] {
        let last = store.presence_history(OURS, vec![PHONE, DESKTOP, NOBODY], limit);
        let phones: &[PresenceEntry] = if limit > 0 { &[phone] } else { &[] };
        let expected = [phones, &desktop[..shown]].concat();
        assert_eq!(last.await, Ok(expected), "{limit}");
    }
}
