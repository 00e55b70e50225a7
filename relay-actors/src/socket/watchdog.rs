//! When a silent peer is given up (TR-5). Pure: time and progress come as arguments.

use relay_model::limits::Limits;
use tokio::time::{Duration, Instant};

/// What to do after a look at the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The peer is alive enough: ping it.
    Ping,
    /// The peer was silent for too long: close the socket.
    Silent,
}

/// An unfinished text message, as the watchdog sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unfinished {
    since: Instant,
    received: usize,
}

/// Remembers the last sign of life and when to look next.
#[derive(Debug)]
pub(crate) struct Watchdog {
    last_frame: Instant,
    next_look: Instant,
    unfinished: Option<Unfinished>,
    /// Since when the relay itself does not read, if so: the peer's silence then proves nothing.
    not_reading_since: Option<Instant>,
    /// The last ping was not answered yet; it was sent one interval before `next_look`.
    awaits_pong: bool,
    /// How long the peer took to answer a ping last, in microseconds; 0 before it ever did. A socket
    /// holds this for the whole time that it is idle, so it is no larger.
    round_trip: u32,
}

impl Watchdog {
    pub(crate) fn new(now: Instant, limits: &Limits) -> Self {
        Self {
            last_frame: now,
            next_look: now + limits.ping_interval,
            unfinished: None,
            not_reading_since: None,
            awaits_pong: false,
            round_trip: 0,
        }
    }

    /// A text, ping or pong frame came.
    pub(crate) fn frame(&mut self, now: Instant) {
        self.last_frame = now;
    }

    /// A pong came; if it answers the last ping, that took one round trip (OP-9).
    pub(crate) fn pong(&mut self, now: Instant, limits: &Limits) {
        if std::mem::take(&mut self.awaits_pong) {
            let left = self.next_look.saturating_duration_since(now);
            let took = limits.ping_interval.saturating_sub(left);
            self.round_trip = u32::try_from(took.as_micros()).unwrap_or(u32::MAX).max(1);
        }
    }

    /// How long the peer took to answer a ping last, the ping's wait for its turn included.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        (self.round_trip > 0).then(|| Duration::from_micros(self.round_trip.into()))
    }

    /// The relay stopped or resumed reading this peer.
    pub(crate) fn reading(&mut self, reading: bool, now: Instant) {
        match (reading, self.not_reading_since) {
            (false, None) => self.not_reading_since = Some(now),
            (true, Some(since)) => {
                self.last_frame = (self.last_frame + now.duration_since(since)).min(now);
                self.not_reading_since = None;
            }
            _ => {}
        }
    }

    /// When to look next.
    pub(crate) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Looks at the socket; `received` is how much of an unfinished text message is there. Progress
    /// on one counts as a frame, but not for ever.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        received: Option<usize>,
        limits: &Limits,
    ) -> Verdict {
        self.next_look = now + limits.ping_interval;
        self.unfinished = received.map(|received| {
            // Fewer bytes than at the last look: another message, begun since.
            let before = self.unfinished.filter(|before| before.received <= received);
            let since = before.map_or(now, |before| before.since);
            let progress = received - before.map_or(0, |before| before.received);
            let in_time = now.duration_since(since) < limits.message_timeout;
            if progress >= limits.message_progress && in_time {
                self.last_frame = now;
            }
            Unfinished { since, received }
        });
        if self.silence(now) > limits.client_timeout {
            Verdict::Silent
        } else {
            self.awaits_pong = true;
            Verdict::Ping
        }
    }

    /// How long ago the peer's last frame came, without the time in which the relay itself did not read.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        self.not_reading_since
            .unwrap_or(now)
            .saturating_duration_since(self.last_frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::an_instant::start;

    struct Run {
        start: Instant,
        limits: Limits,
        watchdog: Watchdog,
    }

    impl Run {
        fn new() -> Self {
            let (start, limits) = (start(), Limits::default());
            let watchdog = Watchdog::new(start, &limits);
            Self {
                start,
                limits,
                watchdog,
            }
        }

        fn at(&self, seconds: f64) -> Instant {
            self.start + Duration::from_secs_f64(seconds)
        }

        /// Looks every 30 s and returns the second of the first `Silent`, up to `end`.
        fn silent_at(&mut self, end: u64, received: impl Fn(u64) -> Option<usize>) -> Option<u64> {
            (1..=end / 30).map(|look| look * 30).find(|&second| {
                let now = self.at(second as f64);
                assert_eq!(self.watchdog.next_look(), now);
                self.watchdog.look(now, received(second), &self.limits) == Verdict::Silent
            })
        }
    }

    /// TR-5: closing comes 180 to 210 s after the last frame.
    #[test]
    fn silence_is_noticed_within_180_to_210_seconds() {
        assert_eq!(
            Run::new().silent_at(600, |_| None),
            Some(210),
            "180 s exactly is not more"
        );
        for last_frame in [0.5, 15.0, 29.9] {
            let mut run = Run::new();
            let now = run.at(last_frame);
            run.watchdog.frame(now);
            let silent = run.silent_at(600, |_| None).unwrap() as f64;
            assert!(
                (180.0..=210.0).contains(&(silent - last_frame)),
                "{last_frame}: {silent}"
            );
        }
    }

    /// OP-9: a round trip is that of the last ping that was answered; pongs that answer nothing count
    /// for nothing.
    #[test]
    fn round_trips_are_measured() {
        let mut run = Run::new();
        let pong = |run: &mut Run, second| {
            let now = run.at(second);
            run.watchdog.pong(now, &run.limits);
            run.watchdog.round_trip()
        };
        let look = |run: &mut Run, second| {
            let now = run.at(second);
            run.watchdog.frame(now);
            run.watchdog.look(now, None, &run.limits);
        };
        assert_eq!(pong(&mut run, 1.0), None);
        look(&mut run, 30.0);
        assert_eq!(run.watchdog.round_trip(), None);
        let first = Some(Duration::from_millis(250));
        assert_eq!(pong(&mut run, 30.25), first);
        assert_eq!(pong(&mut run, 31.0), first, "a pong that nobody asked for");
        look(&mut run, 60.0);
        assert_eq!(run.watchdog.round_trip(), first);
        assert_eq!(pong(&mut run, 62.0), Some(Duration::from_secs(2)));
        assert_eq!(pong(&mut run, 62.0), Some(Duration::from_secs(2)));
    }

    /// TR-5: 1 KiB of progress between two looks counts as a frame, for 600 s a message.
    #[test]
    fn progress_counts_for_a_limited_time() {
        let kib_per_look = |second: u64| Some(second as usize / 30 * 1024);
        let silent = Run::new().silent_at(3_000, kib_per_look).unwrap();
        assert_eq!(silent, 600 + 210, "the first look at it is at 30 s");
        let too_slow = |second: u64| Some(second as usize / 30 * 1023);
        assert_eq!(Run::new().silent_at(3_000, too_slow), Some(210));
    }

    /// TR-5: a second unfinished message has its own 600 s.
    #[test]
    fn each_message_has_its_own_time() {
        let two_messages = |second: u64| Some((second as usize % 450) * 1024);
        assert_eq!(Run::new().silent_at(3_000, two_messages), None);
    }

    /// TR-5: while the relay does not read, the peer's silence does not count.
    #[test]
    fn silence_does_not_count_while_the_relay_does_not_read() {
        let mut run = Run::new();
        let (stop, resume) = (run.at(10.0), run.at(1_000.0));
        run.watchdog.reading(false, stop);
        assert_eq!(run.silent_at(990, |_| None), None);
        run.watchdog.reading(true, resume);
        let (early, late) = (run.at(1_160.0), run.at(1_180.0));
        assert_eq!(run.watchdog.look(early, None, &run.limits), Verdict::Ping);
        assert_eq!(run.watchdog.look(late, None, &run.limits), Verdict::Silent);
    }
}
