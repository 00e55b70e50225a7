//! What happens to an accepted connection before anything is read as HTTP: whether there is room for
//! it, its options, and whose it is (TR-11).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_http::Protocol;
use actix_http::error::DispatchError;
use relay_actors::metrics::Metrics;
use relay_model::limits::Limits;
use tokio::net::TcpStream;

use crate::client_address::{Proxies, proxy_header};
use crate::open_files::OpenFiles;
use crate::socket_options;

/// Lets connections in, or drops them.
#[derive(Clone)]
pub(crate) struct Entrance {
    files: OpenFiles,
    proxies: Arc<Proxies>,
    metrics: Arc<Metrics>,
    /// How long a PROXY protocol header may take to arrive.
    header_timeout: Duration,
    /// Whether clients would understand an answer in plain HTTP.
    plain: bool,
}

impl Entrance {
    /// The entrance of this process, by its limits as they stand, behind `proxies`.
    pub(crate) fn new(limits: &Limits, proxies: Arc<Proxies>, metrics: Arc<Metrics>) -> Self {
        Self {
            files: OpenFiles::of_this_process(limits),
            proxies,
            metrics,
            header_timeout: limits.http_timeout,
            plain: true,
        }
    }

    /// The same entrance, in front of TLS.
    #[must_use]
    pub(crate) fn of_tls(self) -> Self {
        Self {
            plain: false,
            ..self
        }
    }

    /// The connection, and whose it is.
    ///
    /// # Errors
    /// When it was refused or dropped; that is logged already.
    pub(crate) async fn admit(
        self,
        mut stream: TcpStream,
    ) -> Result<(TcpStream, Protocol, Option<SocketAddr>), DispatchError> {
        if self.files.are_used_up_by(&stream) {
            self.metrics.connection_refused("open_files");
            OpenFiles::refuse(stream, self.plain);
            return Err(io::Error::from(io::ErrorKind::QuotaExceeded).into());
        }
        socket_options::set(&stream);
        let peer = stream.peer_addr().ok();
        if !self.proxies.proxy_protocol {
            return Ok((stream, Protocol::Http1, peer));
        }
        let trusted = &self.proxies.trusted;
        match proxy_header::peer_of(&mut stream, trusted, self.header_timeout).await {
            Ok(named) => Ok((stream, Protocol::Http1, Some(named))),
            Err(error) => {
                self.metrics.connection_refused("proxy_header");
                let peer = peer.map(tracing::field::display);
                if error.is_ordinary() {
                    tracing::debug!(peer, reason = %error, "connection dropped");
                } else {
                    // Lines of this kind that repeat are held back and counted.
                    tracing::warn!(peer, reason = %error, "connection dropped");
                }
                Err(io::Error::from(io::ErrorKind::ConnectionAborted).into())
            }
        }
    }
}
