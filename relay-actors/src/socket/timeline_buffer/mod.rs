//! The timeline snapshots that wait for one phone (TL-8 to TL-11, TL-13, TL-14): the newest of each
//! key, sent one by one with pauses between. Pure: time comes as an argument, texts are opaque.
//!
//! Where the rules leave room:
//! - A snapshot that replaces another keeps its place, wherever either of them waits: a key that moves
//!   between the buffer and the slot for oversized snapshots, and a key that takes that slot from
//!   another. One that does both takes the earlier place. Two keys that take the slot from each other
//!   in turn would otherwise never be sent.
//! - There is one wait, that of the first snapshot that came into the empty buffer. What replaces it
//!   does not restart it (TL-10), and neither does evicting it: under a load that evicts each head
//!   within `timeline.flush_interval` nothing would ever leave. What leaves after an eviction may so
//!   have waited for less than that interval itself; the pauses between events hold always.
//! - What waits when a desktop registers anew is still sent, for nothing else may ever bring it. Its
//!   version says nothing about those of the new generation: whatever the desktop then says of that
//!   key is newer.
//! - Evicting the oldest key may hit the snapshot that was just offered, if it grew in an old place.
//! - Stale notices are events like others: one per pause, and only while no snapshot waits.
//! - A snapshot that would not fit into `timeline.buffer_bytes` counts as oversized, whatever
//!   `timeline.block` is, so that evicting others always makes room.

mod pacing;
mod sent;
mod stale;
mod stamp;

use std::cmp::Ordering;
use std::sync::Arc;

use relay_model::limits::Limits;
use relay_model::timeline::{TimelineKey, TimelineVersion};
use tokio::time::Instant;

use pacing::Pacing;
use sent::SentVersions;
use stale::Stale;
use stamp::Stamp;

/// What the buffer needs to know of a snapshot's text. Clones should share their bytes: one snapshot
/// waits for many phones.
#[allow(
    clippy::len_without_is_empty,
    reason = "a snapshot always has text around it"
)]
pub(crate) trait SnapshotText: Clone {
    /// The length of the text frame in bytes.
    fn len(&self) -> usize;

    /// Whether both carry the same payload, compared as bytes after TL-6; what the relay wrote around
    /// it does not count.
    fn same_payload(&self, other: &Self) -> bool;
}

/// Two different snapshots of one key with one version (TL-9). The buffer is empty; close the phone's
/// socket (4409).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("two different snapshots of one window carry the same version; close the phone's socket")]
pub(crate) struct VersionConflict;

/// What became of an offered snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It waits as the only one of its key.
    Waits {
        /// How many keys were evicted for it.
        evicted: usize,
    },
    /// It waits in place of an older one of its key.
    Replaced {
        /// How many keys were evicted for it, itself included if its place is the oldest (TL-8).
        evicted: usize,
    },
    /// Nothing changed: it is older than the waiting or the last sent one, or the same (TL-8).
    Old,
}

/// What the socket is to get next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next<'a, T> {
    /// A snapshot.
    Snapshot {
        /// Of this window.
        key: &'a TimelineKey,
        /// Its version.
        version: TimelineVersion,
        /// Its text.
        text: &'a T,
    },
    /// A `chat:timeline-stale` for one window (TL-13).
    Stale {
        /// The window to reload.
        key: &'a TimelineKey,
        /// The newest version that the phone missed.
        version: TimelineVersion,
    },
    /// A `chat:timeline-stale` for all windows (TL-13).
    AllStale,
}

/// How often a buffer did what, since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimelineCounts {
    /// Snapshots dropped for want of room (TL-8, TL-11).
    pub evicted: u64,
    /// Snapshots that a newer one of their key replaced (TL-8).
    pub replaced: u64,
    /// Offers that changed nothing (TL-8).
    pub ignored: u64,
    /// Offers that waited, each for one of the other ends.
    pub accepted: u64,
    /// Snapshots that were begun (TL-14).
    pub sent: u64,
    /// Snapshots that waited when their lease ended (TL-3).
    pub expired: u64,
    /// Notices that were begun (TL-13).
    pub notices: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    key: TimelineKey,
    stamp: Stamp,
    text: T,
}

/// The timeline events that wait for one phone connection. Whoever owns it offers only what a live
/// lease allows and ends the lease before it asks for what is next (TL-3, TL-5).
///
/// Nothing of it allocates while nothing waits and nothing is remembered.
#[derive(Debug)]
pub(crate) struct TimelineBuffer<T> {
    limits: Arc<Limits>,
    /// In the order of leaving. At most one of them is oversized: that is the extra slot (TL-11).
    waiting: Vec<Waiting<T>>,
    sent: SentVersions,
    stale: Stale,
    pacing: Pacing,
    desktop_generation: u64,
    counts: TimelineCounts,
}

impl<T: SnapshotText> TimelineBuffer<T> {
    /// An empty buffer under `limits`; no pause runs.
    pub(crate) fn new(limits: Arc<Limits>) -> Self {
        Self {
            limits,
            waiting: Vec::new(),
            sent: SentVersions::default(),
            stale: Stale::default(),
            pacing: Pacing::default(),
            desktop_generation: 0,
            counts: TimelineCounts::default(),
        }
    }

    /// A lease begins: of another session, or of the same one anew. Everything of a former lease goes,
    /// what was last sent included; a running pause and a begun event stay (TL-3, TL-8).
    pub(crate) fn lease_begins(&mut self) {
        self.clear();
    }

    /// The lease ended, in whatever way: what waits goes with it (TL-3).
    pub(crate) fn lease_ends(&mut self) {
        self.clear();
    }

    /// The desktop registered anew. The last versions sent are forgotten (TL-8). What waits stays, and
    /// whatever follows of its key replaces it.
    pub(crate) fn desktop_registered(&mut self) {
        self.desktop_generation += 1;
        self.sent = SentVersions::default();
    }

    /// Takes a snapshot for which the lease is live, at `now` (TL-8, TL-11).
    ///
    /// # Errors
    /// [`VersionConflict`] (TL-9).
    pub(crate) fn offer(
        &mut self,
        key: TimelineKey,
        version: TimelineVersion,
        text: T,
        now: Instant,
    ) -> Result<Offered, VersionConflict> {
        let stamp = Stamp {
            generation: self.desktop_generation,
            version,
        };
        let own = self.waiting.iter().position(|waiting| waiting.key == key);
        match own.map(|index| &self.waiting[index]) {
            _ if self.sent.covers(&key, stamp) => return Ok(self.ignore()),
            None => {}
            Some(waiting) => match stamp.cmp(&waiting.stamp) {
                Ordering::Greater => {}
                Ordering::Equal if !text.same_payload(&waiting.text) => {
                    self.clear();
                    return Err(VersionConflict);
                }
                Ordering::Equal | Ordering::Less => return Ok(self.ignore()),
            },
        }
        let displaced = self.slot_to_clear(&key, &text);
        let evicted = usize::from(displaced.is_some());
        if self.waiting.is_empty() {
            self.pacing.first_arrives(now, &self.limits);
        }
        self.place(Waiting { key, stamp, text }, own, displaced);
        self.counts.accepted += 1;
        let evicted = evicted + self.evict_over_limits();
        Ok(match own {
            Some(_) => {
                self.counts.replaced += 1;
                Offered::Replaced { evicted }
            }
            None => Offered::Waits { evicted },
        })
    }

    /// When the next event may be handed to the socket. `None` if there is none, or while one is
    /// begun.
    pub(crate) fn due(&self) -> Option<Instant> {
        // A notice alone is paced as well: only a snapshot evicts another, and its pause is theirs.
        let something = !self.waiting.is_empty() || !self.stale.is_nothing();
        self.pacing.next().filter(|_| something)
    }

    /// What to hand to the socket at `now`, if it is due: the first snapshot or, when none waits, a
    /// stale notice. It stays here until [`Self::begin`], and so may be another at the next call
    /// (TL-14): ask anew before each attempt to write.
    pub(crate) fn peek(&self, now: Instant) -> Option<Next<'_, T>> {
        if self.due()? > now {
            return None;
        }
        if let Some(head) = self.waiting.first() {
            return Some(Next::Snapshot {
                key: &head.key,
                version: head.stamp.version,
                text: &head.text,
            });
        }
        match &self.stale {
            Stale::Nothing => None,
            Stale::Keys(keys) => keys.first().map(|(key, stamp)| Next::Stale {
                key,
                version: stamp.version,
            }),
            Stale::All => Some(Next::AllStale),
        }
    }

    /// The socket accepted the first byte of what [`Self::peek`] offers: it leaves the buffer and
    /// counts as sent. Nothing is due until [`Self::finished`].
    pub(crate) fn begin(&mut self) {
        if self.pacing.is_begun() {
            return;
        }
        if self.waiting.is_empty() {
            if self.stale.is_nothing() {
                return;
            }
            self.stale.told();
            self.counts.notices += 1;
        } else {
            let snapshot = self.remove(0);
            self.counts.sent += 1;
            self.stale.sent(&snapshot.key, snapshot.stamp);
            self.sent.record(snapshot.key, snapshot.stamp, &self.limits);
        }
        self.pacing.begin();
    }

    /// The socket accepted the last byte of the begun event, a text frame of `bytes` bytes: the pause
    /// begins (TL-10). Also due after the lease that it was begun under ended.
    pub(crate) fn finished(&mut self, bytes: usize, now: Instant) {
        self.pacing.finish(bytes, now, &self.limits);
    }

    /// The bytes of all text frames that wait, the oversized one included: at most
    /// `timeline.buffer_bytes` and one snapshot.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.iter().map(|waiting| waiting.text.len()).sum()
    }

    /// How many snapshots wait, the oversized one included: at most `timeline.buffer_keys` and one.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits and nothing is remembered, pause and counts aside.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.stale.is_nothing() && self.sent.is_empty()
    }

    /// How often it did what.
    pub(crate) fn counts(&self) -> TimelineCounts {
        self.counts
    }

    fn clear(&mut self) {
        self.counts.expired += self.waiting.len() as u64;
        self.waiting = Vec::new();
        self.sent = SentVersions::default();
        self.stale = Stale::default();
    }

    fn ignore(&mut self) -> Offered {
        self.counts.ignored += 1;
        Offered::Old
    }

    fn is_oversized(&self, text: &T) -> bool {
        let limits = &self.limits;
        text.len() > limits.timeline_block.min(limits.timeline_buffer_bytes)
    }

    /// The place of another key's oversized snapshot, if this one needs the slot (TL-11).
    fn slot_to_clear(&self, key: &TimelineKey, text: &T) -> Option<usize> {
        if !self.is_oversized(text) {
            return None;
        }
        let occupies =
            |waiting: &Waiting<T>| waiting.key != *key && self.is_oversized(&waiting.text);
        self.waiting.iter().position(occupies)
    }

    /// Puts a snapshot at the earlier of the places that it takes over, its own key's and the
    /// displaced one's, or else at the end.
    fn place(&mut self, snapshot: Waiting<T>, own: Option<usize>, displaced: Option<usize>) {
        let Some(first) = own.into_iter().chain(displaced).min() else {
            self.waiting.push(snapshot);
            return;
        };
        if let Some(displaced) = displaced {
            let evicted = &self.waiting[displaced];
            self.counts.evicted += 1;
            self.stale
                .remember(evicted.key.clone(), evicted.stamp, &self.limits);
        }
        self.waiting[first] = snapshot;
        if let (Some(own), Some(displaced)) = (own, displaced) {
            self.waiting.remove(own.max(displaced));
        }
    }

    /// Evicts the oldest keys until the limits hold (TL-8); returns how many. The oversized snapshot
    /// is outside of both limits (TL-11).
    fn evict_over_limits(&mut self) -> usize {
        let mut evicted = 0;
        while self.is_over_limits() {
            let ordinary = |waiting: &Waiting<T>| !self.is_oversized(&waiting.text);
            let Some(oldest) = self.waiting.iter().position(ordinary) else {
                break;
            };
            let gone = self.remove(oldest);
            self.counts.evicted += 1;
            self.stale.remember(gone.key, gone.stamp, &self.limits);
            evicted += 1;
        }
        evicted
    }

    fn is_over_limits(&self) -> bool {
        let ordinary = (self.waiting.iter()).filter(|waiting| !self.is_oversized(&waiting.text));
        let (keys, bytes) = ordinary.fold((0, 0), |(keys, bytes), waiting| {
            (keys + 1, bytes + waiting.text.len())
        });
        keys > self.limits.timeline_buffer_keys || bytes > self.limits.timeline_buffer_bytes
    }

    /// Takes one out; the caller knows that it is there. A drained buffer keeps no memory.
    fn remove(&mut self, index: usize) -> Waiting<T> {
        let waiting = self.waiting.remove(index);
        if self.waiting.is_empty() {
            self.waiting = Vec::new();
        }
        waiting
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod properties;
