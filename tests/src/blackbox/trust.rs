//! Whom the devices of a test trust: the authority behind the certificates of its relay.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::Certificate;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::DEADLINE;

/// What frames go over: TCP, with TLS or without.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// The connection as it is, or with TLS if there is somebody to trust.
pub(super) async fn over(
    stream: TcpStream,
    address: SocketAddr,
    trust: Option<&Trust>,
) -> io::Result<Box<dyn ByteStream>> {
    Ok(match trust {
        None => Box::new(stream),
        Some(trust) => Box::new(trust.secure(address, stream).await?),
    })
}

/// One authority, and connections to those whom it vouches for.
#[derive(Clone)]
pub struct Trust {
    pem: Arc<str>,
    config: Arc<ClientConfig>,
}

impl Trust {
    /// In the authority whose certificate this is, in PEM.
    ///
    /// # Panics
    /// When it is none.
    pub fn in_authority(pem: &str) -> Self {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
        roots.add(authority).expect("an authority");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS 1.2 and 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            pem: pem.into(),
            config: Arc::new(config),
        }
    }

    /// For HTTP clients.
    pub(super) fn certificate(&self) -> Certificate {
        Certificate::from_pem(self.pem.as_bytes()).expect("it was read before")
    }

    /// A TLS connection over one that stands already.
    ///
    /// # Errors
    /// When the handshake fails, or the certificate is not from this authority.
    pub async fn secure(
        &self,
        address: SocketAddr,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::IpAddress(address.ip().into());
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let secured = tokio::time::timeout(DEADLINE, connector.connect(name, stream)).await;
        secured.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// The certificate that a new connection to `address` is shown, in DER.
    ///
    /// # Errors
    /// When there is none from this authority.
    pub async fn certificate_at(&self, address: SocketAddr) -> io::Result<Vec<u8>> {
        let stream = self
            .secure(address, TcpStream::connect(address).await?)
            .await?;
        let shown = stream.get_ref().1.peer_certificates();
        Ok(shown
            .and_then(<[_]>::first)
            .expect("a server shows one")
            .to_vec())
    }
}
