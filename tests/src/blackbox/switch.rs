//! What stands in front of two relays in a blue-green deploy: a TCP proxy that sends new connections
//! to one of them and leaves those that are open where they are.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A proxy on a free port of this machine.
pub struct Switch {
    address: SocketAddr,
    target: watch::Sender<SocketAddr>,
}

impl Switch {
    /// Sends connections to `target`.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn towards(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (target, towards) = watch::channel(target);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let target = *towards.borrow();
                tokio::spawn(async move {
                    if let Ok(mut relay) = TcpStream::connect(target).await {
                        // An end or a reset of either side ends both.
                        _ = copy_bidirectional(&mut client, &mut relay).await;
                    }
                });
            }
        });
        Self { address, target }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends connections that are made from here on to `target`.
    pub fn turn(&self, target: SocketAddr) {
        self.target.send_replace(target);
    }
}
