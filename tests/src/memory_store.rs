//! A device store in memory, for simulated runs and actor tests: repeatable, answers where it is
//! asked (no thread, no disk), and can be made slow or broken. It is written apart from the store
//! over a database and held against it by [`store_suite`](mod@crate::store_suite).

mod tables;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use relay_model::ids::{AccountId, ApiKeyId, DeviceId, RelayInstanceId};
use relay_model::push::{
    NewPushToken, PushOutcomeWrite, PushRegistration, PushTokenRow, PushTokenSetting,
};
use relay_model::store::{
    ApiKeyRow, Asker, ChangedDevice, DesktopRegistration, DeviceChange, DeviceFilter, DeviceRow,
    DeviceStore, ForgottenDevice, HeartbeatWrite, KnownDevice, NewApiKey, PhoneRegistration,
    PresenceEntry, PresenceWrite, RegistrationFacts, RegistrationOutcome, StoreError, StoreFuture,
    StoredApiKey,
};
use relay_model::time::Timestamp;

pub use tables::PresenceChange;
use tables::Tables;

/// How often each method was called, failed calls included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls of `registration_facts`.
    pub registration_facts: u64,
    /// Calls of `register_desktop` and `register_phone`.
    pub registrations: u64,
    /// Calls of `devices`.
    pub devices: u64,
    /// Calls of `change_device`.
    pub change_device: u64,
    /// Calls of `forget_device`.
    pub forget_device: u64,
    /// Calls of `write_presence`.
    pub write_presence: u64,
    /// Changes in those calls.
    pub presence_changes: u64,
    /// Calls of `write_heartbeats`.
    pub write_heartbeats: u64,
    /// Heartbeats in those calls.
    pub heartbeats: u64,
    /// Calls of `renew_instance`.
    pub renew_instance: u64,
    /// Calls of `mark_draining`.
    pub mark_draining: u64,
    /// Calls of `marked_lost`.
    pub marked_lost: u64,
    /// Calls of `sweep_lost`.
    pub sweep_lost: u64,
    /// Calls of `release_instance`.
    pub release_instance: u64,
    /// Calls of `purge_presence_history`.
    pub purge_presence_history: u64,
    /// Calls of `create_api_key` and `revoke_api_key`.
    pub api_key_writes: u64,
    /// Calls of `api_keys` and `api_key`.
    pub api_key_reads: u64,
    /// Calls of `ended_api_keys`.
    pub ended_api_keys: u64,
    /// Calls of `set_push_token`, `remove_push_tokens` and `remove_push_registration`.
    pub push_token_writes: u64,
    /// Calls of `push_tokens`.
    pub push_token_reads: u64,
    /// Calls of `record_push_outcomes`.
    pub push_outcome_writes: u64,
    /// Calls of `known_devices` and `presence_history`.
    pub operator_reads: u64,
    /// Calls of `set_protocol_floor`.
    pub set_protocol_floor: u64,
    /// Calls of `protocol_floor`.
    pub protocol_floor: u64,
    /// Calls of `check`.
    pub check: u64,
}

/// The store; clones share what they hold.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    tables: Tables,
    counts: CallCounts,
    delay: Duration,
    answer_delay: Duration,
    failing: bool,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes every later call take this long, on tokio's clock, before it looks at the data.
    pub fn set_delay(&self, delay: Duration) {
        self.lock().delay = delay;
    }

    /// Makes the answer of every later call take this long after it looked at the data.
    pub fn set_answer_delay(&self, delay: Duration) {
        self.lock().answer_delay = delay;
    }

    /// While set, every call ends in [`StoreError::Unavailable`] and changes nothing.
    pub fn set_failing(&self, failing: bool) {
        self.lock().failing = failing;
    }

    /// How often each method was called so far.
    pub fn counts(&self) -> CallCounts {
        self.lock().counts
    }

    /// Sets the protocol floor (REG-9).
    pub fn set_protocol_floor(&self, floor: u32) {
        self.lock().tables.protocol_floor = floor;
    }

    /// Makes the device forgotten; false if there is none of this id.
    pub fn forget(&self, device: DeviceId) -> bool {
        let mut shared = self.lock();
        let found = shared.tables.devices.get_mut(&device);
        found.map(|device| device.forgotten = true).is_some()
    }

    /// Makes a desktop hidden or shown; false if there is none of this id.
    pub fn set_relay_eligible(&self, device: DeviceId, eligible: bool) -> bool {
        let mut shared = self.lock();
        let found = shared.tables.devices.get_mut(&device);
        found
            .map(|device| device.row.relay_eligible = eligible)
            .is_some()
    }

    /// The device's row, whoever it belongs to.
    pub fn row(&self, device: DeviceId) -> Option<DeviceRow> {
        let shared = self.lock();
        shared
            .tables
            .devices
            .get(&device)
            .map(|device| device.row.clone())
    }

    /// The device's presence history, oldest first, whoever it belongs to.
    pub fn history(&self, device: DeviceId) -> Vec<PresenceChange> {
        let shared = self.lock();
        let history = shared.tables.history.changes().copied();
        history.filter(|change| change.device == device).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A test that panicked while it held the lock has failed already.
        self.shared.lock().unwrap()
    }

    fn call<T: Send + 'static>(
        &self,
        count: impl FnOnce(&mut CallCounts) + Send + 'static,
        query: impl FnOnce(&mut Tables) -> T + Send + 'static,
    ) -> StoreFuture<T> {
        self.try_call(count, |tables| Ok(query(tables)))
    }

    fn try_call<T: Send + 'static>(
        &self,
        count: impl FnOnce(&mut CallCounts) + Send + 'static,
        query: impl FnOnce(&mut Tables) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<T> {
        let store = self.clone();
        Box::pin(async move {
            let (delay, answer_delay) = {
                let mut shared = store.lock();
                count(&mut shared.counts);
                (shared.delay, shared.answer_delay)
            };
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let answer = store.answer(query);
            if !answer_delay.is_zero() {
                tokio::time::sleep(answer_delay).await;
            }
            answer
        })
    }

    fn answer<T>(
        &self,
        query: impl FnOnce(&mut Tables) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut shared = self.lock();
        if shared.failing {
            return Err(StoreError::Unavailable("switched off".to_owned()));
        }
        query(&mut shared.tables)
    }
}

impl DeviceStore for MemoryStore {
    fn registration_facts(
        &self,
        asker: Asker,
        account: AccountId,
        device: DeviceId,
        target: Option<DeviceId>,
    ) -> StoreFuture<RegistrationFacts> {
        self.call(
            |counts| counts.registration_facts += 1,
            move |tables| tables.registration_facts(asker, account, device, target),
        )
    }

    fn register_desktop(
        &self,
        account: AccountId,
        device: DeviceId,
        registration: DesktopRegistration,
        now: Timestamp,
    ) -> StoreFuture<RegistrationOutcome> {
        self.call(
            |counts| counts.registrations += 1,
            move |tables| tables.register(account, device, registration.into(), now),
        )
    }

    fn register_phone(
        &self,
        account: AccountId,
        device: DeviceId,
        registration: PhoneRegistration,
        now: Timestamp,
    ) -> StoreFuture<RegistrationOutcome> {
        self.call(
            |counts| counts.registrations += 1,
            move |tables| tables.register(account, device, registration.into(), now),
        )
    }

    fn devices(
        &self,
        asker: Asker,
        account: AccountId,
        filter: DeviceFilter,
    ) -> StoreFuture<Vec<DeviceRow>> {
        self.call(
            |counts| counts.devices += 1,
            move |tables| tables.list(asker, account, filter),
        )
    }

    fn known_devices(&self, asker: Asker, account: AccountId) -> StoreFuture<Vec<KnownDevice>> {
        self.call(
            |counts| counts.operator_reads += 1,
            move |tables| tables.list_known(asker, account),
        )
    }

    fn presence_history(
        &self,
        account: AccountId,
        devices: Vec<DeviceId>,
        limit: usize,
    ) -> StoreFuture<Vec<PresenceEntry>> {
        self.call(
            |counts| counts.operator_reads += 1,
            move |tables| tables.last_changes(account, &devices, limit),
        )
    }

    fn change_device(
        &self,
        account: AccountId,
        device: DeviceId,
        change: DeviceChange,
        now: Timestamp,
    ) -> StoreFuture<Option<ChangedDevice>> {
        self.call(
            |counts| counts.change_device += 1,
            move |tables| tables.change_device(account, device, change, now),
        )
    }

    fn forget_device(
        &self,
        account: AccountId,
        device: DeviceId,
        now: Timestamp,
    ) -> StoreFuture<Option<ForgottenDevice>> {
        self.call(
            |counts| counts.forget_device += 1,
            move |tables| tables.forget_device(account, device, now),
        )
    }

    fn write_presence(&self, writes: Vec<PresenceWrite>) -> StoreFuture<()> {
        let changes = writes.len() as u64;
        self.call(
            move |counts| {
                counts.write_presence += 1;
                counts.presence_changes += changes;
            },
            move |tables| tables.write_presence(&writes),
        )
    }

    fn write_heartbeats(&self, writes: Vec<HeartbeatWrite>) -> StoreFuture<()> {
        let heartbeats = writes.len() as u64;
        self.call(
            move |counts| {
                counts.write_heartbeats += 1;
                counts.heartbeats += heartbeats;
            },
            move |tables| tables.write_heartbeats(&writes),
        )
    }

    fn renew_instance(
        &self,
        instance: RelayInstanceId,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> StoreFuture<()> {
        self.call(
            |counts| counts.renew_instance += 1,
            move |tables| tables.renew_instance(instance, now, lease_until),
        )
    }

    fn mark_draining(
        &self,
        instance: RelayInstanceId,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> StoreFuture<()> {
        self.call(
            |counts| counts.mark_draining += 1,
            move |tables| tables.mark_draining(instance, now, lease_until),
        )
    }

    fn marked_lost(&self, instance: RelayInstanceId) -> StoreFuture<Vec<(AccountId, DeviceId)>> {
        self.call(
            |counts| counts.marked_lost += 1,
            move |tables| tables.marked_lost(instance),
        )
    }

    fn sweep_lost(&self, now: Timestamp) -> StoreFuture<usize> {
        self.call(
            |counts| counts.sweep_lost += 1,
            move |tables| tables.sweep_lost(now),
        )
    }

    fn release_instance(&self, instance: RelayInstanceId, now: Timestamp) -> StoreFuture<()> {
        self.call(
            |counts| counts.release_instance += 1,
            move |tables| tables.release_instance(instance, now),
        )
    }

    fn purge_presence_history(&self, before: Timestamp) -> StoreFuture<usize> {
        self.call(
            |counts| counts.purge_presence_history += 1,
            move |tables| tables.purge_presence_history(before),
        )
    }

    fn create_api_key(&self, key: NewApiKey) -> StoreFuture<()> {
        self.try_call(
            |counts| counts.api_key_writes += 1,
            move |tables| tables.create_api_key(key),
        )
    }

    fn api_keys(&self, account: AccountId) -> StoreFuture<Vec<ApiKeyRow>> {
        self.call(
            |counts| counts.api_key_reads += 1,
            move |tables| tables.list_api_keys(account),
        )
    }

    fn api_key(&self, id: ApiKeyId) -> StoreFuture<Option<StoredApiKey>> {
        self.call(
            |counts| counts.api_key_reads += 1,
            move |tables| tables.find_api_key(id),
        )
    }

    fn revoke_api_key(
        &self,
        account: AccountId,
        id: ApiKeyId,
        now: Timestamp,
    ) -> StoreFuture<bool> {
        self.call(
            |counts| counts.api_key_writes += 1,
            move |tables| tables.revoke_api_key(account, id, now),
        )
    }

    fn ended_api_keys(&self, ids: Vec<ApiKeyId>, now: Timestamp) -> StoreFuture<Vec<ApiKeyId>> {
        self.call(
            |counts| counts.ended_api_keys += 1,
            move |tables| tables.ended_api_keys(ids, now),
        )
    }

    fn set_push_token(
        &self,
        account: AccountId,
        device: DeviceId,
        token: NewPushToken,
        now: Timestamp,
    ) -> StoreFuture<PushTokenSetting> {
        self.call(
            |counts| counts.push_token_writes += 1,
            move |tables| tables.set_push_token(account, device, token, now),
        )
    }

    fn remove_push_tokens(
        &self,
        account: AccountId,
        device: Option<DeviceId>,
    ) -> StoreFuture<usize> {
        self.call(
            |counts| counts.push_token_writes += 1,
            move |tables| tables.remove_push_tokens(account, device),
        )
    }

    fn push_tokens(&self, account: AccountId) -> StoreFuture<Vec<PushTokenRow>> {
        self.call(
            |counts| counts.push_token_reads += 1,
            move |tables| tables.list_push_tokens(account),
        )
    }

    fn remove_push_registration(&self, registration: PushRegistration) -> StoreFuture<bool> {
        self.call(
            |counts| counts.push_token_writes += 1,
            move |tables| tables.remove_push_registration(registration),
        )
    }

    fn record_push_outcomes(&self, writes: Vec<PushOutcomeWrite>) -> StoreFuture<()> {
        self.call(
            |counts| counts.push_outcome_writes += 1,
            move |tables| tables.record_push_outcomes(&writes),
        )
    }

    fn protocol_floor(&self) -> StoreFuture<u32> {
        self.call(
            |counts| counts.protocol_floor += 1,
            |tables| tables.protocol_floor,
        )
    }

    fn set_protocol_floor(&self, floor: u32) -> StoreFuture<()> {
        self.call(
            |counts| counts.set_protocol_floor += 1,
            move |tables| tables.protocol_floor = floor,
        )
    }

    fn check(&self) -> StoreFuture<()> {
        self.call(|counts| counts.check += 1, |_| ())
    }
}
