//! The relay's database, for states that no call of the relay's own can bring about, and for what
//! stands in it. Statements are those that every backend takes.

use std::collections::BTreeMap;
use std::path::Path;

use diesel::connection::SimpleConnection;
use diesel::sql_types::{BigInt, Text};
use diesel::{
    Connection, PgConnection, QueryResult, QueryableByName, RunQueryDsl, SqliteConnection,
};

use super::account::Device;

/// A second connection to it.
pub struct Database {
    connection: AnyConnection,
}

enum AnyConnection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

/// Everything in a database: of each table its rows as text, in the order of that text.
pub type Dump = BTreeMap<String, Vec<String>>;

impl Database {
    pub(super) fn sqlite(path: &Path) -> Self {
        let path = path.to_str().expect("a path of the tests is UTF-8");
        let mut connection = SqliteConnection::establish(path).expect("the database opens");
        connection
            .batch_execute("PRAGMA busy_timeout = 10000")
            .expect("a pragma is taken");
        Self {
            connection: AnyConnection::Sqlite(connection),
        }
    }

    pub(super) fn postgres(url: &str) -> Self {
        let connection = PgConnection::establish(url).expect("the server of the tests runs");
        Self {
            connection: AnyConnection::Postgres(connection),
        }
    }

    /// Runs statements.
    ///
    /// # Panics
    /// When one fails.
    pub fn execute(&mut self, statements: &str) {
        let outcome = match &mut self.connection {
            AnyConnection::Sqlite(connection) => connection.batch_execute(statements),
            AnyConnection::Postgres(connection) => connection.batch_execute(statements),
        };
        outcome.unwrap_or_else(|error| panic!("{statements}: {error}"));
    }

    /// The answer of a query for one number named `number`.
    ///
    /// # Panics
    /// When it gives none.
    pub fn number(&mut self, query: &str) -> i64 {
        let asked = diesel::sql_query(query);
        let row: QueryResult<Number> = match &mut self.connection {
            AnyConnection::Sqlite(connection) => asked.get_result(connection),
            AnyConnection::Postgres(connection) => asked.get_result(connection),
        };
        row.unwrap_or_else(|error| panic!("{query}: {error}"))
            .number
    }

    /// The answer of a query for texts named `line`.
    ///
    /// # Panics
    /// When it fails.
    pub fn lines(&mut self, query: &str) -> Vec<String> {
        let asked = diesel::sql_query(query);
        let rows: QueryResult<Vec<Line>> = match &mut self.connection {
            AnyConnection::Sqlite(connection) => asked.load(connection),
            AnyConnection::Postgres(connection) => asked.load(connection),
        };
        let rows = rows.unwrap_or_else(|error| panic!("{query}: {error}"));
        rows.into_iter().map(|row| row.line).collect()
    }

    /// Everything that is in it.
    pub fn dump(&mut self) -> Dump {
        let tables = match &self.connection {
            AnyConnection::Sqlite(_) => {
                "SELECT name AS line FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            }
            AnyConnection::Postgres(_) => {
                "SELECT tablename::text AS line FROM pg_tables WHERE schemaname = 'public'"
            }
        };
        let tables = self.lines(tables);
        assert!(!tables.is_empty(), "no relay has used this database yet");
        let dump = tables.into_iter().map(|table| {
            let rows = self.rows_of(&table);
            (table, rows)
        });
        dump.collect()
    }

    fn rows_of(&mut self, table: &str) -> Vec<String> {
        let row = match &self.connection {
            AnyConnection::Sqlite(_) => {
                let columns = self.lines(&format!(
                    "SELECT 'quote(\"' || name || '\")' AS line FROM pragma_table_info('{table}')"
                ));
                columns.join(" || ',' || ")
            }
            AnyConnection::Postgres(_) => format!("\"{table}\"::text"),
        };
        self.lines(&format!("SELECT {row} AS line FROM \"{table}\" ORDER BY 1"))
    }

    /// Marks the device's row as forgotten by its user.
    pub fn forget(&mut self, device: &Device) {
        self.change(device, "forgotten_at = created_at");
    }

    /// Marks the desktop's row as not admitted.
    pub fn hide(&mut self, device: &Device) {
        self.change(device, "relay_eligible = FALSE");
    }

    /// What the row of a device says about its presence.
    ///
    /// # Panics
    /// When there is no row.
    pub fn status(&mut self, device: &Device) -> String {
        let id = self.id(&device.id);
        let query = format!("SELECT status AS line FROM devices WHERE id = {id}");
        self.lines(&query).pop().expect("a row")
    }

    fn change(&mut self, device: &Device, change: &str) {
        let id = self.id(&device.id);
        self.execute(&format!("UPDATE devices SET {change} WHERE id = {id}"));
    }

    /// The literal of an id, as the database keeps it.
    pub fn id(&self, id: &str) -> String {
        match &self.connection {
            AnyConnection::Sqlite(_) => format!("x'{}'", id.replace('-', "")),
            AnyConnection::Postgres(_) => format!("'{id}'::uuid"),
        }
    }
}
