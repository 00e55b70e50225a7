//! A store that notes which of its methods were called: so that a method that is added to the trait
//! cannot escape the attacks of [`foreign`](super::foreign).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use relay_model::ids::{AccountId, ApiKeyId, DeviceId, RelayInstanceId};
use relay_model::push::{
    NewPushToken, PushOutcomeWrite, PushRegistration, PushTokenRow, PushTokenSetting,
};
use relay_model::store::{
    ApiKeyRow, Asker, ChangedDevice, DesktopRegistration, DeviceChange, DeviceFilter, DeviceRow,
    DeviceStore, ForgottenDevice, HeartbeatWrite, KnownDevice, NewApiKey, PhoneRegistration,
    PresenceEntry, PresenceWrite, RegistrationFacts, RegistrationOutcome, StoreFuture,
    StoredApiKey,
};
use relay_model::time::Timestamp;

/// The store and the names of the methods that were called.
pub(super) struct Recorder {
    store: Arc<dyn DeviceStore>,
    called: Mutex<BTreeSet<&'static str>>,
}

impl Recorder {
    pub(super) fn over(store: Arc<dyn DeviceStore>) -> Self {
        Self {
            store,
            called: Mutex::default(),
        }
    }

    /// The methods that were not called and are not among `excused`.
    pub(super) fn not_called(&self, excused: &[&str]) -> Vec<&'static str> {
        let called = self.called.lock().unwrap();
        METHODS
            .iter()
            .copied()
            .filter(|method| !called.contains(method) && !excused.contains(method))
            .collect()
    }
}

/// Passes every method on. The compiler asks for each method of the trait, the list holds them.
macro_rules! recorded {
    ($($method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        const METHODS: &[&str] = &[$(stringify!($method)),+];

        impl DeviceStore for Recorder {
            $(
                fn $method(&self, $($argument: $type),*) -> StoreFuture<$answer> {
                    self.called.lock().unwrap().insert(stringify!($method));
                    self.store.$method($($argument),*)
                }
            )+
        }
    };
}

recorded! {
    registration_facts(asker: Asker, account: AccountId, device: DeviceId, target: Option<DeviceId>)
        -> RegistrationFacts;
    register_desktop(
        account: AccountId, device: DeviceId, registration: DesktopRegistration, now: Timestamp
    ) -> RegistrationOutcome;
    register_phone(
        account: AccountId, device: DeviceId, registration: PhoneRegistration, now: Timestamp
    ) -> RegistrationOutcome;
    devices(asker: Asker, account: AccountId, filter: DeviceFilter) -> Vec<DeviceRow>;
    known_devices(asker: Asker, account: AccountId) -> Vec<KnownDevice>;
    presence_history(account: AccountId, devices: Vec<DeviceId>, limit: usize)
        -> Vec<PresenceEntry>;
    change_device(account: AccountId, device: DeviceId, change: DeviceChange, now: Timestamp)
        -> Option<ChangedDevice>;
    forget_device(account: AccountId, device: DeviceId, now: Timestamp)
        -> Option<ForgottenDevice>;
    write_presence(writes: Vec<PresenceWrite>) -> ();
    write_heartbeats(writes: Vec<HeartbeatWrite>) -> ();
    renew_instance(instance: RelayInstanceId, now: Timestamp, lease_until: Timestamp) -> ();
    mark_draining(instance: RelayInstanceId, now: Timestamp, lease_until: Timestamp) -> ();
    sweep_lost(now: Timestamp) -> usize;
    marked_lost(instance: RelayInstanceId) -> Vec<(AccountId, DeviceId)>;
    release_instance(instance: RelayInstanceId, now: Timestamp) -> ();
    purge_presence_history(before: Timestamp) -> usize;
    create_api_key(key: NewApiKey) -> ();
    api_keys(account: AccountId) -> Vec<ApiKeyRow>;
    api_key(id: ApiKeyId) -> Option<StoredApiKey>;
    revoke_api_key(account: AccountId, id: ApiKeyId, now: Timestamp) -> bool;
    ended_api_keys(ids: Vec<ApiKeyId>, now: Timestamp) -> Vec<ApiKeyId>;
    set_push_token(account: AccountId, device: DeviceId, token: NewPushToken, now: Timestamp)
        -> PushTokenSetting;
    remove_push_tokens(account: AccountId, device: Option<DeviceId>) -> usize;
    push_tokens(account: AccountId) -> Vec<PushTokenRow>;
    remove_push_registration(registration: PushRegistration) -> bool;
    record_push_outcomes(writes: Vec<PushOutcomeWrite>) -> ();
    protocol_floor() -> u32;
    set_protocol_floor(floor: u32) -> ();
    check() -> ();
}
