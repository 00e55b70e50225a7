//! What clients send: one frame, read once, into a type of its own (TR-7, TR-8).

use std::borrow::Cow;
use std::fmt;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::codes::ErrorCode;
use super::envelope::{self, Envelope, FieldNames, Fields, Payload};
use super::traceparent;
use crate::ids::DeviceId;
use crate::limits::PROTOCOL_VERSION_DIGITS;

/// A frame that a client may send.
#[derive(Debug)]
pub enum ClientFrame<'a> {
    /// `register`.
    Register(Register<'a>),
    /// `ping`.
    Ping,
    /// `heartbeat`; its optional figures are not used.
    Heartbeat,
    /// `rpc.request`.
    Request(RpcRequest<'a>),
    /// `rpc.response`.
    Response(RpcResponse<'a>),
    /// `event`.
    Event(Event<'a>),
    /// `auth.renew`.
    Renew(Renew<'a>),
    /// A frame of older clients that needs no answer: `pong`, `event-ack`.
    Ignored,
}

/// The payload of `register`, as sent: its values are judged by the registration (REG-4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register<'a> {
    /// `deviceId`.
    pub device_id: Cow<'a, str>,
    /// `relayProtocolVersion`.
    pub protocol_version: ProtocolVersion,
    /// `targetDesktopDeviceId`.
    pub target: TargetField,
    /// `sessionId`.
    pub session_id: Option<Cow<'a, str>>,
    /// `resumeToken`.
    pub resume_token: Option<Cow<'a, str>>,
}

/// `relayProtocolVersion` as sent (REG-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// Missing or null.
    Missing,
    /// Neither an integer nor a string of 1 to 9 digits.
    Invalid,
    /// A number; one beyond the range of `i64` is the nearest that fits.
    Number(i64),
}

/// `targetDesktopDeviceId` as sent (REG-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetField {
    /// Missing, null or empty: the upgrade header decides.
    Absent,
    /// No UUID.
    Invalid,
    /// A device.
    Device(DeviceId),
}

impl TargetField {
    /// Reads the text of a target, from the payload or from the upgrade header.
    pub fn from_text(text: &str) -> Self {
        if text.is_empty() {
            return Self::Absent;
        }
        text.parse().map_or(Self::Invalid, Self::Device)
    }
}

/// An `rpc.request` (section 6).
#[derive(Debug)]
pub struct RpcRequest<'a> {
    /// `id`, decoded.
    pub id: Cow<'a, str>,
    /// `id` as it stands in the frame.
    pub id_raw: &'a RawValue,
    /// `method` as it stands in the frame; `None` if it is missing or empty (-32600).
    pub method: Option<&'a RawValue>,
    /// `params` as they stand in the frame.
    pub params: Option<&'a RawValue>,
    /// `idempotencyKey` as it stands in the frame.
    pub idempotency_key: Option<&'a RawValue>,
    /// A valid `traceparent` of the payload or the root (RPC-10).
    pub traceparent: Option<Cow<'a, str>>,
}

/// An `rpc.response` (section 6).
#[derive(Debug)]
pub struct RpcResponse<'a> {
    /// `id`, decoded.
    pub id: Cow<'a, str>,
    /// `id` as it stands in the frame.
    pub id_raw: &'a RawValue,
    /// `result` as it stands in the frame.
    pub result: Option<&'a RawValue>,
    /// `error`, unless it is missing or null (RPC-3).
    pub error: Option<ResponseError<'a>>,
    /// `isFinal`, by default true.
    pub is_final: bool,
}

/// A desktop's own error.
#[derive(Debug)]
pub struct ResponseError<'a> {
    /// `code`, an integer, as it stands in the frame.
    pub code: &'a RawValue,
    /// `message`, a string, as it stands in the frame.
    pub message: &'a RawValue,
    /// `data` as it stands in the frame.
    pub data: Option<&'a RawValue>,
}

/// An `auth.renew` (SES-6).
pub struct Renew<'a> {
    /// `token`, a secret.
    pub token: Cow<'a, str>,
}

impl fmt::Debug for Renew<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renew").finish_non_exhaustive()
    }
}

/// An `event` (section 7); its shape is judged after the sender's rights (EV-3).
#[derive(Debug)]
pub struct Event<'a> {
    /// `eventType` and the opaque payload, or why the shape is wrong.
    pub shape: Result<EventShape<'a>, String>,
}

/// The fields of a well-formed event.
#[derive(Debug)]
pub struct EventShape<'a> {
    /// `eventType`, decoded, not empty.
    pub event_type: Cow<'a, str>,
    /// `eventType` as it stands in the frame.
    pub event_type_raw: &'a RawValue,
    /// `payload` as it stands in the frame.
    pub payload: Option<&'a RawValue>,
}

/// A frame that is answered with an `error` frame and changes nothing (TR-7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct FrameError {
    /// The error's code.
    pub code: ErrorCode,
    /// What is wrong, for a person; names the field.
    pub message: String,
    /// The frame's type, if readable (ENV-3).
    pub request_type: Option<String>,
}

const REGISTER: FieldNames = &[
    "deviceId",
    "relayProtocolVersion",
    "targetDesktopDeviceId",
    "sessionId",
    "resumeToken",
];
const REQUEST: FieldNames = &["id", "method", "params", "idempotencyKey", "traceparent"];
const RESPONSE: FieldNames = &["id", "result", "error", "isFinal"];
const RESPONSE_ERROR: FieldNames = &["code", "message", "data"];
const EVENT: FieldNames = &["eventType", "payload"];
const RENEW: FieldNames = &["token"];

fn fields_of(kind: &str) -> FieldNames {
    match kind {
        "register" => REGISTER,
        "rpc.request" => REQUEST,
        "rpc.response" => RESPONSE,
        "event" => EVENT,
        "auth.renew" => RENEW,
        _ => &[],
    }
}

/// What is wrong with a payload; names the field.
type Wrong = String;

impl<'a> ClientFrame<'a> {
    /// Reads one text message.
    ///
    /// # Errors
    /// `invalidJson`, `invalidPayload` or `unknownMessageType`, each with a message that says what
    /// to mend (TR-7).
    pub fn read(text: &'a str) -> Result<Self, FrameError> {
        let (envelope, kind) = read_envelope(text)?;
        let frame = match &*kind {
            "register" => payload(&envelope).and_then(register).map(Self::Register),
            "rpc.request" => payload(&envelope)
                .and_then(|fields| request(fields, envelope.traceparent))
                .map(Self::Request),
            "rpc.response" => payload(&envelope).and_then(response).map(Self::Response),
            "event" => Ok(Self::Event(Event {
                shape: payload(&envelope).and_then(event),
            })),
            "auth.renew" => payload(&envelope)
                .and_then(|fields| required_string(fields, "token"))
                .map(|token| Self::Renew(Renew { token })),
            "heartbeat" => match envelope.payload {
                Payload::NotAnObject => Err("payload must be an object".to_owned()),
                Payload::Missing | Payload::Object(_) => Ok(Self::Heartbeat),
            },
            "ping" => Ok(Self::Ping),
            "pong" | "event-ack" => Ok(Self::Ignored),
            _ => {
                return Err(FrameError {
                    code: ErrorCode::UnknownMessageType,
                    message: ErrorCode::UnknownMessageType.meaning().to_owned(),
                    request_type: Some(kind.into_owned()),
                });
            }
        };
        frame.map_err(|message| FrameError {
            code: ErrorCode::InvalidPayload,
            message,
            request_type: Some(kind.into_owned()),
        })
    }
}

/// The id of a request that the rate limit dropped, if the frame is a request with an id and a valid
/// `traceparent`: the only thing that is read of a dropped message (TR-6).
pub fn dropped_request_id(text: &str) -> Option<Cow<'_, str>> {
    let (envelope, kind) = read_envelope(text).ok()?;
    if kind != "rpc.request" {
        return None;
    }
    let Payload::Object(fields) = envelope.payload else {
        return None;
    };
    trace_of(fields, envelope.traceparent)?;
    envelope::string(fields.get("id")?).filter(|id| !id.is_empty())
}

fn read_envelope(text: &str) -> Result<(Envelope<'_>, Cow<'_, str>), FrameError> {
    let refuse = |code: ErrorCode, message: String| FrameError {
        code,
        message,
        request_type: None,
    };
    let invalid = |message: &str| refuse(ErrorCode::InvalidPayload, message.to_owned());
    let not_json = |error: serde_json::Error| {
        refuse(
            ErrorCode::InvalidJson,
            format!("the frame is not JSON: {error}"),
        )
    };
    if !text.trim_ascii_start().starts_with('{') {
        // serde would take an array for a struct, so the root is looked at first.
        serde_json::from_str::<IgnoredAny>(text).map_err(not_json)?;
        return Err(invalid("the frame must be a JSON object"));
    }
    let envelope = match Envelope::read(text, fields_of) {
        Ok(envelope) => envelope,
        Err(error) => {
            // Text can be JSON and still have no value here: a key with half a surrogate pair, a
            // number beyond every float in the place of the payload.
            serde_json::from_str::<IgnoredAny>(text).map_err(not_json)?;
            return Err(invalid(&format!("the frame cannot be read: {error}")));
        }
    };
    let Some(kind) = envelope.kind.and_then(envelope::string) else {
        return Err(invalid("type must be a string"));
    };
    if let Some(field) = envelope.duplicate {
        return Err(FrameError {
            request_type: (field != "type").then(|| kind.into_owned()),
            ..invalid(&format!("{field} stands in the frame twice"))
        });
    }
    Ok((envelope, kind))
}

fn payload<'a>(envelope: &Envelope<'a>) -> Result<Fields<'a>, Wrong> {
    match envelope.payload {
        Payload::Missing => Err("payload is missing".to_owned()),
        Payload::NotAnObject => Err("payload must be an object".to_owned()),
        Payload::Object(fields) => match fields.duplicate() {
            Some(field) => Err(format!("payload.{field} stands in the frame twice")),
            None => Ok(fields),
        },
    }
}

fn required_string<'a>(fields: Fields<'a>, name: &str) -> Result<Cow<'a, str>, Wrong> {
    let value = fields
        .sent(name)
        .ok_or_else(|| format!("payload.{name} is missing"))?;
    envelope::string(value).ok_or_else(|| format!("payload.{name} must be a string"))
}

fn optional_string<'a>(fields: Fields<'a>, name: &str) -> Result<Option<Cow<'a, str>>, Wrong> {
    match fields.get(name) {
        None => Ok(None),
        Some(value) => match envelope::string(value) {
            Some(text) => Ok(Some(text)),
            None => Err(format!("payload.{name} must be a string")),
        },
    }
}

fn register(fields: Fields<'_>) -> Result<Register<'_>, Wrong> {
    Ok(Register {
        device_id: required_string(fields, "deviceId")?,
        protocol_version: protocol_version(fields.get("relayProtocolVersion")),
        target: match fields.get("targetDesktopDeviceId").map(envelope::string) {
            None => TargetField::Absent,
            Some(None) => TargetField::Invalid,
            Some(Some(text)) => TargetField::from_text(&text),
        },
        session_id: optional_string(fields, "sessionId")?,
        resume_token: optional_string(fields, "resumeToken")?,
    })
}

fn protocol_version(value: Option<&RawValue>) -> ProtocolVersion {
    let Some(value) = value else {
        return ProtocolVersion::Missing;
    };
    if let Some(text) = envelope::string(value) {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        return match text.parse() {
            Ok(number) if digits && text.len() <= PROTOCOL_VERSION_DIGITS => {
                ProtocolVersion::Number(number)
            }
            _ => ProtocolVersion::Invalid,
        };
    }
    let (negative, digits) = match value.get().strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, value.get()),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return ProtocolVersion::Invalid;
    }
    let nearest = if negative { i64::MIN } else { i64::MAX };
    ProtocolVersion::Number(value.get().parse().unwrap_or(nearest))
}

fn request<'a>(fields: Fields<'a>, root: Option<&'a RawValue>) -> Result<RpcRequest<'a>, Wrong> {
    let id = required_string(fields, "id")?;
    let id_raw = fields.get("id").ok_or("payload.id is missing")?;
    let method = optional_string(fields, "method")?;
    optional_string(fields, "idempotencyKey")?;
    Ok(RpcRequest {
        id,
        id_raw,
        method: fields
            .get("method")
            .filter(|_| method.is_some_and(|method| !method.is_empty())),
        params: fields.sent("params"),
        idempotency_key: fields.get("idempotencyKey"),
        traceparent: trace_of(fields, root),
    })
}

fn trace_of<'a>(fields: Fields<'a>, root: Option<&'a RawValue>) -> Option<Cow<'a, str>> {
    let valid = |value: Option<&'a RawValue>| {
        value
            .and_then(envelope::string)
            .filter(|text| traceparent::is_valid(text))
    };
    valid(fields.get("traceparent")).or_else(|| valid(root))
}

fn response(fields: Fields<'_>) -> Result<RpcResponse<'_>, Wrong> {
    let id = required_string(fields, "id")?;
    let id_raw = fields.get("id").ok_or("payload.id is missing")?;
    let error = fields.get("error").map(response_error).transpose()?;
    let result = fields.sent("result");
    if error.is_none() && result.is_none() {
        return Err("payload.result or payload.error is missing".to_owned());
    }
    let is_final = match fields.get("isFinal").map(RawValue::get) {
        None | Some("true") => true,
        Some("false") => false,
        Some(_) => return Err("payload.isFinal must be true or false".to_owned()),
    };
    Ok(RpcResponse {
        id,
        id_raw,
        result,
        error,
        is_final,
    })
}

fn response_error(value: &RawValue) -> Result<ResponseError<'_>, Wrong> {
    let Payload::Object(fields) = envelope::object(value, RESPONSE_ERROR) else {
        return Err("payload.error must be an object".to_owned());
    };
    if let Some(field) = fields.duplicate() {
        return Err(format!("payload.error.{field} stands in the frame twice"));
    }
    let code = fields.get("code").filter(|code| is_integer(code.get()));
    let message = fields
        .get("message")
        .filter(|message| envelope::string(message).is_some());
    match (code, message) {
        (Some(code), Some(message)) => Ok(ResponseError {
            code,
            message,
            data: fields.sent("data"),
        }),
        (None, _) => Err("payload.error.code must be an integer".to_owned()),
        (_, None) => Err("payload.error.message must be a string".to_owned()),
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn event(fields: Fields<'_>) -> Result<EventShape<'_>, Wrong> {
    let event_type = required_string(fields, "eventType")?;
    let event_type_raw = fields
        .get("eventType")
        .ok_or("payload.eventType is missing")?;
    if event_type.is_empty() {
        return Err("payload.eventType must not be empty".to_owned());
    }
    Ok(EventShape {
        event_type,
        event_type_raw,
        payload: fields.sent("payload"),
    })
}

#[cfg(test)]
mod tests;
