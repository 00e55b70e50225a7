//! How far a connection has come: unregistered, being checked, registered. What belongs to a stage
//! exists in that stage only.

use std::collections::VecDeque;

use actix::Addr;
use bytestring::ByteString;
use relay_model::ids::{ConnectionGeneration, DeviceId, SessionId};
use relay_model::limits::Limits;
use relay_model::store::DeviceType;
use relay_model::wire::OutgoingText;
use tokio::time::Instant;

use super::lanes::Permit;
use crate::directory::RegistrationSequence;
use crate::registry::RegistryActor;

/// The stage of a connection.
pub(super) enum Stage {
    /// No registration made or under way.
    Unregistered,
    /// A registration is being checked.
    Checking(Box<Checking>),
    /// The connection is a route.
    Registered(Box<Registered>),
}

/// A registration under way.
pub(super) struct Checking {
    /// The registration that the socket holds meanwhile, if it registers again (REG-10).
    pub(super) previous: Option<Box<Registered>>,
    pub(super) sequence: RegistrationSequence,
    pub(super) waiting: WaitingFrames,
    /// Statuses that came for the route before its reply was there; they may not overtake it.
    pub(super) statuses: Vec<(OutgoingText, Permit)>,
}

/// A registration that was answered.
pub(super) struct Registered {
    pub(super) device: DeviceId,
    pub(super) device_type: DeviceType,
    pub(super) session: SessionId,
    /// The pair: a desktop's own, or that of a phone's target.
    pub(super) pair: Option<Addr<RegistryActor>>,
    pub(super) generation: Option<ConnectionGeneration>,
    pub(super) touches: Touches,
    /// When a heartbeat was last passed on for storing.
    pub(super) heartbeat_at: Option<Instant>,
}

/// The touches of a session, reported now and then rather than one by one (SES-1).
#[derive(Default)]
pub(super) struct Touches {
    reported: Option<Instant>,
    unreported: Option<Instant>,
}

impl Touches {
    /// Takes note of a touch; true if it is to be reported. The first one is: a session that was
    /// resumed in its last minute must not expire under a connection that uses it.
    pub(super) fn touch(&mut self, now: Instant, limits: &Limits) -> bool {
        let interval = limits.session_touch_interval;
        let due = self
            .reported
            .is_none_or(|reported| now.duration_since(reported) >= interval);
        if due {
            self.reported = Some(now);
        }
        self.unreported = (!due).then_some(now);
        due
    }

    /// The last touch, if it was not reported.
    pub(super) fn unreported(&self) -> Option<Instant> {
        self.unreported
    }
}

/// Frames that wait, in order, for the reply of a registration (REG-1).
#[derive(Default)]
pub(super) struct WaitingFrames {
    frames: VecDeque<ByteString>,
    bytes: usize,
}

impl WaitingFrames {
    /// Adds a frame; false if there is no room for it.
    pub(super) fn push(&mut self, frame: ByteString, limits: &Limits) -> bool {
        let bytes = self.bytes + frame.len();
        if self.frames.len() >= limits.waiting_frames || bytes > limits.waiting_bytes {
            return false;
        }
        self.bytes = bytes;
        self.frames.push_back(frame);
        true
    }

    pub(super) fn into_frames(self) -> VecDeque<ByteString> {
        self.frames
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::an_instant::start;

    /// REG-1: 16 frames and 64 KiB may wait.
    #[test]
    fn waiting_frames_are_bounded() {
        let limits = Limits::default();
        let mut waiting = WaitingFrames::default();
        for _ in 0..16 {
            assert!(waiting.push(ByteString::from_static("{}"), &limits));
        }
        assert!(!waiting.push(ByteString::from_static("{}"), &limits));
        assert_eq!(waiting.into_frames().len(), 16);

        let mut waiting = WaitingFrames::default();
        assert!(waiting.push("x".repeat(64 * 1024).into(), &limits));
        assert!(!waiting.push("x".into(), &limits));
    }

    /// SES-1: touches are reported at most every 60 s, and the last one is never lost.
    #[test]
    fn touches_are_reported_now_and_then() {
        let (start, limits) = (start(), Limits::default());
        let mut touches = Touches::default();
        let mut reports = Vec::new();
        for second in 1..=150 {
            let now = start + Duration::from_secs(second);
            if touches.touch(now, &limits) {
                reports.push(second);
            }
        }
        assert_eq!(reports, [1, 61, 121]);
        assert_eq!(touches.unreported(), Some(start + Duration::from_secs(150)));
        assert!(Touches::default().unreported().is_none());
    }
}
