//! One run of the relay, from its configuration to its exit.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use actix_web::web;
use relay_actors::environment::Environment;
use relay_actors::traces::TraceSink;
use relay_actors::{Relay, Telemetry};
use relay_model::limits::{Limits, MAX_WORKERS};
use relay_model::store::{DieselStore, OpenError, StoreError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use crate::admin_api::AdminApi;
use crate::authentication::signing_secret::{self, SigningSecretError};
use crate::authentication::{Authenticator, PublicKeys, PublicKeysError, UserTokens};
use crate::configuration::{
    Configuration, Origin, OtlpEndpoint, Secret, Settings, SigningSecretSource, Sources,
};
use crate::configured_file::UnusableFile;
use crate::device_api::DeviceApi;
use crate::exit::ExitStatus;
use crate::figures::{Figures, metrics_endpoint};
use crate::logging;
use crate::push;
use crate::reload::Reloader;
use crate::runtime;
use crate::server;
use crate::system_environment::SystemEnvironment;
use crate::tls::{Tls, TlsError};
use crate::traces::{Traces, TracesError};
use crate::upgrade::{DEVICE_LINK, UpgradeDoor};

/// Signals that follow the first within this time are the same wish: some supervisors, `timeout`
/// among them, signal the process and then its whole group.
const ONE_WISH: Duration = Duration::from_millis(100);

/// SIGXFSZ: a file has reached the limit of its size (`ulimit -f`). Its number on Linux, but for MIPS,
/// and on the BSDs.
const FILE_TOO_LARGE: i32 = 25;

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
    Push(#[from] UnusableFile),
    /// The files of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The port cannot be listened on.
    #[error(
        "cannot listen: {source}; {key} = {address} ({origin}): stop what listens there, or \
         set another address (allowed: an address of this machine and a port)"
    )]
    Listen {
        /// The key that configures the address.
        key: &'static str,
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
    /// The operating system gives no runtime.
    #[error("the runtime cannot start: {0}; has the process too few files or threads?")]
    Runtime(io::Error),
    /// Traces cannot be sent.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// The operating system takes no signal handlers.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}

impl ServeError {
    /// With which code the process ends (OP-1).
    pub const fn exit_status(&self) -> ExitStatus {
        match self {
            Self::SigningSecret(SigningSecretError::NoRandomness(_)) => ExitStatus::Internal,
            Self::PublicKeys(PublicKeysError::Tls(_)) | Self::Tls(TlsError::Library(_)) => {
                ExitStatus::Internal
            }
            Self::SigningSecret(_)
            | Self::UnusableSecret(_)
            | Self::PublicKeys(_)
            | Self::Push(_)
            | Self::Tls(TlsError::File(_))
            | Self::Listen { .. } => ExitStatus::Usage,
            Self::Database(..) | Self::Migration(..) | Self::PendingMigrations { .. } => {
                ExitStatus::Unavailable
            }
            Self::Traces(TracesError::Exporter(_)) => ExitStatus::Usage,
            Self::Server(_) | Self::Signals(_) | Self::Runtime(_) | Self::Traces(_) => {
                ExitStatus::Internal
            }
        }
    }
}

/// Runs the relay until a signal ends it. `sources` are those of `configuration`, for when it is read
/// again (OP-4).
///
/// # Errors
/// When it cannot start, or its server fails.
pub fn serve(configuration: &Configuration, sources: Sources) -> Result<(), ServeError> {
    raise_file_limit();
    runtime::run(run(configuration, sources)).map_err(ServeError::Runtime)?
}

async fn run(configuration: &Configuration, sources: Sources) -> Result<(), ServeError> {
    let Settings {
        listen,
        admin_listen,
        workers,
        ref database,
        ref limits,
        ..
    } = configuration.settings;
    let mut ends = EndSignals::new().map_err(ServeError::Signals)?;
    let hangups = signal(SignalKind::hangup()).map_err(ServeError::Signals)?;
    outlive_file_limits().map_err(ServeError::Signals)?;

    // The port comes first: a second relay started by mistake shall touch nothing.
    let (listener, address) = bind(configuration, "server.listen", listen)?;
    let admin_listener = admin_listen
        .map(|admin| bind(configuration, "server.admin_listen", admin))
        .transpose()?;

    let tls = Tls::of(configuration)?;
    let (secret, made) = signing_secret(configuration)?;
    let public_keys = public_keys(&configuration.settings)?;
    let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
    let push_services = push::services(configuration, &environment)?;
    let store = open_store(configuration).await?;
    let tokens = UserTokens::new(
        configuration.settings.claim_rules(),
        secret.as_ref(),
        public_keys.clone(),
        Arc::clone(&environment),
    )
    .map_err(|error| ServeError::UnusableSecret(error.to_string()))?;
    let limits: Arc<Limits> = Arc::new(limits.clone());
    let figures = Figures::new();
    let traces = traces(configuration, &figures, &environment)?;
    let relay = Relay::start_observed(
        Arc::clone(&limits),
        Arc::clone(&environment),
        Arc::new(store),
        Arc::new(tokens.clone()),
        push_services.clone(),
        Telemetry {
            metrics: Arc::clone(figures.metrics()),
            traces: traces
                .clone()
                .map(|traces| Arc::new(traces) as Arc<dyn TraceSink>),
        },
    );
    actix_rt::spawn(figures.clone().keep_up());
    let authenticator =
        Authenticator::new(tokens, Arc::new(relay.clone()), Arc::clone(&environment));

    let api = DeviceApi {
        relay: relay.clone(),
        authenticator: authenticator.clone(),
        environment,
    };
    let admin_api = configuration.settings.admin_token.as_ref();
    let operators = Operators {
        api: admin_api.map(|token| AdminApi::new(relay.clone(), token)),
        figures: figures.clone(),
        relay: relay.clone(),
    };
    let (admin_address, admin_server) = match admin_listener {
        Some((listener, address)) => {
            let (health, operators) = (api.clone(), operators.clone());
            let origins = Arc::new(configuration.settings.allowed_origins.clone());
            let server = server::start_admin(
                listener,
                &limits,
                origins,
                Arc::clone(figures.metrics()),
                move |config| {
                    health.health_routes(config);
                    operators.routes(config);
                },
            )
            .map_err(ServeError::Server)?;
            (Some(address), Some(server))
        }
        None => (None, None),
    };
    let beside_devices = admin_server.is_none();
    let acceptor = relay.clone();
    let door = UpgradeDoor::new(
        authenticator,
        relay.live_limits(),
        move |origin, transport, early| {
            acceptor.accept(origin, transport, early);
        },
    )
    .with_drain(relay.drain_signal())
    .with_origins(configuration.settings.allowed_origins.clone())
    .with_proxies(configuration.settings.proxies.clone())
    .with_tls(tls.clone())
    .with_metrics(Arc::clone(figures.metrics()))
    .with_traces(traces.clone());
    let workers = workers.unwrap_or_else(cores);
    let server = server::start(listener, workers, door, move |config| {
        api.routes(config);
        if beside_devices {
            operators.routes(config);
        }
    })
    .map_err(ServeError::Server)?;
    let handle = server.handle();
    let mut running = actix_rt::spawn(server);
    // It answers to the last: whoever follows the end of the process asks there. It ends with it.
    let mut admin_running = admin_server.map(actix_rt::spawn);
    actix_rt::spawn(logging::report_held_back_lines());
    let reloader = Reloader {
        sources,
        running: configuration.settings.clone(),
        relay: relay.clone(),
        public_keys,
        tls: tls.clone(),
    };
    actix_rt::spawn(reloader.run(hangups));

    let (http, ws) = match tls {
        Some(_) => ("https", "wss"),
        None => ("http", "ws"),
    };
    let certificate_ends = tls.as_ref().and_then(Tls::ends);
    tracing::info!(
        listen = %address,
        instance = %relay.instance(),
        database = ?database,
        workers,
        admin = admin_address.map(tracing::field::display),
        version = env!("CARGO_PKG_VERSION"),
        certificate_ends = certificate_ends.map(tracing::field::display),
        "relay listens on {http}://{address}, devices connect to {ws}://{address}{DEVICE_LINK}"
    );
    push::log_what_is_off(&push_services);
    if let Some(made) = made {
        tracing::info!(
            file = %configuration.settings.secret_file.display(),
            made,
            "tokens are signed with a local secret; make one with: relay token --account <uuid>"
        );
    }

    let hurried = tokio::select! {
        biased;
        hurried = drained(&relay, &mut ends) => hurried,
        ended = &mut running => return Err(ServeError::Server(server_end(ended))),
        ended = ended(&mut admin_running) => return Err(ServeError::Server(server_end(ended))),
    };
    // The server kills the threads of its workers, and with them the sockets on them: no device is left
    // by then, and HTTP calls were answered to the end.
    if !hurried {
        handle.pause().await;
        handle.stop(true).await;
        if let Some(traces) = traces {
            traces.flush().await;
        }
    }
    tracing::info!("stopped");
    Ok(())
}

/// Waits for the end of the drain that a signal or an operator asked for, and tells whether signals
/// cut it short (DR-4). After a third one there is no waiting at all.
async fn drained(relay: &Relay, ends: &mut EndSignals) -> bool {
    let over = relay.drained();
    tokio::pin!(over);
    let mut again_from = None;
    let mut signals = 0;
    loop {
        let name = tokio::select! {
            biased;
            () = &mut over => return signals > 1,
            name = ends.next_after(again_from) => name,
        };
        signals += 1;
        again_from = Some(Instant::now() + ONE_WISH);
        match signals {
            1 => relay.drain(name),
            2 => {
                tracing::warn!(signal = name, "a second signal: ending at once");
                relay.hurry_drain();
            }
            _ => return true,
        }
    }
}

/// Who keeps the traces of requests, if somebody is to.
fn traces(
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

/// Listens on the address that `key` configures; with port 0 the real one is found out.
fn bind(
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

/// What only operators use; on the listener that is meant for it.
#[derive(Clone)]
struct Operators {
    /// Nothing, without an operator token.
    api: Option<AdminApi>,
    figures: Figures,
    relay: Relay,
}

impl Operators {
    /// Adds it to an App.
    fn routes(&self, config: &mut web::ServiceConfig) {
        if let Some(api) = &self.api {
            api.routes(config);
        }
        config.service(metrics_endpoint(self.figures.clone(), self.relay.clone()));
    }
}

/// The end of a server, if there is one.
async fn ended(
    server: &mut Option<JoinHandle<io::Result<()>>>,
) -> Result<io::Result<()>, JoinError> {
    match server {
        Some(server) => server.await,
        None => std::future::pending().await,
    }
}

/// Why a server that nobody stopped has ended.
fn server_end(ended: Result<io::Result<()>, JoinError>) -> io::Error {
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

/// A file that may not grow fails the write that would make it, as a full disk does, instead of ending
/// the process. Whoever has a signal delivered no longer dies of it; nobody needs to wait for it.
fn outlive_file_limits() -> io::Result<()> {
    signal(SignalKind::from_raw(FILE_TOO_LARGE)).map(drop)
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

    /// Waits for one that comes later than `moment`, if that is given.
    async fn next_after(&mut self, moment: Option<Instant>) -> &'static str {
        loop {
            let name = self.next().await;
            if moment.is_none_or(|moment| Instant::now() > moment) {
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
