//! The server over real sockets: what a pipe in memory cannot show.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_server::ServerHandle;
use relay_actors::socket::transport::Transport;
use relay_http::server;
use relay_http::upgrade::{StartConnection, UpgradeDoor};
use relay_model::limits::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{ACCOUNT, authenticator, token};

const PATIENCE: Duration = Duration::from_secs(20);

/// A door behind which every connection echoes.
fn start() -> (SocketAddr, ServerHandle) {
    let door = UpgradeDoor::new(
        authenticator(),
        Arc::new(Limits::default()),
        |_origin, transport: Box<dyn Transport>, early: bytes::Bytes| {
            actix_rt::spawn(async move {
                let (mut reader, mut writer) = tokio::io::split(transport);
                writer.write_all(&early).await?;
                tokio::io::copy(&mut reader, &mut writer).await
            });
        },
    );
    serve(door, 1)
}

fn serve<S: StartConnection>(door: UpgradeDoor<S>, workers: usize) -> (SocketAddr, ServerHandle) {
    let listener = server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let server = server::start(listener, workers, door, |_| ()).unwrap();
    let handle = server.handle();
    actix_rt::spawn(server);
    (address, handle)
}

fn upgrade(authorization: &str) -> String {
    format!(
        "GET /ws/device-link HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Authorization: {authorization}\r\n\r\n"
    )
}

/// TR-1: whatever is put behind the door owns the upgraded stream, early bytes first.
#[actix_rt::test]
async fn upgraded_streams_belong_to_their_owner() {
    let (address, server) = start();
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = upgrade(&format!("Bearer {}", token(ACCOUNT)));
    client
        .write_all(format!("{request}early").as_bytes())
        .await
        .unwrap();
    client.write_all(b" and late").await.unwrap();
    client.shutdown().await.unwrap();
    let mut text = String::new();
    timeout(PATIENCE, client.read_to_string(&mut text))
        .await
        .unwrap()
        .unwrap();
    assert!(
        text.starts_with("HTTP/1.1 101 ") && text.ends_with("early and late"),
        "{text}"
    );
    server.stop(true).await;
}

/// All connections of an account live on one thread, whichever accepted them; those of several accounts
/// do not, and no byte is lost on the way.
#[actix_rt::test]
async fn an_account_lives_on_one_thread() {
    let name = |_origin, transport: Box<dyn Transport>, early: bytes::Bytes| {
        actix_rt::spawn(async move {
            let mut transport = transport;
            let mut heard = early.to_vec();
            while !heard.ends_with(b"hello") && transport.read_buf(&mut heard).await? > 0 {}
            let thread = std::thread::current().id();
            transport.write_all(format!("{thread:?}").as_bytes()).await
        });
    };
    let door = UpgradeDoor::new(authenticator(), Arc::new(Limits::default()), name);
    let (address, server) = serve(door, 4);
    let mut threads = Vec::new();
    for number in 0..40 {
        let account = uuid::Uuid::from_u128(number % 10).to_string();
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = upgrade(&format!("Bearer {}", token(&account)));
        client
            .write_all(format!("{request}hel").as_bytes())
            .await
            .unwrap();
        client.write_all(b"lo").await.unwrap();
        let mut text = String::new();
        timeout(PATIENCE, client.read_to_string(&mut text))
            .await
            .unwrap()
            .unwrap();
        threads.push(text.split("\r\n\r\n").last().unwrap().to_owned());
    }
    assert!(threads[0].starts_with("ThreadId"), "{threads:?}");
    let (first, rest) = threads.split_at(10);
    rest.chunks(10).for_each(|again| assert_eq!(again, first));
    let distinct: std::collections::HashSet<_> = first.iter().collect();
    assert!(distinct.len() > 1, "{threads:?}");
    server.stop(true).await;
}

/// TR-2: a refusal is never a bare end of the stream, and no reset overtakes it, although the
/// client goes on sending.
#[actix_rt::test]
async fn refusals_are_not_overtaken_by_a_reset() {
    let (address, server) = start();
    for _ in 0..20 {
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = upgrade("Bearer x");
        client.write_all(request.as_bytes()).await.unwrap();
        client.readable().await.unwrap();
        // To a socket that is closed already the first of these brings a reset, which then stands
        // before the end of the stream.
        for _ in 0..10 {
            client.write_all(&[0x81; 2_000]).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut text = String::new();
        timeout(PATIENCE, client.read_to_string(&mut text))
            .await
            .unwrap()
            .unwrap();
        assert!(
            text.starts_with("HTTP/1.1 401 ") && text.ends_with('}'),
            "{text}"
        );
    }
    server.stop(true).await;
}

/// A port that is taken is an error and not a second relay on the same port.
#[actix_rt::test]
async fn a_port_is_bound_once() {
    let first = server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let again = server::bind(first.local_addr().unwrap());
    assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
}
