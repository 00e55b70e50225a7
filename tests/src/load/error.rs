//! What can go wrong in a measurement. Every error ends the run: a figure of a run in which an
//! answer was lost or altered means nothing.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Why a measurement has no result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The server takes no TCP connection.
    #[error("cannot connect to {address}: {source}; is the server running?")]
    Connect {
        /// Where it should listen.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The server answered the upgrade with something else than 101.
    #[error(
        "the server refused the upgrade: {0}; is the secret the same on both sides (--secret), and \
         were the devices enrolled (`load enrol`)?"
    )]
    UpgradeRefused(String),
    /// A connection broke in the middle of the run.
    #[error("a connection broke: {0}; the server's log says why")]
    Broken(#[from] io::Error),
    /// The server closed a connection with this close code and reason.
    #[error("the server closed a connection with {code} {reason:?}")]
    Closed {
        /// RFC 6455 close code; 1005 when there was none.
        code: u16,
        /// The reason beside it.
        reason: String,
    },
    /// The server sent an `error` frame, or a frame that no server of this protocol sends.
    #[error("the server sent a frame that this load does not expect: {0}")]
    Unexpected(String),
    /// A message arrived, but not as it was sent.
    #[error("a message was altered on its way: {0}")]
    Altered(String),
    /// An answer belongs to no open request of its receiver.
    #[error("an answer carries the id {0:?}, for which this phone has no open request")]
    UnknownId(String),
    /// Numbered frames came in another order than they were sent, or some of them did not come.
    #[error("a phone got {what} {got} behind {last}")]
    OutOfOrder {
        /// Of which kind.
        what: &'static str,
        /// The number that it got.
        got: u64,
        /// The one before.
        last: u64,
    },
    /// A phone that did not read got as much as one that did.
    #[error(
        "the frozen phone had got {got} snapshots when it read again, and others {others}: it was \
         not frozen; measure for longer"
    )]
    NotFrozen {
        /// Its snapshots.
        got: u64,
        /// Those of another phone.
        others: u64,
    },
    /// Something that must happen did not.
    #[error("{what} did not happen within {limit:?}")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        limit: Duration,
    },
    /// A phone got no answer at all while it was measured.
    #[error("phone {0} got no answer in the measured time; measure for longer")]
    Starved(usize),
    /// A file under `/proc` or a result file could not be read, or not understood.
    #[error("cannot read {path}: {problem}", path = path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// No token can be signed with the secret.
    #[error("no token can be signed: {0}; give a secret of at least 32 bytes (--secret)")]
    Token(String),
    /// A device could not be made a row over HTTP.
    #[error("cannot enrol a device: {0}")]
    Enrol(String),
}

impl LoadError {
    /// An [`LoadError::Unexpected`] that shows only the beginning of the frame.
    pub(super) fn unexpected(message: &[u8]) -> Self {
        Self::Unexpected(beginning(message))
    }

    /// An [`LoadError::Altered`] that shows only the beginning of the frame.
    pub(super) fn altered(message: &[u8]) -> Self {
        Self::Altered(beginning(message))
    }
}

/// The first 200 bytes as text, so that a 32 MiB message does not fill the terminal.
fn beginning(message: &[u8]) -> String {
    let shown = &message[..message.len().min(200)];
    format!(
        "{} ({} bytes)",
        String::from_utf8_lossy(shown),
        message.len()
    )
}
