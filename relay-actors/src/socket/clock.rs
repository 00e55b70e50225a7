//! What the clock asks of a socket: registration in time, credentials that hold, progress, signs of
//! life (TR-5, TR-9, TR-10, SES-6). One timer for all of them.

use std::task::Context as TaskContext;
use std::time::Duration;

use tokio::time::Instant;

use super::SocketActor;
use super::messages::CloseReason;
use super::watchdog::Verdict;

/// How soon a peer that is not read, as all peers hold too much, is looked at again.
const CEILING_LOOK: Duration = Duration::from_millis(100);

impl SocketActor {
    /// Does what is due.
    pub(super) fn look_at_clock(&mut self, now: Instant) {
        if self.link.is_closing() {
            return;
        }
        if self
            .registration_deadline
            .is_some_and(|deadline| now >= deadline)
        {
            return self.close(CloseReason::RegistrationTimeout);
        }
        let limits = self.link.limits();
        if self.expiry.next_look().is_some_and(|look| now >= look) {
            let wall = self.relay.core().environment.now();
            if self.expiry.is_over(wall, now, limits) {
                return self.close(CloseReason::Expired);
            }
        }
        let stalled = self.link.stalled_since();
        if stalled.is_some_and(|since| now >= since + limits.write_stall_timeout) {
            return self.close(CloseReason::Stalled);
        }
        let over = self.link.over_ceiling_since();
        if over.is_some_and(|since| now >= since + limits.write_stall_timeout) {
            return self.close(CloseReason::MemoryCeiling);
        }
        if now >= self.watchdog.next_look() {
            match self.watchdog.look(now, self.link.unfinished(), limits) {
                Verdict::Ping => self.link.ping(),
                Verdict::Silent => self.close(CloseReason::Silent),
            }
        }
    }

    /// Sets the timer to the next thing that the clock may ask for, and has itself polled then. A
    /// timer that is set already needs no further poll by the same task.
    /// `now` is that of the turn: what became due since then is not missed.
    pub(super) fn arm_timer(&mut self, now: Instant, cx: &mut TaskContext<'_>, task_moved: bool) {
        let stall = self
            .link
            .stalled_since()
            .map(|since| since + self.limits().write_stall_timeout);
        let due = if self.link.is_closing() {
            self.link.deadline()
        } else {
            let look = Some(self.watchdog.next_look());
            let expiry = self.expiry.next_look();
            let over = self.link.over_ceiling_since();
            let ceiling = over.map(|_| now + CEILING_LOOK);
            let timeline = self.timeline.as_ref();
            let timeline = timeline.and_then(|timeline| timeline.next_look(now));
            [
                look,
                self.registration_deadline,
                stall,
                expiry,
                ceiling,
                timeline,
            ]
            .into_iter()
            .flatten()
            .min()
        };
        let Some(due) = due else { return };
        let reset = due < self.timer.deadline() || self.timer.is_elapsed();
        if reset {
            self.timer.as_mut().reset(due);
        }
        if (reset || task_moved) && self.timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}
