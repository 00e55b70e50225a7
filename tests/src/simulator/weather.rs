//! The database of a simulated run: the store in memory, behind calls that come late or fail while
//! the weather is bad.

use std::sync::{Arc, Mutex};
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

use super::dice::Dice;
use crate::memory_store::MemoryStore;

/// How the database does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Every call is answered at once.
    Fair,
    /// Calls take up to 8 s, which is past their deadline.
    Slow,
    /// Calls fail, some of them late.
    Failing,
}

/// How late a call is at most, in steps of [`STEP`].
const LATEST: u64 = 1_000;
/// Calls are late by whole steps and [`OFFSET`], which keeps their ends apart from what the devices
/// do, which is done at whole steps.
const STEP: Duration = Duration::from_millis(8);
const OFFSET: Duration = Duration::from_millis(3);

/// The store; clones share their weather and what they hold.
#[derive(Clone)]
pub struct WeatheredStore {
    /// The store behind it.
    pub inner: MemoryStore,
    sky: Arc<Mutex<(Weather, Dice)>>,
}

impl WeatheredStore {
    /// An empty store in fair weather.
    pub fn new(dice: Dice) -> Self {
        Self {
            inner: MemoryStore::new(),
            sky: Arc::new(Mutex::new((Weather::Fair, dice))),
        }
    }

    /// Changes the weather, also for calls that are under way.
    pub fn set(&self, weather: Weather) {
        self.sky.lock().expect("no panic holds it").0 = weather;
    }

    fn weather(&self) -> Weather {
        self.sky.lock().expect("no panic holds it").0
    }

    fn delay(&self) -> Option<Duration> {
        let (weather, dice) = &mut *self.sky.lock().expect("no panic holds it");
        let late = match weather {
            Weather::Fair => false,
            Weather::Slow => dice.chance(90),
            Weather::Failing => dice.chance(30),
        };
        late.then(|| STEP * dice.between(1..=LATEST) as u32 + OFFSET)
    }

    fn call<T: Send + 'static>(&self, call: StoreFuture<T>) -> StoreFuture<T> {
        let store = self.clone();
        Box::pin(async move {
            if let Some(delay) = store.delay() {
                tokio::time::sleep(delay).await;
            }
            if store.weather() == Weather::Failing {
                return Err(StoreError::Unavailable("bad weather".to_owned()));
            }
            call.await
        })
    }
}

impl DeviceStore for WeatheredStore {
    fn registration_facts(
        &self,
        asker: Asker,
        account: AccountId,
        device: DeviceId,
        target: Option<DeviceId>,
    ) -> StoreFuture<RegistrationFacts> {
        self.call(
            self.inner
                .registration_facts(asker, account, device, target),
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
            self.inner
                .register_desktop(account, device, registration, now),
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
            self.inner
                .register_phone(account, device, registration, now),
        )
    }

    fn devices(
        &self,
        asker: Asker,
        account: AccountId,
        filter: DeviceFilter,
    ) -> StoreFuture<Vec<DeviceRow>> {
        self.call(self.inner.devices(asker, account, filter))
    }

    fn known_devices(&self, asker: Asker, account: AccountId) -> StoreFuture<Vec<KnownDevice>> {
        self.call(self.inner.known_devices(asker, account))
    }

    fn presence_history(
        &self,
        account: AccountId,
        devices: Vec<DeviceId>,
        limit: usize,
    ) -> StoreFuture<Vec<PresenceEntry>> {
        self.call(self.inner.presence_history(account, devices, limit))
    }

    fn change_device(
        &self,
        account: AccountId,
        device: DeviceId,
        change: DeviceChange,
        now: Timestamp,
    ) -> StoreFuture<Option<ChangedDevice>> {
        self.call(self.inner.change_device(account, device, change, now))
    }

    fn forget_device(
        &self,
        account: AccountId,
        device: DeviceId,
        now: Timestamp,
    ) -> StoreFuture<Option<ForgottenDevice>> {
        self.call(self.inner.forget_device(account, device, now))
    }

    fn create_api_key(&self, key: NewApiKey) -> StoreFuture<()> {
        self.call(self.inner.create_api_key(key))
    }

    fn api_keys(&self, account: AccountId) -> StoreFuture<Vec<ApiKeyRow>> {
        self.call(self.inner.api_keys(account))
    }

    fn api_key(&self, id: ApiKeyId) -> StoreFuture<Option<StoredApiKey>> {
        self.call(self.inner.api_key(id))
    }

    fn revoke_api_key(
        &self,
        account: AccountId,
        id: ApiKeyId,
        now: Timestamp,
    ) -> StoreFuture<bool> {
        self.call(self.inner.revoke_api_key(account, id, now))
    }

    fn ended_api_keys(&self, ids: Vec<ApiKeyId>, now: Timestamp) -> StoreFuture<Vec<ApiKeyId>> {
        self.call(self.inner.ended_api_keys(ids, now))
    }

    fn purge_presence_history(&self, before: Timestamp) -> StoreFuture<usize> {
        self.call(self.inner.purge_presence_history(before))
    }

    fn marked_lost(&self, instance: RelayInstanceId) -> StoreFuture<Vec<(AccountId, DeviceId)>> {
        self.call(self.inner.marked_lost(instance))
    }

    fn write_presence(&self, writes: Vec<PresenceWrite>) -> StoreFuture<()> {
        self.call(self.inner.write_presence(writes))
    }

    fn write_heartbeats(&self, writes: Vec<HeartbeatWrite>) -> StoreFuture<()> {
        self.call(self.inner.write_heartbeats(writes))
    }

    fn renew_instance(
        &self,
        instance: RelayInstanceId,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> StoreFuture<()> {
        self.call(self.inner.renew_instance(instance, now, lease_until))
    }

    fn mark_draining(
        &self,
        instance: RelayInstanceId,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> StoreFuture<()> {
        self.call(self.inner.mark_draining(instance, now, lease_until))
    }

    fn sweep_lost(&self, now: Timestamp) -> StoreFuture<usize> {
        self.call(self.inner.sweep_lost(now))
    }

    fn release_instance(&self, instance: RelayInstanceId, now: Timestamp) -> StoreFuture<()> {
        self.call(self.inner.release_instance(instance, now))
    }

    fn set_push_token(
        &self,
        account: AccountId,
        device: DeviceId,
        token: NewPushToken,
        now: Timestamp,
    ) -> StoreFuture<PushTokenSetting> {
        self.call(self.inner.set_push_token(account, device, token, now))
    }

    fn remove_push_tokens(
        &self,
        account: AccountId,
        device: Option<DeviceId>,
    ) -> StoreFuture<usize> {
        self.call(self.inner.remove_push_tokens(account, device))
    }

    fn push_tokens(&self, account: AccountId) -> StoreFuture<Vec<PushTokenRow>> {
        self.call(self.inner.push_tokens(account))
    }

    fn remove_push_registration(&self, registration: PushRegistration) -> StoreFuture<bool> {
        self.call(self.inner.remove_push_registration(registration))
    }

    fn record_push_outcomes(&self, writes: Vec<PushOutcomeWrite>) -> StoreFuture<()> {
        self.call(self.inner.record_push_outcomes(writes))
    }

    fn protocol_floor(&self) -> StoreFuture<u32> {
        self.call(self.inner.protocol_floor())
    }

    fn set_protocol_floor(&self, floor: u32) -> StoreFuture<()> {
        self.call(DeviceStore::set_protocol_floor(&self.inner, floor))
    }

    fn check(&self) -> StoreFuture<()> {
        self.call(self.inner.check())
    }
}
