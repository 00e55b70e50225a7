//! One run of the relay, from its configuration to its exit.

mod configured;
mod end_signals;
mod error;
mod process_limits;

use std::io;
use std::sync::Arc;

use actix_web::web;
use relay_actors::environment::Environment;
use relay_actors::traces::TraceSink;
use relay_actors::{Relay, Telemetry};
use relay_model::limits::Limits;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinError, JoinHandle};

use self::end_signals::{EndSignals, drained};
pub use self::error::ServeError;
use crate::admin_api::AdminApi;
use crate::authentication::{Authenticator, UserTokens};
use crate::configuration::{Configuration, Settings, Sources};
use crate::device_api::DeviceApi;
use crate::figures::{Figures, metrics_endpoint};
use crate::logging;
use crate::push;
use crate::reload::Reloader;
use crate::runtime;
use crate::server;
use crate::system_environment::SystemEnvironment;
use crate::tls::Tls;
use crate::upgrade::{DEVICE_LINK, UpgradeDoor};

/// Runs the relay until a signal ends it. `sources` are those of `configuration`, for when it is read
/// again (OP-4).
///
/// # Errors
/// When it cannot start, or its server fails.
pub fn serve(configuration: &Configuration, sources: Sources) -> Result<(), ServeError> {
    process_limits::raise_file_limit();
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
    process_limits::outlive_file_limits().map_err(ServeError::Signals)?;

    // The port comes first: a second relay started by mistake shall touch nothing.
    let (listener, address) = configured::bind(configuration, "server.listen", listen)?;
    let admin_listener = admin_listen
        .map(|admin| configured::bind(configuration, "server.admin_listen", admin))
        .transpose()?;

    let tls = Tls::of(configuration)?;
    let (secret, made) = configured::signing_secret(configuration)?;
    let public_keys = configured::public_keys(&configuration.settings)?;
    let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
    let push_services = push::services(configuration, &environment)?;
    let store = configured::open_store(configuration).await?;
    let tokens = UserTokens::new(
        configuration.settings.claim_rules(),
        secret.as_ref(),
        public_keys.clone(),
        Arc::clone(&environment),
    )
    .map_err(|error| ServeError::UnusableSecret(error.to_string()))?;
    let limits: Arc<Limits> = Arc::new(limits.clone());
    let figures = Figures::new();
    let traces = configured::traces(configuration, &figures, &environment)?;
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
    let workers = workers.unwrap_or_else(configured::cores);
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
