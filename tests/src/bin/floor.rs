//! The minimal relay that ratios refer to: tokio-tungstenite, one task per socket and a bounded
//! channel, with just enough of the protocol to route a request and its answer, and a desktop's events
//! to all of its phones. It checks nobody's token, keeps no presence and no leases, and forwards each
//! message as it came, without a copy. With a database it reads what the relay reads for a
//! registration, by the relay's own query, and does nothing with it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Parser;
use futures_util::{SinkExt, StreamExt};
use relay_actors::environment::Environment;
use relay_http::system_environment::SystemEnvironment;
use relay_model::ids::{AccountId, RelayInstanceId};
use relay_model::limits::Limits;
use relay_model::store::{Asker, DatabaseUrl, DeviceStore, DieselStore};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::accept_hdr_async_with_config;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use uuid::Uuid;

/// The registration's answer; the load looks at its type only.
const REGISTERED: Utf8Bytes = Utf8Bytes::from_static(
    r#"{"type":"registered","sessionId":"","resumeToken":"","expiresAt":"","relayInstanceId":""}"#,
);
/// What a desktop hears of each event of a phone, which can only be an interest; the load looks at the
/// session and the proof.
const INTERESTED: Utf8Bytes = Utf8Bytes::from_static(
    r#"{"type":"event","payload":{"eventType":"chat:timeline-interest-updated","payload":{"appSessionId":"load","active":true,"authorizationGeneration":1}}}"#,
);
/// Messages that may wait for one socket; its senders wait beyond that.
const WAITING: usize = 64;
/// tungstenite's buffers: small ones, or ten thousand sockets would cost it 256 KiB each.
const BUFFER: usize = 8 * 1024;
const MAX_MESSAGE: usize = 64 << 20;
/// Pairs are spread over this many locks, so that two workers seldom meet.
const SHARDS: usize = 64;

type Outbox = mpsc::Sender<Utf8Bytes>;

/// A minimal relay to measure against.
#[derive(Parser)]
struct Cli {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:18788")]
    address: SocketAddr,
    /// Worker threads
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Database to read at each registration
    #[arg(long)]
    database: Option<DatabaseUrl>,
}

/// What all connections share.
struct Floor {
    registry: Registry,
    store: Option<DieselStore>,
}

/// What a frame says that concerns a router. Strings with escapes are not for a minimal relay.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    frame_type: &'a str,
    #[serde(borrow)]
    payload: Payload<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    id: Option<&'a str>,
    device_id: Option<&'a str>,
    target_desktop_device_id: Option<&'a str>,
}

/// A desktop, its phones, and who waits for its answers.
#[derive(Default)]
struct Pair {
    desktop: Mutex<Option<Outbox>>,
    phones: Mutex<Arc<Vec<Outbox>>>,
    pending: Mutex<HashMap<String, Outbox>>,
}

/// All pairs by their desktop's id.
struct Registry {
    shards: Vec<Mutex<HashMap<String, Arc<Pair>>>>,
}

impl Registry {
    fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn pair(&self, desktop: &str) -> Arc<Pair> {
        let shard = desktop.bytes().map(usize::from).sum::<usize>() % SHARDS;
        let mut pairs = lock(&self.shards[shard]);
        Arc::clone(pairs.entry(desktop.to_owned()).or_default())
    }
}

/// No critical section of this program panics half way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn main() -> std::io::Result<()> {
    let cli = Cli::parse();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cli.workers)
        .enable_all()
        .build()?
        .block_on(serve(cli.address, cli.database))
}

async fn serve(address: SocketAddr, database: Option<DatabaseUrl>) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let store = database
        .map(|url| DieselStore::open(&url, &Limits::default()))
        .transpose()
        .map_err(std::io::Error::other)?;
    let floor = Arc::new(Floor {
        registry: Registry::new(),
        store,
    });
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(stream, Arc::clone(&floor)));
    }
}

impl Floor {
    /// Reads what a registration is checked against; false if there is no telling.
    async fn read_facts(&self, text: &str) -> bool {
        let Some(store) = &self.store else {
            return true;
        };
        let id = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let Ok(Envelope { payload, .. }) = serde_json::from_str(text) else {
            return false;
        };
        let Some(device) = id(payload.device_id) else {
            return false;
        };
        let asker = Asker {
            instance: RelayInstanceId::from_uuid(Uuid::nil()),
            now: SystemEnvironment.now(),
        };
        let account = AccountId::from_uuid(Uuid::nil());
        let target = id(payload.target_desktop_device_id);
        let facts = store.registration_facts(asker, account, device, target);
        facts.await.is_ok()
    }
}

async fn connection(stream: TcpStream, floor: Arc<Floor>) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .max_frame_size(Some(MAX_MESSAGE))
        .max_message_size(Some(MAX_MESSAGE));
    let mut is_desktop = false;
    #[expect(
        clippy::result_large_err,
        reason = "the callback's type is tungstenite's"
    )]
    let note_client_type = |request: &Request, response: Response| {
        let client_type = request.headers().get("x-client-type");
        is_desktop = client_type.is_some_and(|value| value == "desktop");
        Ok::<_, ErrorResponse>(response)
    };
    let accepted = accept_hdr_async_with_config(stream, note_client_type, Some(config)).await;
    let Ok(mut socket) = accepted else { return };
    let (outbox, mut inbox) = mpsc::channel(WAITING);
    let mut pair: Option<Arc<Pair>> = None;
    loop {
        tokio::select! {
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => match &pair {
                    Some(pair) if is_desktop => from_desktop(pair, text).await,
                    Some(pair) => from_phone(pair, text, &outbox).await,
                    None => {
                        if !floor.read_facts(&text).await {
                            break;
                        }
                        pair = register(&floor.registry, &text, is_desktop, &outbox);
                        if pair.is_none() || socket.send(Message::Text(REGISTERED)).await.is_err() {
                            break;
                        }
                    }
                },
                Some(Ok(_)) => {}
                _ => break,
            },
            Some(text) = inbox.recv() => {
                let mut written = socket.feed(Message::Text(text)).await;
                while let (Ok(()), Ok(text)) = (&written, inbox.try_recv()) {
                    written = socket.feed(Message::Text(text)).await;
                }
                if written.is_err() || socket.flush().await.is_err() {
                    break;
                }
            }
        }
    }
    match pair {
        Some(pair) if is_desktop => *lock(&pair.desktop) = None,
        Some(pair) => {
            Arc::make_mut(&mut lock(&pair.phones)).retain(|phone| !phone.same_channel(&outbox));
        }
        None => {}
    }
}

fn register(
    registry: &Registry,
    text: &str,
    is_desktop: bool,
    outbox: &Outbox,
) -> Option<Arc<Pair>> {
    let payload = serde_json::from_str::<Envelope<'_>>(text).ok()?.payload;
    if is_desktop {
        let pair = registry.pair(payload.device_id?);
        *lock(&pair.desktop) = Some(outbox.clone());
        Some(pair)
    } else {
        let pair = registry.pair(payload.target_desktop_device_id?);
        Arc::make_mut(&mut lock(&pair.phones)).push(outbox.clone());
        Some(pair)
    }
}

async fn from_phone(pair: &Pair, text: Utf8Bytes, outbox: &Outbox) {
    let message = match what(&text) {
        Some(What::Request(id)) => {
            lock(&pair.pending).insert(id, outbox.clone());
            text
        }
        Some(What::Event) => INTERESTED,
        _ => return,
    };
    let desktop = lock(&pair.desktop).clone();
    if let Some(desktop) = desktop {
        // A desktop that is gone answers nothing, which its phones notice.
        let _ = desktop.send(message).await;
    }
}

async fn from_desktop(pair: &Pair, text: Utf8Bytes) {
    match what(&text) {
        Some(What::Response(id)) => {
            let phone = lock(&pair.pending).remove(&id);
            if let Some(phone) = phone {
                // A phone that is gone wants no answer.
                let _ = phone.send(text).await;
            }
        }
        Some(What::Event) => {
            let phones = Arc::clone(&lock(&pair.phones));
            for phone in phones.iter() {
                // Nor any event.
                let _ = phone.send(text.clone()).await;
            }
        }
        _ => {}
    }
}

/// What is to be done with a message.
enum What {
    Request(String),
    Response(String),
    Event,
}

fn what(text: &str) -> Option<What> {
    let envelope: Envelope<'_> = serde_json::from_str(text).ok()?;
    let id = envelope.payload.id.map(str::to_owned);
    match envelope.frame_type {
        "rpc.request" => id.map(What::Request),
        "rpc.response" => id.map(What::Response),
        "event" => Some(What::Event),
        _ => None,
    }
}
