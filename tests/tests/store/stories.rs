//! The stores against each other on random stories.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use relay_model::credentials::Scopes;
use relay_model::ids::{AccountId, ApiKeyId, ConnectionGeneration, DeviceId, RelayInstanceId};
use relay_model::push::{
    NewPushToken, PushEnvironment, PushOutcome, PushOutcomeWrite, PushPlatform, PushRegistration,
};
use relay_model::store::{
    Asker, DesktopRegistration, DeviceChange, DeviceFilter, DeviceStatus, DeviceStore,
    HeartbeatWrite, NewApiKey, OfflineReason, PhoneRegistration, PresenceWrite,
};
use relay_model::time::Timestamp;
use relay_tests::blackbox::by_length;
use relay_tests::memory_store::MemoryStore;
use relay_tests::store_suite::Subject;
use uuid::Uuid;

use crate::postgres::PostgresSubject;
use crate::sqlite::SqliteSubject;

const ACCOUNTS: u128 = 2;
const DEVICES: u128 = 3;
const RELAYS: u128 = 3;
const KEYS: u128 = 3;
const TOKENS: u8 = 3;
const MOMENTS: u64 = 60;

fn account(number: u128) -> AccountId {
    AccountId::from_uuid(Uuid::from_u128(number))
}

fn device(number: u128) -> DeviceId {
    DeviceId::from_uuid(Uuid::from_u128(number))
}

fn key(number: u128) -> ApiKeyId {
    ApiKeyId::from_uuid(Uuid::from_u128(number))
}

fn relay(number: u128) -> RelayInstanceId {
    RelayInstanceId::from_uuid(Uuid::from_u128(number))
}

/// One of two tokens in three registrations.
fn push_token(number: u8) -> NewPushToken {
    NewPushToken {
        platform: [PushPlatform::Ios, PushPlatform::Android][usize::from(number % 2)],
        environment: (number < 2).then_some(PushEnvironment::Sandbox),
        token: format!("pushtoken-{}", number.min(1)).parse().unwrap(),
    }
}

fn registration_of(id: u128, token: u8, at: u64) -> PushRegistration {
    PushRegistration {
        device: device(id),
        token_hash: push_token(token).token.hash(),
        registered_at: moment(at),
    }
}

/// A few moments close together, in an order of their own: so that late words are common.
fn moment(number: u64) -> Timestamp {
    Timestamp::from_unix_micros(1_791_187_200_000_000).plus(Duration::from_secs(number))
}

/// One step of a random story.
#[derive(Debug, Clone)]
enum Step {
    Desktop(u128, u128, Option<bool>, bool, u64),
    Phone(u128, u128, bool, Option<u8>, u64),
    ForgetFor(u128, u128, u64),
    Forget(u128),
    Presence(Vec<PresenceWrite>),
    Heartbeat(u128, u128, u64),
    Renew(u128, u64),
    Sweep(u64),
    Release(u128, u64),
    WeekLater,
    Change(u128, u128, Option<bool>, bool, u64),
    Purge(u64),
    NewKey(u128, u128, bool, u64),
    RevokeKey(u128, u128, u64),
    SetToken(u128, u128, u8, u64),
    RemoveTokens(u128, Option<u128>),
    TokenGone(u128, u8, u64),
    Pushed(u128, u8, usize, u64),
}

fn presence() -> impl Strategy<Value = PresenceWrite> {
    let status = prop_oneof![
        Just((DeviceStatus::Online, None)),
        Just((DeviceStatus::Reconnecting, None)),
        Just((DeviceStatus::Offline, None)),
        Just((DeviceStatus::Offline, Some(OfflineReason::Disconnected))),
        Just((DeviceStatus::Offline, Some(OfflineReason::ReconnectTimeout))),
    ];
    (
        0..ACCOUNTS,
        0..DEVICES,
        0..RELAYS,
        0..2u64,
        status,
        0..MOMENTS,
    )
        .prop_map(
            |(account_number, device_number, relay_number, generation, (status, reason), at)| {
                PresenceWrite {
                    account: account(account_number),
                    device: device(device_number),
                    instance: relay(relay_number),
                    generation: ConnectionGeneration::new(generation),
                    status,
                    reason,
                    at: moment(at),
                }
            },
        )
}

fn step() -> impl Strategy<Value = Step> {
    let accounts = 0..ACCOUNTS;
    let devices = 0..DEVICES;
    let moments = 0..MOMENTS;
    prop_oneof![
        3 => (accounts.clone(), devices.clone(), any::<Option<bool>>(), any::<bool>(), moments.clone())
            .prop_map(|(a, d, eligible, rejoin, at)| Step::Desktop(a, d, eligible, rejoin, at)),
        2 => (
            accounts.clone(), devices.clone(), any::<bool>(), proptest::option::of(0..TOKENS), moments.clone()
        )
            .prop_map(|(a, d, rejoin, token, at)| Step::Phone(a, d, rejoin, token, at)),
        2 => (accounts.clone(), devices.clone(), moments.clone())
            .prop_map(|(a, d, at)| Step::ForgetFor(a, d, at)),
        3 => (accounts.clone(), devices.clone(), 0..TOKENS, moments.clone())
            .prop_map(|(a, d, token, at)| Step::SetToken(a, d, token, at)),
        1 => (accounts.clone(), proptest::option::of(devices.clone()))
            .prop_map(|(a, d)| Step::RemoveTokens(a, d)),
        2 => (devices.clone(), 0..TOKENS, moments.clone())
            .prop_map(|(d, token, at)| Step::TokenGone(d, token, at)),
        2 => (devices.clone(), 0..TOKENS, 0..PushOutcome::ALL.len(), moments.clone())
            .prop_map(|(d, token, outcome, at)| Step::Pushed(d, token, outcome, at)),
        1 => devices.clone().prop_map(Step::Forget),
        8 => proptest::collection::vec(presence(), 1..4).prop_map(Step::Presence),
        2 => (accounts.clone(), devices.clone(), moments.clone())
            .prop_map(|(a, d, at)| Step::Heartbeat(a, d, at)),
        3 => (0..RELAYS, moments.clone()).prop_map(|(r, at)| Step::Renew(r, at)),
        2 => moments.clone().prop_map(Step::Sweep),
        1 => (0..RELAYS, moments.clone()).prop_map(|(r, at)| Step::Release(r, at)),
        1 => Just(Step::WeekLater),
        2 => (accounts.clone(), devices.clone(), any::<Option<bool>>(), any::<bool>(), moments.clone())
            .prop_map(|(a, d, eligible, moved, at)| Step::Change(a, d, eligible, moved, at)),
        1 => moments.clone().prop_map(Step::Purge),
        1 => (accounts.clone(), 0..KEYS, any::<bool>(), moments.clone())
            .prop_map(|(a, k, ends, at)| Step::NewKey(a, k, ends, at)),
        1 => (accounts, 0..KEYS, moments).prop_map(|(a, k, at)| Step::RevokeKey(a, k, at)),
    ]
}

/// Takes the step; what it answered, as text.
async fn take(store: &dyn DeviceStore, step: &Step) -> String {
    match step.clone() {
        Step::Desktop(owner, id, relay_eligible, rejoin, at) => {
            let registration = DesktopRegistration {
                device_name: format!("Desk {at}"),
                platform: "linux".to_owned(),
                platform_version: rejoin.then(|| "12".to_owned()),
                app_version: "1".to_owned(),
                capabilities: relay_eligible.map(|eligible| serde_json::json!({"at": eligible})),
                relay_eligible,
                rejoin,
            };
            let outcome = store
                .register_desktop(account(owner), device(id), registration, moment(at))
                .await;
            format!("{outcome:?}")
        }
        Step::Phone(owner, id, rejoin, token, at) => {
            let registration = PhoneRegistration {
                device_name: format!("Pocket {at}"),
                platform: "ios".to_owned(),
                app_version: "1".to_owned(),
                capabilities: None,
                rejoin,
                push_token: token.map(push_token),
            };
            let outcome = store
                .register_phone(account(owner), device(id), registration, moment(at))
                .await;
            format!("{outcome:?}")
        }
        Step::ForgetFor(owner, id, at) => {
            let forgotten = store.forget_device(account(owner), device(id), moment(at));
            format!("{:?}", forgotten.await)
        }
        Step::Forget(_) => String::new(),
        Step::Presence(writes) => format!("{:?}", store.write_presence(writes).await),
        Step::Heartbeat(owner, id, at) => {
            let beat = HeartbeatWrite {
                account: account(owner),
                device: device(id),
                at: moment(at),
            };
            format!("{:?}", store.write_heartbeats(vec![beat]).await)
        }
        Step::Renew(id, at) => {
            let renewed = store.renew_instance(relay(id), moment(at), moment(at + 10));
            format!("{:?}", renewed.await)
        }
        Step::Sweep(at) => format!("{:?}", store.sweep_lost(moment(at)).await),
        Step::Release(id, at) => {
            let released = store.release_instance(relay(id), moment(at));
            format!("{:?}", released.await)
        }
        Step::WeekLater => {
            let week = Duration::from_secs(7 * 24 * 3_600 + 30);
            format!("{:?}", store.sweep_lost(moment(0).plus(week)).await)
        }
        Step::Change(owner, id, relay_eligible, moved, at) => {
            let change = DeviceChange {
                device_name: relay_eligible.is_none().then(|| format!("Bench {at}")),
                relay_eligible,
                project_directory: moved.then(|| format!("/{at}")),
            };
            let changed = store.change_device(account(owner), device(id), change, moment(at));
            format!("{:?}", changed.await)
        }
        Step::Purge(at) => format!("{:?}", store.purge_presence_history(moment(at)).await),
        Step::NewKey(owner, id, ends, at) => {
            let key = NewApiKey {
                id: key(id),
                account: account(owner),
                name: ends.then(|| format!("Key {at}")),
                scopes: Scopes::all(),
                secret_hash: [at as u8; 32],
                created_at: moment(at),
                expires_at: ends.then(|| moment(at + 10)),
            };
            // Why it was refused is said in words of its own by each store.
            format!("{:?}", store.create_api_key(key).await.is_ok())
        }
        Step::RevokeKey(owner, id, at) => {
            let revoked = store.revoke_api_key(account(owner), key(id), moment(at));
            format!("{:?}", revoked.await)
        }
        Step::SetToken(owner, id, token, at) => {
            let token = push_token(token);
            let set = store.set_push_token(account(owner), device(id), token, moment(at));
            format!("{:?}", set.await)
        }
        Step::RemoveTokens(owner, id) => {
            let removed = store.remove_push_tokens(account(owner), id.map(device));
            format!("{:?}", removed.await)
        }
        Step::TokenGone(id, token, at) => {
            let removed = store.remove_push_registration(registration_of(id, token, at));
            format!("{:?}", removed.await)
        }
        Step::Pushed(id, token, outcome, at) => {
            let write = PushOutcomeWrite {
                registration: registration_of(id, token, at),
                outcome: PushOutcome::ALL[outcome],
                at: moment(at),
            };
            format!("{:?}", store.record_push_outcomes(vec![write]).await)
        }
    }
}

/// All that can be read of the store, as text.
async fn everything(store: &dyn DeviceStore) -> String {
    let mut text = String::new();
    for id in (0..KEYS).map(key) {
        let stored = store
            .api_key(id)
            .await
            .map(|found| found.map(|key| (key.row, key.secret_hash)));
        text.push_str(&format!("{stored:?}\n"));
    }
    let ids = (0..KEYS).map(key).collect();
    text.push_str(&format!(
        "{:?}\n",
        store.ended_api_keys(ids, moment(30)).await
    ));
    for owner in (0..ACCOUNTS).map(account) {
        for at in [15, 45] {
            let asker = Asker {
                instance: relay(0),
                now: moment(at),
            };
            text.push_str(&format!("{:?}\n", store.api_keys(owner).await));
            let tokens = store.push_tokens(owner).await;
            let shown = tokens.map(|rows| {
                let texts: Vec<_> = rows
                    .iter()
                    .map(|row| row.token.reveal().to_owned())
                    .collect();
                (texts, rows)
            });
            text.push_str(&format!("{shown:?}\n"));
            let listed = store.devices(asker, owner, DeviceFilter::default()).await;
            text.push_str(&format!("{listed:?}\n"));
            for number in 0..DEVICES {
                let target = device((number + 1) % DEVICES);
                let facts = store
                    .registration_facts(asker, owner, device(number), Some(target))
                    .await;
                text.push_str(&format!("{facts:?}\n"));
            }
        }
    }
    text
}

/// Tells the story to both stores, the one over a database taken by two processes in turn.
async fn tell(story: &[Step], subject: &dyn Subject) -> Result<(), TestCaseError> {
    let memory = MemoryStore::new();
    let mut made = BTreeSet::new();
    for (number, step) in story.iter().enumerate() {
        match step {
            Step::Desktop(_, id, ..) | Step::Phone(_, id, ..) => {
                made.insert(*id);
            }
            Step::Forget(id) if made.contains(id) => {
                memory.forget(device(*id));
                subject.forget(device(*id));
            }
            _ => {}
        }
        let expected = take(&memory, step).await;
        let store = match number % 2 {
            0 => subject.store(),
            _ => subject.second(),
        };
        let actual = take(store, step).await;
        prop_assert_eq!(actual, expected, "step {}: {:?}", number, step);
        let expected = everything(&memory).await;
        let actual = everything(store).await;
        prop_assert_eq!(actual, expected, "after step {}: {:?}", number, step);
    }
    for id in (0..DEVICES).map(device) {
        prop_assert_eq!(subject.history(id), memory.history(id));
    }
    Ok(())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: by_length(48, 2_000), max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    /// PR-6, PR-8, DR-5, EV-5, HTTP-1, HTTP-4: whatever happens in whatever order, the two stores,
    /// written apart, answer alike.
    #[test]
    fn memory_and_sqlite_tell_the_same_story(story in proptest::collection::vec(step(), 1..60)) {
        block_on(async { tell(&story, &SqliteSubject::new().await).await })?;
    }
}

proptest! {
    // Fewer: each has a database made and dropped, and a step is several exchanges with a server.
    #![proptest_config(ProptestConfig { cases: by_length(16, 200), max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// PR-6, PR-8, DR-5, EV-5, HTTP-1, HTTP-4: as in memory, so on PostgreSQL.
    #[test]
    fn memory_and_postgres_tell_the_same_story(story in proptest::collection::vec(step(), 1..60)) {
        block_on(async { tell(&story, &PostgresSubject::new().await).await })?;
    }
}
