//! The byte stream between the relay and a simulated device: a small pipe in memory that can be cut
//! as a network cuts a connection, with a reset and the loss of what is on its way.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use relay_actors::socket::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// The bytes that a pipe holds: few, so that a device that does not read is felt at once.
const CAPACITY: usize = 16 * 1024;

/// Cuts a pipe; the device's end must be dropped behind it.
#[derive(Debug)]
pub struct Scissors(Arc<AtomicBool>);

impl Scissors {
    /// From here on the relay's end fails, whatever is still in the pipe.
    pub fn cut(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The relay's end.
#[derive(Debug)]
pub struct RelayEnd {
    stream: DuplexStream,
    cut: Arc<AtomicBool>,
}

/// A pipe: the device's end, its scissors, the relay's end.
pub fn pipe() -> (DuplexStream, Scissors, RelayEnd) {
    let (device, stream) = tokio::io::duplex(CAPACITY);
    let cut = Arc::new(AtomicBool::new(false));
    (device, Scissors(Arc::clone(&cut)), RelayEnd { stream, cut })
}

impl RelayEnd {
    fn intact(&self) -> io::Result<()> {
        if self.cut.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl AsyncRead for RelayEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.intact()?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for RelayEnd {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.intact()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Transport for RelayEnd {
    fn kill(self: Box<Self>) {}
}
