//! The relay's database file, for states that no call of the relay's own can bring about yet.

use std::path::Path;

use diesel::connection::SimpleConnection;
use diesel::sql_types::BigInt;
use diesel::{Connection, QueryableByName, RunQueryDsl, SqliteConnection};

/// A second connection to it.
pub struct Database {
    connection: SqliteConnection,
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

impl Database {
    pub(super) fn open(path: &Path) -> Self {
        let path = path.to_str().expect("a path of the tests is UTF-8");
        let mut connection = SqliteConnection::establish(path).expect("the database opens");
        connection
            .batch_execute("PRAGMA busy_timeout = 10000")
            .expect("a pragma is taken");
        Self { connection }
    }

    /// Runs statements.
    ///
    /// # Panics
    /// When one fails.
    pub fn execute(&mut self, statements: &str) {
        self.connection
            .batch_execute(statements)
            .unwrap_or_else(|error| panic!("{statements}: {error}"));
    }

    /// The answer of a query for one number named `number`.
    ///
    /// # Panics
    /// When it gives none.
    pub fn number(&mut self, query: &str) -> i64 {
        let row: Number = diesel::sql_query(query)
            .get_result(&mut self.connection)
            .unwrap_or_else(|error| panic!("{query}: {error}"));
        row.number
    }

    /// The literal of a device's id, as the database keeps it.
    pub fn id(id: &str) -> String {
        format!("x'{}'", id.replace('-', ""))
    }
}
