//! One device's WebSocket, spoken by tokio-tungstenite: an implementation that shares nothing with
//! the relay's.
//!
//! Frames of different kinds may come in any order (a status between two answers), so a test takes
//! the next frame *of a kind*; what it does not take stays, in order, for later or for
//! [`Socket::assert_all_read`].

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::DEADLINE;
use super::account::Device;
use super::evidence::{Evidence, Transcript};
use super::frame::Frame;
use super::leaks::note_secret;
use super::rpc::rpc_request;
use super::trust::{ByteStream, Trust, over};

/// A connection of a device.
pub struct Socket {
    /// Whose it is.
    pub device: Device,
    /// The reply to its last registration; null before.
    pub session: Value,
    stream: WebSocketStream<Box<dyn ByteStream>>,
    port: u16,
    unread: VecDeque<Frame>,
    transcript: Transcript,
}

/// What came from the relay.
enum Received {
    Frame(Frame),
    Close(Option<u16>),
    End,
}

impl Socket {
    pub(super) async fn upgrade(
        address: SocketAddr,
        trust: Option<&Trust>,
        device: &Device,
        headers: &[(String, String)],
        evidence: Evidence,
    ) -> Self {
        let name = format!("{} {}", device.client_type.header(), device.id);
        let transcript = Transcript::new(name, evidence);
        let url = format!("ws://{address}/ws/device-link");
        let mut request = url.into_client_request().expect("a URL");
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a header name");
            let value = HeaderValue::from_str(value).expect("a header value");
            request.headers_mut().insert(name, value);
        }
        let upgrading = async {
            let stream = TcpStream::connect(address).await.map_err(Error::Io)?;
            let port = stream.local_addr().map_err(Error::Io)?.port();
            let stream = over(stream, address, trust).await.map_err(Error::Io)?;
            let (stream, _) = client_async(request, stream).await?;
            Ok::<_, Error>((stream, port))
        };
        match tokio::time::timeout(DEADLINE, upgrading).await {
            Ok(Ok((stream, port))) => Self {
                device: device.clone(),
                session: Value::Null,
                stream,
                port,
                unread: VecDeque::new(),
                transcript,
            },
            Ok(Err(error)) => transcript.fail(&format!("no upgrade: {error}")),
            Err(_) => transcript.fail("no answer to the upgrade request"),
        }
    }

    /// The port of this side.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    /// Sends a text message as it is.
    pub async fn send_text(&mut self, text: &str) {
        self.transcript.sent(text);
        self.send_message(Message::text(text)).await;
    }

    /// Sends a binary message.
    pub async fn send_binary(&mut self, payload: &'static [u8]) {
        self.transcript.sent("a binary message");
        let payload = Bytes::from_static(payload);
        self.send_message(Message::Binary(payload)).await;
    }

    async fn send_message(&mut self, message: Message) {
        match tokio::time::timeout(DEADLINE, self.stream.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.transcript.fail(&format!("cannot send: {error}")),
            Err(_) => self.transcript.fail("the relay does not read"),
        }
    }

    /// Sends the device's `register` and takes `registered`.
    pub async fn register(&mut self) {
        let payload = self.device.registration();
        self.register_with(payload).await;
        let kind = self.session["type"].as_str();
        if kind != Some("registered") {
            self.transcript.fail("expected registered");
        }
    }

    /// Goes on with the session of `former`, and takes the reply.
    pub async fn resume(&mut self, former: &Value) {
        let mut payload = self.device.registration();
        payload["sessionId"] = former["sessionId"].clone();
        payload["resumeToken"] = former["resumeToken"].clone();
        self.register_with(payload).await;
    }

    /// Sends `register` with this payload and takes the next frame as the reply, whatever it is.
    pub async fn register_with(&mut self, payload: Value) {
        self.send_register(payload).await;
        self.session = self.next().await;
        if let Some(token) = self.session["resumeToken"].as_str() {
            note_secret(token);
        }
    }

    /// Sends `register` with this payload.
    pub async fn send_register(&mut self, payload: Value) {
        self.send(&json!({ "type": "register", "payload": payload }))
            .await;
    }

    /// Sends a request.
    pub async fn request(&mut self, id: &str, method: &str, params: Value) {
        self.send(&rpc_request(id, method, params)).await;
    }

    /// Answers a request, finally.
    pub async fn answer(&mut self, request: &Value, result: Value) {
        let payload = json!({ "id": request["id"], "result": result });
        self.send(&json!({ "type": "rpc.response", "payload": payload }))
            .await;
    }

    /// Publishes an event.
    pub async fn publish(&mut self, event_type: &str, payload: Value) {
        let payload = json!({ "eventType": event_type, "payload": payload });
        self.send(&json!({ "type": "event", "payload": payload }))
            .await;
    }

    /// The next frame of any kind.
    pub async fn next(&mut self) -> Value {
        self.next_frame().await.value()
    }

    /// The next frame of any kind, unread.
    pub async fn next_frame(&mut self) -> Frame {
        self.take("a frame", |_| true).await
    }

    /// Waits until a frame is here, and leaves it there.
    pub async fn wait_for_frame(&mut self) {
        let frame = self.next_frame().await;
        self.unread.push_front(frame);
    }

    /// The payload of the next request.
    pub async fn next_request(&mut self) -> Value {
        let frame = self.take_kind("rpc.request").await;
        frame.value()["payload"].take()
    }

    /// The payload of the next response.
    pub async fn next_response(&mut self) -> Value {
        let frame = self.take_kind("rpc.response").await;
        frame.value()["payload"].take()
    }

    /// The next frame of this type.
    pub async fn take_kind(&mut self, kind: &str) -> Frame {
        self.take(kind, |frame| frame.kind == kind).await
    }

    /// The next event of this type, as a whole frame.
    pub async fn next_event(&mut self, event_type: &str) -> Frame {
        let wanted = |frame: &Frame| frame.event_type.as_deref() == Some(event_type);
        self.take(event_type, wanted).await
    }

    /// The payload of the next `device-status` event.
    pub async fn next_status(&mut self) -> Value {
        let frame = self.next_event("device-status").await;
        frame.value()["payload"]["payload"].take()
    }

    /// Takes the next frame, which must be an error with this code, and returns it.
    pub async fn expect_error(&mut self, code: &str) -> Value {
        let error = self.next().await;
        let right = error["type"] == "error"
            && error["code"] == code
            && error["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
            && error["timestamp"].is_string();
        if !right {
            self.transcript.fail(&format!("expected error {code}"));
        }
        error
    }

    /// Takes the next frame, which must be a `pong`.
    pub async fn expect_pong(&mut self) {
        let frame = self.next().await;
        if frame != json!({ "type": "pong" }) {
            self.transcript.fail("expected pong");
        }
    }

    /// Sends `ping` and waits until it is answered; other frames stay unread.
    pub async fn ping(&mut self) {
        self.send(&json!({ "type": "ping" })).await;
        self.take_kind("pong").await;
    }

    /// Takes the first unread frame that is wanted.
    pub async fn take(&mut self, what: &str, wanted: impl Fn(&Frame) -> bool) -> Frame {
        if let Some(place) = self.unread.iter().position(&wanted) {
            return self.unread.remove(place).expect("it was found there");
        }
        loop {
            match self.receive(what).await {
                Received::Frame(frame) if wanted(&frame) => return frame,
                Received::Frame(frame) => self.unread.push_back(frame),
                Received::Close(code) => {
                    let problem = format!("closed with {code:?} while waiting for {what}");
                    self.transcript.fail(&problem)
                }
                Received::End => {
                    let problem = format!("the stream ended while waiting for {what}");
                    self.transcript.fail(&problem)
                }
            }
        }
    }

    /// Waits for the relay's close frame, which must have this code, and for the end of the
    /// connection behind it. Frames before it stay unread.
    pub async fn expect_close(&mut self, code: u16) {
        let what = format!("close {code}");
        loop {
            match self.receive(&what).await {
                Received::Frame(frame) => self.unread.push_back(frame),
                Received::Close(Some(closed)) if closed == code => break,
                Received::Close(other) => self
                    .transcript
                    .fail(&format!("expected {what}, got close {other:?}")),
                Received::End => self
                    .transcript
                    .fail(&format!("expected {what}, got an end")),
            }
        }
        match self.receive("the end behind the close").await {
            Received::End => {}
            Received::Frame(_) | Received::Close(_) => self
                .transcript
                .fail("something came behind the close frame"),
        }
    }

    /// The payload of the next request, or the code of the relay's close if that comes first; frames
    /// between stay unread.
    pub async fn request_or_close(&mut self) -> Result<Value, Option<u16>> {
        loop {
            match self.receive("a request or a close").await {
                Received::Frame(frame) if frame.kind == "rpc.request" => {
                    return Ok(frame.value()["payload"].take());
                }
                Received::Frame(frame) => self.unread.push_back(frame),
                Received::Close(code) => return Err(code),
                Received::End => self.transcript.fail("the stream ended without a close"),
            }
        }
    }

    /// The next frame, or the code of the relay's close if that comes first. An end without a close is
    /// a failure, and so is `patience` without either: [`DEADLINE`] where something must come,
    /// [`Duration::MAX`] where nothing need.
    pub async fn next_or_close(&mut self, patience: Duration) -> Result<Frame, Option<u16>> {
        if let Some(frame) = self.unread.pop_front() {
            return Ok(frame);
        }
        match self.receive_within("a frame or a close", patience).await {
            Received::Frame(frame) => Ok(frame),
            Received::Close(code) => Err(code),
            Received::End => self.transcript.fail("the stream ended without a close"),
        }
    }

    /// Closes from this side and waits until the relay has closed too.
    pub async fn close(mut self) {
        self.transcript.sent("a close frame");
        if let Err(error) = self.stream.close(None).await {
            self.transcript.fail(&format!("cannot close: {error}"));
        }
        loop {
            match self.receive("the answer to the close").await {
                Received::Frame(_) | Received::Close(_) => {}
                Received::End => return,
            }
        }
    }

    /// Drops the connection as a device does that loses power, if its kernel still says so: the
    /// relay sees an end without a close frame.
    pub fn vanish(self) {
        drop(self);
    }

    /// Frames that came and were not taken.
    pub fn unread(&self) -> impl Iterator<Item = &Frame> {
        self.unread.iter()
    }

    /// Takes all frames that came and were not taken, without waiting for more.
    pub fn take_unread(&mut self) -> Vec<Frame> {
        self.transcript.forget();
        self.unread.drain(..).collect()
    }

    /// Checks that every frame that came so far was taken.
    pub fn assert_all_read(&self) {
        if !self.unread.is_empty() {
            self.transcript
                .fail(&format!("not expected: {:?}", self.unread));
        }
    }

    /// Waits until everything that `other` caused by events so far has arrived here, then checks
    /// that every frame was taken.
    pub async fn assert_quiet_behind(&mut self, other: &mut Self) {
        let mark = super::fresh_id();
        other.publish("test:mark", json!(mark)).await;
        loop {
            let event = self.next_event("test:mark").await;
            if event.value()["payload"]["payload"] == json!(mark) {
                break;
            }
        }
        self.assert_all_read();
    }

    async fn receive(&mut self, what: &str) -> Received {
        self.receive_within(what, DEADLINE).await
    }

    async fn receive_within(&mut self, what: &str, patience: Duration) -> Received {
        loop {
            let Ok(message) = tokio::time::timeout(patience, self.stream.next()).await else {
                self.transcript.fail(&format!("waited too long for {what}"));
            };
            match message {
                Some(Ok(Message::Text(text))) => {
                    self.transcript.received(&text);
                    match Frame::read(text.to_string()) {
                        Ok(frame) => return Received::Frame(frame),
                        Err(problem) => self.transcript.fail(&problem),
                    }
                }
                Some(Ok(Message::Close(frame))) => {
                    let code = frame.map(|frame| frame.code.into());
                    self.transcript.received(&format!("close {code:?}"));
                    return Received::Close(code);
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(other)) => self.transcript.fail(&format!("not expected: {other:?}")),
                Some(Err(error)) => {
                    self.transcript.received(&format!("{error}"));
                    return Received::End;
                }
                None => return Received::End,
            }
        }
    }
}
