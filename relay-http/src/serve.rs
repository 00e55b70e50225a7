//! One run of the relay, from its configuration to its exit.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use actix_rt::System;
use relay_actors::Relay;
use relay_actors::environment::Environment;
use relay_model::limits::{Limits, MAX_WORKERS};
use relay_model::store::{DieselStore, OpenError, StoreError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::authentication::signing_secret::{self, SigningSecretError};
use crate::authentication::{Authenticator, PublicKeys, PublicKeysError, UserTokens};
use crate::configuration::{Configuration, Origin, Secret, Settings, SigningSecretSource};
use crate::device_api::DeviceApi;
use crate::exit::ExitStatus;
use crate::logging;
use crate::push::{self, PushError};
use crate::server;
use crate::system_environment::SystemEnvironment;
use crate::upgrade::{DEVICE_LINK, UpgradeDoor};

/// Signals that follow the first within this time are the same wish: some supervisors, `timeout`
/// among them, signal the process and then its whole group.
const ONE_WISH: Duration = Duration::from_millis(100);

/// Why the relay did not start, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No secret to check tokens with.
    #[error(transparent)]
    SigningSecret(#[from] SigningSecretError),
    /// The cryptographic library takes no such secret.
    #[error("the signing secret cannot be used: {0}")]
    UnusableSecret(String),
    /// No public keys to check tokens with.
    #[error("{0}")]
    PublicKeys(#[from] PublicKeysError),
    /// A file of a push service cannot be used.
    #[error(transparent)]
    Push(#[from] PushError),
    /// The port cannot be listened on.
    #[error(
        "cannot listen: {source}; server.listen = {address} ({origin}): stop what listens there, or \
         set another address (allowed: an address of this machine and a port)"
    )]
    Listen {
        /// The configured address.
        address: String,
        /// Where it was configured.
        origin: Origin,
        /// What the operating system said.
        source: io::Error,
    },
    /// The database file cannot be opened or made.
    #[error("{0} (database.url: {1})")]
    Database(OpenError, Origin),
    /// The database does not answer, or cannot be brought up to date.
    #[error("the database cannot be prepared: {0} (database.url: {1})")]
    Migration(StoreError, Origin),
    /// The database is behind this version, and the relay may not change it.
    #[error(
        "the database is behind this version by: {}; apply them with `relay migrate`, or let the relay \
         do it (database.migrate_at_start = false: {origin})", .pending.join(", ")
    )]
    PendingMigrations {
        /// The steps that are missing.
        pending: Vec<String>,
        /// Where the relay was told not to apply them.
        origin: Origin,
    },
    /// The server did not start, or ended by itself.
    #[error("the server failed: {0}")]
    Server(io::Error),
    /// The operating system takes no signal handlers.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}

impl ServeError {
    /// With which code the process ends (OP-1).
    pub const fn exit_status(&self) -> ExitStatus {
        match self {
            Self::SigningSecret(SigningSecretError::NoRandomness(_)) => ExitStatus::Internal,
            Self::PublicKeys(PublicKeysError::Tls(_)) => ExitStatus::Internal,
            Self::SigningSecret(_)
            | Self::UnusableSecret(_)
            | Self::PublicKeys(_)
            | Self::Push(_)
            | Self::Listen { .. } => ExitStatus::Usage,
            Self::Database(..) | Self::Migration(..) | Self::PendingMigrations { .. } => {
                ExitStatus::Unavailable
            }
            Self::Server(_) | Self::Signals(_) => ExitStatus::Internal,
        }
    }
}

/// Runs the relay until a signal ends it.
///
/// # Errors
/// When it cannot start, or its server fails.
pub fn serve(configuration: &Configuration) -> Result<(), ServeError> {
    raise_file_limit();
    let system = System::new();
    let outcome = system.block_on(run(configuration));
    // Whoever drops a runtime waits for its blocking threads, and one of them may be in a call that a
    // database never answers. What had to be written has been, or its time is up; the process ends.
    std::mem::forget(system);
    outcome
}

async fn run(configuration: &Configuration) -> Result<(), ServeError> {
    let Settings {
        listen,
        workers,
        ref database,
        ref limits,
        ..
    } = configuration.settings;
    let mut ends = EndSignals::new().map_err(ServeError::Signals)?;

    // The port comes first: a second relay started by mistake shall touch nothing.
    let listen_error = |source| ServeError::Listen {
        address: listen.to_string(),
        origin: configuration.origin("server.listen"),
        source,
    };
    let listener = server::bind(listen).map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;

    let (secret, made) = signing_secret(configuration)?;
    let public_keys = public_keys(&configuration.settings)?;
    let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
    let push_services = push::services(configuration, &environment)?;
    let store = open_store(configuration).await?;
    let tokens = UserTokens::new(
        configuration.settings.claim_rules(),
        secret.as_ref(),
        public_keys,
        Arc::clone(&environment),
    )
    .map_err(|error| ServeError::UnusableSecret(error.to_string()))?;
    let limits: Arc<Limits> = Arc::new(limits.clone());
    let relay = Relay::start(
        Arc::clone(&limits),
        Arc::clone(&environment),
        Arc::new(store),
        Arc::new(tokens.clone()),
        push_services.clone(),
    );
    let authenticator =
        Authenticator::new(tokens, Arc::new(relay.clone()), Arc::clone(&environment));

    let api = DeviceApi {
        relay: relay.clone(),
        authenticator: authenticator.clone(),
        environment,
    };
    let acceptor = relay.clone();
    let door = UpgradeDoor::new(authenticator, limits, move |origin, transport, early| {
        acceptor.accept(origin, transport, early);
    })
    .with_origins(configuration.settings.allowed_origins.clone())
    .with_proxies(configuration.settings.proxies.clone());
    let workers = workers.unwrap_or_else(cores);
    let server = server::start(listener, workers, door, move |config| api.routes(config))
        .map_err(ServeError::Server)?;
    let handle = server.handle();
    let mut running = actix_rt::spawn(server);
    actix_rt::spawn(logging::report_held_back_lines());

    tracing::info!(
        listen = %address,
        instance = %relay.instance(),
        database = ?database,
        workers,
        version = env!("CARGO_PKG_VERSION"),
        "relay listens on http://{address}, devices connect to ws://{address}{DEVICE_LINK}"
    );
    push::log_what_is_off(&push_services);
    if let Some(made) = made {
        tracing::info!(
            file = %configuration.settings.secret_file.display(),
            made,
            "tokens are signed with a local secret; make one with: relay token --account <uuid>"
        );
    }

    tokio::select! {
        biased;
        name = ends.next() => {
            tracing::info!(signal = name, "stopping: closing every device socket with 1012");
        }
        ended = &mut running => return Err(ServeError::Server(server_end(ended))),
    }
    // The server kills the threads of its workers, and with them the sockets on them: no more come
    // in, and those that are there say their goodbyes first.
    handle.pause().await;
    let again_from = Instant::now() + ONE_WISH;
    tokio::select! {
        biased;
        name = ends.next_after(again_from) => {
            tracing::warn!(signal = name, "a second signal: ending at once");
        }
        () = async { relay.stop().await; handle.stop(true).await } => tracing::info!("stopped"),
    }
    Ok(())
}

/// Why a server that nobody stopped has ended.
fn server_end(ended: Result<io::Result<()>, tokio::task::JoinError>) -> io::Error {
    match ended {
        Ok(Ok(())) => io::Error::other("it ended by itself"),
        Ok(Err(error)) => error,
        Err(error) => io::Error::other(error),
    }
}

/// The secret that tokens may be signed with, if one may; and if it is in a file, whether that was
/// made just now.
fn signing_secret(
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

fn public_keys(settings: &Settings) -> Result<Option<PublicKeys>, PublicKeysError> {
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
async fn open_store(configuration: &Configuration) -> Result<DieselStore, ServeError> {
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

fn cores() -> usize {
    thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(MAX_WORKERS)
}

/// Every device is an open file; the soft limit of a shell, often 1,024, is no choice of anybody's.
fn raise_file_limit() {
    match rlimit::increase_nofile_limit(rlimit::INFINITY) {
        Ok(limit) => tracing::debug!(limit, "open files"),
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
}

/// SIGTERM and SIGINT.
struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one that comes later than `moment`.
    async fn next_after(&mut self, moment: Instant) -> &'static str {
        loop {
            let name = self.next().await;
            if Instant::now() > moment {
                return name;
            }
        }
    }

    /// Waits for one of them and tells its name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
