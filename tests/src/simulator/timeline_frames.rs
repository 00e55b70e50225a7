//! The frames of timelines (section 8) as devices write and read them. Payloads are written out as
//! text, so that whoever hears one can tell whether a byte of it was disturbed (TL-6).

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::cast::Cast;
use super::frames::Heard;

/// Sessions that phones look at, the same names at every desktop (TL-12).
pub const SESSIONS: u8 = 3;

/// Ways to write the same session (TL-2).
pub const DRESSES: u8 = 4;

/// An app session, without its dress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionNo(pub u8);

impl fmt::Display for SessionNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// A window: what a newer snapshot replaces. Thread 0 is the session itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Window {
    /// The session.
    pub session: SessionNo,
    /// The thread.
    pub thread: u8,
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/t{}", self.session, self.thread)
    }
}

/// A version; the epoch decides first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// `settlementEpoch`.
    pub epoch: u64,
    /// `revision`.
    pub revision: u64,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.epoch, self.revision)
    }
}

/// A snapshot as its desktop wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Its serial number. The same snapshot sent again has the same one.
    pub serial: u64,
    /// What it shows.
    pub window: Window,
    /// How its session is written.
    pub dress: u8,
    /// Its version.
    pub version: Version,
    /// The `authorizationGeneration` that it carries.
    pub proof: Option<u64>,
    /// How many bytes it carries beside.
    pub pad: usize,
}

/// What a desktop is told of the leases of a session (TL-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseState {
    /// The session.
    pub session: SessionNo,
    /// `active`.
    pub active: bool,
    /// `expiresAt`, since the beginning of the run.
    pub expires: Option<Duration>,
    /// `authorizationGeneration`.
    pub generation: Option<u64>,
    /// `revision`.
    pub revision: u64,
}

/// The session in one of its dresses.
fn dressed(session: SessionNo, dress: u8) -> String {
    match dress {
        0 => format!("{session}"),
        1 => format!("  {session} "),
        2 => format!("{session}:skills-agent"),
        _ => format!(" {session} :skills-agent"),
    }
}

fn bare(text: &str) -> Option<SessionNo> {
    let number = text.strip_prefix('s')?;
    number.parse().ok().map(SessionNo)
}

fn undressed(text: &str) -> Option<(SessionNo, u8)> {
    let all = (0..SESSIONS).flat_map(|session| (0..DRESSES).map(move |dress| (session, dress)));
    all.map(|(session, dress)| (SessionNo(session), dress))
        .find(|(session, dress)| dressed(*session, *dress) == text)
}

fn thread_of(payload: &Value) -> Option<u8> {
    match &payload["threadId"] {
        Value::Null => Some(0),
        thread => thread.as_str()?.strip_prefix('t')?.parse().ok(),
    }
}

fn version_of(payload: &Value) -> Option<Version> {
    Some(Version {
        epoch: payload["settlementEpoch"].as_u64()?,
        revision: payload["revision"].as_u64()?,
    })
}

/// The payload, with its proof in one of three places or without it.
fn payload(snapshot: &Snapshot, proof: Option<u64>) -> String {
    let Snapshot {
        serial,
        window,
        dress,
        version,
        pad,
        ..
    } = snapshot;
    let mut members = vec![format!(
        r#""appSessionId":"{}""#,
        dressed(window.session, *dress)
    )];
    if window.thread > 0 {
        members.push(format!(r#""threadId":"t{}""#, window.thread));
    }
    members.push(format!(r#""settlementEpoch":{}"#, version.epoch));
    members.push(format!(r#""revision":{}"#, version.revision));
    members.push(format!(r#""n":{serial}"#));
    members.push(format!(r#""pad":"{}""#, "x".repeat(*pad)));
    if let Some(proof) = proof {
        let places = [0, 3, members.len()];
        let place = places[*serial as usize % places.len()];
        members.insert(place, format!(r#""authorizationGeneration":{proof}"#));
    }
    format!("{{{}}}", members.join(","))
}

/// A phone's `chat:timeline-interest`.
pub fn interest(session: SessionNo, dress: u8, active: bool) -> String {
    let payload = json!({"appSessionId": dressed(session, dress), "active": active});
    let payload = json!({"eventType": "chat:timeline-interest", "payload": payload});
    json!({"type": "event", "payload": payload}).to_string()
}

/// A desktop's `chat:timeline-updated`.
pub fn updated(snapshot: &Snapshot) -> String {
    let payload = payload(snapshot, snapshot.proof);
    format!(
        r#"{{"type":"event","payload":{{"eventType":"chat:timeline-updated","payload":{payload}}}}}"#
    )
}

/// Reads one of the events of timelines; `None` if it is none, or not as it should be.
pub(super) fn read(event: &str, frame: &Value, text: &str, cast: &Cast) -> Option<Heard> {
    let payload = &frame["payload"]["payload"];
    match event {
        "chat:timeline-updated" => read_snapshot(frame, text, cast),
        "chat:timeline-interest-updated" => Some(Heard::Leases(LeaseState {
            session: bare(payload["appSessionId"].as_str()?)?,
            active: payload["active"].as_bool()?,
            expires: match &payload["expiresAt"] {
                Value::Null => None,
                at => Some(since_beginning(at.as_str()?)?),
            },
            generation: match &payload["authorizationGeneration"] {
                Value::Null => None,
                generation => Some(generation.as_u64()?),
            },
            revision: payload["revision"].as_u64()?,
        })),
        "chat:timeline-stale" if payload["all"] == true => Some(Heard::AllStale),
        "chat:timeline-stale" => Some(Heard::Stale {
            window: Window {
                session: bare(payload["appSessionId"].as_str()?)?,
                thread: thread_of(payload)?,
            },
            version: version_of(payload)?,
        }),
        _ => None,
    }
}

/// Every run begins at eight and is over within the day.
fn since_beginning(text: &str) -> Option<Duration> {
    let clock = text.strip_prefix("2026-10-05T")?.strip_suffix('Z')?;
    let (clock, micros) = clock.split_once('.').filter(|(_, rest)| rest.len() == 6)?;
    let mut parts = clock.split(':').map(|part| part.parse::<u64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let seconds = (hours.checked_sub(8)? * 60 + minutes) * 60 + seconds;
    Some(Duration::from_secs(seconds) + Duration::from_micros(micros.parse().ok()?))
}

fn read_snapshot(frame: &Value, text: &str, cast: &Cast) -> Option<Heard> {
    let read = &frame["payload"]["payload"];
    let (session, dress) = undressed(read["appSessionId"].as_str()?)?;
    let snapshot = Snapshot {
        serial: read["n"].as_u64()?,
        window: Window {
            session,
            thread: thread_of(read)?,
        },
        dress,
        version: version_of(read)?,
        proof: None,
        pad: read["pad"].as_str()?.len(),
    };
    let whole = format!(r#""payload":{}}}}}"#, payload(&snapshot, None));
    text.ends_with(&whole).then_some(Heard::Snapshot {
        from: cast.find(frame["sourceDeviceId"].as_str()?)?,
        snapshot,
    })
}
