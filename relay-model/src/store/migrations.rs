//! The steps that bring a database to the form that the queries expect, compiled into the binary.

use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use super::StoreError;
use super::pool::{Pool, query, transaction};

/// Those of SQLite.
pub(super) const SQLITE_MIGRATIONS: EmbeddedMigrations = embed_migrations!("../migrations/sqlite");

type MigrationError = Box<dyn std::error::Error + Send + Sync>;

fn migrations_of(pool: &Pool) -> EmbeddedMigrations {
    match pool {
        Pool::Sqlite(_) => SQLITE_MIGRATIONS,
    }
}

/// Applies what is pending, all or nothing, and returns the versions applied. The whole runs in one
/// write transaction, so that two processes that start at once apply each step once.
pub(super) fn migrate(pool: &Pool) -> Result<Vec<String>, StoreError> {
    transaction!(pool, |connection| -> Result<Vec<String>, MigrationError> {
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
    use diesel::prelude::*;
    use diesel::sql_types::Text;

    use super::*;
    use crate::store::diesel_store::tests::Fixture;
    use crate::store::{DeviceStore, DieselStore};

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

    /// A database that was not migrated says so: in what is pending, and in being unready (OP-8).
    #[tokio::test]
    async fn pending_steps_are_named_until_they_are_applied() {
        let fixture = Fixture::new();
        let pending = fixture.store.pending_migrations().await.unwrap();
        assert_eq!(pending, ["2026-10-05-080000_devices"]);
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
        assert_eq!(applied, 1);
    }

    async fn open_and_migrate(fixture: &Fixture) -> usize {
        let store = DieselStore::open(&fixture.url(), &fixture.limits()).unwrap();
        store.migrate().await.unwrap().len()
    }
}
