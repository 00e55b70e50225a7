//! What the relay sends: replies about the connection itself, forwarded frames rebuilt from the
//! fields that the protocol names, and its own events (ENV-1, TR-8).

use bytes::Bytes;
use serde_json::value::RawValue;

use super::codes::{ErrorCode, RpcErrorCode};
use super::inbound::{EventShape, FrameError, RpcRequest, RpcResponse};
use super::message::{OutgoingText, Text};
use crate::ids::{
    AccountId, ConnectionGeneration, DeviceId, RelayInstanceId, ResumeToken, SessionId,
};
use crate::time::Timestamp;

/// `pong` (KA-1).
pub fn pong() -> OutgoingText {
    OutgoingText::new(Bytes::from_static(br#"{"type":"pong"}"#))
}

/// What a registration's reply says of its session (REG-2).
#[derive(Debug, Clone)]
pub struct SessionReply {
    /// The session.
    pub session: SessionId,
    /// The token of a new session; `None` if it was resumed.
    pub token: Option<ResumeToken>,
    /// When the session ends if nothing touches it.
    pub expires_at: Timestamp,
    /// This run of the relay.
    pub instance: RelayInstanceId,
}

/// `registered` or `resumed` (REG-2).
pub fn session_reply(reply: &SessionReply) -> OutgoingText {
    let kind = if reply.token.is_some() {
        "registered"
    } else {
        "resumed"
    };
    let mut text = Text::with_capacity(320)
        .raw(r#"{"type":""#)
        .raw(kind)
        .raw(r#"","sessionId":""#)
        .display(reply.session);
    if let Some(token) = &reply.token {
        text = text.raw(r#"","resumeToken":""#).raw(&token.reveal());
    }
    text.raw(r#"","expiresAt":""#)
        .display(reply.expires_at)
        .raw(r#"","relayInstanceId":""#)
        .display(reply.instance)
        .raw(r#""}"#)
        .into()
}

/// `auth.renewed`: the credentials of the connection hold until `expires_at` (SES-6).
pub fn auth_renewed(expires_at: Timestamp) -> OutgoingText {
    Text::with_capacity(80)
        .raw(r#"{"type":"auth.renewed","expiresAt":""#)
        .display(expires_at)
        .raw(r#""}"#)
        .into()
}

/// An `error` frame (ENV-3).
pub fn error(
    code: ErrorCode,
    message: &str,
    request_type: Option<&str>,
    now: Timestamp,
) -> OutgoingText {
    let mut text = Text::with_capacity(256)
        .raw(r#"{"type":"error","code":""#)
        .raw(code.code())
        .raw(r#"","message":"#)
        .string(message)
        .raw(r#","timestamp":""#)
        .display(now)
        .raw(r#"""#);
    if let Some(request_type) = request_type {
        text = text.raw(r#","requestType":"#).string(request_type);
    }
    text.raw("}").into()
}

/// The `error` frame for a frame that could not be taken.
pub fn frame_error(refused: &FrameError, now: Timestamp) -> OutgoingText {
    error(
        refused.code,
        &refused.message,
        refused.request_type.as_deref(),
        now,
    )
}

/// An `rpc.request` as the desktop gets it: the phone's fields plus who asks (section 6). `source` is
/// the message that `request` was read from.
pub fn request(
    request: &RpcRequest<'_>,
    method: &RawValue,
    source: &Bytes,
    account: AccountId,
    phone: DeviceId,
) -> OutgoingText {
    let mut head = Text::with_capacity(256 + request.id_raw.get().len() + method.get().len())
        .raw(r#"{"type":"rpc.request","payload":{"id":"#)
        .raw(request.id_raw.get())
        .raw(r#","method":"#)
        .raw(method.get())
        .raw(r#","clientId":""#)
        .display(phone)
        .raw(r#"","userId":""#)
        .display(account)
        .raw(r#"""#);
    if let Some(key) = request.idempotency_key {
        head = head.raw(r#","idempotencyKey":"#).raw(key.get());
    }
    if let Some(traceparent) = &request.traceparent {
        head = head.raw(r#","traceparent":""#).raw(traceparent).raw(r#"""#);
    }
    match request.params {
        Some(params) => {
            let head = head.raw(r#","params":"#);
            OutgoingText::around(head.0, source, params.get(), "}}")
        }
        None => head.raw("}}").into(),
    }
}

/// An `rpc.response` as the phone gets it (section 6). `source` is the message that `response` was
/// read from.
pub fn response(response: &RpcResponse<'_>, source: &Bytes) -> OutgoingText {
    let mut head = Text::with_capacity(128 + response.id_raw.get().len())
        .raw(r#"{"type":"rpc.response","payload":{"id":"#)
        .raw(response.id_raw.get())
        .raw(if response.is_final {
            r#","isFinal":true"#
        } else {
            r#","isFinal":false"#
        });
    let Some(error) = &response.error else {
        let head = head.raw(r#","result":"#);
        let result = response.result.map_or("null", RawValue::get);
        return match response.result {
            Some(_) => OutgoingText::around(head.0, source, result, "}}"),
            None => head.raw("null}}").into(),
        };
    };
    if let Some(result) = response.result {
        head = head.raw(r#","result":"#).raw(result.get());
    }
    head = head
        .raw(r#","error":{"code":"#)
        .raw(error.code.get())
        .raw(r#","message":"#)
        .raw(error.message.get());
    match error.data {
        Some(data) => {
            let head = head.raw(r#","data":"#);
            OutgoingText::around(head.0, source, data.get(), "}}}")
        }
        None => head.raw("}}}").into(),
    }
}

/// An error that the relay itself answers a request with (RPC-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcFailure {
    /// The code; its meaning is the message.
    pub code: RpcErrorCode,
    /// `data.retryable`.
    pub retryable: bool,
    /// `data.delivered`: false only if the request provably never left the relay's queue.
    pub delivered: bool,
    /// `data.reason`, for -32600.
    pub reason: Option<&'static str>,
}

impl RpcFailure {
    /// A request that never left the relay.
    pub const fn undelivered(code: RpcErrorCode) -> Self {
        let retryable = matches!(
            code,
            RpcErrorCode::DesktopReconnecting
                | RpcErrorCode::DesktopCongested
                | RpcErrorCode::RateLimited
        );
        Self {
            code,
            retryable,
            delivered: false,
            reason: None,
        }
    }

    /// A request that is no valid one, and why.
    pub const fn invalid(reason: &'static str) -> Self {
        Self {
            reason: Some(reason),
            ..Self::undelivered(RpcErrorCode::InvalidRequest)
        }
    }

    /// A request whose desktop went away. A delivered request is never retryable.
    pub const fn desktop_gone(delivered: bool) -> Self {
        Self {
            code: RpcErrorCode::DesktopReconnecting,
            retryable: !delivered,
            delivered,
            reason: None,
        }
    }
}

/// An `rpc.response` that carries the relay's own error (RPC-5).
pub fn rpc_failure(id: &str, failure: RpcFailure) -> OutgoingText {
    let mut text = Text::with_capacity(224 + id.len())
        .raw(r#"{"type":"rpc.response","payload":{"id":"#)
        .string(id)
        .raw(r#","isFinal":true,"result":null,"error":{"code":"#)
        .display(failure.code.code())
        .raw(r#","message":"#)
        .string(failure.code.meaning())
        .raw(r#","data":{"retryable":"#)
        .display(failure.retryable)
        .raw(r#","delivered":"#)
        .display(failure.delivered);
    if let Some(reason) = failure.reason {
        text = text.raw(r#","reason":"#).string(reason);
    }
    text.raw("}}}}").into()
}

/// A client's event as the other devices get it (ENV-1). `source` is the message that it was read
/// from.
pub fn event(
    event: &EventShape<'_>,
    source: &Bytes,
    sender: DeviceId,
    now: Timestamp,
) -> OutgoingText {
    let head = Text::with_capacity(160 + event.event_type_raw.get().len())
        .raw(r#"{"type":"event","sourceDeviceId":""#)
        .display(sender)
        .raw(r#"","timestamp":""#)
        .display(now)
        .raw(r#"","payload":{"eventType":"#)
        .raw(event.event_type_raw.get())
        .raw(r#","payload":"#);
    match event.payload {
        Some(payload) => OutgoingText::around(head.0, source, payload.get(), "}}"),
        None => head.raw("null}}").into(),
    }
}

/// The relay's own `device-visibility-updated`, for a device that was hidden or shown over HTTP (EV-5).
pub fn device_visibility(device: DeviceId, visible: bool, now: Timestamp) -> OutgoingText {
    Text::with_capacity(192)
        .raw(r#"{"type":"event","sourceDeviceId":""#)
        .display(device)
        .raw(r#"","timestamp":""#)
        .display(now)
        .raw(r#"","payload":{"eventType":"device-visibility-updated","payload":{"visible":"#)
        .display(visible)
        .raw("}}}")
        .into()
}

/// A `device-unlinked` event: the user has forgotten a device (EV-3).
pub fn device_unlinked(device: DeviceId, now: Timestamp) -> OutgoingText {
    Text::with_capacity(192)
        .raw(r#"{"type":"event","sourceDeviceId":null,"timestamp":""#)
        .display(now)
        .raw(r#"","payload":{"eventType":"device-unlinked","payload":{"deviceId":""#)
        .display(device)
        .raw(r#""}}}"#)
        .into()
}

/// What a `device-status` event says (PR-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceStatusWord {
    /// The desktop has a route.
    Online,
    /// The desktop is within its grace.
    Reconnecting,
    /// The desktop is offline.
    Disconnected,
}

impl DeviceStatusWord {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Reconnecting => "reconnecting",
            Self::Disconnected => "disconnected",
        }
    }
}

/// A desktop's presence as `device-status` tells it (PR-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceStatusEvent {
    /// The desktop.
    pub device: DeviceId,
    /// What it is.
    pub status: DeviceStatusWord,
    /// Why it is disconnected, if that is known.
    pub reason: Option<&'static str>,
    /// The generation of its connection.
    pub generation: ConnectionGeneration,
    /// This run of the relay.
    pub instance: RelayInstanceId,
}

/// A `device-status` event (PR-1).
pub fn device_status(event: &DeviceStatusEvent, now: Timestamp) -> OutgoingText {
    let mut text = Text::with_capacity(352)
        .raw(r#"{"type":"event","sourceDeviceId":null,"timestamp":""#)
        .display(now)
        .raw(r#"","payload":{"eventType":"device-status","payload":{"deviceId":""#)
        .display(event.device)
        .raw(r#"","status":""#)
        .raw(event.status.as_str());
    if let Some(reason) = event.reason {
        text = text.raw(r#"","reason":""#).raw(reason);
    }
    text.raw(r#"","connectionGeneration":"#)
        .display(event.generation)
        .raw(r#","relayInstanceId":""#)
        .display(event.instance)
        .raw(r#""}}}"#)
        .into()
}
