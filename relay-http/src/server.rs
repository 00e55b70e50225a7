//! The listening server: one port on which the upgrade door and the HTTP App stand side by side.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use actix_http::error::DispatchError;
use actix_http::{HttpService, Protocol};
use actix_server::Server;
use actix_service::{ServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{AppConfig, ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, HttpRequest, HttpResponse, ResponseError, web};
use relay_actors::metrics::Metrics;
use relay_model::limits::{LISTEN_BACKLOG, Limits, WORKER_CONNECTIONS};
use relay_model::websocket::handshake::HandshakeError;
use socket2::{Domain, Protocol as IpProtocol, Socket, Type};
use tokio::net::TcpStream;

use crate::allowed_origins::AllowedOrigins;
use crate::entrance::Entrance;
use crate::figures::CallObserver;
use crate::refusal::Refusal;
use crate::tls::TlsEntrance;
use crate::upgrade::{self, DEVICE_LINK, Movable, StartConnection, UpgradeDoor};

/// How long the stopping server waits for HTTP calls in progress, in seconds. Devices are gone by
/// then, and the calls are short.
const SHUTDOWN_SECONDS: u64 = 1;

/// Binds `address`; port 0 takes a free port, which the listener knows.
///
/// # Errors
/// When the address is in use, not of this machine, or not allowed.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(IpProtocol::TCP),
    )?;
    // A restarted relay must not wait for the connections of the one before to leave TIME-WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    Ok(socket.into())
}

/// Serves `listener` with `workers` threads until the server is stopped. Upgrades go to `door`;
/// `routes` adds what the App serves beside the answer to plain requests for the device link.
///
/// A door behind TLS is one of `https` and `wss`; who does not come through the handshake is dropped.
/// If the door's proxies speak the PROXY protocol, a connection that does not come from one of them
/// with a good header is dropped (TR-11).
///
/// The server takes no signals and does not know the connections that were upgraded: stopping it
/// kills their threads, so close them first.
///
/// # Errors
/// When the listener cannot be used.
pub fn start<S: StartConnection>(
    listener: TcpListener,
    workers: usize,
    door: UpgradeDoor<S>,
    routes: impl FnOnce(&mut web::ServiceConfig) + Clone + Send + 'static,
) -> io::Result<Server> {
    let entrance = Entrance::new(
        &door.limits().load(),
        Arc::clone(door.proxies()),
        Arc::clone(door.metrics()),
    );
    let door = door.with_workers(workers);
    let server = Server::build()
        .workers(workers)
        .max_concurrent_connections(WORKER_CONNECTIONS)
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .disable_signals();
    let tls = door.tls().map(|tls| TlsEntrance {
        tls: tls.clone(),
        limits: door.limits().clone(),
        metrics: Arc::clone(door.metrics()),
    });
    // The factories are called by each worker on its own thread.
    let server = match tls {
        None => server.listen("relay", listener, move || {
            door.join();
            let entrance = entrance.clone();
            fn_service(move |stream: TcpStream| entrance.clone().admit(stream))
                .and_then(service(door.clone(), routes.clone()))
        }),
        Some(tls) => {
            let entrance = entrance.of_tls();
            server.listen("relay", listener, move || {
                door.join();
                let (entrance, tls) = (entrance.clone(), tls.clone());
                fn_service(move |stream: TcpStream| entrance.clone().admit(stream))
                    .and_then(fn_service(move |admitted| tls.clone().admit(admitted)))
                    .and_then(service(door.clone(), routes.clone()))
            })
        }
    };
    Ok(server?.run())
}

/// Serves a second `listener`, for operators, with a thread of its own, so that it answers however busy
/// the devices keep the others. There are no upgrades, and nobody is believed about addresses.
///
/// # Errors
/// When the listener cannot be used.
pub fn start_admin(
    listener: TcpListener,
    limits: &Limits,
    origins: Arc<AllowedOrigins>,
    metrics: Arc<Metrics>,
    routes: impl FnOnce(&mut web::ServiceConfig) + Clone + Send + 'static,
) -> io::Result<Server> {
    let Limits {
        http_timeout,
        close_timeout,
        ..
    } = *limits;
    let entrance = Entrance::new(limits, Arc::default(), metrics);
    let factory = move || {
        let (entrance, origins) = (entrance.clone(), Arc::clone(&origins));
        let app = App::new()
            .wrap(from_fn(move |request, next| {
                known_origins_only(Arc::clone(&origins), request, next)
            }))
            .configure(routes.clone())
            .default_service(web::to(async || refused(Refusal::NotFound)));
        let service = HttpService::build()
            .client_request_timeout(http_timeout)
            .client_disconnect_timeout(close_timeout)
            .finish(map_config(app, |()| AppConfig::default()));
        fn_service(move |stream: TcpStream| entrance.clone().admit(stream)).and_then(service)
    };
    let server = Server::build()
        .workers(1)
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .disable_signals()
        .listen("admin", listener, factory)?;
    Ok(server.run())
}

/// What serves one connection, over any stream.
pub fn service<T: Movable, S: StartConnection>(
    door: UpgradeDoor<S>,
    routes: impl FnOnce(&mut web::ServiceConfig),
) -> impl ServiceFactory<
    (T, Protocol, Option<SocketAddr>),
    Config = (),
    Response = (),
    Error = DispatchError,
    InitError = (),
> {
    let Limits {
        http_timeout,
        close_timeout,
        ..
    } = **door.limits().load();
    let origins = Arc::clone(door.origins());
    let observer = CallObserver {
        metrics: Arc::clone(door.metrics()),
        traces: door.traces().cloned(),
    };
    let app = App::new()
        .wrap(from_fn(move |request, next| {
            known_origins_only(Arc::clone(&origins), request, next)
        }))
        // The outermost, so that refusals of the others are counted too.
        .wrap(from_fn(move |request, next| {
            observer.clone().observe(request, next)
        }))
        .configure(routes)
        .service(
            web::resource(DEVICE_LINK)
                .get(async |request: HttpRequest| {
                    refused(upgrade::refusal_of_plain(request.head()))
                })
                .default_service(web::to(async || refused(HandshakeError::NotGet.into()))),
        )
        .default_service(web::to(async || refused(Refusal::NotFound)));
    HttpService::build()
        .client_request_timeout(http_timeout)
        .client_disconnect_timeout(close_timeout)
        .upgrade(fn_service(move |upgrade| door.clone().serve::<T>(upgrade)))
        .finish(map_config(app, |()| AppConfig::default()))
}

/// TR-12 for everything that is no upgrade, whatever its path: which calls there are is no business
/// of a stranger's page either.
async fn known_origins_only<B: MessageBody + 'static>(
    origins: Arc<AllowedOrigins>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    match origins.check(request.head()) {
        Ok(()) => Ok(next.call(request).await?.map_into_boxed_body()),
        Err(error) => Ok(request.into_response(Refusal::from(error).error_response())),
    }
}

/// A handler's way of refusing everything that reaches it.
fn refused(refusal: Refusal) -> Result<HttpResponse, Refusal> {
    Err(refusal)
}
