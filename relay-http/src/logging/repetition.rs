//! How often one line of the log may repeat (OP-5). Pure: time is passed in.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Lines of one kind that are shown in one window.
const SHOWN: u64 = 10;
/// How long a window lasts.
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// Counts lines by kind, and says which are too many.
#[derive(Debug)]
pub(super) struct Repetition<K> {
    kinds: HashMap<K, u64>,
    window_end: Instant,
}

impl<K: Copy + Eq + Hash> Repetition<K> {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            kinds: HashMap::new(),
            window_end: now + WINDOW,
        }
    }

    /// Whether one more line of this kind is shown.
    pub(super) fn admit(&mut self, kind: K) -> bool {
        let lines = self.kinds.entry(kind).or_default();
        *lines += 1;
        *lines <= SHOWN
    }

    /// Once a window is over: which kinds were held back in it, and how often. The next one begins.
    pub(super) fn held_back(&mut self, now: Instant) -> Vec<(K, u64)> {
        if now < self.window_end {
            return Vec::new();
        }
        self.window_end = now + WINDOW;
        let kinds = std::mem::take(&mut self.kinds).into_iter();
        kinds
            .filter_map(|(kind, lines)| Some((kind, lines.checked_sub(SHOWN)?)))
            .filter(|(_, held_back)| *held_back > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-5: the first ten of a kind in each window are shown, the rest is counted, and other kinds
    /// are not touched.
    #[test]
    #[allow(
        clippy::disallowed_methods,
        reason = "an arbitrary start; no clock is read again"
    )]
    fn repeated_lines_are_counted() {
        let start = Instant::now();
        let mut repetition = Repetition::new(start);
        for window in 1..=2 {
            let shown = (0..25).filter(|_| repetition.admit("flood")).count();
            assert_eq!(shown, 10);
            assert!(repetition.admit("rare"));
            let end = start + WINDOW * window;
            assert_eq!(repetition.held_back(end - Duration::from_millis(1)), []);
            assert_eq!(repetition.held_back(end), [("flood", 15)]);
        }
        assert_eq!(repetition.held_back(start + WINDOW * 3), []);
    }
}
