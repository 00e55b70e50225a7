//! The network between a relay and its PostgreSQL server, in the hands of a test: cut, silent or slow.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::DEADLINE;

/// What happens to the bytes of every connection, those that are open included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// They pass.
    Fine,
    /// They pass after so long.
    Slow(Duration),
    /// They are kept, and nobody is told; TCP itself answers.
    Silent,
    /// Every connection is ended, and new ones are as soon as they are made.
    Cut,
}

/// A proxy on a free port of this machine.
pub struct DatabaseProxy {
    address: SocketAddr,
    network: watch::Sender<Network>,
    /// How many connections are open.
    open: watch::Sender<usize>,
}

impl DatabaseProxy {
    /// Passes connections on to `server`.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (network, watched) = watch::channel(Network::Fine);
        let open = watch::Sender::new(0);
        let counted = open.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let passing = connection(client, server.clone(), watched.clone());
                let counted = counted.clone();
                counted.send_modify(|open| *open += 1);
                tokio::spawn(async move {
                    passing.await;
                    counted.send_modify(|open| *open -= 1);
                });
            }
        });
        Self {
            address,
            network,
            open,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the network for what is sent from here on.
    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }

    /// Ends every connection that is open; new ones pass.
    ///
    /// # Panics
    /// When they do not end.
    pub async fn cut_once(&self) {
        self.set(Network::Cut);
        let mut open = self.open.subscribe();
        let ended = tokio::time::timeout(DEADLINE, open.wait_for(|open| *open == 0)).await;
        assert!(ended.is_ok(), "connections through a cut network end");
        self.set(Network::Fine);
    }
}

/// Passes one connection on until an end of it closes or the network is cut.
async fn connection(client: TcpStream, server: String, mut network: watch::Receiver<Network>) {
    let watched = network.clone();
    let passing = async {
        let Ok(server) = TcpStream::connect(server).await else {
            return;
        };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            () = pass(from_client, to_server, watched.clone()) => {}
            () = pass(from_server, to_client, watched) => {}
        }
    };
    tokio::select! {
        _ = network.wait_for(|network| *network == Network::Cut) => {}
        () = passing => {}
    }
}

/// Passes what comes from one side on to the other.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut network: watch::Receiver<Network>,
) {
    let mut block = vec![0; 64 * 1024];
    loop {
        let Ok(bytes @ 1..) = from.read(&mut block).await else {
            return;
        };
        // A silent network becomes another one, or the test ends.
        let moving = network.wait_for(|network| *network != Network::Silent);
        let Ok(now) = moving.await.map(|network| *network) else {
            return;
        };
        if let Network::Slow(delay) = now {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&block[..bytes]).await.is_err() {
            return;
        }
    }
}
