//! The store in memory, which must not differ from the others.

use std::sync::Arc;
use std::time::Duration;

use relay_model::ids::{DeviceId, RelayInstanceId};
use relay_model::store::{DeviceStore, StoreError};
use relay_model::time::Timestamp;
use relay_tests::memory_store::{MemoryStore, PresenceChange};
use relay_tests::store_suite::Subject;
use uuid::Uuid;

struct MemorySubject(MemoryStore);

impl Subject for MemorySubject {
    fn store(&self) -> &dyn DeviceStore {
        &self.0
    }

    fn second(&self) -> &dyn DeviceStore {
        &self.0
    }

    fn shared(&self) -> Arc<dyn DeviceStore> {
        Arc::new(self.0.clone())
    }

    fn history(&self, device: DeviceId) -> Vec<PresenceChange> {
        self.0.history(device)
    }

    fn forget(&self, device: DeviceId) {
        assert!(self.0.forget(device));
    }

    fn set_protocol_floor(&self, floor: u32) {
        self.0.set_protocol_floor(floor);
    }
}

relay_tests::store_suite!(MemorySubject(MemoryStore::new()));

/// A slow store answers after its delay on tokio's clock, a failing one with an error, and both
/// count the calls.
#[tokio::test(start_paused = true)]
async fn switches_and_counters_work() {
    let store = MemoryStore::new();
    store.set_delay(Duration::from_secs(3));
    let before = tokio::time::Instant::now();
    assert_eq!(store.protocol_floor().await, Ok(1));
    assert_eq!(before.elapsed().as_secs(), 3);

    store.set_delay(Duration::ZERO);
    store.set_failing(true);
    let instance = RelayInstanceId::from_uuid(Uuid::from_u128(1));
    let now = Timestamp::from_unix_micros(0);
    let failed = store.renew_instance(instance, now, now).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))));
    store.set_failing(false);
    assert_eq!(store.check().await, Ok(()));
    let counts = store.counts();
    assert_eq!((counts.protocol_floor, counts.check), (1, 1));
    assert_eq!((counts.renew_instance, counts.sweep_lost), (1, 0));
}
