//! Connections to a PostgreSQL server: none of them waits for a dead server for ever, and one that
//! broke is thrown away before its next use, so that a server may go and come back.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::r2d2::{self, ManageConnection, PooledConnection, R2D2Connection};
// Linked in for libpq: what it bundles is part of the binary.
use pq_sys as _;
use tokio::sync::Semaphore;

use super::{LastFault, OpenError};
use crate::limits::Limits;
use crate::store::url::PostgresUrl;
use crate::store::{StoreError, faults};

/// Where systems keep the authorities that they trust. The bundled TLS library has a folder of its
/// own, which is on no system.
const AUTHORITIES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Connections to one PostgreSQL server.
#[derive(Clone)]
pub(in crate::store) struct PgPool {
    connections: r2d2::Pool<PgManager>,
    /// The server runs writes side by side; some must keep their order.
    ordered_writers: Arc<Semaphore>,
    last_fault: LastFault,
}

impl PgPool {
    /// Starts a pool. Nothing is connected yet: a server that is away fails the calls, not the
    /// start.
    pub(super) fn open(url: &PostgresUrl, limits: &Limits) -> Result<Self, OpenError> {
        // Before libpq does: the TLS library would free itself at the process's exit, under the hands
        // of a thread that is still connecting, and the exit would be a segmentation fault.
        openssl_sys::init();
        let last_fault = LastFault::default();
        let manager = PgManager {
            url: connection_url(url, limits.database_timeout)?,
            statement_timeout: limits.database_timeout,
            last_fault: last_fault.clone(),
        };
        let size = u32::try_from(limits.database_pool).unwrap_or(u32::MAX);
        let connections = r2d2::Pool::builder()
            .max_size(size.max(1))
            .min_idle(Some(1))
            .connection_timeout(limits.database_timeout)
            .test_on_check_out(true)
            .error_handler(Box::new(last_fault.clone()))
            .build_unchecked(manager);
        Ok(Self {
            connections,
            ordered_writers: Arc::new(Semaphore::new(1)),
            last_fault,
        })
    }

    /// Waits for a connection, `database.timeout` at most.
    pub(in crate::store) fn connection(&self) -> Result<PooledConnection<PgManager>, StoreError> {
        self.connections.get().map_err(|_| {
            let open = self.connections.state().connections;
            faults::no_connection(self.last_fault.get().as_deref(), open)
        })
    }

    pub(super) fn ordered_writers(&self) -> Arc<Semaphore> {
        Arc::clone(&self.ordered_writers)
    }
}

/// Makes connections and tells whether they still hold.
pub(in crate::store) struct PgManager {
    url: String,
    statement_timeout: Duration,
    last_fault: LastFault,
}

impl ManageConnection for PgManager {
    type Connection = PgConnection;
    type Error = r2d2::Error;

    fn connect(&self) -> Result<PgConnection, r2d2::Error> {
        let mut connection =
            PgConnection::establish(&self.url).map_err(r2d2::Error::ConnectionError)?;
        let millis = self.statement_timeout.as_millis();
        // A relay that dies in a transaction must not keep its locks until TCP notices.
        connection
            .batch_execute(&format!(
                "SET statement_timeout = {millis};
                 SET idle_in_transaction_session_timeout = {millis};"
            ))
            .map_err(r2d2::Error::QueryError)?;
        // Faults are told apart by their messages. Only some roles may set their language; the
        // others keep the server's.
        let _ = connection.batch_execute("SET lc_messages = 'C'");
        self.last_fault.set(None);
        Ok(connection)
    }

    /// Looks at what has already arrived, without asking the server: a connection that it closed has
    /// its end waiting there, behind a word of farewell at most.
    fn is_valid(&self, connection: &mut PgConnection) -> Result<(), r2d2::Error> {
        for _ in 0..2 {
            if let Some(Err(error)) = connection.notifications_iter().next() {
                return Err(r2d2::Error::QueryError(error));
            }
        }
        Ok(())
    }

    fn has_broken(&self, connection: &mut PgConnection) -> bool {
        std::thread::panicking() || connection.is_broken()
    }
}

/// The URL with all that bounds how long a server may be silent.
fn connection_url(url: &PostgresUrl, timeout: Duration) -> Result<String, OpenError> {
    let seconds = timeout.as_millis().div_ceil(1_000).max(1);
    let mut settings = vec![
        // Sooner than a caller gives up, who then learns why.
        ("connect_timeout", seconds.div_ceil(2).to_string()),
        ("tcp_user_timeout", timeout.as_millis().to_string()),
        ("keepalives_idle", seconds.to_string()),
        ("keepalives_interval", "1".to_owned()),
        ("keepalives_count", "3".to_owned()),
        ("fallback_application_name", "relay".to_owned()),
    ];
    let of_the_system = url.parameter("sslrootcert") == Some("system");
    if of_the_system || (url.verifies() && url.parameter("sslrootcert").is_none()) {
        let found = AUTHORITIES
            .into_iter()
            .find(|path| Path::new(path).exists());
        let bundle = found.ok_or(OpenError::NoAuthorities)?;
        settings.push(("sslrootcert", bundle.to_owned()));
    }
    if of_the_system && !url.verifies() {
        // As libpq has it: whoever trusts a whole system's authorities must ask for the name too.
        settings.push(("sslmode", "verify-full".to_owned()));
    }
    Ok(url.with_parameters(&settings))
}

#[cfg(test)]
mod tests;
