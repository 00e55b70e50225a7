//! The two timeline events that clients send, `chat:timeline-interest` and `chat:timeline-updated`,
//! read from the event's opaque payload in one pass (section 8). What the relay sends of them stands
//! in [`snapshot`] and [`notices`].

use std::fmt;
use std::num::NonZeroU64;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::envelope::string;
use crate::ids::AuthorizationGeneration;
use crate::limits::Limits;
use crate::timeline::{BaseSession, MAX_VERSION_NUMBER, NotASession, TimelineKey, TimelineVersion};

mod cut;
pub mod notices;
pub mod snapshot;

pub use cut::Cut;

const SESSION: &str = "appSessionId";
const ACTIVE: &str = "active";
const THREAD: &str = "threadId";
const EPOCH: &str = "settlementEpoch";
const REVISION: &str = "revision";
const GENERATION: &str = "authorizationGeneration";

/// A phone's `chat:timeline-interest` (TL-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interest {
    /// The session that it is about.
    pub session: BaseSession,
    /// Whether the phone takes or renews a lease of it, or ends it.
    pub active: bool,
}

/// What identifies a desktop's `chat:timeline-updated`, and the payload as phones get it (TL-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update<'a> {
    /// The window that it shows.
    pub key: TimelineKey,
    /// Its version.
    pub version: TimelineVersion,
    /// The desktop's proof that it knows of an interest in the session. Whether it is the current one
    /// is for the leases to say.
    pub generation: AuthorizationGeneration,
    /// The payload without that proof.
    pub cut: Cut<'a>,
}

/// A timeline event whose payload is refused with `invalidPayload`; the text names the field (TR-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTimeline {
    /// No payload, or one that is no JSON object.
    #[error("not an object")]
    NotAnObject,
    /// A required field is not there.
    #[error("{field} is missing")]
    Missing {
        /// Its name.
        field: &'static str,
    },
    /// A field has a value of another kind.
    #[error("{field} must be {expected}")]
    IllTyped {
        /// Its name.
        field: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// A field that the relay reads stands in the payload more than once (TR-7, TL-6).
    #[error("{field} stands in the payload twice")]
    Twice {
        /// Its name.
        field: &'static str,
    },
    /// `threadId` has more bytes than a session's id may have.
    #[error("threadId must have at most {max} bytes")]
    ThreadTooLong {
        /// `timeline.session_id`.
        max: usize,
    },
    /// `appSessionId` names no session (TL-2).
    #[error(transparent)]
    Session(#[from] NotASession),
}

/// A `chat:timeline-updated` that reaches no phone (TL-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAnUpdate {
    /// It is answered with `invalidPayload`.
    #[error(transparent)]
    Invalid(#[from] InvalidTimeline),
    /// `authorizationGeneration` is missing or no positive integer: it is dropped and counted, and
    /// nobody is told.
    #[error("authorizationGeneration is missing or ill-typed; wait for the state of the leases")]
    Unauthorized,
}

/// Reads the payload of a `chat:timeline-interest` (TL-1, TL-2). Other fields are ignored (TR-8).
///
/// # Errors
/// [`InvalidTimeline`]: a field is missing, ill-typed or given twice, or the id names no session.
pub fn read_interest(
    payload: Option<&RawValue>,
    limits: &Limits,
) -> Result<Interest, InvalidTimeline> {
    let [session, active] = members(payload, [SESSION, ACTIVE])?;
    Ok(Interest {
        session: read_session(session, limits)?,
        active: match required(active, ACTIVE)?.get() {
            "true" => true,
            "false" => false,
            _ => return Err(ill_typed(ACTIVE, "true or false")),
        },
    })
}

/// Reads what the relay has to know of a `chat:timeline-updated` (TL-5); the snapshot itself is only
/// skipped. A number of a version is written in digits: `1.0` and `1e3` are no integers here, as
/// readers differ in what they make of them. A `threadId` of null is none; an empty one is a thread.
///
/// # Errors
/// [`NotAnUpdate::Invalid`] for any defect of another field than `authorizationGeneration`, whatever
/// that one is, and for two of those (TL-6); else [`NotAnUpdate::Unauthorized`] if it is missing or
/// no positive integer.
pub fn read_update<'a>(
    payload: Option<&'a RawValue>,
    limits: &Limits,
) -> Result<Update<'a>, NotAnUpdate> {
    let names = [SESSION, THREAD, EPOCH, REVISION, GENERATION];
    let [session, thread, epoch, revision, generation] = members(payload, names)?;
    let key = TimelineKey {
        session: read_session(session, limits)?,
        thread: read_thread(thread, limits)?.map(Into::into),
    };
    let version = TimelineVersion {
        settlement_epoch: read_version_number(epoch, EPOCH)?,
        revision: read_version_number(revision, REVISION)?,
    };
    let (Some(payload), Some(member)) = (payload, generation) else {
        return Err(NotAnUpdate::Unauthorized);
    };
    let number: NonZeroU64 = member
        .value
        .get()
        .parse()
        .map_err(|_| NotAnUpdate::Unauthorized)?;
    Ok(Update {
        key,
        version,
        generation: AuthorizationGeneration::new(number),
        cut: Cut::without(payload.get(), member.key.get(), member.value.get()),
    })
}

fn read_session(
    member: Option<Member<'_>>,
    limits: &Limits,
) -> Result<BaseSession, InvalidTimeline> {
    let text = string(required(member, SESSION)?).ok_or(ill_typed(SESSION, "a string"))?;
    Ok(BaseSession::read(&text, limits)?)
}

fn read_thread<'a>(
    member: Option<Member<'a>>,
    limits: &Limits,
) -> Result<Option<std::borrow::Cow<'a, str>>, InvalidTimeline> {
    let Some(member) = member.filter(|member| member.value.get() != "null") else {
        return Ok(None);
    };
    let thread = string(member.value).ok_or(ill_typed(THREAD, "a string"))?;
    let max = limits.timeline_session_id;
    if thread.len() > max {
        return Err(InvalidTimeline::ThreadTooLong { max });
    }
    Ok(Some(thread))
}

fn read_version_number(
    member: Option<Member<'_>>,
    field: &'static str,
) -> Result<u64, InvalidTimeline> {
    let text = required(member, field)?.get();
    // JSON has no leading plus sign, so what parses is digits only.
    text.parse()
        .ok()
        .filter(|number| *number <= MAX_VERSION_NUMBER)
        .ok_or(ill_typed(field, "an integer from 0 to 2^53-1"))
}

fn required<'a>(
    member: Option<Member<'a>>,
    field: &'static str,
) -> Result<&'a RawValue, InvalidTimeline> {
    member
        .map(|member| member.value)
        .ok_or(InvalidTimeline::Missing { field })
}

const fn ill_typed(field: &'static str, expected: &'static str) -> InvalidTimeline {
    InvalidTimeline::IllTyped { field, expected }
}

/// A member of an object, as it stands in the text.
#[derive(Debug, Clone, Copy)]
struct Member<'a> {
    key: &'a RawValue,
    value: &'a RawValue,
}

/// The members of these names, each of which may stand there once.
fn members<'a, const N: usize>(
    payload: Option<&'a RawValue>,
    names: [&'static str; N],
) -> Result<[Option<Member<'a>>; N], InvalidTimeline> {
    let text = payload.ok_or(InvalidTimeline::NotAnObject)?.get();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    // A raw value was validated when it was read, so this fails for what is no object only.
    let found = deserializer
        .deserialize_map(MembersVisitor { names })
        .map_err(|_| InvalidTimeline::NotAnObject)?;
    match found.twice {
        Some(field) => Err(InvalidTimeline::Twice { field }),
        None => Ok(found.members),
    }
}

struct Found<'a, const N: usize> {
    members: [Option<Member<'a>>; N],
    twice: Option<&'static str>,
}

struct MembersVisitor<const N: usize> {
    names: [&'static str; N],
}

impl<'de, const N: usize> Visitor<'de> for MembersVisitor<N> {
    type Value = Found<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Found {
            members: [None; N],
            twice: None,
        };
        // Keys are read raw: where one begins decides the cut, and one that holds no Unicode text (a
        // lone surrogate escape) is as good as any other that the relay does not know (TR-8).
        while let Some(key) = map.next_key::<&RawValue>()? {
            let known = string(key).and_then(|key| self.names.iter().position(|name| *name == key));
            match known {
                Some(index) => {
                    let value = map.next_value()?;
                    if found.members[index]
                        .replace(Member { key, value })
                        .is_some()
                    {
                        found.twice = Some(self.names[index]);
                    }
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
