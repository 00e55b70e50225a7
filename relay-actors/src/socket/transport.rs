//! The byte stream under a socket: TCP, TLS or a pipe in memory, owned by its SocketActor.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpStream;

/// A byte stream that can also be ended without ceremony.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + 'static {
    /// Drops the stream so that the kernel forgets it at once: a peer that reads nothing would else
    /// keep megabytes of unsent data alive in FIN-WAIT-1.
    fn kill(self: Box<Self>);
}

/// Makes the close of `socket` a reset.
///
/// An error means that the socket is gone already, which is what was wanted.
pub fn reset_on_close(socket: &TcpStream) {
    let _ = socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

impl Transport for TcpStream {
    fn kill(self: Box<Self>) {
        reset_on_close(&self);
    }
}

impl Transport for DuplexStream {
    fn kill(self: Box<Self>) {}
}
