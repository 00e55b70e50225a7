//! The frames of a timeline: interests, what the desktop hears of them, and snapshots that are made
//! once and get their version written in.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::LoadError;
use super::frames::append_text;
use super::traffic::find;

/// The base session that every phone looks at.
const SESSION: &str = "load";
const INTEREST: &[u8] = br#"{"type":"event","payload":{"eventType":"chat:timeline-interest","payload":{"appSessionId":"load","active":true}}}"#;
/// Revisions start here, so that all of them have one length.
const FIRST_REVISION: u64 = 1_000_000_000;
const REVISION_LENGTH: usize = 10;
const REVISION_KEY: &[u8] = b"\"revision\":";
const THREAD_LENGTH: usize = 2;
const THREAD_KEY: &[u8] = b"\"threadId\":\"";

/// The frame with which a phone takes or renews its lease.
pub(super) fn interest() -> Vec<u8> {
    let mut frame = Vec::new();
    append_text(&mut frame, INTEREST);
    frame
}

/// What a desktop knows of the leases of its phones.
#[derive(Default)]
pub(super) struct Interest {
    generation: Option<u64>,
    heard: usize,
}

impl Interest {
    /// Takes a message to the desktop.
    ///
    /// # Errors
    /// For another `authorizationGeneration` than before, which means that all leases had ended, and
    /// for every frame that is no business of this load.
    pub(super) fn hear(&mut self, message: &[u8]) -> Result<(), LoadError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct State<'a> {
            app_session_id: &'a str,
            active: bool,
            authorization_generation: u64,
        }
        let unexpected = || LoadError::unexpected(message);
        let event = Event::read(message).ok_or_else(unexpected)?;
        if event.event_type != "chat:timeline-interest-updated" {
            return event.is_presence().then_some(()).ok_or_else(unexpected);
        }
        let state: State<'_> = serde_json::from_str(event.payload).map_err(|_| unexpected())?;
        let generation = state.authorization_generation;
        let same = *self.generation.get_or_insert(generation) == generation;
        if !same || !state.active || state.app_session_id != SESSION {
            return Err(unexpected());
        }
        self.heard += 1;
        Ok(())
    }

    /// How often a lease began or was renewed.
    pub(super) fn heard(&self) -> usize {
        self.heard
    }

    /// The proof to publish with, once there was an interest.
    pub(super) fn generation(&self) -> Option<u64> {
        self.generation
    }
}

/// An event, whatever its type.
pub(super) struct Event<'a> {
    pub(super) event_type: Cow<'a, str>,
    pub(super) payload: &'a str,
}

impl<'a> Event<'a> {
    fn read(message: &'a [u8]) -> Option<Self> {
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
            #[serde(borrow)]
            event_type: Cow<'a, str>,
            #[serde(borrow)]
            payload: &'a RawValue,
        }
        let envelope: Envelope<'a> = serde_json::from_slice(message).ok()?;
        (envelope.frame_type == "event").then(|| Self {
            event_type: envelope.payload.event_type,
            payload: envelope.payload.payload.get(),
        })
    }

    /// Whether it tells of a desktop's presence, which any device may hear at any time.
    pub(super) fn is_presence(&self) -> bool {
        self.event_type == "device-status"
    }
}

/// A snapshot that is published over and over, each time with another version.
pub(super) struct Snapshots {
    generation: u64,
    frame: Vec<u8>,
    thread: usize,
    revision: usize,
    pad: Vec<u8>,
}

impl Snapshots {
    /// Snapshots of `size` bytes each, as the desktop sends them.
    pub(super) fn new(size: usize, generation: u64) -> Self {
        let envelope = |pad: &[u8]| {
            let head =
                br#"{"type":"event","payload":{"eventType":"chat:timeline-updated","payload":"#;
            let payload = payload(Version::default(), Some(generation), pad);
            [head, payload.as_slice(), b"}}"].concat()
        };
        let (open, close) = (br#""pad":""#, b"\"");
        let padding = size.saturating_sub(envelope(&[]).len() + open.len() + close.len());
        let mut pad = open.to_vec();
        pad.extend((0..padding).map(|index| b'a' + (index % 23) as u8));
        pad.extend_from_slice(close);
        let message = envelope(&pad);
        let mut frame = Vec::new();
        append_text(&mut frame, &message);
        let header = frame.len() - message.len();
        // The payload holds both keys.
        let place = |key: &[u8]| find(&message, key).map_or(0, |at| header + at + key.len());
        Self {
            generation,
            thread: place(THREAD_KEY),
            revision: place(REVISION_KEY),
            frame,
            pad,
        }
    }

    /// The frame with this version.
    pub(super) fn frame(&mut self, version: Version) -> &[u8] {
        self.frame[self.thread..][..THREAD_LENGTH].copy_from_slice(version.thread().as_bytes());
        self.frame[self.revision..][..REVISION_LENGTH]
            .copy_from_slice(version.revision().as_bytes());
        &self.frame
    }

    /// Reads them at a phone.
    pub(super) fn inspector(&self) -> Inspector {
        Inspector {
            generation: self.generation,
            pad: self.pad.clone(),
            layout: None,
        }
    }
}

/// Which snapshot it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Version {
    /// Which thread of the session, below 100.
    pub(super) thread: usize,
    /// Rises within a thread.
    pub(super) number: u64,
}

impl Version {
    fn thread(self) -> String {
        format!("{:02}", self.thread)
    }

    fn revision(self) -> String {
        (FIRST_REVISION + self.number).to_string()
    }
}

/// A snapshot's payload, with the proof that the relay removes (TL-6) or without.
fn payload(version: Version, generation: Option<u64>, pad: &[u8]) -> Vec<u8> {
    let (thread, revision) = (version.thread(), version.revision());
    let proof = generation.map(|generation| format!(r#""authorizationGeneration":{generation},"#));
    let mut payload = format!(
        r#"{{"appSessionId":"{SESSION}","threadId":"{thread}","settlementEpoch":1,"revision":{revision},{}"#,
        proof.unwrap_or_default()
    )
    .into_bytes();
    payload.extend_from_slice(pad);
    payload.push(b'}');
    payload
}

/// What a phone heard.
pub(super) enum Heard<'a> {
    Snapshot(Version),
    Other(Event<'a>),
}

/// Reads snapshots at a phone, as [`super::traffic::Inspector`] reads requests: the first is taken
/// apart, every later one must have the same length and the very bytes in the same place.
pub(super) struct Inspector {
    generation: u64,
    pad: Vec<u8>,
    layout: Option<Layout>,
}

#[derive(Debug, Clone, Copy)]
struct Layout {
    length: usize,
    thread: usize,
    revision: usize,
    pad: usize,
}

impl Inspector {
    /// What an intact message says.
    ///
    /// # Errors
    /// For a snapshot that was altered, and for every frame that is no event.
    pub(super) fn inspect<'a>(&mut self, message: &'a [u8]) -> Result<Heard<'a>, LoadError> {
        if let Some(layout) = self.layout
            && message.len() == layout.length
            && message[layout.pad..].starts_with(&self.pad)
            && let Some(version) = layout.version(message)
        {
            return Ok(Heard::Snapshot(version));
        }
        let event = Event::read(message).ok_or_else(|| LoadError::unexpected(message))?;
        if event.event_type != "chat:timeline-updated" {
            return Ok(Heard::Other(event));
        }
        let altered = || LoadError::altered(message);
        let layout = Layout::of(message, &self.pad).ok_or_else(altered)?;
        let version = layout.version(message).ok_or_else(altered)?;
        // The relay removes the proof, the minimal relay passes everything on as it came.
        let intact = [None, Some(self.generation)]
            .into_iter()
            .any(|proof| event.payload.as_bytes() == payload(version, proof, &self.pad));
        if !intact || self.layout.is_some() {
            return Err(altered());
        }
        self.layout = Some(layout);
        Ok(Heard::Snapshot(version))
    }
}

impl Layout {
    fn of(message: &[u8], pad: &[u8]) -> Option<Self> {
        Some(Self {
            length: message.len(),
            thread: find(message, THREAD_KEY)? + THREAD_KEY.len(),
            revision: find(message, REVISION_KEY)? + REVISION_KEY.len(),
            pad: find(message, pad)?,
        })
    }

    fn version(self, message: &[u8]) -> Option<Version> {
        let digits = |at: usize, length: usize| -> Option<u64> {
            let digits = message.get(at..at + length)?;
            std::str::from_utf8(digits).ok()?.parse().ok()
        };
        Some(Version {
            thread: digits(self.thread, THREAD_LENGTH)? as usize,
            number: digits(self.revision, REVISION_LENGTH)?.checked_sub(FIRST_REVISION)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frame's payload, whatever its header.
    fn message(frame: &[u8]) -> String {
        let start = frame.iter().position(|byte| *byte == b'{').unwrap();
        String::from_utf8(frame[start..].to_vec()).unwrap()
    }

    /// As the relay sends it on (ENV-1, TL-6).
    fn relayed(published: &str) -> String {
        let payload = published
            .replace(r#""authorizationGeneration":7,"#, "")
            .replacen(r#"{"type":"event","payload":"#, "", 1);
        format!(r#"{{"type":"event","sourceDeviceId":"d","timestamp":"t","payload":{payload}"#)
    }

    fn version(heard: Heard<'_>) -> Option<Version> {
        match heard {
            Heard::Snapshot(version) => Some(version),
            Heard::Other(_) => None,
        }
    }

    #[test]
    fn snapshots_have_the_size_asked_for() {
        for size in [300, 65_536, 70_000] {
            let mut snapshots = Snapshots::new(size, 7);
            let frame = snapshots.frame(Version {
                thread: 3,
                number: 12,
            });
            let message = message(frame);
            assert_eq!(message.len(), size);
            assert!(message.contains(r#""threadId":"03""#));
            assert!(message.contains(r#""revision":1000000012,"#));
        }
    }

    /// TL-5, TL-6, TR-8: a snapshot passes without its proof, or as it came, and not otherwise.
    #[test]
    fn only_intact_snapshots_pass() {
        let mut snapshots = Snapshots::new(400, 7);
        for rebuild in [relayed, str::to_owned] {
            let mut inspector = snapshots.inspector();
            for number in 1..4 {
                let sent = Version { thread: 1, number };
                let published = message(snapshots.frame(sent));
                let rebuilt = rebuild(&published);
                let seen = inspector.inspect(rebuilt.as_bytes()).unwrap();
                assert_eq!(version(seen), Some(sent));
            }
            let published = message(snapshots.frame(Version {
                thread: 1,
                number: 4,
            }));
            for altered in [
                published.replacen("abc", "acb", 1),
                published.replacen("\"settlementEpoch\":1", "\"settlementEpoch\":10", 1),
                published.replacen("\"pad\"", " \"pad\"", 1),
            ] {
                let rebuilt = rebuild(&altered);
                for inspector in [&mut inspector, &mut snapshots.inspector()] {
                    let refused = inspector.inspect(rebuilt.as_bytes());
                    assert!(matches!(refused, Err(LoadError::Altered(_))), "{altered}");
                }
            }
        }
        let error = br#"{"type":"error","code":"invalidPayload","message":"m"}"#;
        let refused = snapshots.inspector().inspect(error);
        assert!(matches!(refused, Err(LoadError::Unexpected(_))));
    }

    /// TL-4, TL-7: the proof is the one of the first interest, for as long as the run lasts.
    #[test]
    fn the_proof_must_stay() {
        let state = |generation: u64, active: bool| {
            format!(
                r#"{{"type":"event","payload":{{"eventType":"chat:timeline-interest-updated","payload":{{"appSessionId":"load","active":{active},"authorizationGeneration":{generation}}}}}}}"#
            )
        };
        let mut interest = Interest::default();
        assert_eq!(interest.generation(), None);
        for _ in 0..2 {
            interest.hear(state(7, true).as_bytes()).unwrap();
        }
        assert_eq!((interest.generation(), interest.heard()), (Some(7), 2));
        for wrong in [state(8, true), state(7, false)] {
            let refused = interest.hear(wrong.as_bytes());
            assert!(matches!(refused, Err(LoadError::Unexpected(_))), "{wrong}");
        }
    }
}
