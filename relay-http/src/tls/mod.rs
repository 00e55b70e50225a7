//! TLS at the device listener: `https` and `wss` with the operator's certificate, which is read again on
//! SIGHUP (OP-4).

mod certificate;
mod handshake;
mod stream;

use std::sync::Arc;

use arc_swap::ArcSwap;
use relay_model::time::Timestamp;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::TlsAcceptor;

use crate::configuration::Configuration;
use crate::configured_file::{ConfiguredFile, UnusableFile};
use certificate::end_of;
pub(crate) use handshake::TlsEntrance;
pub use stream::TlsStream;

/// The only application protocol: WebSockets are upgraded from it.
const HTTP_1_1: &[u8] = b"http/1.1";

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be used, or the two do not belong together.
    #[error(transparent)]
    File(#[from] UnusableFile),
    /// The cryptographic library lacks what TLS needs.
    #[error("TLS cannot be used: {0}")]
    Library(rustls::Error),
}

/// The certificate in force and the files that it comes from. Clones are the same.
#[derive(Debug, Clone)]
pub struct Tls {
    certificate: Arc<ConfiguredFile>,
    key: Arc<ConfiguredFile>,
    /// Replaced as a whole: with a certificate go the sessions that began under it, which a client could
    /// else resume without ever seeing the next one.
    in_force: Arc<ArcSwap<InForce>>,
}

#[derive(Debug)]
struct InForce {
    config: Arc<ServerConfig>,
    /// When the certificate ends, if that can be told.
    ends: Option<Timestamp>,
}

impl Tls {
    /// What `server.tls_cert` and `server.tls_key` name; nothing if they are not set.
    ///
    /// # Errors
    /// When a file cannot be read or used, or the key is not that of the certificate.
    pub fn of(configuration: &Configuration) -> Result<Option<Self>, TlsError> {
        let settings = &configuration.settings;
        // The configuration is refused with one of them alone.
        let (Some(certificate), Some(key)) = (&settings.tls_cert, &settings.tls_key) else {
            return Ok(None);
        };
        let certificate = ConfiguredFile::new(configuration, "server.tls_cert", certificate);
        let key = ConfiguredFile::new(configuration, "server.tls_key", key);
        let in_force = InForce::read(&certificate, &key)?;
        Ok(Some(Self {
            certificate: Arc::new(certificate),
            key: Arc::new(key),
            in_force: Arc::new(ArcSwap::from_pointee(in_force)),
        }))
    }

    /// Reads the files again, for the connections that come from then on (OP-4). Blocks on them.
    ///
    /// # Errors
    /// When they cannot be used; the certificate in force stays.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let read = InForce::read(&self.certificate, &self.key)?;
        self.in_force.store(Arc::new(read));
        Ok(())
    }

    /// When the certificate in force ends, if that can be told.
    pub(crate) fn ends(&self) -> Option<Timestamp> {
        self.in_force.load().ends
    }

    /// The file of the private key.
    pub(crate) fn key_file(&self) -> &ConfiguredFile {
        &self.key
    }

    /// The server's side of handshakes with the certificate in force.
    fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.in_force.load().config).into()
    }
}

impl InForce {
    fn read(certificate: &ConfiguredFile, key: &ConfiguredFile) -> Result<Self, TlsError> {
        let certified = certificate::read(certificate, key)?;
        let ends = certified.cert.first().and_then(end_of);
        let config = server_config(certified).map_err(TlsError::Library)?;
        Ok(Self {
            config: Arc::new(config),
            ends,
        })
    }
}

/// Named at every use: what the process would choose by itself depends on the features of all crates.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn server_config(certified: CertifiedKey) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![HTTP_1_1.to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests;
