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
