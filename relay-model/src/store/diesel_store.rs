//! The device store over a database: runs each call's query on a thread that may block, so that no
//! actor ever waits for a disk.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::pool::{OpenError, Pool};
use super::{
    ApiKeyRow, Asker, ChangedDevice, DatabaseUrl, DesktopRegistration, DeviceChange, DeviceFilter,
    DeviceRow, DeviceStore, ForgottenDevice, HeartbeatWrite, KnownDevice, NewApiKey,
    PhoneRegistration, PresenceEntry, PresenceWrite, RegistrationFacts, RegistrationOutcome,
    StoreError, StoreFuture, StoredApiKey, api_keys, changes, devices, forgetting, instances,
    migrations, policy, presence, presence_history, probes, push_tokens, registration,
    registration_facts,
};
use crate::ids::{AccountId, ApiKeyId, DeviceId, RelayInstanceId};
use crate::limits::Limits;
use crate::push::{
    NewPushToken, PushOutcomeWrite, PushRegistration, PushTokenRow, PushTokenSetting,
};
use crate::time::Timestamp;

/// The store in SQLite or PostgreSQL, as its [`DatabaseUrl`] says. Clones share their connections. Its
/// futures need a tokio runtime.
#[derive(Clone)]
pub struct DieselStore {
    pool: Pool,
    instance_retention: Duration,
}

impl DieselStore {
    /// Opens the database without connecting to it; makes a missing SQLite file and its folder, for
    /// their owner only. Uses `database.pool`, `database.timeout` and `presence.instance_retention`.
    ///
    /// # Errors
    /// When the URL names something that can not be a database file, or asks for a verification for
    /// which there are no authorities.
    pub fn open(url: &DatabaseUrl, limits: &Limits) -> Result<Self, OpenError> {
        Ok(Self::over(Pool::open(url, limits)?, limits))
    }

    fn over(pool: Pool, limits: &Limits) -> Self {
        Self {
            pool,
            instance_retention: limits.instance_retention,
        }
    }

    /// Applies the pending migrations, all or none, and returns their versions.
    pub fn migrate(&self) -> StoreFuture<Vec<String>> {
        self.write(migrations::migrate)
    }

    /// The names of the migrations that [`migrate`](Self::migrate) would apply.
    pub fn pending_migrations(&self) -> StoreFuture<Vec<String>> {
        self.read(migrations::pending)
    }

    /// Whether the database takes writes; leaves it as it is. The migrations must be applied.
    pub fn probe_write(&self) -> StoreFuture<()> {
        self.write(probes::write)
    }

    /// What the database's server takes for the time; `None` if it runs in this process.
    pub fn clock(&self) -> StoreFuture<Option<Timestamp>> {
        self.read(probes::clock)
    }

    fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Pool) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<T> {
        let pool = self.pool.clone();
        Box::pin(blocking(move || query(&pool)))
    }

    fn write<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Pool) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<T> {
        self.write_in_turn(self.pool.writers(), query)
    }

    /// As [`write`](Self::write), and not before the writes that were ordered earlier: what is told
    /// of a device, and that its relay stops.
    fn write_in_order<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Pool) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<T> {
        self.write_in_turn(Some(self.pool.ordered_writers()), query)
    }

    fn write_in_turn<T: Send + 'static>(
        &self,
        turns: Option<Arc<Semaphore>>,
        query: impl FnOnce(&Pool) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<T> {
        let pool = self.pool.clone();
        Box::pin(async move {
            let turn = match turns {
                Some(turns) => turns.acquire_owned().await.ok(),
                None => None,
            };
            // The turn goes along: a caller that gives up does not end the query that it began.
            blocking(move || {
                let _turn = turn;
                query(&pool)
            })
            .await
        })
    }
}

async fn blocking<T: Send + 'static>(
    query: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(query).await {
        Ok(answer) => answer,
        Err(error) if error.is_panic() => Err(StoreError::Failed("the query panicked".to_owned())),
        Err(_) => Err(StoreError::Failed("the process is stopping".to_owned())),
    }
}

impl DeviceStore for DieselStore {
    fn registration_facts(
        &self,
        asker: Asker,
        account: AccountId,
        device: DeviceId,
        target: Option<DeviceId>,
    ) -> StoreFuture<RegistrationFacts> {
        self.read(move |pool| registration_facts::read(pool, asker, account, device, target))
    }

    fn register_desktop(
        &self,
        account: AccountId,
        device: DeviceId,
        registration: DesktopRegistration,
        now: Timestamp,
    ) -> StoreFuture<RegistrationOutcome> {
        self.write(move |pool| {
            registration::register(pool, account, device, registration.into(), now)
        })
    }

    fn register_phone(
        &self,
        account: AccountId,
        device: DeviceId,
        registration: PhoneRegistration,
        now: Timestamp,
    ) -> StoreFuture<RegistrationOutcome> {
        self.write(move |pool| {
            registration::register(pool, account, device, registration.into(), now)
        })
    }

    fn devices(
        &self,
        asker: Asker,
        account: AccountId,
        filter: DeviceFilter,
    ) -> StoreFuture<Vec<DeviceRow>> {
        self.read(move |pool| devices::list(pool, asker, account, filter))
    }

    fn known_devices(&self, asker: Asker, account: AccountId) -> StoreFuture<Vec<KnownDevice>> {
        self.read(move |pool| devices::list_known(pool, asker, account))
    }

    fn presence_history(
        &self,
        account: AccountId,
        devices: Vec<DeviceId>,
        limit: usize,
    ) -> StoreFuture<Vec<PresenceEntry>> {
        self.read(move |pool| presence_history::last(pool, account, &devices, limit))
    }

    fn change_device(
        &self,
        account: AccountId,
        device: DeviceId,
        change: DeviceChange,
        now: Timestamp,
    ) -> StoreFuture<Option<ChangedDevice>> {
        self.write(move |pool| changes::change(pool, account, device, change, now))
    }

    fn forget_device(
        &self,
        account: AccountId,
        device: DeviceId,
        now: Timestamp,
    ) -> StoreFuture<Option<ForgottenDevice>> {
        self.write(move |pool| forgetting::forget(pool, account, device, now))
    }

    fn write_presence(&self, writes: Vec<PresenceWrite>) -> StoreFuture<()> {
        self.write_in_order(move |pool| presence::write_changes(pool, writes))
    }

    fn write_heartbeats(&self, writes: Vec<HeartbeatWrite>) -> StoreFuture<()> {
        self.write(move |pool| presence::write_heartbeats(pool, writes))
    }

    fn renew_instance(
        &self,
        instance: RelayInstanceId,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> StoreFuture<()> {
        self.write(move |pool| instances::renew(pool, instance, now, lease_until))
    }

    fn marked_lost(&self, instance: RelayInstanceId) -> StoreFuture<Vec<(AccountId, DeviceId)>> {
        self.read(move |pool| instances::marked_lost(pool, instance))
    }

    fn sweep_lost(&self, now: Timestamp) -> StoreFuture<usize> {
        let forget_before = now.minus(self.instance_retention);
        self.write(move |pool| instances::sweep_lost(pool, now, forget_before))
    }

    fn mark_draining(
        &self,
        instance: RelayInstanceId,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> StoreFuture<()> {
        self.write(move |pool| instances::mark_draining(pool, instance, now, lease_until))
    }

    fn release_instance(&self, instance: RelayInstanceId, now: Timestamp) -> StoreFuture<()> {
        self.write_in_order(move |pool| instances::release(pool, instance, now))
    }

    fn purge_presence_history(&self, before: Timestamp) -> StoreFuture<usize> {
        let store = self.clone();
        Box::pin(async move {
            let mut purged = 0;
            loop {
                let some = store.write(move |pool| presence_history::purge_some(pool, before));
                let (dropped, more) = some.await?;
                purged += dropped;
                if !more {
                    return Ok(purged);
                }
            }
        })
    }

    fn create_api_key(&self, key: NewApiKey) -> StoreFuture<()> {
        self.write(move |pool| api_keys::create(pool, &key))
    }

    fn api_keys(&self, account: AccountId) -> StoreFuture<Vec<ApiKeyRow>> {
        self.read(move |pool| api_keys::list(pool, account))
    }

    fn api_key(&self, id: ApiKeyId) -> StoreFuture<Option<StoredApiKey>> {
        self.read(move |pool| api_keys::find(pool, id))
    }

    fn revoke_api_key(
        &self,
        account: AccountId,
        id: ApiKeyId,
        now: Timestamp,
    ) -> StoreFuture<bool> {
        self.write(move |pool| api_keys::revoke(pool, account, id, now))
    }

    fn ended_api_keys(&self, ids: Vec<ApiKeyId>, now: Timestamp) -> StoreFuture<Vec<ApiKeyId>> {
        self.read(move |pool| api_keys::ended(pool, ids, now))
    }

    fn set_push_token(
        &self,
        account: AccountId,
        device: DeviceId,
        token: NewPushToken,
        now: Timestamp,
    ) -> StoreFuture<PushTokenSetting> {
        self.write(move |pool| push_tokens::set(pool, account, device, token, now))
    }

    fn remove_push_tokens(
        &self,
        account: AccountId,
        device: Option<DeviceId>,
    ) -> StoreFuture<usize> {
        self.write(move |pool| push_tokens::remove(pool, account, device))
    }

    fn push_tokens(&self, account: AccountId) -> StoreFuture<Vec<PushTokenRow>> {
        self.read(move |pool| push_tokens::list(pool, account))
    }

    fn remove_push_registration(&self, registration: PushRegistration) -> StoreFuture<bool> {
        self.write(move |pool| push_tokens::remove_registration(pool, registration))
    }

    fn record_push_outcomes(&self, writes: Vec<PushOutcomeWrite>) -> StoreFuture<()> {
        self.write(move |pool| push_tokens::record_outcomes(pool, &writes))
    }

    fn protocol_floor(&self) -> StoreFuture<u32> {
        self.read(policy::protocol_floor)
    }

    fn set_protocol_floor(&self, floor: u32) -> StoreFuture<()> {
        self.write(move |pool| policy::set_protocol_floor(pool, floor))
    }

    fn check(&self) -> StoreFuture<()> {
        self.read(|pool| policy::protocol_floor(pool).map(drop))
    }
}

#[cfg(test)]
pub(super) mod tests;
