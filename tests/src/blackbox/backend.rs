//! Where a site's database lives: a file of its own, or a database of its own on the PostgreSQL
//! server of the tests.

use std::env;
use std::path::{Path, PathBuf};

use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection};

use super::account::fresh_id;
use super::database::Database;

/// The backend of every site that does not choose: `sqlite`, as without it, or `postgres`.
const CHOICE: &str = "RELAY_TEST_DATABASE";
/// The URL of the server's administrator, as `tests/postgres` prints it.
const SERVER: &str = "RELAY_TEST_POSTGRES";

/// A kind of database that the relay can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// A file.
    Sqlite,
    /// A server.
    Postgres,
}

impl Backend {
    /// The one that this run of the tests is about.
    ///
    /// # Panics
    /// When the environment names another.
    pub fn of_this_run() -> Self {
        match env::var(CHOICE).as_deref() {
            Err(_) | Ok("" | "sqlite") => Self::Sqlite,
            Ok("postgres") => Self::Postgres,
            Ok(other) => panic!("{CHOICE} is {other:?}; it may be sqlite or postgres"),
        }
    }
}

/// A database that nothing else uses; it goes when this is dropped.
#[derive(Debug)]
pub(super) enum Home {
    Sqlite(PathBuf),
    Postgres(PostgresHome),
}

/// A database on the server.
#[derive(Debug)]
pub(super) struct PostgresHome {
    server: String,
    name: String,
}

impl Home {
    /// An empty database; a file in `folder`, if it is one.
    pub(super) fn new(backend: Backend, folder: &Path) -> Self {
        match backend {
            Backend::Sqlite => Self::Sqlite(folder.join("relay.db")),
            Backend::Postgres => Self::Postgres(PostgresHome::new()),
        }
    }

    /// As `database.url` names it.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite://{}", path.display()),
            Self::Postgres(home) => home.url(&home.name),
        }
    }

    pub(super) fn open(&self) -> Database {
        match self {
            Self::Sqlite(path) => Database::sqlite(path),
            Self::Postgres(home) => Database::postgres(&home.url(&home.name)),
        }
    }
}

impl PostgresHome {
    fn new() -> Self {
        let server = env::var(SERVER).unwrap_or_else(|_| {
            panic!(
                "{SERVER} is not set; start a server with `eval \"$(tests/postgres start)\"`, or \
                 run tests/run, which does"
            )
        });
        let name = format!("blackbox_{}", fresh_id().replace('-', ""));
        let home = Self { server, name };
        home.administer(&format!("CREATE DATABASE {}", home.name))
            .unwrap_or_else(|error| panic!("{SERVER}: {error}"));
        home
    }

    /// The URL of `database` on the same server.
    fn url(&self, database: &str) -> String {
        let (server, _) = self.server.rsplit_once('/').expect("a URL with a database");
        format!("{server}/{database}")
    }

    fn administer(&self, statement: &str) -> Result<(), String> {
        let mut connection =
            PgConnection::establish(&self.server).map_err(|error| error.to_string())?;
        connection
            .batch_execute(statement)
            .map_err(|error| error.to_string())
    }
}

impl Drop for PostgresHome {
    /// A server that a test has stopped keeps the database until its data is removed.
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        if let Err(error) = self.administer(&drop) {
            eprintln!("{} stays: {error}", self.name);
        }
    }
}
