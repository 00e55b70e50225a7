//! What devices say to the relay and hear from it, with ids told by their numbers in the cast.

use std::fmt;

use serde_json::{Value, json};

use super::cast::{AccountNo, Cast, DeviceNo};
use super::timeline_frames::{self, LeaseState, SessionNo, Snapshot, Version, Window};

/// What a device says. Requests, answers and notes carry a serial number that no other one has, by
/// which each is known wherever it turns up.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// `register`.
    Register {
        /// The desktop that a phone wants.
        target: Option<DeviceNo>,
        /// The session to go on with.
        resume: Option<Session>,
    },
    /// `heartbeat`.
    Heartbeat,
    /// `rpc.request`.
    Request {
        /// Its id.
        id: String,
        /// Its serial number.
        serial: u64,
        /// How many bytes it carries beside.
        pad: usize,
    },
    /// `rpc.response`.
    Answer {
        /// The request's id.
        id: String,
        /// Its serial number.
        serial: u64,
        /// Whether it ends the request.
        is_final: bool,
        /// What the desktop says of whom it is for, which must decide nothing (RPC-2).
        client: DeviceNo,
        /// How many bytes it carries beside.
        pad: usize,
    },
    /// `chat:timeline-interest`.
    Interest {
        /// The session.
        session: SessionNo,
        /// How it is written.
        dress: u8,
        /// Whether it begins or goes on.
        active: bool,
    },
    /// `chat:timeline-updated`.
    Snapshot(Snapshot),
    /// An `event` for everybody.
    Note {
        /// Its serial number.
        serial: u64,
        /// How many bytes it carries beside.
        pad: usize,
    },
}

/// A session as its reply told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Its resume token.
    pub token: String,
}

/// The presence word of a `device-status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    /// The desktop has a route.
    Online,
    /// It is within its grace.
    Reconnecting,
    /// Neither.
    Disconnected,
}

/// What a device hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// `registered`.
    Registered(Session),
    /// `resumed`, with the session's id.
    Resumed(String),
    /// `pong`.
    Pong,
    /// `error`, with its code.
    Error(String),
    /// `device-status`.
    Status {
        /// The desktop.
        desktop: DeviceNo,
        /// What it is.
        word: Word,
        /// The generation of its connection.
        generation: u64,
    },
    /// A forwarded request.
    Request {
        /// Its id.
        id: String,
        /// Its serial number.
        serial: u64,
        /// Who asks.
        phone: DeviceNo,
        /// The account that it says it is of.
        account: Option<AccountNo>,
    },
    /// A desktop's answer.
    Answer {
        /// The request's id.
        id: String,
        /// Its serial number.
        serial: u64,
        /// Whether it ends the request.
        is_final: bool,
    },
    /// The relay's own answer.
    Failure {
        /// The request's id.
        id: String,
        /// The RPC error code.
        code: i64,
        /// `error.data.retryable`.
        retryable: bool,
        /// `error.data.delivered`.
        delivered: bool,
    },
    /// `chat:timeline-interest-updated`.
    Leases(LeaseState),
    /// `chat:timeline-updated`, to the byte as it was sent but for its proof.
    Snapshot {
        /// Who sent it.
        from: DeviceNo,
        /// The snapshot, without its proof.
        snapshot: Snapshot,
    },
    /// `chat:timeline-stale` for a window.
    Stale {
        /// The window.
        window: Window,
        /// The version that was lost.
        version: Version,
    },
    /// `chat:timeline-stale` for all windows.
    AllStale,
    /// `device-unlinked`.
    Unlinked(DeviceNo),
    /// Another device's event.
    Note {
        /// Who sent it.
        from: DeviceNo,
        /// Its serial number.
        serial: u64,
    },
    /// A close frame.
    Close(u16),
    /// The end of the stream.
    End,
    /// Anything else, which nothing in a run gives cause for.
    Strange(String),
}

/// How much of something strange is shown.
const STRANGE: usize = 2_000;

fn pad(bytes: usize) -> String {
    "x".repeat(bytes)
}

impl Said {
    /// The frame, from this device.
    pub fn text(&self, sender: DeviceNo, cast: &Cast) -> String {
        let id_of = |device: DeviceNo| cast.member(device).id.to_string();
        let frame = match self {
            Self::Register { target, resume } => {
                let mut payload = json!({"deviceId": id_of(sender), "relayProtocolVersion": 1});
                if let Some(target) = target {
                    payload["targetDesktopDeviceId"] = id_of(*target).into();
                }
                if let Some(session) = resume {
                    payload["sessionId"] = session.id.clone().into();
                    payload["resumeToken"] = session.token.clone().into();
                }
                json!({"type": "register", "payload": payload})
            }
            Self::Heartbeat => json!({"type": "heartbeat", "payload": {}}),
            Self::Request {
                id,
                serial,
                pad: bytes,
            } => {
                let params = json!({"n": serial, "pad": pad(*bytes)});
                let payload = json!({"id": id, "method": "m", "params": params});
                json!({"type": "rpc.request", "payload": payload})
            }
            Self::Answer {
                id,
                serial,
                is_final,
                client,
                pad: bytes,
            } => {
                let result = json!({"n": serial, "pad": pad(*bytes)});
                let payload = json!({
                    "id": id, "clientId": id_of(*client), "isFinal": is_final, "result": result,
                });
                json!({"type": "rpc.response", "payload": payload})
            }
            Self::Interest {
                session,
                dress,
                active,
            } => return timeline_frames::interest(*session, *dress, *active),
            Self::Snapshot(snapshot) => return timeline_frames::updated(snapshot),
            Self::Note { serial, pad: bytes } => {
                let note = json!({"n": serial, "pad": pad(*bytes)});
                let payload = json!({"eventType": "note", "payload": note});
                json!({"type": "event", "payload": payload})
            }
        };
        frame.to_string()
    }
}

impl Heard {
    /// Reads a frame.
    pub fn read(text: &str, cast: &Cast) -> Self {
        let strange = || Self::Strange(text.chars().take(STRANGE).collect());
        let Ok(frame) = serde_json::from_str::<Value>(text) else {
            return strange();
        };
        let read = match frame["type"].as_str() {
            Some("registered") => registered(&frame),
            Some("resumed") => frame["sessionId"]
                .as_str()
                .map(|id| Self::Resumed(id.to_owned())),
            Some("pong") => Some(Self::Pong),
            Some("error") => frame["code"]
                .as_str()
                .map(|code| Self::Error(code.to_owned())),
            Some("rpc.request") => request(&frame["payload"], cast),
            Some("rpc.response") => response(&frame["payload"]),
            Some("event") => event(&frame, text, cast),
            _ => None,
        };
        read.unwrap_or_else(strange)
    }
}

fn registered(frame: &Value) -> Option<Heard> {
    Some(Heard::Registered(Session {
        id: frame["sessionId"].as_str()?.to_owned(),
        token: frame["resumeToken"].as_str()?.to_owned(),
    }))
}

fn request(payload: &Value, cast: &Cast) -> Option<Heard> {
    let account: relay_model::ids::AccountId = payload["userId"].as_str()?.parse().ok()?;
    let account = cast.accounts.iter().position(|known| *known == account);
    Some(Heard::Request {
        id: payload["id"].as_str()?.to_owned(),
        serial: payload["params"]["n"].as_u64()?,
        phone: cast.find(payload["clientId"].as_str()?)?,
        account: account.map(AccountNo),
    })
}

fn response(payload: &Value) -> Option<Heard> {
    let id = payload["id"].as_str()?.to_owned();
    let is_final = payload["isFinal"].as_bool()?;
    if let Some(serial) = payload["result"]["n"].as_u64() {
        return Some(Heard::Answer {
            id,
            serial,
            is_final,
        });
    }
    let error = &payload["error"];
    // The relay's own answers are final, always.
    let own = is_final && payload["result"].is_null();
    Some(Heard::Failure {
        id: own.then_some(id)?,
        code: error["code"].as_i64()?,
        retryable: error["data"]["retryable"].as_bool()?,
        delivered: error["data"]["delivered"].as_bool()?,
    })
}

fn event(frame: &Value, text: &str, cast: &Cast) -> Option<Heard> {
    let payload = &frame["payload"]["payload"];
    match frame["payload"]["eventType"].as_str()? {
        "device-status" => Some(Heard::Status {
            desktop: cast.find(payload["deviceId"].as_str()?)?,
            word: match payload["status"].as_str()? {
                "online" => Word::Online,
                "reconnecting" => Word::Reconnecting,
                "disconnected" => Word::Disconnected,
                _ => return None,
            },
            generation: payload["connectionGeneration"].as_u64()?,
        }),
        "device-unlinked" if frame["sourceDeviceId"].is_null() => {
            Some(Heard::Unlinked(cast.find(payload["deviceId"].as_str()?)?))
        }
        "note" => Some(Heard::Note {
            from: cast.find(frame["sourceDeviceId"].as_str()?)?,
            serial: payload["n"].as_u64()?,
        }),
        other => timeline_frames::read(other, frame, text, cast),
    }
}

/// An id without the padding of oversized ones.
fn short(id: &str) -> &str {
    &id[..id.len().min(16)]
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register { target, resume } => {
                f.write_str("register")?;
                if let Some(target) = target {
                    write!(f, " for {target}")?;
                }
                match resume {
                    Some(session) => write!(f, ", resuming {}", short(&session.id)),
                    None => Ok(()),
                }
            }
            Self::Heartbeat => f.write_str("heartbeat"),
            Self::Request { id, serial, pad } => {
                write!(f, "request {} #{serial} ({pad} B)", short(id))
            }
            Self::Answer {
                id,
                serial,
                is_final,
                client,
                pad,
            } => {
                let end = if *is_final { "final" } else { "partial" };
                write!(
                    f,
                    "{end} answer {} #{serial} to {client} ({pad} B)",
                    short(id)
                )
            }
            Self::Interest {
                session, active, ..
            } => {
                let word = if *active { "interest" } else { "no interest" };
                write!(f, "{word} in {session}")
            }
            Self::Snapshot(snapshot) => {
                let Snapshot {
                    serial,
                    window,
                    version,
                    proof,
                    pad,
                    ..
                } = snapshot;
                write!(
                    f,
                    "snapshot #{serial} {window} {version} ({pad} B), proof {proof:?}"
                )
            }
            Self::Note { serial, pad } => write!(f, "note #{serial} ({pad} B)"),
        }
    }
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered(session) => write!(f, "registered, session {}", short(&session.id)),
            Self::Resumed(session) => write!(f, "resumed, session {}", short(session)),
            Self::Pong => f.write_str("pong"),
            Self::Error(code) => write!(f, "error {code}"),
            Self::Status {
                desktop,
                word,
                generation,
            } => write!(f, "{desktop} is {word:?}, generation {generation}"),
            Self::Request {
                id, serial, phone, ..
            } => write!(f, "request {} #{serial} of {phone}", short(id)),
            Self::Answer {
                id,
                serial,
                is_final,
            } => {
                let end = if *is_final { "final" } else { "partial" };
                write!(f, "{end} answer {} #{serial}", short(id))
            }
            Self::Failure {
                id,
                code,
                retryable,
                delivered,
            } => {
                let id = short(id);
                write!(
                    f,
                    "failure {id} {code}, retryable {retryable}, delivered {delivered}"
                )
            }
            Self::Leases(state) => {
                let LeaseState {
                    session,
                    expires,
                    generation,
                    revision,
                    ..
                } = state;
                write!(
                    f,
                    "leases of {session} until {expires:?}, generation {generation:?} ({revision})"
                )
            }
            Self::Snapshot { from, snapshot } => {
                let Snapshot {
                    serial,
                    window,
                    version,
                    ..
                } = snapshot;
                write!(f, "snapshot #{serial} {window} {version} of {from}")
            }
            Self::Stale { window, version } => write!(f, "stale {window} {version}"),
            Self::AllStale => f.write_str("all stale"),
            Self::Unlinked(device) => write!(f, "{device} is forgotten"),
            Self::Note { from, serial } => write!(f, "note #{serial} of {from}"),
            Self::Close(code) => write!(f, "close {code}"),
            Self::End => f.write_str("end"),
            Self::Strange(text) => write!(f, "something strange: {text}"),
        }
    }
}
