//! A PostgreSQL database of its own for each test, on the server that `tests/postgres` starts.

use std::env;

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;

/// Made empty, and dropped with this value, whoever is still connected to it.
pub struct TestDatabase {
    server: String,
    name: String,
}

impl TestDatabase {
    /// Makes a database.
    ///
    /// # Panics
    /// When there is no server, with what to do.
    pub fn create() -> Self {
        let server = env::var("RELAY_TEST_POSTGRES").unwrap_or_else(|_| {
            panic!(
                "RELAY_TEST_POSTGRES is not set: run tests/run, or start a server by \
                 eval \"$(tests/postgres start)\""
            )
        });
        #[expect(
            clippy::disallowed_methods,
            reason = "tests beside each other share the server"
        )]
        let name = format!("test_{}", uuid::Uuid::new_v4().simple());
        let database = Self { server, name };
        database.administrate(&format!("CREATE DATABASE {}", database.name));
        database
    }

    /// Its URL, as `database.url` has it.
    pub fn url(&self) -> String {
        format!("{}/{}", self.address(), self.name)
    }

    /// Its URL for another role with the same password, and with these parameters.
    pub fn url_of(&self, role: &str, parameters: &str) -> String {
        let url = self.url().replacen("relay_tests:", &format!("{role}:"), 1);
        format!("{url}?{parameters}")
    }

    /// A connection beside the relay's, as an operator's shell has it.
    ///
    /// # Panics
    /// When the server does not answer.
    pub fn shell(&self) -> PgConnection {
        connect(&self.url())
    }

    /// Runs a statement in another database of the server, as its administrator.
    ///
    /// # Panics
    /// When it fails.
    pub fn administrate(&self, statement: &str) {
        let mut connection = connect(&self.server);
        let done = connection.batch_execute(statement);
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// The URL without the database.
    fn address(&self) -> &str {
        let end = self.server.rfind('/').unwrap_or(self.server.len());
        &self.server[..end]
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // A server that a test has stopped for good keeps the database; so be it.
        if let Ok(mut connection) = PgConnection::establish(&self.server) {
            let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
            let _ = connection.batch_execute(&drop);
        }
    }
}

fn connect(url: &str) -> PgConnection {
    PgConnection::establish(url).unwrap_or_else(|error| panic!("the test server: {error}"))
}
