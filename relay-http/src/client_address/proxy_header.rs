//! Reads the PROXY protocol header that stands before everything else on a connection (TR-11).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use relay_model::limits::PROXY_HEADER_BYTES;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;

use super::TrustedProxies;
use super::proxy_protocol::{self, Progress, ProxyProtocolError};

/// Why a connection is dropped before its first request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProxyHeaderError {
    /// It comes from somebody who may not name clients.
    #[error("it does not come from one of server.trusted_proxies, and only those may connect")]
    NotTrusted,
    /// No header, or a broken one.
    #[error(transparent)]
    Protocol(#[from] ProxyProtocolError),
    /// The peer left within the header.
    #[error("it ended within its PROXY protocol header")]
    Ended,
    /// The peer left before the header, as load balancers do that look whether a port is open.
    #[error("it ended before its PROXY protocol header")]
    NothingSent,
    /// The header did not come in time.
    #[error("its PROXY protocol header did not arrive within {} s", .limit.as_secs_f64())]
    Timeout {
        /// What is allowed.
        limit: Duration,
    },
    /// The connection broke.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl ProxyHeaderError {
    /// Whether an operator need not hear of it.
    pub(crate) const fn is_ordinary(&self) -> bool {
        matches!(self, Self::NothingSent | Self::Io(_))
    }
}

/// The address that stands for the peer of `stream`: whom its header names, else its own. Exactly the
/// header is read.
///
/// # Errors
/// When the peer is not trusted, or its header is bad, or not there within `limit`.
pub(crate) async fn peer_of(
    stream: &mut TcpStream,
    trusted: &TrustedProxies,
    limit: Duration,
) -> Result<SocketAddr, ProxyHeaderError> {
    let peer = stream.peer_addr()?;
    if !trusted.contains(peer.ip()) {
        return Err(ProxyHeaderError::NotTrusted);
    }
    let source = tokio::time::timeout(limit, read(stream))
        .await
        .map_err(|_| ProxyHeaderError::Timeout { limit })??;
    Ok(source.unwrap_or(peer))
}

async fn read(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    let mut header = [0; PROXY_HEADER_BYTES];
    let mut filled = 0;
    loop {
        match proxy_protocol::parse(&header[..filled])? {
            Progress::Whole { source } => return Ok(source),
            Progress::NeedMore { until } => match stream.read(&mut header[filled..until]).await? {
                0 if filled == 0 => return Err(ProxyHeaderError::NothingSent),
                0 => return Err(ProxyHeaderError::Ended),
                bytes => filled += bytes,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    const HEADER: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0f\
        \xc0\x00\x02\x01\x0a\x00\x00\x01\x30\x39\x01\xbb\x04\x00\x00";

    /// TR-11: what comes behind the header stays in the stream, however the bytes are split.
    #[tokio::test]
    async fn exactly_the_header_is_read() {
        let sent = [HEADER, b"\x16\x03\x01 and more"].concat();
        for split in 0..sent.len() {
            let (mut proxy, mut relay) = tokio::io::duplex(1_024);
            let (first, second) = sent.split_at(split);
            let send = async {
                proxy.write_all(first).await.unwrap();
                tokio::task::yield_now().await;
                proxy.write_all(second).await.unwrap();
                drop(proxy);
            };
            let receive = async {
                let source = read(&mut relay).await.unwrap();
                let mut rest = Vec::new();
                relay.read_to_end(&mut rest).await.unwrap();
                (source, rest)
            };
            let ((), (source, rest)) = tokio::join!(send, receive);
            assert_eq!(source, Some("192.0.2.1:12345".parse().unwrap()));
            assert_eq!(rest, &sent[HEADER.len()..], "split at {split}");
        }
    }

    /// TR-11: a connection that ends too early is no header, and one that says nothing is no fault.
    #[tokio::test]
    async fn ends_are_noticed() {
        for end in 0..HEADER.len() {
            let error = read(&mut &HEADER[..end]).await.unwrap_err();
            assert_eq!(error.is_ordinary(), end == 0, "{end}: {error}");
        }
    }
}
