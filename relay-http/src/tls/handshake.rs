//! The handshake of one connection, behind the PROXY protocol header and before HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_http::Protocol;
use actix_http::error::DispatchError;
use relay_actors::LiveLimits;
use relay_actors::metrics::Metrics;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Tls, TlsStream};
use crate::logging::STRANGERS;

/// Lets in who comes through the handshake.
#[derive(Clone)]
pub(crate) struct TlsEntrance {
    pub(crate) tls: Tls,
    pub(crate) limits: LiveLimits,
    pub(crate) metrics: Arc<Metrics>,
}

/// Why a connection is dropped at its handshake.
#[derive(Debug, thiserror::Error)]
enum HandshakeError {
    /// It was not done in time.
    #[error(
        "its TLS handshake was not done within {} s (limits.tls_handshake_timeout)",
        .0.as_secs_f64()
    )]
    Timeout(Duration),
    /// What came is something else, such as HTTP.
    #[error("it speaks no TLS; clients of this address use https:// or wss://")]
    NotTls,
    /// The two sides cannot agree, or the client does not take the certificate.
    #[error("its TLS handshake failed: {0}")]
    Tls(rustls::Error),
    /// The client left, as load balancers do that look whether a port is open.
    #[error("it ended within its TLS handshake: {0}")]
    Ended(io::Error),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match inner {
            Some(rustls::Error::InvalidMessage(_)) => Self::NotTls,
            Some(inner) => Self::Tls(inner.clone()),
            None => Self::Ended(error),
        }
    }
}

impl TlsEntrance {
    /// The connection behind its handshake. It has `limits.tls_handshake_timeout` as it stands then, so
    /// that nobody holds a socket by saying nothing.
    ///
    /// # Errors
    /// When the connection was dropped; that is logged already.
    pub(crate) async fn admit(
        self,
        (stream, protocol, peer): (TcpStream, Protocol, Option<SocketAddr>),
    ) -> Result<(TlsStream, Protocol, Option<SocketAddr>), DispatchError> {
        let limit = self.limits.load().tls_handshake_timeout;
        let error = match timeout(limit, self.tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => return Ok((TlsStream::new(stream), protocol, peer)),
            Ok(Err(error)) => HandshakeError::from(error),
            Err(_) => HandshakeError::Timeout(limit),
        };
        self.metrics.tls_handshake_failed();
        let peer = peer.map(tracing::field::display);
        if matches!(error, HandshakeError::Ended(_)) {
            tracing::debug!(peer, reason = %error, "connection dropped");
        } else {
            tracing::info!(target: STRANGERS, peer, reason = %error, "connection dropped");
        }
        Err(io::Error::from(io::ErrorKind::ConnectionAborted).into())
    }
}
