//! Connections to an SQLite file: readers beside one writer, who never polls for its turn within this
//! process.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use diesel::connection::SimpleConnection;
use diesel::r2d2::{self, ConnectionManager, CustomizeConnection, PooledConnection};
use diesel::result::Error;
use diesel::sqlite::SqliteConnection;
use tokio::sync::Semaphore;

use super::{LastFault, OpenError};
use crate::limits::{Limits, SQLITE_CACHE};
use crate::store::{StoreError, faults};

/// Connections to one SQLite file.
#[derive(Clone)]
pub(in crate::store) struct SqlitePool {
    connections: r2d2::Pool<ConnectionManager<SqliteConnection>>,
    /// SQLite takes one writer at a time and lets the others poll for their turn. In this process
    /// they queue here instead, in order and without a connection, so that readers always find one.
    writers: Arc<Semaphore>,
    last_fault: LastFault,
}

impl SqlitePool {
    /// Starts a pool on a file, which is made if it is missing.
    pub(super) fn open(path: &Path, limits: &Limits) -> Result<Self, OpenError> {
        prepare_file(path)?;
        Ok(Self::new(file_name(path), limits))
    }

    pub(super) fn writers(&self) -> Arc<Semaphore> {
        Arc::clone(&self.writers)
    }

    /// Starts a pool on the file that SQLite knows by this name. Nothing is connected yet: a
    /// database that is away fails the calls, not the start.
    pub(in crate::store) fn new(name: String, limits: &Limits) -> Self {
        let last_fault = LastFault::default();
        let size = u32::try_from(limits.database_pool).unwrap_or(u32::MAX);
        let connections = r2d2::Pool::builder()
            .max_size(size.max(1))
            .min_idle(Some(1))
            .max_lifetime(None)
            .connection_timeout(limits.database_timeout)
            // A file does not hang up: asking before each use would only cost time.
            .test_on_check_out(false)
            .connection_customizer(Box::new(Pragmas {
                busy_timeout_millis: limits.database_timeout.as_millis(),
                last_fault: last_fault.clone(),
                wal: Mutex::new(()),
            }))
            .error_handler(Box::new(last_fault.clone()))
            .build_unchecked(ConnectionManager::new(name));
        Self {
            connections,
            writers: Arc::new(Semaphore::new(1)),
            last_fault,
        }
    }

    /// Waits for a connection, `database.timeout` at most.
    pub(in crate::store) fn connection(
        &self,
    ) -> Result<PooledConnection<ConnectionManager<SqliteConnection>>, StoreError> {
        self.connections.get().map_err(|_| {
            let open = self.connections.state().connections;
            faults::no_connection(self.last_fault.get().as_deref(), open)
        })
    }
}

/// Runs `body` in a transaction that takes the write lock at its start: one that reads first and
/// then writes fails at once, whatever the timeout, when another has written in between.
pub(in crate::store) fn write_transaction<T, E: From<Error>>(
    connection: &mut SqliteConnection,
    body: impl FnOnce(&mut SqliteConnection) -> Result<T, E>,
) -> Result<T, E> {
    let mut refused = None;
    let outcome = connection.immediate_transaction(|connection| {
        body(connection).map_err(|error| {
            refused = Some(error);
            Error::RollbackTransaction
        })
    });
    // A full disk ends the transaction by itself; that there was nothing left to roll back must not
    // hide why. The pool throws such a connection away.
    match (outcome, refused) {
        (_, Some(error)) => Err(error),
        (outcome, None) => outcome.map_err(E::from),
    }
}

/// What every connection is told before its first use.
#[derive(Debug)]
struct Pragmas {
    busy_timeout_millis: u128,
    last_fault: LastFault,
    /// The change of a new file to WAL does not wait for other connections that make it too.
    wal: Mutex<()>,
}

impl CustomizeConnection<SqliteConnection, r2d2::Error> for Pragmas {
    fn on_acquire(&self, connection: &mut SqliteConnection) -> Result<(), r2d2::Error> {
        let _one_at_a_time = self.wal.lock().unwrap_or_else(PoisonError::into_inner);
        // The operating system caches the file once; each connection's own cache is a copy of it.
        // With WAL, NORMAL loses at most the last commits when the machine (not the process) dies,
        // and never tears the file; presence is written anew by the devices that come back.
        connection.batch_execute(&format!(
            "PRAGMA busy_timeout = {};
             PRAGMA journal_mode = WAL;
             PRAGMA synchronous = NORMAL;
             PRAGMA foreign_keys = ON;
             PRAGMA cache_size = -{};",
            self.busy_timeout_millis,
            SQLITE_CACHE / 1024
        ))?;
        self.last_fault.set(None);
        Ok(())
    }
}

/// The path as SQLite is given it: never with the beginnings that it reads as something else than
/// a file's name (`file:`, `:memory:`, and diesel's `sqlite://`).
fn file_name(path: &Path) -> String {
    // A path that came from a URL is UTF-8.
    let name = path.to_string_lossy();
    if path.is_absolute() {
        name.into_owned()
    } else {
        format!("./{name}")
    }
}

/// Makes the folder and an empty file where there are none, both for their owner only: the file
/// holds what devices belong to whom. SQLite gives its journal the rights of the file.
fn prepare_file(path: &Path) -> Result<(), OpenError> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(|source| OpenError::Folder {
            path: folder.to_owned(),
            source,
        })?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // A file that may not be looked at is left to SQLite, which has the better message.
            match std::fs::metadata(path) {
                Ok(found) if !found.is_file() => Err(OpenError::NotAFile {
                    path: path.to_owned(),
                }),
                _ => Ok(()),
            }
        }
        Err(source) => Err(OpenError::File {
            path: path.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A missing folder and file are made, for their owner only.
    #[cfg(unix)]
    #[test]
    fn missing_folders_are_made_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;

        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b/relay.db");
        SqlitePool::open(&path, &Limits::default()).unwrap();
        for (made, rights) in [("a", 0o700), ("a/b", 0o700), ("a/b/relay.db", 0o600)] {
            let metadata = std::fs::metadata(root.path().join(made)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, rights, "{made}");
        }
        // What is there is opened as it is.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        SqlitePool::open(&path, &Limits::default()).unwrap();
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
    }

    /// OP-1: what can never be a database is refused at the start, with its path.
    #[test]
    fn what_cannot_be_a_database_is_refused_at_once() {
        let root = tempfile::tempdir().unwrap();
        let open = |path: &Path| SqlitePool::open(path, &Limits::default()).err();
        let folder = open(root.path());
        assert!(
            matches!(folder, Some(OpenError::NotAFile { .. })),
            "{folder:?}"
        );
        assert!(
            folder
                .unwrap()
                .to_string()
                .contains(&root.path().display().to_string())
        );

        let file = root.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let below_a_file = open(&file.join("relay.db"));
        assert!(
            matches!(below_a_file, Some(OpenError::Folder { .. })),
            "{below_a_file:?}"
        );

        let long = root.path().join("x".repeat(300));
        let impossible = open(&long);
        assert!(
            matches!(impossible, Some(OpenError::File { .. })),
            "{impossible:?}"
        );
    }

    #[test]
    fn names_are_never_read_as_options() {
        for (path, name) in [
            ("file:a", "./file:a"),
            ("relay.db", "./relay.db"),
            ("/file:a", "/file:a"),
        ] {
            assert_eq!(file_name(Path::new(path)), name);
        }
    }

    /// Every connection of the pool has the settings that the store relies on.
    #[test]
    fn connections_are_set_up() {
        use diesel::prelude::*;
        use diesel::sql_types::{BigInt, Text};

        #[derive(QueryableByName, Debug, PartialEq)]
        struct Settings {
            #[diesel(sql_type = Text)]
            journal_mode: String,
            #[diesel(sql_type = BigInt)]
            synchronous: i64,
            #[diesel(sql_type = BigInt)]
            foreign_keys: i64,
            #[diesel(sql_type = BigInt)]
            timeout: i64,
            #[diesel(sql_type = BigInt)]
            cache_size: i64,
        }

        let root = tempfile::tempdir().unwrap();
        let pool = SqlitePool::open(&root.path().join("relay.db"), &Limits::default()).unwrap();
        let mut connections = [(); 3].map(|()| pool.connection().unwrap());
        for connection in &mut connections {
            let settings: Settings = diesel::sql_query(
                "SELECT * FROM pragma_journal_mode, pragma_synchronous, pragma_foreign_keys,
                 pragma_busy_timeout, pragma_cache_size",
            )
            .get_result(&mut **connection)
            .unwrap();
            let expected = Settings {
                journal_mode: "wal".to_owned(),
                synchronous: 1,
                foreign_keys: 1,
                timeout: 5_000,
                cache_size: -64,
            };
            assert_eq!(settings, expected);
        }
    }
}
