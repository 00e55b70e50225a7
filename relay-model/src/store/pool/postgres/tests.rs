//! What only a server can do wrong: be away, go, come back, be slow, or be somebody else.

use std::env;
use std::net::TcpListener;

use diesel::sql_types::Text;
use tokio::time::Instant;

use super::*;
use crate::ids::{AccountId, ConnectionGeneration, DeviceId, RelayInstanceId};
use crate::store::columns::StoredUuid;
use crate::store::diesel_store::tests::{at, desktop};
use crate::store::pool::{Pool, transaction};
use crate::store::schema::{devices, relay_policy};
use crate::store::{
    DatabaseUrl, DesktopRegistration, DeviceStatus, DeviceStore, DieselStore, PresenceWrite,
    RegistrationOutcome, TestDatabase,
};
use crate::time::Timestamp;

fn limits() -> Limits {
    Limits {
        database_pool: 3,
        ..Limits::default()
    }
}

/// For calls that are meant to run into their timeout.
fn impatient() -> Limits {
    Limits {
        database_timeout: Duration::from_millis(300),
        ..limits()
    }
}

fn store(url: &str, limits: &Limits) -> DieselStore {
    DieselStore::open(&url.parse().unwrap(), limits).unwrap()
}

fn pool(database: &TestDatabase, limits: &Limits) -> Pool {
    let url: DatabaseUrl = database.url().parse().unwrap();
    Pool::open(&url, limits).unwrap()
}

fn unavailable<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Err(StoreError::Unavailable(cause)) => cause,
        other => panic!("{other:?}"),
    }
}

async fn checked_in_time(store: &DieselStore) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(error) = store.check().await {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        assert!(Instant::now() < deadline, "{error}");
    }
}

const ACCOUNT: AccountId = AccountId::from_uuid(uuid::Uuid::from_u128(0xA));

fn device(number: u128) -> DeviceId {
    DeviceId::from_uuid(uuid::Uuid::from_u128(0xD000 + number))
}

/// The timeouts of the URL follow `database.timeout`; what the operator wrote stays.
#[test]
fn silence_is_bounded_by_the_url() {
    let url: DatabaseUrl = "postgres://u:p@db/relay?sslmode=require".parse().unwrap();
    let DatabaseUrl::Postgres(url) = url else {
        panic!("a PostgreSQL URL");
    };
    assert_eq!(
        connection_url(&url, Duration::from_millis(5_001)).unwrap(),
        "postgres://u:p@db/relay?sslmode=require&connect_timeout=3&tcp_user_timeout=5001\
         &keepalives_idle=6&keepalives_interval=1&keepalives_count=3&fallback_application_name=relay"
    );
}

/// REG-4: a server that is away fails the calls, not the start, with libpq's word and without the
/// password; one that comes is found.
#[tokio::test]
async fn a_server_may_come_later() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let away = store(
        &format!("postgres://relay:hunter2@127.0.0.1:{port}/relay"),
        &impatient(),
    );
    // Every caller learns the cause, not only the first.
    for _ in 0..3 {
        let cause = unavailable(away.check().await);
        assert!(cause.contains("Connection refused"), "{cause}");
        assert!(
            !cause.contains("hunter2") && !cause.contains('\n'),
            "{cause}"
        );
    }

    let database = TestDatabase::create();
    let later = database.url().replace("/test_", "/later_");
    let waiting = store(&later, &impatient());
    let cause = unavailable(waiting.check().await);
    assert!(cause.contains("does not exist"), "{cause}");
    let name = later.rsplit('/').next().unwrap();
    database.administrate(&format!("CREATE DATABASE {name}"));
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(error) = waiting.migrate().await {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        assert!(Instant::now() < deadline, "{error}");
    }
    assert_eq!(waiting.check().await, Ok(()));
    database.administrate(&format!("DROP DATABASE {name} WITH (FORCE)"));
}

/// REG-4: connections that the server ended are thrown away before they fail a call.
#[tokio::test]
async fn connections_that_broke_are_replaced() {
    let database = TestDatabase::create();
    let store = store(&database.url(), &limits());
    store.migrate().await.unwrap();
    for _ in 0..3 {
        assert_eq!(store.check().await, Ok(()));
        let mut shell = database.shell();
        diesel::sql_query(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .execute(&mut shell)
        .unwrap();
        assert_eq!(store.check().await, Ok(()));
        let registered = store.register_desktop(ACCOUNT, device(1), desktop(), at(0));
        registered.await.unwrap();
    }
}

/// DR-4: a connection that ends in the middle of a transaction is worth another try, and nothing of
/// the transaction stays.
#[tokio::test]
async fn a_connection_lost_in_a_transaction_changes_nothing() {
    let database = TestDatabase::create();
    let store = store(&database.url(), &limits());
    store.migrate().await.unwrap();
    let pool = pool(&database, &limits());
    let lost = tokio::task::spawn_blocking(move || {
        transaction!(&pool, |connection| -> Result<(), StoreError> {
            diesel::update(relay_policy::table)
                .set(relay_policy::min_protocol_version.eq(7))
                .execute(connection)?;
            diesel::sql_query("SELECT 1 AS one").execute(connection)?;
            // On PostgreSQL only, which is all that this pool is.
            diesel::sql_query("SELECT pg_terminate_backend(pg_backend_pid())")
                .execute(connection)?;
            Ok(())
        })
    });
    unavailable(lost.await.unwrap());
    assert_eq!(store.protocol_floor().await, Ok(1));
}

/// REG-4: a statement that waits too long is ended by the server, and its connection goes on.
#[tokio::test]
async fn a_statement_that_waits_too_long_is_unavailable() {
    let database = TestDatabase::create();
    let patient = store(&database.url(), &limits());
    patient.migrate().await.unwrap();
    let registered = patient.register_desktop(ACCOUNT, device(1), desktop(), at(0));
    registered.await.unwrap();
    let impatient = Limits {
        database_pool: 1,
        ..impatient()
    };
    let store = store(&database.url(), &impatient);
    checked_in_time(&store).await;
    let mut shell = database.shell();
    shell
        .batch_execute("BEGIN; UPDATE devices SET device_name = 'held'")
        .unwrap();
    let renamed = store.register_desktop(ACCOUNT, device(1), desktop(), at(1));
    let cause = unavailable(renamed.await);
    assert!(cause.contains("statement timeout"), "{cause}");
    assert_eq!(store.check().await, Ok(()));
    shell.batch_execute("ROLLBACK").unwrap();
    let renamed = store.register_desktop(ACCOUNT, device(1), desktop(), at(1));
    renamed.await.unwrap();
}

/// DR-4, DR-5: of two transactions that wait for each other one is told to try again, and both end.
#[tokio::test]
async fn a_deadlock_is_worth_another_try() {
    let database = TestDatabase::create();
    let store = store(&database.url(), &limits());
    store.migrate().await.unwrap();
    for number in [1, 2] {
        let registered = store.register_desktop(ACCOUNT, device(number), desktop(), at(0));
        registered.await.unwrap();
    }
    let pool = pool(&database, &limits());
    let met = Arc::new(std::sync::Barrier::new(2));
    let crossing = [(1, 2), (2, 1)].map(|(first, second)| {
        let (pool, met) = (pool.clone(), Arc::clone(&met));
        tokio::task::spawn_blocking(move || {
            transaction!(&pool, |connection| -> Result<(), StoreError> {
                for number in [first, second] {
                    let id = StoredUuid::from(device(number));
                    diesel::update(devices::table.find(id))
                        .set(devices::device_name.eq("crossed"))
                        .execute(connection)?;
                    if number == first {
                        met.wait();
                    }
                }
                Ok(())
            })
        })
    });
    let mut causes = Vec::new();
    for crossed in crossing {
        if let Err(error) = crossed.await.unwrap() {
            causes.push(unavailable::<()>(Err(error)));
        }
    }
    assert_eq!(causes, ["deadlock detected"]);
}

/// PR-6, DR-5: two relays that write the same devices in opposite orders never deadlock.
#[tokio::test]
async fn batches_of_two_relays_do_not_cross() {
    let database = TestDatabase::create();
    let stores = [
        store(&database.url(), &limits()),
        store(&database.url(), &limits()),
    ];
    stores[0].migrate().await.unwrap();
    for number in 0..20 {
        let registered = stores[0].register_desktop(ACCOUNT, device(number), desktop(), at(0));
        registered.await.unwrap();
    }
    for round in 0..20 {
        let batch = |relay: u128, order: Vec<u128>| -> Vec<PresenceWrite> {
            let write = |number| PresenceWrite {
                account: ACCOUNT,
                device: device(number),
                instance: RelayInstanceId::from_uuid(uuid::Uuid::from_u128(relay)),
                generation: ConnectionGeneration::new(round),
                status: DeviceStatus::Online,
                reason: None,
                at: at(round),
            };
            order.into_iter().map(write).collect()
        };
        let up = stores[0].write_presence(batch(1, (0..20).collect()));
        let down = stores[1].write_presence(batch(2, (0..20).rev().collect()));
        let (up, down) = tokio::join!(up, down);
        assert_eq!((up, down), (Ok(()), Ok(())));
    }
}

/// DR-3: the mark of a stop comes after what was ordered before it, also while that waits for a
/// lock.
#[tokio::test]
async fn a_stop_does_not_overtake_presence() {
    let database = TestDatabase::create();
    let store = store(&database.url(), &limits());
    store.migrate().await.unwrap();
    let registered = store.register_desktop(ACCOUNT, device(1), desktop(), at(0));
    registered.await.unwrap();
    let relay = RelayInstanceId::from_uuid(uuid::Uuid::from_u128(1));
    let mut shell = database.shell();
    shell
        .batch_execute("BEGIN; UPDATE devices SET device_name = 'held'")
        .unwrap();
    let online = tokio::spawn(store.write_presence(vec![PresenceWrite {
        account: ACCOUNT,
        device: device(1),
        instance: relay,
        generation: ConnectionGeneration::new(1),
        status: DeviceStatus::Online,
        reason: None,
        at: at(1),
    }]));
    tokio::task::yield_now().await;
    let stop = tokio::spawn(store.release_instance(relay, at(2)));
    tokio::task::yield_now().await;
    shell.batch_execute("COMMIT").unwrap();
    online.await.unwrap().unwrap();
    stop.await.unwrap().unwrap();
    let status: String = devices::table
        .select(devices::status)
        .first(&mut shell)
        .unwrap();
    assert_eq!(status, "offline");
}

/// A text that the server cannot keep fails for good and breaks nothing.
#[tokio::test]
async fn what_a_server_cannot_keep_fails() {
    let database = TestDatabase::create();
    let store = store(&database.url(), &limits());
    store.migrate().await.unwrap();
    let odd = DesktopRegistration {
        device_name: "a\0b".to_owned(),
        ..desktop()
    };
    let refused = store.register_desktop(ACCOUNT, device(1), odd, at(0)).await;
    assert!(matches!(refused, Err(StoreError::Failed(_))), "{refused:?}");
    assert_eq!(store.check().await, Ok(()));
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

/// Whether the pool's connection is encrypted.
fn is_encrypted(pool: &PgPool) -> Result<bool, StoreError> {
    let line: Line =
        diesel::sql_query("SELECT ssl::text AS line FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
            .get_result(&mut pool.connection()?)?;
    Ok(line.line == "true")
}

/// Connections to the server are encrypted and verified as `sslmode` says, by the bundled library.
#[test]
fn servers_are_verified_as_the_url_says() {
    let database = TestDatabase::create();
    let folder = env::var("RELAY_TEST_POSTGRES_TLS").unwrap();
    let connect = |role: &str, parameters: String| {
        let url: DatabaseUrl = database.url_of(role, &parameters).parse().unwrap();
        let DatabaseUrl::Postgres(url) = url else {
            panic!("a PostgreSQL URL");
        };
        is_encrypted(&PgPool::open(&url, &impatient()).unwrap())
    };
    let verified = |mode: &str, ca: &str| {
        connect(
            "tls_only",
            format!("sslmode={mode}&sslrootcert={folder}/{ca}.crt"),
        )
    };
    assert_eq!(connect("tls_only", "sslmode=require".to_owned()), Ok(true));
    assert_eq!(
        connect("relay_tests", "sslmode=disable".to_owned()),
        Ok(false)
    );
    for mode in ["verify-ca", "verify-full"] {
        assert_eq!(verified(mode, "ca"), Ok(true));
        let cause = unavailable(verified(mode, "other"));
        assert!(cause.contains("certificate verify failed"), "{cause}");
    }
    let cause = unavailable(connect("tls_only", "sslmode=disable".to_owned()));
    assert!(cause.contains("no encryption"), "{cause}");
    // The system's authorities did not sign a certificate of the tests.
    for parameters in ["sslmode=verify-full", "sslrootcert=system"] {
        let cause = unavailable(connect("tls_only", parameters.to_owned()));
        assert!(cause.contains("certificate verify failed"), "{cause}");
    }
}

/// PR-6, DR-3: what is looked for among many rows is found by index.
#[tokio::test]
async fn rows_are_found_by_index() {
    let database = TestDatabase::create();
    store(&database.url(), &limits()).migrate().await.unwrap();
    let mut shell = database.shell();
    shell.batch_execute("SET enable_seqscan = off").unwrap();
    for (statement, index) in [
        (
            "SELECT id FROM devices WHERE account = '00000000-0000-4000-8000-000000000000' ORDER BY created_at, id",
            "devices_by_account",
        ),
        (
            "SELECT id FROM devices WHERE instance = '00000000-0000-4000-8000-000000000000' AND devices.status <> 'offline'",
            "devices_by_instance",
        ),
        (
            "DELETE FROM presence_history WHERE at < now()",
            "presence_history_by_time",
        ),
        (
            "SELECT id FROM api_keys WHERE account = '00000000-0000-4000-8000-000000000000'",
            "api_keys_by_account",
        ),
    ] {
        let plan: Vec<Plan> = diesel::sql_query(format!("EXPLAIN {statement}"))
            .load(&mut shell)
            .unwrap();
        let plan: Vec<String> = plan.into_iter().map(|step| step.line).collect();
        assert!(plan.join("\n").contains(index), "{plan:?}");
    }
}

#[derive(QueryableByName)]
struct Plan {
    #[diesel(sql_type = Text, column_name = "QUERY PLAN")]
    line: String,
}

/// The server's clock ticks as ours: microseconds come back as they went.
#[tokio::test]
async fn times_keep_their_microseconds() {
    let database = TestDatabase::create();
    let store = store(&database.url(), &limits());
    store.migrate().await.unwrap();
    let micros = [-1, 0, 946_684_799_999_999, 1_791_187_200_000_001];
    let moments = micros.map(Timestamp::from_unix_micros);
    for (number, moment) in (1..).zip(moments) {
        let registered = store.register_desktop(ACCOUNT, device(number), desktop(), moment);
        let RegistrationOutcome::Registered(made) = registered.await.unwrap() else {
            panic!("{moment} is a moment like others");
        };
        assert_eq!(made.row.created_at, moment);
    }
    let line: Line = diesel::sql_query(
        "SELECT to_char(max(created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') AS line
         FROM devices",
    )
    .get_result(&mut database.shell())
    .unwrap();
    assert_eq!(line.line, "2026-10-05 08:00:00.000001");
}
