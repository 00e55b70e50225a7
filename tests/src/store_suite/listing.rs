//! The list of an account's devices.

use relay_model::ids::DeviceId;
use relay_model::store::{DeviceFilter, DeviceType};
use uuid::Uuid;

use super::{
    BLUE, DESKTOP, NOBODY, OTHER_DESKTOP, OURS, PHONE, Subject, THEIRS, asker, at, desktop, phone,
};

/// The list: oldest first, by id within a moment, forgotten and foreign ones left out.
pub async fn the_list_is_oldest_first_and_filtered(subject: &dyn Subject) {
    let store = subject.store();
    for (account, device, seconds) in [
        (OURS, NOBODY, 1),
        (OURS, OTHER_DESKTOP, 2),
        (OURS, DESKTOP, 2),
        (THEIRS, DeviceId::from_uuid(Uuid::from_u128(1)), 0),
    ] {
        store
            .register_desktop(account, device, desktop("Desk"), at(seconds))
            .await
            .unwrap();
    }
    store
        .register_phone(OURS, PHONE, phone("Pocket"), at(0))
        .await
        .unwrap();
    let ids = async |device_type| -> Vec<DeviceId> {
        let rows = store
            .devices(asker(BLUE, 0), OURS, DeviceFilter { device_type })
            .await
            .unwrap();
        rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(ids(None).await, [PHONE, NOBODY, DESKTOP, OTHER_DESKTOP]);
    let desktops = ids(Some(DeviceType::Desktop)).await;
    assert_eq!(desktops, [NOBODY, DESKTOP, OTHER_DESKTOP]);
    assert_eq!(ids(Some(DeviceType::Mobile)).await, [PHONE]);
    subject.forget(NOBODY);
    assert_eq!(ids(None).await, [PHONE, DESKTOP, OTHER_DESKTOP]);
}
