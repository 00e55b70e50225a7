//! The store's suite over each store, and the stores against each other on random stories.

use std::time::Duration;

use diesel::prelude::*;
use proptest::prelude::*;
use relay_model::ids::{AccountId, ConnectionGeneration, DeviceId, RelayInstanceId};
use relay_model::limits::Limits;
use relay_model::store::{
    Asker, DatabaseUrl, DesktopRegistration, DeviceFilter, DeviceStatus, DeviceStore, DieselStore,
    HeartbeatWrite, OfflineReason, PhoneRegistration, PresenceWrite, StoreError,
};
use relay_model::time::Timestamp;
use relay_tests::memory_store::MemoryStore;
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

    fn forget(&self, device: DeviceId) {
        assert!(self.0.forget(device));
    }

    fn set_protocol_floor(&self, floor: u32) {
        self.0.set_protocol_floor(floor);
    }
}

/// Two stores on one SQLite file, as two relay processes have them.
struct SqliteSubject {
    blue: DieselStore,
    green: DieselStore,
    folder: tempfile::TempDir,
}

impl SqliteSubject {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url: DatabaseUrl = format!("sqlite://{}/relay.db", folder.path().display())
            .parse()
            .unwrap();
        let limits = Limits {
            database_pool: 2,
            ..Limits::default()
        };
        let blue = DieselStore::open(&url, &limits).unwrap();
        let green = DieselStore::open(&url, &limits).unwrap();
        // Both start at once, both migrate.
        let (ours, theirs) = tokio::join!(blue.migrate(), green.migrate());
        let applied = ours.unwrap().len() + theirs.unwrap().len();
        assert_eq!(applied, 2, "each step once");
        Self {
            blue,
            green,
            folder,
        }
    }

    fn change(&self, statement: &str, id: Option<DeviceId>) {
        let path = self.folder.path().join("relay.db");
        let mut shell = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
        let bound = id.map(|id| id.as_uuid().as_bytes().to_vec());
        let changed = diesel::sql_query(statement)
            .bind::<diesel::sql_types::Nullable<diesel::sql_types::Binary>, _>(bound)
            .execute(&mut shell);
        assert_eq!(changed, Ok(1));
    }
}

impl Subject for SqliteSubject {
    fn store(&self) -> &dyn DeviceStore {
        &self.blue
    }

    fn second(&self) -> &dyn DeviceStore {
        &self.green
    }

    fn forget(&self, device: DeviceId) {
        self.change(
            "UPDATE devices SET forgotten_at = 1 WHERE id = ?",
            Some(device),
        );
    }

    fn set_protocol_floor(&self, floor: u32) {
        let statement =
            format!("UPDATE relay_policy SET min_protocol_version = {floor} WHERE ? IS NULL");
        self.change(&statement, None);
    }
}

mod memory {
    use super::*;

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
}

mod sqlite {
    use super::*;

    relay_tests::store_suite!(SqliteSubject::new().await);
}

const ACCOUNTS: u128 = 2;
const DEVICES: u128 = 3;
const RELAYS: u128 = 3;
const MOMENTS: u64 = 60;

fn account(number: u128) -> AccountId {
    AccountId::from_uuid(Uuid::from_u128(number))
}

fn device(number: u128) -> DeviceId {
    DeviceId::from_uuid(Uuid::from_u128(number))
}

fn relay(number: u128) -> RelayInstanceId {
    RelayInstanceId::from_uuid(Uuid::from_u128(number))
}

/// A few moments close together, in an order of their own: so that late words are common.
fn moment(number: u64) -> Timestamp {
    Timestamp::from_unix_micros(1_791_187_200_000_000).plus(Duration::from_secs(number))
}

/// One step of a random story.
#[derive(Debug, Clone)]
enum Step {
    Desktop(u128, u128, Option<bool>, bool, u64),
    Phone(u128, u128, u64),
    Forget(u128),
    Presence(Vec<PresenceWrite>),
    Heartbeat(u128, u128, u64),
    Renew(u128, u64),
    Sweep(u64),
    Release(u128, u64),
    WeekLater,
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
        1 => (accounts.clone(), devices.clone(), moments.clone())
            .prop_map(|(a, d, at)| Step::Phone(a, d, at)),
        1 => devices.clone().prop_map(Step::Forget),
        8 => proptest::collection::vec(presence(), 1..4).prop_map(Step::Presence),
        2 => (accounts, devices, moments.clone()).prop_map(|(a, d, at)| Step::Heartbeat(a, d, at)),
        3 => (0..RELAYS, moments.clone()).prop_map(|(r, at)| Step::Renew(r, at)),
        2 => moments.clone().prop_map(Step::Sweep),
        1 => (0..RELAYS, moments).prop_map(|(r, at)| Step::Release(r, at)),
        1 => Just(Step::WeekLater),
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
        Step::Phone(owner, id, at) => {
            let registration = PhoneRegistration {
                device_name: format!("Pocket {at}"),
                platform: "ios".to_owned(),
                app_version: "1".to_owned(),
                capabilities: None,
            };
            let outcome = store
                .register_phone(account(owner), device(id), registration, moment(at))
                .await;
            format!("{outcome:?}")
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
    }
}

/// All that can be read of the store, as text.
async fn everything(store: &dyn DeviceStore) -> String {
    let mut text = String::new();
    for owner in (0..ACCOUNTS).map(account) {
        for at in [15, 45] {
            let asker = Asker {
                instance: relay(0),
                now: moment(at),
            };
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    /// PR-6, PR-8, DR-5, HTTP-1: whatever happens in whatever order, the two stores, written apart,
    /// answer alike.
    #[test]
    fn both_stores_tell_the_same_story(story in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let memory = MemoryStore::new();
            let sqlite = SqliteSubject::new().await;
            let mut made = std::collections::BTreeSet::new();
            for (number, step) in story.iter().enumerate() {
                match step {
                    Step::Desktop(_, id, ..) | Step::Phone(_, id, _) => {
                        made.insert(*id);
                    }
                    Step::Forget(id) if made.contains(id) => {
                        memory.forget(device(*id));
                        sqlite.forget(device(*id));
                    }
                    _ => {}
                }
                let expected = take(&memory, step).await;
                let store = if number % 2 == 0 { &sqlite.blue } else { &sqlite.green };
                let actual = take(store, step).await;
                prop_assert_eq!(actual, expected, "step {}: {:?}", number, step);
                let expected = everything(&memory).await;
                let actual = everything(store).await;
                prop_assert_eq!(actual, expected, "after step {}: {:?}", number, step);
            }
            Ok(())
        })?;
    }
}
