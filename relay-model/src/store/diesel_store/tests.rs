//! What only a database can do wrong: be busy, locked, full, away, or no database at all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use uuid::Uuid;

use super::*;
use crate::ids::ConnectionGeneration;
use crate::store::pool::{SqlitePool, write_transaction};
use crate::store::{DeviceStanding, DeviceStatus, DeviceType};

/// A store on a file of its own.
pub(in crate::store) struct Fixture {
    pub(in crate::store) store: DieselStore,
    folder: tempfile::TempDir,
}

impl Fixture {
    /// On a new file without tables.
    pub(in crate::store) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = DatabaseUrl::Sqlite(folder.path().join("relay.db"));
        let store = DieselStore::open(&url, &limits()).unwrap();
        Self { store, folder }
    }

    /// With tables.
    pub(in crate::store) async fn migrated() -> Self {
        let fixture = Self::new();
        fixture.store.migrate().await.unwrap();
        fixture
    }

    pub(in crate::store) fn url(&self) -> DatabaseUrl {
        DatabaseUrl::Sqlite(self.folder.path().join("relay.db"))
    }

    pub(in crate::store) fn limits(&self) -> Limits {
        limits()
    }

    /// A connection beside the store, as an operator's shell has it.
    pub(in crate::store) fn shell(&self) -> SqliteConnection {
        let url = self.url();
        let path = url.path().unwrap().to_str().unwrap();
        let mut shell = SqliteConnection::establish(path).unwrap();
        shell.batch_execute("PRAGMA busy_timeout = 5000").unwrap();
        shell
    }

    /// The same file through another pool, as another process has it.
    fn reopened(&self, limits: &Limits) -> DieselStore {
        DieselStore::open(&self.url(), limits).unwrap()
    }

    /// Runs a future on a runtime of its own.
    pub(in crate::store) fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(future)
    }
}

/// Seconds after the start of the story.
pub(in crate::store) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_micros(1_791_187_200_000_001).plus(Duration::from_secs(seconds))
}

fn limits() -> Limits {
    Limits {
        database_pool: 3,
        ..Limits::default()
    }
}

fn sqlite(pool: &Pool) -> &SqlitePool {
    match pool {
        Pool::Sqlite(pool) => pool,
        Pool::Pg(_) => panic!("these tests are SQLite's"),
    }
}

/// For calls that are meant to run into their timeout.
fn impatient() -> Limits {
    Limits {
        database_timeout: Duration::from_millis(50),
        ..limits()
    }
}

const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(0xA));
const RELAY: RelayInstanceId = RelayInstanceId::from_uuid(Uuid::from_u128(0xB));
const ASKER: Asker = Asker {
    instance: RELAY,
    now: Timestamp::from_unix_micros(0),
};

fn device(number: usize) -> DeviceId {
    DeviceId::from_uuid(Uuid::from_u128(0xD000 + number as u128))
}

pub(in crate::store) fn desktop() -> DesktopRegistration {
    DesktopRegistration {
        device_name: "Desk".to_owned(),
        platform: "linux".to_owned(),
        platform_version: None,
        app_version: "1".to_owned(),
        capabilities: None,
        relay_eligible: None,
        rejoin: false,
    }
}

fn online(number: usize, generation: u64) -> PresenceWrite {
    PresenceWrite {
        account: ACCOUNT,
        device: device(number),
        instance: RELAY,
        generation: ConnectionGeneration::new(generation),
        status: DeviceStatus::Online,
        reason: None,
        at: at(generation),
    }
}

async fn register(store: &DieselStore, number: usize) -> Result<RegistrationOutcome, StoreError> {
    store
        .register_desktop(ACCOUNT, device(number), desktop(), at(0))
        .await
}

/// Many writers in two processes and readers beside them: everyone is served, nothing is lost.
#[test]
fn a_busy_database_refuses_nobody() {
    const WRITERS: usize = 4;
    const WRITES: usize = 300;

    let fixture = Fixture::new();
    Fixture::block_on(fixture.store.migrate()).unwrap();
    let stores = [fixture.store.clone(), fixture.reopened(&limits())];
    for number in 0..WRITERS {
        Fixture::block_on(register(&stores[0], number)).unwrap();
    }
    let writing = AtomicBool::new(true);
    let reads = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let store = &stores[number % 2];
                scope.spawn(move || {
                    Fixture::block_on(async {
                        for write in 1..=WRITES {
                            let change = online(number, write as u64);
                            store.write_presence(vec![change]).await.unwrap();
                        }
                    });
                })
            })
            .collect();
        let readers: Vec<_> = stores
            .iter()
            .map(|store| {
                scope.spawn(|| {
                    Fixture::block_on(async {
                        while writing.load(Ordering::Relaxed) {
                            let facts = store
                                .registration_facts(ASKER, ACCOUNT, device(0), Some(device(1)))
                                .await
                                .unwrap();
                            assert!(facts.target.is_some());
                            reads.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                })
            })
            .collect();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        writing.store(false, Ordering::Relaxed);
        for end in written
            .into_iter()
            .chain(readers.into_iter().map(|r| r.join()))
        {
            end.unwrap();
        }
    });
    assert!(reads.load(Ordering::Relaxed) > 0);
    let rows = stores[0].devices(ASKER, ACCOUNT, DeviceFilter::default());
    for row in Fixture::block_on(rows).unwrap() {
        assert_eq!(row.last_seen, Some(at(WRITES as u64)));
    }
}

/// DR-4: what was written is there after a restart.
#[tokio::test]
async fn data_outlives_the_process() {
    let fixture = Fixture::migrated().await;
    register(&fixture.store, 1).await.unwrap();
    fixture
        .store
        .write_presence(vec![online(1, 7)])
        .await
        .unwrap();
    let list = async |store: &DieselStore| {
        store
            .devices(ASKER, ACCOUNT, DeviceFilter::default())
            .await
            .unwrap()
    };
    let before = list(&fixture.store).await;
    let Fixture { store, folder } = fixture;
    drop(store);

    let url = DatabaseUrl::Sqlite(folder.path().join("relay.db"));
    let store = DieselStore::open(&url, &limits()).unwrap();
    assert_eq!(store.migrate().await, Ok(Vec::new()));
    assert_eq!(list(&store).await, before);
    assert_eq!(before[0].status, DeviceStatus::Online);
}

/// REG-4: while another program holds the write lock, writes are unavailable and reads go on.
#[tokio::test]
async fn a_locked_database_is_unavailable_for_writes_only() {
    let fixture = Fixture::migrated().await;
    let store = fixture.reopened(&impatient());
    let mut shell = fixture.shell();
    shell.batch_execute("BEGIN IMMEDIATE").unwrap();
    // More of them than there are connections: waiting writers hold none.
    let writes = [1, 2, 3, 4].map(|number| {
        tokio::spawn({
            let store = store.clone();
            async move { register(&store, number).await }
        })
    });
    let facts = store
        .registration_facts(ASKER, ACCOUNT, device(1), None)
        .await
        .unwrap();
    assert_eq!(facts.device, DeviceStanding::Unknown);
    for write in writes {
        let refused = write.await.unwrap();
        assert!(
            matches!(refused, Err(StoreError::Unavailable(_))),
            "{refused:?}"
        );
    }
    shell.batch_execute("COMMIT").unwrap();
    let registered = register(&store, 1).await;
    assert!(matches!(registered, Ok(RegistrationOutcome::Registered(_))));
}

/// A full disk may be emptied: worth another try. A batch that does not fit leaves nothing behind.
#[tokio::test]
async fn a_full_database_is_not_writable_and_nothing_is_half_written() {
    let fixture = Fixture::migrated().await;
    let one_connection = Limits {
        database_pool: 1,
        ..limits()
    };
    let store = fixture.reopened(&one_connection);
    let pool = sqlite(&store.pool);
    let set_room = |pages: u32| {
        let pragma = format!("PRAGMA max_page_count = {pages}");
        pool.connection().unwrap().batch_execute(&pragma).unwrap();
    };
    // Never less than the file has: this leaves no room to grow.
    set_room(1);
    let large = DesktopRegistration {
        device_name: "x".repeat(100_000),
        ..desktop()
    };
    let refused = store
        .register_desktop(ACCOUNT, device(1), large.clone(), at(0))
        .await;
    assert!(
        matches!(refused, Err(StoreError::NotWritable(_))),
        "{refused:?}"
    );
    let facts = store
        .registration_facts(ASKER, ACCOUNT, device(1), None)
        .await
        .unwrap();
    assert_eq!(facts.device, DeviceStanding::Unknown);
    set_room(100_000);
    let registered = store
        .register_desktop(ACCOUNT, device(1), large, at(0))
        .await;
    assert!(matches!(registered, Ok(RegistrationOutcome::Registered(_))));
}

/// A batch is all or none: a change that the database refuses takes the others with it.
#[tokio::test]
async fn a_batch_that_fails_changes_nothing() {
    let fixture = Fixture::migrated().await;
    for number in [1, 2] {
        register(&fixture.store, number).await.unwrap();
    }
    fixture
        .shell()
        .batch_execute(
            "CREATE TRIGGER refuse BEFORE UPDATE ON devices WHEN NEW.generation = 9
             BEGIN SELECT RAISE(ABORT, 'refused by the test'); END",
        )
        .unwrap();
    let refused = fixture
        .store
        .write_presence(vec![online(1, 1), online(2, 9)])
        .await;
    assert!(matches!(refused, Err(StoreError::Failed(_))), "{refused:?}");
    let rows = fixture
        .store
        .devices(ASKER, ACCOUNT, DeviceFilter::default())
        .await
        .unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row.status, DeviceStatus::Offline);
    }
}

/// REG-4: a database that is away fails the calls, not the start, and is found when it comes back.
#[tokio::test]
async fn a_database_may_come_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("away/relay.db");
    let pool = SqlitePool::new(path.to_str().unwrap().to_owned(), &impatient());
    let store = DieselStore::over(Pool::Sqlite(pool), &impatient());
    // Every caller learns the cause, not only the first.
    for _ in 0..3 {
        let away = store.check().await;
        let Err(StoreError::Unavailable(cause)) = away else {
            panic!("{away:?}");
        };
        assert!(cause.contains("unable to open"), "{cause}");
    }
    std::fs::create_dir(folder.path().join("away")).unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while let Err(error) = store.migrate().await {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        assert!(tokio::time::Instant::now() < deadline, "{error}");
    }
    assert_eq!(store.check().await, Ok(()));
}

/// OP-1: a file that is something else is said to be so.
#[tokio::test]
async fn a_file_that_is_no_database_fails_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.db");
    let text = "Dear diary, today I was opened as a database.\n".repeat(100);
    std::fs::write(&path, &text).unwrap();
    let store = DieselStore::open(&DatabaseUrl::Sqlite(path.clone()), &impatient()).unwrap();
    for answer in [store.migrate().await.map(drop), store.check().await] {
        let Err(StoreError::Failed(cause)) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(cause, "file is not a database");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

/// A file that may only be read serves reads; what writes says why it cannot.
#[tokio::test]
async fn a_read_only_file_serves_reads() {
    let fixture = Fixture::migrated().await;
    register(&fixture.store, 1).await.unwrap();
    let url = fixture.url();
    // Rights alone would not bind the administrator that tests may run as.
    let name = format!("file:{}?mode=ro", url.path().unwrap().display());
    let pool = SqlitePool::new(name, &impatient());
    let store = DieselStore::over(Pool::Sqlite(pool), &impatient());
    assert_eq!(store.check().await, Ok(()));
    let facts = store
        .registration_facts(ASKER, ACCOUNT, device(1), None)
        .await
        .unwrap();
    let owned = DeviceStanding::Owned {
        device_type: DeviceType::Desktop,
        forgotten: false,
        relay_eligible: true,
    };
    assert_eq!(facts.device, owned);
    let refused = register(&store, 2).await;
    let Err(StoreError::NotWritable(cause)) = refused else {
        panic!("{refused:?}");
    };
    assert!(cause.contains("readonly"), "{cause}");
}

/// A query that panics is an error to its caller and to nobody else: neither its connection nor its
/// turn is lost.
#[tokio::test]
async fn a_panic_ends_one_call_only() {
    let fixture = Fixture::migrated().await;
    let one_connection = Limits {
        database_pool: 1,
        ..limits()
    };
    let store = fixture.reopened(&one_connection);
    for _ in 0..3 {
        let panicked: Result<(), _> = store
            .write(|pool| {
                let mut connection = sqlite(pool).connection()?;
                write_transaction(&mut connection, |_| -> Result<(), StoreError> {
                    panic!("test")
                })
            })
            .await;
        let failed = StoreError::Failed("the query panicked".to_owned());
        assert_eq!(panicked, Err(failed));
    }
    let registered = register(&store, 1).await;
    assert!(matches!(registered, Ok(RegistrationOutcome::Registered(_))));
}

/// A caller that gives up does not end a write that has begun, and the next one waits for it.
#[tokio::test]
async fn a_write_that_has_begun_keeps_its_turn() {
    let fixture = Fixture::migrated().await;
    let (begun_tx, begun) = tokio::sync::oneshot::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let (done_tx, done) = tokio::sync::oneshot::channel();
    let first = tokio::spawn(fixture.store.write(move |_| {
        begun_tx.send(()).unwrap();
        wait.recv().unwrap();
        done_tx.send(()).unwrap();
        Ok(())
    }));
    begun.await.unwrap();
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());

    let order = std::sync::Arc::new(AtomicUsize::new(0));
    let second = tokio::spawn(fixture.store.write({
        let order = std::sync::Arc::clone(&order);
        move |_| Ok(order.load(Ordering::SeqCst))
    }));
    tokio::task::yield_now().await;
    order.store(1, Ordering::SeqCst);
    go_on.send(()).unwrap();
    done.await.unwrap();
    // It ran after the first was let go.
    assert_eq!(second.await.unwrap(), Ok(1));
}

/// The tables themselves refuse what the relay could not read back.
#[tokio::test]
async fn tables_refuse_what_could_not_be_read() {
    let fixture = Fixture::migrated().await;
    register(&fixture.store, 1).await.unwrap();
    let mut shell = fixture.shell();
    for spoiling in [
        "UPDATE devices SET capabilities = '{'",
        "UPDATE devices SET device_type = 'tablet'",
        "UPDATE devices SET status = 'away'",
        "UPDATE devices SET offline_reason = 'bored'",
        "UPDATE devices SET status = 'online'",
        "UPDATE devices SET account = x'00'",
        "UPDATE devices SET created_at = 'noon'",
        "UPDATE devices SET device_name = NULL",
        "UPDATE relay_policy SET min_protocol_version = -1",
        "INSERT INTO relay_policy (id) VALUES (2)",
    ] {
        let spoiled = diesel::sql_query(spoiling).execute(&mut shell);
        assert!(spoiled.is_err(), "{spoiling}");
    }
}
