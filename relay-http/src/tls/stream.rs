//! A TLS connection as the relay's own byte stream.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use relay_actors::socket::transport::{Transport, reset_on_close};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server;

use crate::upgrade::{Detached, Movable};

/// The server's side of a TLS connection.
#[derive(Debug)]
pub struct TlsStream(server::TlsStream<TcpStream>);

impl TlsStream {
    pub(super) fn new(stream: server::TlsStream<TcpStream>) -> Self {
        Self(stream)
    }
}

impl Transport for TlsStream {
    fn kill(self: Box<Self>) {
        reset_on_close(self.0.get_ref().0);
    }
}

impl Movable for TlsStream {
    fn detach(mut self) -> io::Result<Detached> {
        // A session cannot be taken from its socket and be given another. So it gets a second handle of
        // the socket, on the new thread, and the first one leaves the old event loop then.
        let socket = self.0.get_ref().0.as_fd().try_clone_to_owned()?;
        Ok(Box::new(move || {
            *self.0.get_mut().0 = TcpStream::from_std(socket.into())?;
            Ok(Box::new(self))
        }))
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
