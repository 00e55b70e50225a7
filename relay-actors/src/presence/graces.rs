//! The graces that run (PR-2, PR-7). Pure: time comes as an argument.

use std::collections::{BTreeMap, HashMap};

use relay_model::ids::{AccountId, ConnectionGeneration, DeviceId};
use tokio::time::Instant;

/// A desktop of an account.
pub(crate) type Pair = (AccountId, DeviceId);

/// One running grace. The number keeps graces with one end apart, in the order of their starts.
#[derive(Debug)]
struct Grace {
    generation: ConnectionGeneration,
    end: Instant,
    number: u64,
}

/// The running graces, one a desktop.
#[derive(Debug, Default)]
pub(crate) struct Graces {
    by_pair: HashMap<Pair, Grace>,
    by_end: BTreeMap<(Instant, u64), Pair>,
    started: u64,
}

impl Graces {
    /// Starts a desktop's grace; one that runs makes way.
    pub(crate) fn start(&mut self, pair: Pair, generation: ConnectionGeneration, end: Instant) {
        self.cancel(pair);
        self.started += 1;
        let number = self.started;
        self.by_pair.insert(
            pair,
            Grace {
                generation,
                end,
                number,
            },
        );
        self.by_end.insert((end, number), pair);
    }

    /// Ends a desktop's grace without a word: it is back.
    pub(crate) fn cancel(&mut self, pair: Pair) {
        if let Some(grace) = self.by_pair.remove(&pair) {
            self.by_end.remove(&(grace.end, grace.number));
        }
    }

    /// The graces that are over at `now`, in the order of their ends.
    pub(crate) fn over(&mut self, now: Instant) -> Vec<(Pair, ConnectionGeneration)> {
        let mut over = Vec::new();
        while let Some(first) = self.by_end.first_entry() {
            if first.key().0 > now {
                break;
            }
            let pair = first.remove();
            if let Some(grace) = self.by_pair.remove(&pair) {
                over.push((pair, grace.generation));
            }
        }
        over
    }

    /// When the next grace is over.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.by_end.first_key_value().map(|((end, _), _)| *end)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_pair.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::an_instant::start;

    fn pair(desktop: u128) -> Pair {
        let (account, desktop) = (Uuid::from_u128(1), Uuid::from_u128(desktop));
        (AccountId::from_uuid(account), DeviceId::from_uuid(desktop))
    }

    fn generation(number: u64) -> ConnectionGeneration {
        ConnectionGeneration::new(number)
    }

    /// PR-2: a grace is over at its end and not before.
    #[test]
    fn graces_end_in_order_and_on_time() {
        let (mut graces, start) = (Graces::default(), start());
        let (first, second) = (
            start + Duration::from_secs(90),
            start + Duration::from_secs(91),
        );
        graces.start(pair(2), generation(2), second);
        graces.start(pair(1), generation(1), first);
        assert_eq!(graces.next_end(), Some(first));
        assert_eq!(graces.over(first - Duration::from_nanos(1)), []);
        assert_eq!(graces.over(first), [(pair(1), generation(1))]);
        assert_eq!(graces.over(second), [(pair(2), generation(2))]);
        assert_eq!((graces.next_end(), graces.len()), (None, 0));
    }

    /// PR-7: a grace that made way, or was cancelled, is never reported.
    #[test]
    fn only_the_last_grace_of_a_desktop_counts() {
        let (mut graces, start) = (Graces::default(), start());
        let (early, late) = (
            start + Duration::from_secs(1),
            start + Duration::from_secs(2),
        );
        graces.start(pair(1), generation(1), early);
        graces.start(pair(1), generation(2), late);
        graces.start(pair(2), generation(3), early);
        graces.cancel(pair(2));
        graces.cancel(pair(3));
        assert_eq!(graces.over(early), []);
        assert_eq!(graces.over(late), [(pair(1), generation(2))]);
        assert!(graces.by_end.is_empty() && graces.by_pair.is_empty());
    }
}
