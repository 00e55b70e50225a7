//! Why the relay did not start, and with which code the process ends then.

use std::io;

use relay_model::store::{OpenError, StoreError};

use crate::authentication::PublicKeysError;
use crate::authentication::signing_secret::SigningSecretError;
use crate::configuration::Origin;
use crate::configured_file::UnusableFile;
use crate::exit::ExitStatus;
use crate::tls::TlsError;
use crate::traces::TracesError;

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
