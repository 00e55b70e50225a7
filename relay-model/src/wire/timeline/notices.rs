//! The relay's own timeline events: the state of a session's leases for the desktop (TL-7), and
//! windows to load again for a phone (TL-13).

use crate::ids::{AuthorizationGeneration, RelayInstanceId};
use crate::time::Timestamp;
use crate::timeline::{BaseSession, TimelineKey, TimelineVersion};
use crate::wire::message::{OutgoingText, Text};

/// The leases of a session as its desktop is told of them (TL-7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseState {
    /// The session.
    pub session: BaseSession,
    /// The latest deadline among its leases; `None` without one.
    pub expires_at: Option<Timestamp>,
    /// The generation of its leases; `None` without one, and then the session is not active.
    pub generation: Option<AuthorizationGeneration>,
    /// The number of this event; rises over the whole process.
    pub revision: u64,
}

/// `chat:timeline-interest-updated`, for the desktop (TL-7).
pub fn timeline_interest_updated(
    state: &LeaseState,
    instance: RelayInstanceId,
    now: Timestamp,
) -> OutgoingText {
    let text = own_event("chat:timeline-interest-updated", now)
        .raw(r#"{"appSessionId":"#)
        .string(state.session.as_str())
        .raw(r#","active":"#)
        .display(state.generation.is_some());
    let text = match state.expires_at {
        Some(moment) => text.raw(r#","expiresAt":""#).display(moment).raw(r#"""#),
        None => text.raw(r#","expiresAt":null"#),
    };
    let text = text.raw(r#","authorizationGeneration":"#);
    match state.generation {
        Some(generation) => text.display(generation.get()),
        None => text.raw("null"),
    }
    .raw(r#","revision":"#)
    .display(state.revision)
    .raw(r#","relayInstanceId":""#)
    .display(instance)
    .raw(r#""}}}"#)
    .into()
}

/// `chat:timeline-stale` for one window whose snapshot of this version was not sent (TL-13).
/// `threadId` is null for the window of the session itself.
pub fn timeline_stale(key: &TimelineKey, version: TimelineVersion, now: Timestamp) -> OutgoingText {
    let text = own_event("chat:timeline-stale", now)
        .raw(r#"{"appSessionId":"#)
        .string(key.session.as_str())
        .raw(r#","threadId":"#);
    match &key.thread {
        Some(thread) => text.string(thread),
        None => text.raw("null"),
    }
    .raw(r#","settlementEpoch":"#)
    .display(version.settlement_epoch)
    .raw(r#","revision":"#)
    .display(version.revision)
    .raw("}}}")
    .into()
}

/// `chat:timeline-stale` for every window: more were lost than are kept apart (TL-13).
pub fn timeline_all_stale(now: Timestamp) -> OutgoingText {
    own_event("chat:timeline-stale", now)
        .raw(r#"{"all":true}}}"#)
        .into()
}

/// The beginning of an event that no device has sent, up to its payload (ENV-1).
fn own_event(event_type: &str, now: Timestamp) -> Text {
    Text::with_capacity(384)
        .raw(r#"{"type":"event","sourceDeviceId":null,"timestamp":""#)
        .display(now)
        .raw(r#"","payload":{"eventType":""#)
        .raw(event_type)
        .raw(r#"","payload":"#)
}
