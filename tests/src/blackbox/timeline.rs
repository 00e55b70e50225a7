//! The frames of timelines as tests write and expect them (section 8).

use serde_json::{Value, json};

use super::frame::Frame;
use super::socket::Socket;

/// A phone's interest in a session, or its end.
pub fn interest(session: &str, active: bool) -> Value {
    let payload = json!({ "appSessionId": session, "active": active });
    json!({
        "type": "event",
        "payload": { "eventType": "chat:timeline-interest", "payload": payload },
    })
}

/// A desktop's snapshot whose payload is this text.
pub fn snapshot(payload: &str) -> String {
    format!(
        r#"{{"type":"event","payload":{{"eventType":"chat:timeline-updated","payload":{payload}}}}}"#
    )
}

/// The payload of a snapshot of one thread, as the desktop sends it with its proof.
pub fn snapshot_payload(
    session: &str,
    thread: &str,
    revision: u64,
    proof: &Value,
    body: &Value,
) -> String {
    json!({
        "appSessionId": session,
        "threadId": thread,
        "settlementEpoch": 1,
        "revision": revision,
        "authorizationGeneration": proof,
        "body": body,
    })
    .to_string()
}

impl Socket {
    /// Takes a lease on a session, or renews it.
    pub async fn look_at(&mut self, session: &str) {
        self.send(&interest(session, true)).await;
    }

    /// The payload of the next word on a session's leases (TL-7).
    pub async fn next_lease_state(&mut self) -> Value {
        let frame = self.next_event("chat:timeline-interest-updated").await;
        frame.value()["payload"]["payload"].take()
    }

    /// The next snapshot, as a whole frame.
    pub async fn next_snapshot(&mut self) -> Frame {
        self.next_event("chat:timeline-updated").await
    }
}
