//! What is set on every accepted socket.

use std::io;

use relay_model::limits::{TCP_NOTSENT_LOWAT, TCP_USER_TIMEOUT};
use socket2::SockRef;
use tokio::net::TcpStream;

/// Sets the options. A failure is logged and no more: the connection works without them, and the
/// peer may have gone already.
pub(crate) fn set(stream: &TcpStream) {
    if let Err(error) = try_set(&SockRef::from(stream)) {
        tracing::debug!(%error, "cannot set the options of an accepted socket");
    }
}

fn try_set(socket: &SockRef<'_>) -> io::Result<()> {
    // Frames are written whole; waiting for more to fill a segment only delays them.
    socket.set_tcp_nodelay(true)?;
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_notsent_lowat(TCP_NOTSENT_LOWAT)?;
        socket.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT))?;
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn options_are_set() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        let (accepted, _) = accepted.unwrap();
        set(&accepted);
        drop(client);
        let socket = SockRef::from(&accepted);
        assert!(socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), TCP_NOTSENT_LOWAT);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(TCP_USER_TIMEOUT));
    }
}
