//! The way from an HTTP/1.1 upgrade request to a connection that an actor owns (TR-1, TR-2).
//!
//! The HTTP server hands over every request whose `Upgrade` is `websocket`, whatever its path, and
//! CONNECT, as a head and the raw stream. An error returned to it reaches the client as a bare end
//! of the stream, so every refusal is written here, in full.

mod answer;
mod origin;
mod placement;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use actix_codec::Framed;
use actix_http::{Method, Request, RequestHead, Version, h1};
use bytes::Bytes;
use relay_actors::metrics::Metrics;
use relay_actors::socket::transport::Transport;
use relay_actors::{ConnectionOrigin, DrainSignal, LiveLimits};
use relay_model::websocket::handshake::{self, AcceptKey, HandshakeError, UpgradeRequest};

use crate::allowed_origins::AllowedOrigins;
use crate::authentication::Authenticator;
use crate::client_address::Proxies;
use crate::connect_limit::ConnectLimit;
use crate::logging::STRANGERS;
use crate::refusal::Refusal;
use crate::tls::Tls;
use crate::traces::Traces;
use placement::Placement;
pub use placement::{Detached, Movable};

/// Where devices connect.
pub const DEVICE_LINK: &str = "/ws/device-link";

/// Starts whatever owns a connection after its upgrade. Called on the worker thread that the
/// connection lives on, one and the same for all of an account, with the bytes that came right behind
/// the request.
pub trait StartConnection:
    Fn(ConnectionOrigin, Box<dyn Transport>, Bytes) + Clone + Send + 'static
{
}

impl<F> StartConnection for F where
    F: Fn(ConnectionOrigin, Box<dyn Transport>, Bytes) + Clone + Send + 'static
{
}

/// Judges upgrade requests and starts the connections that pass.
#[derive(Clone)]
pub struct UpgradeDoor<S> {
    authenticator: Authenticator,
    limits: LiveLimits,
    origins: Arc<AllowedOrigins>,
    proxies: Arc<Proxies>,
    tls: Option<Tls>,
    connect_limit: Arc<ConnectLimit>,
    placement: Arc<Placement>,
    drain: DrainSignal,
    metrics: Arc<Metrics>,
    traces: Option<Traces>,
    start: S,
}

impl<S: StartConnection> UpgradeDoor<S> {
    /// A door that lets in whom `authenticator` knows and hands them to `start`. Browsers may come
    /// from pages of the same host (TR-12), and nobody is trusted to name clients (TR-11).
    pub fn new(authenticator: Authenticator, limits: impl Into<LiveLimits>, start: S) -> Self {
        let limits = limits.into();
        Self {
            authenticator,
            connect_limit: Arc::new(ConnectLimit::new(&limits.load())),
            limits,
            origins: Arc::default(),
            proxies: Arc::default(),
            tls: None,
            placement: Arc::new(Placement::new(1)),
            drain: DrainSignal::default(),
            metrics: Arc::default(),
            traces: None,
            start,
        }
    }

    /// The same door for browsers on pages of `origins` (TR-12).
    #[must_use]
    pub fn with_origins(self, origins: AllowedOrigins) -> Self {
        Self {
            origins: Arc::new(origins),
            ..self
        }
    }

    /// The same door behind `proxies` (TR-11).
    #[must_use]
    pub fn with_proxies(self, proxies: Proxies) -> Self {
        Self {
            proxies: Arc::new(proxies),
            ..self
        }
    }

    /// The same door behind TLS, if there is any.
    #[must_use]
    pub fn with_tls(self, tls: Option<Tls>) -> Self {
        Self { tls, ..self }
    }

    /// The same door, closed once `drain` says so (DR-1).
    #[must_use]
    pub fn with_drain(self, drain: DrainSignal) -> Self {
        Self { drain, ..self }
    }

    /// The same door, which counts whom it refuses in `metrics` (OP-6).
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// The same door; HTTP calls beside it are traced by `traces` (OP-7).
    #[must_use]
    pub fn with_traces(self, traces: Option<Traces>) -> Self {
        Self { traces, ..self }
    }

    /// The same door for a server of so many worker threads, each of which calls [`Self::join`].
    #[must_use]
    pub(crate) fn with_workers(self, workers: usize) -> Self {
        Self {
            placement: Arc::new(Placement::new(workers)),
            ..self
        }
    }

    /// Has the current thread take the connections of its share of the accounts.
    pub(crate) fn join(&self) {
        self.placement.join();
    }

    /// The proxies in front.
    pub fn proxies(&self) -> &Arc<Proxies> {
        &self.proxies
    }

    /// What comes before HTTP.
    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Where it counts.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Who keeps the traces of HTTP calls.
    pub(crate) fn traces(&self) -> Option<&Traces> {
        self.traces.as_ref()
    }

    /// From which pages browsers may come.
    pub fn origins(&self) -> &Arc<AllowedOrigins> {
        &self.origins
    }

    /// The limits in force.
    pub fn limits(&self) -> &LiveLimits {
        &self.limits
    }

    /// Serves one upgrade request to its end: the stream is in other hands or closed then.
    ///
    /// # Errors
    /// Never.
    pub async fn serve<T: Movable>(
        self,
        (request, framed): (Request, Framed<T, h1::Codec>),
    ) -> Result<(), Infallible> {
        let deadline = self.limits.load().close_timeout;
        let client = request
            .peer_addr()
            .map(|peer| self.proxies.client(peer, &request.head().headers));
        match self.admit(&request, client).await {
            Ok((origin, key)) => {
                match tokio::time::timeout(deadline, answer::accept(framed, &key)).await {
                    Ok(Ok((stream, early))) => self.start(origin, stream, early),
                    Ok(Err(error)) => tracing::debug!(%error, "a client left during its upgrade"),
                    Err(_) => tracing::debug!("a client did not take the answer to its upgrade"),
                }
            }
            Err(refusal) => {
                self.count(&refusal);
                tracing::info!(
                    target: STRANGERS,
                    peer = client.map(tracing::field::display),
                    status = refusal.status().as_u16(),
                    reason = %refusal,
                    "upgrade refused"
                );
                answer::refuse(framed, &refusal, deadline).await;
            }
        }
        Ok(())
    }

    fn count(&self, refusal: &Refusal) {
        if matches!(refusal, Refusal::TooManyConnects { .. }) {
            self.metrics.connection_refused("connect_limit");
        }
        let (status, error) = (refusal.status().as_u16(), refusal.error_type().code());
        self.metrics.upgrade_refused(status, error);
    }

    /// Starts a connection on the thread of its account.
    fn start<T: Movable>(self, origin: ConnectionOrigin, stream: T, early: Bytes) {
        let start = self.start;
        let Some(elsewhere) = self.placement.elsewhere(origin.account) else {
            return start(origin, Box::new(stream), early);
        };
        match stream.detach() {
            Ok(stream) => elsewhere.run(move || match stream() {
                Ok(stream) => start(origin, stream, early),
                Err(error) => tracing::warn!(%error, "a connection could not change its thread"),
            }),
            Err(error) => tracing::warn!(%error, "a connection could not change its thread"),
        }
    }

    /// The handshake is judged before the credentials, so that a client that speaks no WebSocket
    /// learns that and not a verdict about its token; the origin too, so that a stranger's page
    /// learns nothing about its visitor's. Attempts are counted between the two: a stranger's page
    /// must not use up what its visitor's address may do, and guessed credentials must.
    async fn admit(
        &self,
        request: &Request,
        client: Option<SocketAddr>,
    ) -> Result<(ConnectionOrigin, AcceptKey), Refusal> {
        if request.method() == Method::CONNECT {
            return Err(Refusal::MethodNotAllowed {
                allow: "GET".into(),
            });
        }
        if request.path() != DEVICE_LINK {
            return Err(Refusal::NotFound);
        }
        let key = judge(request.head())?;
        if self.drain.refuses() {
            return Err(Refusal::Draining);
        }
        let headers = &request.head().headers;
        self.origins.check(request.head())?;
        // A peer without an address has left already, or is a pipe in memory.
        let counted = client.filter(|client| self.proxies.are_counted(client.ip()));
        if let Some(client) = counted {
            self.connect_limit.admit(client.ip(), &self.limits.load())?;
        }
        let identity = self.authenticator.identify(headers).await?;
        Ok((origin::origin_of(identity, request, client), key))
    }
}

fn judge(head: &RequestHead) -> Result<AcceptKey, HandshakeError> {
    let headers = head.headers.iter();
    handshake::accept(UpgradeRequest {
        method: head.method.as_str(),
        http_version: http_version(head.version),
        headers: headers.map(|(name, value)| (name.as_str(), value.as_bytes())),
    })
}

/// What is wrong with a GET for the device link that the HTTP server took for a plain request: it
/// knows an upgrade only by an `Upgrade` line that is `websocket` alone, without a chunked body.
pub(crate) fn refusal_of_plain(head: &RequestHead) -> Refusal {
    let error = judge(head).err();
    error.unwrap_or(HandshakeError::UpgradeListed).into()
}

fn http_version(version: Version) -> (u8, u8) {
    match version {
        Version::HTTP_09 => (0, 9),
        Version::HTTP_10 => (1, 0),
        Version::HTTP_2 => (2, 0),
        Version::HTTP_3 => (3, 0),
        _ => (1, 1),
    }
}
