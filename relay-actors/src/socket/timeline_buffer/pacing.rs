//! When the next timeline event may leave (TL-10): one per flush, with a pause after each that grows
//! with its size.

use relay_model::limits::Limits;
use tokio::time::Instant;

/// The rhythm of one phone's connection. Its pause belongs to the connection and not to a lease:
/// whoever changes sessions quickly gets no more than others.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    /// The socket took a part of an event and not yet its end.
    begun: bool,
    /// The end of the pause after the last event.
    paused_until: Option<Instant>,
    /// The end of the wait of what came without a pause.
    waits_until: Option<Instant>,
}

impl Pacing {
    /// A snapshot came at `now` and no other waits. It waits for the rest of a running pause, else for
    /// `timeline.flush_interval`; whatever joins or replaces it has the same wait. Behind a begun
    /// event the pause that is to come is the longer one.
    pub(super) fn first_arrives(&mut self, now: Instant, limits: &Limits) {
        let paused = self.paused_until.is_some_and(|end| end > now);
        self.waits_until = (!paused).then(|| now + limits.timeline_flush_interval);
    }

    /// When the next event may begin. `None` while one is begun, and before anything came.
    pub(super) fn next(&self) -> Option<Instant> {
        self.paused_until
            .max(self.waits_until)
            .filter(|_| !self.begun)
    }

    pub(super) fn is_begun(&self) -> bool {
        self.begun
    }

    pub(super) fn begin(&mut self) {
        self.begun = true;
        self.waits_until = None;
    }

    /// The socket accepted the last of an event's `bytes` at `now`.
    pub(super) fn finish(&mut self, bytes: usize, now: Instant, limits: &Limits) {
        self.begun = false;
        // An event without bytes is an event all the same.
        let blocks = bytes.div_ceil(limits.timeline_block).max(1);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        self.paused_until = Some(now + limits.timeline_flush_interval.saturating_mul(blocks));
    }
}
