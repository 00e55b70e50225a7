//! Connections to the database: one pool type with a variant per backend, and the two macros that
//! compile a query's one text for each of them.

mod postgres;
mod sqlite;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use diesel::r2d2::{self, HandleError};
use tokio::sync::Semaphore;

pub(super) use postgres::PgPool;
pub(super) use sqlite::{SqlitePool, write_transaction};

use super::url::DatabaseUrl;
use crate::limits::Limits;

/// Runs a query that writes nothing: `query!(pool, |connection| body)`.
macro_rules! query {
    ($pool:expr, |$connection:ident| $body:expr) => {
        match $pool {
            $crate::store::pool::Pool::Sqlite(sqlite) => {
                let mut pooled = sqlite.connection()?;
                let $connection = &mut *pooled;
                $body
            }
            $crate::store::pool::Pool::Pg(postgres) => {
                let mut pooled = postgres.connection()?;
                let $connection = &mut *pooled;
                $body
            }
        }
    };
}

/// Runs a body in one write transaction, all or nothing:
/// `transaction!(pool, |connection| -> Result<T, E> { body })`.
macro_rules! transaction {
    ($pool:expr, |$connection:ident| -> $result:ty $body:block) => {
        match $pool {
            $crate::store::pool::Pool::Sqlite(sqlite) => {
                let mut pooled = sqlite.connection()?;
                $crate::store::pool::write_transaction(&mut pooled, |$connection| -> $result {
                    $body
                })
            }
            $crate::store::pool::Pool::Pg(postgres) => {
                let mut pooled = postgres.connection()?;
                // Whatever the server's default: each statement sees what is committed, and a
                // conditional update looks anew at a row that it had to wait for. Whether it takes
                // writes is its operator's choice.
                pooled
                    .build_transaction()
                    .read_committed()
                    .run(|$connection| -> $result { $body })
            }
        }
    };
}

pub(super) use {query, transaction};

/// Why a store cannot be opened at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder of the database file cannot be made.
    #[error(
        "cannot create the folder {path} of the database: {source}; create it, or change database.url"
    )]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database file cannot be made.
    #[error(
        "cannot create the database {path}: {source}; check the folder's owner and rights, or change database.url"
    )]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The path is a folder, a socket or the like.
    #[error("the database {path} is not a file; name a file in database.url")]
    NotAFile {
        /// What database.url names.
        path: PathBuf,
    },
    /// Nothing to verify a PostgreSQL server's certificate with.
    #[error(
        "the certificate of the database server is to be verified, and this system has no bundle of \
         authorities where one is usual; name a file in sslrootcert of database.url"
    )]
    NoAuthorities,
}

/// The connections to one database, by backend.
#[derive(Clone)]
pub(super) enum Pool {
    /// A file on this machine.
    Sqlite(SqlitePool),
    /// A PostgreSQL server.
    Pg(PgPool),
}

impl Pool {
    pub(super) fn open(url: &DatabaseUrl, limits: &Limits) -> Result<Self, OpenError> {
        match url {
            DatabaseUrl::Sqlite(path) => Ok(Self::Sqlite(SqlitePool::open(path, limits)?)),
            DatabaseUrl::Postgres(url) => Ok(Self::Pg(PgPool::open(url, limits)?)),
        }
    }

    /// The queue that writers stand in, for a backend that takes one writer at a time.
    pub(super) fn writers(&self) -> Option<Arc<Semaphore>> {
        match self {
            Self::Sqlite(sqlite) => Some(sqlite.writers()),
            Self::Pg(_) => None,
        }
    }

    /// The queue of the writes that must not overtake each other.
    pub(super) fn ordered_writers(&self) -> Arc<Semaphore> {
        match self {
            Self::Sqlite(sqlite) => sqlite.writers(),
            Self::Pg(postgres) => postgres.ordered_writers(),
        }
    }
}

/// Why the last attempt to connect failed. The pool tells it to one caller only, others would learn
/// nothing but that time ran out.
#[derive(Debug, Clone, Default)]
struct LastFault(Arc<Mutex<Option<String>>>);

impl LastFault {
    fn set(&self, fault: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    fn get(&self) -> Option<String> {
        let fault = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fault.clone()
    }
}

impl HandleError<r2d2::Error> for LastFault {
    fn handle_error(&self, error: r2d2::Error) {
        self.set(Some(error.to_string()));
    }
}
