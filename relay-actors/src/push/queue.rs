//! What waits to be sent, in the order in which it may be (PUSH-4). Pure: time comes as an argument.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::counts::PushKind;

#[derive(Debug)]
struct Waiting<T> {
    due: Instant,
    kind: PushKind,
    item: T,
}

/// The queue. Numbers tell the order in which its items came.
#[derive(Debug)]
pub(super) struct Queue<T> {
    items: BTreeMap<u64, Waiting<T>>,
    by_due: BTreeSet<(Instant, u64)>,
    silent: BTreeSet<u64>,
    added: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            items: BTreeMap::new(),
            by_due: BTreeSet::new(),
            silent: BTreeSet::new(),
            added: 0,
        }
    }
}

impl<T> Queue<T> {
    /// Adds an item that may be sent from `due` on. If that would make more than `room`, the oldest
    /// `desktop_online` makes way, be it this one; without any, the oldest alert. Returns what was
    /// dropped.
    pub(super) fn add(
        &mut self,
        kind: PushKind,
        due: Instant,
        item: T,
        room: usize,
    ) -> Option<(PushKind, T)> {
        let mut dropped = None;
        if self.items.len() >= room {
            let victim = match (self.silent.first(), kind) {
                (Some(number), _) => Some(*number),
                (None, PushKind::Alert) => self.items.keys().next().copied(),
                (None, PushKind::DesktopOnline) => None,
            };
            match victim {
                Some(number) => dropped = self.remove(number),
                None => return Some((kind, item)),
            }
        }
        self.added += 1;
        let number = self.added;
        self.by_due.insert((due, number));
        if kind == PushKind::DesktopOnline {
            self.silent.insert(number);
        }
        self.items.insert(number, Waiting { due, kind, item });
        dropped
    }

    fn remove(&mut self, number: u64) -> Option<(PushKind, T)> {
        let waiting = self.items.remove(&number)?;
        self.by_due.remove(&(waiting.due, number));
        self.silent.remove(&number);
        Some((waiting.kind, waiting.item))
    }

    /// Takes the item that has been due for longest.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<T> {
        let (due, number) = *self.by_due.first()?;
        if due > now {
            return None;
        }
        self.remove(number).map(|(_, item)| item)
    }

    /// When the next item is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.by_due.first().map(|(due, _)| *due)
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use PushKind::{Alert, DesktopOnline};
    use proptest::prelude::*;

    use super::*;

    /// PUSH-4: items come out when they are due, those due at once in the order in which they came.
    #[test]
    fn items_wait_until_they_are_due() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        let later = start + Duration::from_secs(1);
        assert_eq!(queue.add(Alert, later, "late", 9), None);
        assert_eq!(queue.add(DesktopOnline, start, "first", 9), None);
        assert_eq!(queue.add(Alert, start, "second", 9), None);
        assert_eq!(queue.take_due(start), Some("first"));
        assert_eq!(queue.take_due(start), Some("second"));
        assert_eq!(
            (queue.take_due(start), queue.next_due()),
            (None, Some(later))
        );
        assert_eq!(queue.take_due(later), Some("late"));
        assert_eq!((queue.len(), queue.next_due()), (0, None));
    }

    /// PUSH-4: when the queue is full the oldest `desktop_online` goes first.
    #[test]
    fn the_oldest_silent_one_goes_first() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for (kind, item) in [
            (Alert, 1),
            (DesktopOnline, 2),
            (Alert, 3),
            (DesktopOnline, 4),
        ] {
            assert_eq!(queue.add(kind, now, item, 4), None);
        }
        assert_eq!(queue.add(Alert, now, 5, 4), Some((DesktopOnline, 2)));
        assert_eq!(
            queue.add(DesktopOnline, now, 6, 4),
            Some((DesktopOnline, 4))
        );
        assert_eq!(queue.add(Alert, now, 7, 4), Some((DesktopOnline, 6)));
        assert_eq!(
            queue.add(DesktopOnline, now, 8, 4),
            Some((DesktopOnline, 8))
        );
        assert_eq!(queue.add(Alert, now, 9, 4), Some((Alert, 1)));
        assert_eq!(queue.len(), 4);
        assert_eq!(
            queue.add(DesktopOnline, now, 10, 0),
            Some((DesktopOnline, 10))
        );
    }

    proptest! {
        /// PUSH-4: whatever comes, the queue keeps its bound, loses nothing unseen, and drops an alert
        /// only when there is nothing else.
        #[test]
        fn the_bound_holds(steps in proptest::collection::vec((0..3u8, 0..5u64), 0..200)) {
            let (mut queue, start) = (Queue::default(), Instant::now());
            let mut held = 0usize;
            for (step, second) in steps {
                let at = start + Duration::from_secs(second);
                let kind = if step == 0 { Alert } else { DesktopOnline };
                if step == 2 {
                    held -= usize::from(queue.take_due(at).is_some());
                } else {
                    let silent = queue.silent.len();
                    let dropped = queue.add(kind, at, kind, 8);
                    if let Some((dropped, item)) = dropped {
                        prop_assert_eq!(dropped, item);
                        prop_assert!(dropped == DesktopOnline || silent == 0);
                    }
                    held += usize::from(dropped.is_none());
                }
                prop_assert_eq!(queue.len(), held);
                prop_assert!(held <= 8);
                prop_assert_eq!(queue.by_due.len(), held);
            }
        }
    }
}
