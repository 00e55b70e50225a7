//! The steps that bring a database to the form that the queries expect, compiled into the binary.

use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use super::StoreError;
use super::dialect::Dialect;
use super::pool::{Pool, query, transaction};

/// Those of SQLite.
pub(super) const SQLITE_MIGRATIONS: EmbeddedMigrations = embed_migrations!("../migrations/sqlite");

/// Those of PostgreSQL.
pub(super) const PG_MIGRATIONS: EmbeddedMigrations = embed_migrations!("../migrations/postgres");

type MigrationError = Box<dyn std::error::Error + Send + Sync>;

fn migrations_of(pool: &Pool) -> EmbeddedMigrations {
    match pool {
        Pool::Sqlite(_) => SQLITE_MIGRATIONS,
        Pool::Pg(_) => PG_MIGRATIONS,
    }
}

/// Applies what is pending, all or nothing, and returns the versions applied. The whole runs in one
/// write transaction, so that two processes that start at once apply each step once.
pub(super) fn migrate(pool: &Pool) -> Result<Vec<String>, StoreError> {
    transaction!(pool, |connection| -> Result<Vec<String>, MigrationError> {
        connection.begin_migration()?;
        let versions = connection.run_pending_migrations(migrations_of(pool))?;
        Ok(versions.iter().map(ToString::to_string).collect())
    })
    .map_err(into_store_error)
}

/// The names of the steps that [`migrate`] would apply, in order.
pub(super) fn pending(pool: &Pool) -> Result<Vec<String>, StoreError> {
    query!(pool, |connection| {
        let steps = connection
            .pending_migrations(migrations_of(pool))
            .map_err(into_store_error)?;
        Ok(steps.iter().map(|step| step.name().to_string()).collect())
    })
}

fn into_store_error(error: MigrationError) -> StoreError {
    match error.downcast::<diesel::result::Error>() {
        Ok(error) => (*error).into(),
        Err(error) => StoreError::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use diesel::connection::SimpleConnection;
    use diesel::migration::{Migration, MigrationSource};
    use diesel::pg::{Pg, PgConnection};
    use diesel::prelude::*;
    use diesel::sql_types::{Nullable, Text};
    use diesel::sqlite::Sqlite;

    use super::*;
    use crate::limits::Limits;
    use crate::store::diesel_store::tests::Fixture;
    use crate::store::{DatabaseUrl, DeviceStore, DieselStore, TestDatabase};

    #[derive(QueryableByName, PartialEq, Debug)]
    struct Object {
        #[diesel(sql_type = Text)]
        name: String,
        #[diesel(sql_type = Text)]
        sql: String,
    }

    fn objects(shell: &mut SqliteConnection) -> Vec<Object> {
        diesel::sql_query(
            "SELECT name, sql FROM sqlite_schema
             WHERE sql IS NOT NULL AND name NOT LIKE '%diesel%' ORDER BY name",
        )
        .load(shell)
        .unwrap()
    }

    /// Every step can be taken back, and taken again with the same outcome.
    #[test]
    fn go_up_and_down_and_up_again() {
        let fixture = Fixture::new();
        let mut shell = fixture.shell();
        shell.run_pending_migrations(SQLITE_MIGRATIONS).unwrap();
        let up = objects(&mut shell);
        assert!(up.iter().any(|object| object.name == "devices"), "{up:?}");
        shell.revert_all_migrations(SQLITE_MIGRATIONS).unwrap();
        assert_eq!(objects(&mut shell), []);
        shell.run_pending_migrations(SQLITE_MIGRATIONS).unwrap();
        assert_eq!(objects(&mut shell), up);
    }

    #[derive(QueryableByName, PartialEq, Debug)]
    struct Row {
        #[diesel(sql_type = Text)]
        device_name: String,
        #[diesel(sql_type = Nullable<Text>)]
        offline_reason: Option<String>,
    }

    fn rows(shell: &mut SqliteConnection) -> Vec<(String, Option<String>)> {
        let rows: Vec<Row> = diesel::sql_query(
            "SELECT device_name, offline_reason FROM devices ORDER BY device_name",
        )
        .load(shell)
        .unwrap();
        let columns = |row: Row| (row.device_name, row.offline_reason);
        rows.into_iter().map(columns).collect()
    }

    fn insert(shell: &mut SqliteConnection, number: u8, reason: &str) -> QueryResult<()> {
        shell.batch_execute(&format!(
            "INSERT INTO devices VALUES (
                 x'{number:032x}', zeroblob(16), 'desktop', 'Desk {number}', 'linux', NULL, '1',
                 '{{}}', 1, NULL, 'offline', '{reason}', NULL, NULL, 1, NULL, NULL, '/home', 1, 2
             )"
        ))
    }

    /// Devices outlive the table that they were in; going back, a reason that the former table has
    /// no word for is dropped.
    #[test]
    fn devices_move_to_the_table_made_anew() {
        let fixture = Fixture::new();
        let mut shell = fixture.shell();
        shell.run_next_migration(SQLITE_MIGRATIONS).unwrap();
        let first = objects(&mut shell);
        insert(&mut shell, 1, "disconnected").unwrap();
        insert(&mut shell, 2, "hidden").unwrap_err();
        shell.run_next_migration(SQLITE_MIGRATIONS).unwrap();
        insert(&mut shell, 2, "hidden").unwrap();
        insert(&mut shell, 3, "bored").unwrap_err();
        let reason = |word: &str| Some(word.to_owned());
        let expected = [
            ("Desk 1".to_owned(), reason("disconnected")),
            ("Desk 2".to_owned(), reason("hidden")),
        ];
        assert_eq!(rows(&mut shell), expected);
        shell.revert_last_migration(SQLITE_MIGRATIONS).unwrap();
        let [one, (two, _)] = expected;
        assert_eq!(rows(&mut shell), [one, (two, None)]);
        let reverted: Vec<(String, String)> = objects(&mut shell)
            .into_iter()
            .map(|object| (object.name, object.sql.replace('"', "")))
            .collect();
        let first: Vec<(String, String)> = first
            .into_iter()
            .map(|object| (object.name, object.sql))
            .collect();
        assert_eq!(reverted, first);
    }

    /// A database that was not migrated says so: in what is pending, and in being unready (OP-8).
    #[tokio::test]
    async fn pending_steps_are_named_until_they_are_applied() {
        let fixture = Fixture::new();
        let pending = fixture.store.pending_migrations().await.unwrap();
        let steps = [
            "2026-10-05-080000_devices",
            "2026-11-30-080000_history_and_keys",
            "2026-11-30-090000_push_tokens",
        ];
        assert_eq!(pending, steps);
        let unready = fixture.store.check().await;
        assert!(matches!(unready, Err(StoreError::Failed(_))), "{unready:?}");

        assert_eq!(fixture.store.migrate().await.unwrap().len(), pending.len());
        assert_eq!(fixture.store.pending_migrations().await, Ok(Vec::new()));
        assert_eq!(fixture.store.migrate().await, Ok(Vec::new()));
        assert_eq!(fixture.store.check().await, Ok(()));
    }

    /// DR-5: processes that start at once on a new file all come up, and each step is applied once.
    #[test]
    fn several_processes_may_migrate_at_once() {
        let fixture = Fixture::new();
        let applied: usize = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| Fixture::block_on(open_and_migrate(&fixture))))
                .collect();
            starts.into_iter().map(|start| start.join().unwrap()).sum()
        });
        let steps: Vec<Box<dyn Migration<Sqlite>>> = SQLITE_MIGRATIONS.migrations().unwrap();
        assert_eq!(applied, steps.len());
    }

    async fn open_and_migrate(fixture: &Fixture) -> usize {
        let store = DieselStore::open(&fixture.url(), &fixture.limits()).unwrap();
        store.migrate().await.unwrap().len()
    }

    fn columns(shell: &mut PgConnection) -> Vec<Object> {
        diesel::sql_query(
            "SELECT table_name || '.' || column_name AS name, data_type || is_nullable AS sql
             FROM information_schema.columns
             WHERE table_schema = 'public' AND table_name NOT LIKE '%diesel%'
             ORDER BY name",
        )
        .load(shell)
        .unwrap()
    }

    /// Every step can be taken back, and taken again with the same outcome, on PostgreSQL too.
    #[test]
    fn go_up_and_down_and_up_again_on_postgres() {
        let database = TestDatabase::create();
        let mut shell = database.shell();
        shell.run_pending_migrations(PG_MIGRATIONS).unwrap();
        let up = columns(&mut shell);
        assert!(
            up.iter().any(|column| column.name == "devices.id"),
            "{up:?}"
        );
        shell.revert_all_migrations(PG_MIGRATIONS).unwrap();
        assert_eq!(columns(&mut shell), []);
        shell.run_pending_migrations(PG_MIGRATIONS).unwrap();
        assert_eq!(columns(&mut shell), up);
    }

    /// DR-5: processes that start at once on an empty server all come up, and each step is applied
    /// once.
    #[test]
    fn several_processes_may_migrate_a_server_at_once() {
        let database = TestDatabase::create();
        let url: DatabaseUrl = database.url().parse().unwrap();
        let limits = Limits {
            database_pool: 1,
            ..Limits::default()
        };
        let applied: Vec<String> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..6)
                .map(|_| {
                    scope.spawn(|| {
                        let store = DieselStore::open(&url, &limits).unwrap();
                        Fixture::block_on(store.migrate()).unwrap()
                    })
                })
                .collect();
            let applied = starts.into_iter().map(|start| start.join().unwrap());
            applied.flatten().collect()
        });
        let steps: Vec<Box<dyn Migration<Pg>>> = PG_MIGRATIONS.migrations().unwrap();
        assert_eq!(applied.len(), steps.len());
    }
}
