//! The device's end of one connection: a WebSocket of a library that is not ours, told what to do by
//! the world, and writing down what it hears.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio::io::DuplexStream;
use tokio::sync::{Notify, mpsc};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::cast::Cast;
use super::environment::SeededEnvironment;
use super::frames::Heard;
use super::pipe::Scissors;
use super::trace::{ConnectionNo, Entry, What, digest_of_frame};

/// What the world has a connection do.
#[derive(Debug)]
pub enum Order {
    /// Send this text.
    Send(String),
    /// Stop reading.
    Stall,
    /// Read again.
    Read,
    /// Begin the close handshake.
    Close,
    /// Drop the connection.
    Drop,
    /// Have the network reset it. What the relay had got rid of before is still heard.
    Cut,
}

/// The trace that a run writes.
pub struct Log {
    environment: std::sync::Arc<SeededEnvironment>,
    entries: RefCell<Vec<Entry>>,
    read: Cell<usize>,
    news: Notify,
}

impl Log {
    /// An empty one.
    pub fn new(environment: std::sync::Arc<SeededEnvironment>) -> Self {
        Self {
            environment,
            entries: RefCell::default(),
            read: Cell::new(0),
            news: Notify::new(),
        }
    }

    /// Writes an entry.
    pub fn note(&self, what: What) {
        let at = self.environment.elapsed();
        self.entries.borrow_mut().push(Entry { at, what });
    }

    /// Writes an entry about which devices have something to do.
    pub fn tell(&self, what: What) {
        self.note(what);
        self.news.notify_one();
    }

    fn heard(&self, connection: ConnectionNo, heard: Heard, digest: u64) {
        self.tell(What::Heard(connection, heard, digest));
    }

    /// The next entry that the world has not looked at.
    pub fn next(&self) -> Option<Entry> {
        let entries = self.entries.borrow();
        let entry = entries.get(self.read.get())?.clone();
        self.read.set(self.read.get() + 1);
        Some(entry)
    }

    /// Waits until a device has heard something.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// Takes the whole trace.
    pub fn take(&self) -> Vec<Entry> {
        self.read.set(0);
        self.entries.take()
    }
}

/// Opens the device's end of a connection; orders are followed in turn.
pub fn open(
    connection: ConnectionNo,
    stream: DuplexStream,
    scissors: Scissors,
    log: Rc<Log>,
    cast: Rc<Cast>,
) -> mpsc::UnboundedSender<Order> {
    let (orders, inbox) = mpsc::unbounded_channel();
    actix_rt::spawn(async move {
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        let line = Line {
            connection,
            socket,
            scissors,
            log,
            cast,
        };
        line.run(inbox).await;
    });
    orders
}

struct Line {
    connection: ConnectionNo,
    socket: WebSocketStream<DuplexStream>,
    scissors: Scissors,
    log: Rc<Log>,
    cast: Rc<Cast>,
}

impl Line {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Order>) {
        let mut reading = true;
        loop {
            tokio::select! {
                biased;
                order = inbox.recv() => match order {
                    // A failure shows as the end of the stream.
                    Some(Order::Send(text)) => drop(self.socket.send(Message::text(text)).await),
                    Some(Order::Stall) => reading = false,
                    Some(Order::Read) => reading = true,
                    Some(Order::Close) => {
                        drop(self.socket.close(None).await);
                        reading = true;
                    }
                    Some(Order::Cut) => {
                        self.scissors.cut();
                        while let Some(Some(Ok(message))) = self.socket.next().now_or_never() {
                            self.hear(message);
                        }
                        return;
                    }
                    Some(Order::Drop) | None => return,
                },
                message = self.socket.next(), if reading => match message {
                    Some(Ok(message)) => self.hear(message),
                    Some(Err(_)) | None => {
                        self.log.heard(self.connection, Heard::End, 0);
                        return;
                    }
                },
            }
        }
    }

    fn hear(&self, message: Message) {
        let (heard, digest) = match message {
            Message::Text(text) => (Heard::read(&text, &self.cast), digest_of_frame(&text)),
            Message::Close(frame) => {
                let code = frame.map_or(1005, |frame| frame.code.into());
                (Heard::Close(code), 0)
            }
            Message::Ping(_) | Message::Pong(_) => return,
            other => (Heard::Strange(format!("{other:?}")), 0),
        };
        self.log.heard(self.connection, heard, digest);
    }
}
