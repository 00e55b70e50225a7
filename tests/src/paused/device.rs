//! A simulated phone or desktop: says what a test tells it to, and hands over what it hears.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use relay_model::ids::{AccountId, DeviceId};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// How long a device waits, in simulated time, for what a test says must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a device hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// A text frame.
    Frame(Value),
    /// A close frame with its code.
    Close(u16),
    /// The end of the stream without a close frame.
    End,
}

/// One connection of a device.
pub struct Device {
    /// The device.
    pub id: DeviceId,
    /// Its account.
    pub account: AccountId,
    /// The last `registered` or `resumed` reply.
    pub session: Value,
    socket: WebSocketStream<DuplexStream>,
}

impl Device {
    pub(super) fn new(
        id: DeviceId,
        account: AccountId,
        socket: WebSocketStream<DuplexStream>,
    ) -> Self {
        Self {
            id,
            account,
            session: Value::Null,
            socket,
        }
    }

    /// Sends a text frame.
    pub async fn send_text(&mut self, text: impl Into<String>) {
        self.socket
            .send(Message::text(text.into()))
            .await
            .expect("the relay reads");
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: Value) {
        self.send_text(frame.to_string()).await;
    }

    /// Sends any message; false if the relay is gone.
    pub async fn try_send(&mut self, message: Message) -> bool {
        self.socket.send(message).await.is_ok()
    }

    /// Sends bytes as they are, whatever they mean; false if the relay does not take them all within
    /// `patience`.
    pub async fn send_bytes(&mut self, bytes: &[u8], patience: Duration) -> bool {
        let stream = self.socket.get_mut();
        let sent = tokio::time::timeout(patience, stream.write_all(bytes)).await;
        matches!(sent, Ok(Ok(())))
    }

    /// The next thing that comes, pings and pongs aside; `None` after `patience`.
    pub async fn receive_within(&mut self, patience: Duration) -> Option<Received> {
        let next = async {
            loop {
                return match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => {
                        Received::Frame(serde_json::from_str(&text).expect("JSON"))
                    }
                    Some(Ok(Message::Close(frame))) => {
                        Received::Close(frame.map_or(1005, |frame| frame.code.into()))
                    }
                    Some(Ok(_)) => continue,
                    Some(Err(_)) | None => Received::End,
                };
            }
        };
        tokio::time::timeout(patience, next).await.ok()
    }

    /// How many pongs come within `patience`, and nothing else.
    pub async fn pongs_within(&mut self, patience: Duration) -> usize {
        let mut pongs = 0;
        while let Ok(next) = tokio::time::timeout(patience, self.socket.next()).await {
            assert!(matches!(next, Some(Ok(Message::Pong(_)))), "{next:?}");
            pongs += 1;
        }
        pongs
    }

    /// The next frame's text, byte for byte.
    pub async fn next_text(&mut self) -> String {
        loop {
            match tokio::time::timeout(PATIENCE, self.socket.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => return text.to_string(),
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
                other => panic!("no text frame came but {other:?}"),
            }
        }
    }

    /// The next frame, which must come.
    pub async fn next(&mut self) -> Value {
        match self.receive_within(PATIENCE).await {
            Some(Received::Frame(frame)) => frame,
            other => panic!("{}: no frame came but {other:?}", self.id),
        }
    }

    /// The close code that must come next.
    pub async fn next_close(&mut self) -> u16 {
        match self.receive_within(PATIENCE).await {
            Some(Received::Close(code)) => code,
            other => panic!("{}: no close came but {other:?}", self.id),
        }
    }

    /// Reads on to the close, whose code this must be.
    pub async fn is_closed(&mut self, code: u16) {
        let close = loop {
            match self.receive_within(PATIENCE).await {
                Some(Received::Frame(_)) => {}
                other => break other,
            }
        };
        assert_eq!(close, Some(Received::Close(code)), "{}", self.id);
    }

    /// The status word and generation of the next frame, which must be a `device-status`.
    pub async fn next_status(&mut self) -> (String, u64) {
        let frame = self.next().await;
        assert_eq!(frame["payload"]["eventType"], "device-status", "{frame}");
        let status = &frame["payload"]["payload"];
        let word = status["status"].as_str().expect("a word").to_owned();
        (
            word,
            status["connectionGeneration"].as_u64().expect("a number"),
        )
    }

    /// Nothing comes for a while, in simulated time.
    pub async fn hears_nothing_for(&mut self, duration: Duration) {
        let received = self.receive_within(duration).await;
        assert_eq!(received, None, "{} should hear nothing", self.id);
    }

    /// Registers and reads the reply.
    pub async fn register(&mut self) {
        self.register_with(json!({})).await;
        assert_eq!(self.session["type"], "registered", "{}", self.session);
    }

    /// Registers with further fields and keeps the next frame as the reply.
    pub async fn register_with(&mut self, fields: Value) {
        self.send_register(fields).await;
        self.session = self.next().await;
    }

    /// Sends `register` with further fields.
    pub async fn send_register(&mut self, fields: Value) {
        let mut payload = json!({"deviceId": self.id, "relayProtocolVersion": 1});
        if let (Some(payload), Some(fields)) = (payload.as_object_mut(), fields.as_object()) {
            payload.extend(fields.clone());
        }
        self.send(json!({"type": "register", "payload": payload}))
            .await;
    }

    /// The fields that resume this device's session.
    pub fn resume(&self) -> Value {
        json!({
            "sessionId": self.session["sessionId"],
            "resumeToken": self.session["resumeToken"],
        })
    }

    /// Sends a request.
    pub async fn request(&mut self, id: &str) {
        let payload = json!({"id": id, "method": "m", "params": {}});
        self.send(json!({"type": "rpc.request", "payload": payload}))
            .await;
    }

    /// The id of the next frame, which must be a request.
    pub async fn next_request(&mut self) -> String {
        let frame = self.next().await;
        assert_eq!(frame["type"], "rpc.request", "{frame}");
        frame["payload"]["id"].as_str().expect("an id").to_owned()
    }

    /// Answers a request.
    pub async fn answer(&mut self, id: &str, result: Value) {
        let payload = json!({"id": id, "result": result});
        self.send(json!({"type": "rpc.response", "payload": payload}))
            .await;
    }

    /// The id and error of the next frame, which must be the relay's own answer.
    pub async fn next_failure(&mut self) -> (String, Value) {
        let frame = self.next().await;
        assert_eq!(frame["type"], "rpc.response", "{frame}");
        let payload = &frame["payload"];
        assert_eq!(payload["isFinal"], true, "{frame}");
        assert!(
            payload["result"].is_null() && payload["error"].is_object(),
            "{frame}"
        );
        (
            payload["id"].as_str().expect("an id").to_owned(),
            payload["error"].clone(),
        )
    }

    /// The id and result of the next frame, which must be a desktop's answer.
    pub async fn next_result(&mut self) -> (String, Value) {
        let frame = self.next().await;
        assert_eq!(frame["type"], "rpc.response", "{frame}");
        let payload = &frame["payload"];
        (
            payload["id"].as_str().expect("an id").to_owned(),
            payload["result"].clone(),
        )
    }

    /// Sends an event.
    pub async fn event(&mut self, event_type: &str, payload: Value) {
        let payload = json!({"eventType": event_type, "payload": payload});
        self.send(json!({"type": "event", "payload": payload}))
            .await;
    }

    /// Takes, renews or ends an interest in a session.
    pub async fn interest(&mut self, session: &str, active: bool) {
        let payload = json!({"appSessionId": session, "active": active});
        self.event("chat:timeline-interest", payload).await;
    }

    /// Sends a snapshot of a session's own window.
    pub async fn snapshot(
        &mut self,
        session: &str,
        generation: &Value,
        revision: u64,
        body: Value,
    ) {
        let payload = json!({
            "appSessionId": session,
            "settlementEpoch": 1,
            "revision": revision,
            "authorizationGeneration": generation,
            "body": body,
        });
        self.event("chat:timeline-updated", payload).await;
    }

    /// The payload of the next frame, which must be an event of this type.
    pub async fn next_event(&mut self, event_type: &str) -> Value {
        let frame = self.next().await;
        assert_eq!(frame["type"], "event", "{frame}");
        assert_eq!(frame["payload"]["eventType"], event_type, "{frame}");
        frame["payload"]["payload"].clone()
    }

    /// The payload of the next frame, which must tell of a session's leases.
    pub async fn next_lease_state(&mut self) -> Value {
        self.next_event("chat:timeline-interest-updated").await
    }

    /// The payload of the next frame, which must be a snapshot.
    pub async fn next_snapshot(&mut self) -> Value {
        self.next_event("chat:timeline-updated").await
    }

    /// Closes properly: a close frame and its answer.
    pub async fn close(mut self) {
        self.socket.close(None).await.expect("the relay answers");
        while self.socket.next().await.is_some() {}
    }

    /// Drops the connection as a lost network does.
    pub fn vanish(self) {}
}
