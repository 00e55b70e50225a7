//! A connection whose every byte the test decides: broken frames, peers that never read, ends
//! in the middle of things.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use serde_json::{Value, json};
use socket2::Socket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use super::DEADLINE;
use super::account::Device;
use super::evidence::{Evidence, Transcript};
use super::raw_frame::{OpCode, RawFrame, encode};
use super::trust::{ByteStream, Trust, over};

/// RFC 6455's example.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/// The receive buffer of these sockets in bytes: small, so that a peer that does not read closes
/// its window soon.
const RECEIVE_BUFFER: u32 = 16 * 1024;
/// Bytes of sent frames that a failure prints.
const SHOWN: usize = 120;

/// A connection to the relay, over TCP, with TLS or without.
pub struct RawSocket {
    stream: Box<dyn ByteStream>,
    /// The same socket once more, for what only it can be asked.
    socket: Socket,
    received: Vec<u8>,
    transcript: Transcript,
}

impl RawSocket {
    pub(super) async fn open(
        address: SocketAddr,
        trust: Option<&Trust>,
        evidence: Evidence,
    ) -> Self {
        let connecting = async {
            let socket = TcpSocket::new_v4()?;
            socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
            socket.connect(address).await
        };
        let stream = connecting.await.expect("the relay listens");
        stream.set_nodelay(true).expect("a TCP option");
        let socket = stream.as_fd().try_clone_to_owned();
        let socket = Socket::from(socket.expect("a file is left"));
        let stream = over(stream, address, trust).await;
        Self {
            stream: stream.expect("the handshake is done"),
            socket,
            received: Vec::new(),
            transcript: Transcript::new("a raw socket".to_owned(), evidence),
        }
    }

    /// Asks for the upgrade with these headers beside the necessary ones, and checks the answer.
    pub async fn upgrade(&mut self, headers: &[(String, String)]) {
        let head = self.ask_for_upgrade(headers).await;
        let switched = head.starts_with("HTTP/1.1 101 ");
        if !switched || !head.contains(ACCEPT) {
            self.transcript.fail(&format!("no upgrade: {head}"));
        }
    }

    /// Asks for the upgrade and returns the head of the answer.
    pub async fn ask_for_upgrade(&mut self, headers: &[(String, String)]) -> String {
        let mut request = format!(
            "GET /ws/device-link HTTP/1.1\r\nHost: relay\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        self.send(request.as_bytes()).await;
        self.read_head().await
    }

    /// Reads up to the end of an HTTP head and returns it.
    pub async fn read_head(&mut self) -> String {
        loop {
            let end = self
                .received
                .windows(4)
                .position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                let head: Vec<u8> = self.received.drain(..end + 4).collect();
                let head = String::from_utf8(head).expect("a head is ASCII");
                self.transcript.received(&head);
                return head;
            }
            if self.read("the head of an answer").await == 0 {
                self.transcript
                    .fail("the stream ended before the head of an answer");
            }
        }
    }

    /// The head of an answer, or nothing if the connection ends before it.
    pub async fn head_or_end(&mut self) -> Option<String> {
        let ended = self.received.is_empty() && self.read("an answer or the end").await == 0;
        if ended {
            None
        } else {
            Some(self.read_head().await)
        }
    }

    /// So many bytes as they come.
    pub async fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            if self.read("bytes").await == 0 {
                self.transcript.fail("the stream ended before the bytes");
            }
        }
        self.received.drain(..count).collect()
    }

    /// The port of this side.
    pub fn port(&self) -> u16 {
        let address = self.socket.local_addr().expect("the socket is connected");
        address.as_socket().expect("it is one of TCP").port()
    }

    /// Reads a little of what comes, as a slow peer does; false at the end of the connection.
    pub async fn read_at_most(&mut self, bytes: usize) -> bool {
        let mut block = vec![0; bytes];
        self.read_into(&mut block, "bytes").await > 0
    }

    /// The next frame of what was read already.
    pub fn take_frame(&mut self) -> Option<RawFrame> {
        RawFrame::take(&mut self.received)
    }

    /// Whether something has come that was not read yet; does not wait.
    pub fn has_answer(&self) -> bool {
        let mut byte = [std::mem::MaybeUninit::uninit(); 1];
        !self.received.is_empty() || self.socket.peek(&mut byte).is_ok_and(|bytes| bytes > 0)
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: &[u8]) {
        let shown = &bytes[..bytes.len().min(SHOWN)];
        self.transcript.sent(&shown.escape_ascii().to_string());
        match tokio::time::timeout(DEADLINE, self.stream.write_all(bytes)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.transcript.fail(&format!("cannot send: {error}")),
            Err(_) => self.transcript.fail("the relay does not read"),
        }
    }

    /// Sends bytes, or finds the connection gone.
    pub async fn try_send(&mut self, bytes: &[u8]) -> bool {
        match tokio::time::timeout(DEADLINE, self.stream.write_all(bytes)).await {
            Ok(outcome) => outcome.is_ok(),
            Err(_) => self.transcript.fail("the relay does not read"),
        }
    }

    /// Sends a text message in one frame.
    pub async fn send_text(&mut self, text: &str) {
        self.send(&encode(OpCode::Text, true, text.as_bytes()))
            .await;
    }

    /// Sends a frame of the protocol.
    pub async fn send_json(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    /// Registers `device` and takes `registered`.
    pub async fn register(&mut self, device: &Device) {
        self.send_json(&json!({ "type": "register", "payload": device.registration() }))
            .await;
        let reply = self.next_json().await;
        if reply["type"] != "registered" {
            self.transcript.fail("expected registered");
        }
    }

    /// The next frame, pings and pongs included.
    pub async fn next_frame(&mut self) -> RawFrame {
        loop {
            if let Some(frame) = RawFrame::take(&mut self.received) {
                let text =
                    String::from_utf8_lossy(&frame.payload[..frame.payload.len().min(SHOWN)]);
                self.transcript.received(&format!("{:?} {text}", frame.op));
                return frame;
            }
            if self.read("a frame").await == 0 {
                self.transcript
                    .fail("the stream ended while waiting for a frame");
            }
        }
    }

    /// The next frame that is no ping.
    pub async fn next_frame_but_ping(&mut self) -> RawFrame {
        loop {
            let frame = self.next_frame().await;
            if frame.op != OpCode::Ping {
                return frame;
            }
        }
    }

    /// The payload of the next message, whole; pings are skipped.
    pub async fn next_message(&mut self) -> Vec<u8> {
        let mut message = Vec::new();
        loop {
            let frame = self.next_frame_but_ping().await;
            message.extend(frame.payload);
            if frame.is_final {
                return message;
            }
        }
    }

    /// The next text message, which must come in one frame, as JSON; pings are skipped.
    pub async fn next_json(&mut self) -> Value {
        let frame = self.next_frame_but_ping().await;
        if frame.op != OpCode::Text || !frame.is_final {
            self.transcript.fail("expected a text message in one frame");
        }
        serde_json::from_slice(&frame.payload).expect("the relay sends JSON")
    }

    /// Skips frames up to the relay's close frame, which must have this code.
    pub async fn expect_close_frame(&mut self, code: u16) {
        loop {
            let frame = self.next_frame().await;
            if frame.op == OpCode::Close {
                if frame.close_code() != Some(code) {
                    let problem = format!("expected close {code}, got {:?}", frame.close_code());
                    self.transcript.fail(&problem);
                }
                return;
            }
        }
    }

    /// Waits for the end of the connection, be it an end or a reset; nothing may come before.
    pub async fn expect_end(&mut self) {
        if self.read("the end of the connection").await > 0 || !self.received.is_empty() {
            let rest = self.received.escape_ascii().to_string();
            self.transcript
                .fail(&format!("expected the end, got {rest}"));
        }
    }

    /// Reads and throws away whatever comes until the connection has ended.
    pub async fn drain(&mut self) {
        while self.read("the end of the connection").await > 0 {
            self.received.clear();
        }
    }

    /// Everything up to the end of the connection.
    pub async fn read_to_end(&mut self) -> Vec<u8> {
        while self.read("the end of the connection").await > 0 {}
        std::mem::take(&mut self.received)
    }

    /// Ends the sending direction only.
    pub async fn shut_down_sending(&mut self) {
        self.stream.shutdown().await.expect("the stream is open");
    }

    /// Drops the connection with a reset.
    pub fn reset(self) {
        let zero = std::time::Duration::ZERO;
        self.socket.set_linger(Some(zero)).expect("a TCP option");
    }

    /// Reads once; 0 at the end of the connection.
    async fn read(&mut self, what: &str) -> usize {
        self.read_into(&mut vec![0; 64 * 1024], what).await
    }

    async fn read_into(&mut self, block: &mut [u8], what: &str) -> usize {
        match tokio::time::timeout(DEADLINE, self.stream.read(block)).await {
            Ok(Ok(bytes)) => {
                self.received.extend(&block[..bytes]);
                bytes
            }
            // The latter is the end of a TLS connection without a farewell.
            Ok(Err(error))
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof
                ) =>
            {
                0
            }
            Ok(Err(error)) => self.transcript.fail(&format!("cannot read: {error}")),
            Err(_) => self.transcript.fail(&format!("waited too long for {what}")),
        }
    }
}
