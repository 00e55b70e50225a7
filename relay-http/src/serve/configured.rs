//! The parts of a relay, as they are configured.

use std::net::{SocketAddr, TcpListener};
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use relay_actors::environment::Environment;
use relay_model::limits::MAX_WORKERS;
use relay_model::store::DieselStore;

use super::error::ServeError;
use crate::authentication::signing_secret::{self, SigningSecretError};
use crate::authentication::{PublicKeys, PublicKeysError};
use crate::configuration::{Configuration, OtlpEndpoint, Secret, Settings, SigningSecretSource};
use crate::figures::Figures;
use crate::server;
use crate::traces::{Traces, TracesError};

/// Listens on the address that `key` configures; with port 0 the real one is found out.
pub(super) fn bind(
    configuration: &Configuration,
    key: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), ServeError> {
    let listen = || {
        let listener = server::bind(address)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|source| ServeError::Listen {
        key,
        address: address.to_string(),
        origin: configuration.origin(key),
        source,
    })
}

/// The secret that tokens may be signed with, if one may; and if it is in a file, whether that was
/// made just now.
pub(super) fn signing_secret(
    configuration: &Configuration,
) -> Result<(Option<Secret>, Option<bool>), SigningSecretError> {
    match configuration.signing_secret() {
        None => Ok((None, None)),
        Some(SigningSecretSource::Configured(secret)) => Ok((Some(secret.clone()), None)),
        Some(SigningSecretSource::File(path)) => {
            let (secret, made) = signing_secret::load_or_create(path)?;
            Ok((Some(secret), Some(made)))
        }
    }
}

pub(super) fn public_keys(settings: &Settings) -> Result<Option<PublicKeys>, PublicKeysError> {
    let Settings {
        jwks_file,
        jwks_url,
        limits,
        ..
    } = settings;
    let keys = match (jwks_file, jwks_url) {
        (Some(path), _) => PublicKeys::from_file(path, limits)?,
        (None, Some(url)) => PublicKeys::from_url(url, limits)?,
        (None, None) => return Ok(None),
    };
    Ok(Some(keys))
}

/// A database that cannot be used at the start ends the process: unlike one that goes away later, it
/// is most likely a mistake in `database.url`, and somebody is watching.
pub(super) async fn open_store(configuration: &Configuration) -> Result<DieselStore, ServeError> {
    let Settings {
        database, limits, ..
    } = &configuration.settings;
    let origin = || configuration.origin("database.url");
    let store = DieselStore::open(database, limits)
        .map_err(|error| ServeError::Database(error, origin()))?;
    if !configuration.settings.migrate_at_start {
        let pending = store
            .pending_migrations()
            .await
            .map_err(|error| ServeError::Migration(error, origin()))?;
        if !pending.is_empty() {
            let origin = configuration.origin("database.migrate_at_start");
            return Err(ServeError::PendingMigrations { pending, origin });
        }
        return Ok(store);
    }
    let applied = store
        .migrate()
        .await
        .map_err(|error| ServeError::Migration(error, origin()))?;
    if !applied.is_empty() {
        tracing::info!(migrations = ?applied, "the database was brought up to date");
    }
    Ok(store)
}

/// Who keeps the traces of requests, if somebody is to.
pub(super) fn traces(
    configuration: &Configuration,
    figures: &Figures,
    environment: &Arc<dyn Environment>,
) -> Result<Option<Traces>, TracesError> {
    let endpoint = configuration.settings.otlp_endpoint.as_ref();
    let start = |endpoint: &OtlpEndpoint| {
        tracing::info!(%endpoint, "traces are sent to a collector");
        let metrics = Arc::clone(figures.metrics());
        Traces::start(endpoint, metrics, Arc::clone(environment))
    };
    endpoint.map(start).transpose()
}

pub(super) fn cores() -> usize {
    thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(MAX_WORKERS)
}
