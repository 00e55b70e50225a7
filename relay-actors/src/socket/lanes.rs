//! What may wait for one connection (TR-10): lanes bounded in messages and bytes by permits. The
//! permit is taken by whoever sends and travels with the frame, so that the bound holds in every
//! queue on the way, mailboxes included.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relay_model::limits::Limits;

use super::ceilings::OutboundTotal;
use crate::metrics::{Tallies, Tally};

/// The lanes of a connection, most urgent first (RPC-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Replies about the connection itself, its status, pings.
    Control,
    /// Requests and responses.
    Rpc,
    /// Events.
    Event,
}

/// What waits in a lane, in one word so that count and bytes change together: 16 bits of messages,
/// 48 bits of bytes.
#[derive(Debug, Default)]
struct Load(AtomicU64);

const BYTES_BITS: u32 = 48;
const BYTES_MASK: u64 = (1 << BYTES_BITS) - 1;

impl Load {
    /// Adds a message if it fits, and returns the bytes that were there before. One that alone exceeds
    /// the bytes fits when nothing else waits.
    fn try_add(&self, bytes: u64, max_messages: u64, max_bytes: u64) -> Option<u64> {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |load| {
                let (messages, held) = (load >> BYTES_BITS, load & BYTES_MASK);
                let fits = messages == 0 || (messages < max_messages && held + bytes <= max_bytes);
                fits.then(|| ((messages + 1) << BYTES_BITS) | (held + bytes))
            })
            .ok()
            .map(|before| before & BYTES_MASK)
    }

    /// Removes a message and returns the bytes that were there before.
    fn remove(&self, bytes: u64) -> u64 {
        let load = (1 << BYTES_BITS) | bytes;
        self.0.fetch_sub(load, Ordering::AcqRel) & BYTES_MASK
    }

    fn get(&self) -> LaneLoad {
        let load = self.0.load(Ordering::Acquire);
        LaneLoad {
            messages: load >> BYTES_BITS,
            bytes: load & BYTES_MASK,
        }
    }
}

/// What waits in a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneLoad {
    /// Messages.
    pub messages: u64,
    /// Their payload in bytes.
    pub bytes: u64,
}

/// The room of one connection's lanes, shared by its socket and all who send to it.
#[derive(Debug)]
pub struct OutboundRoom {
    limits: Arc<Limits>,
    total: Arc<OutboundTotal>,
    control: Load,
    rpc: Load,
    event: Load,
    /// Bytes of the snapshots that wait; only the socket itself changes them.
    snapshots: AtomicU64,
    begun: BegunRequests,
}

impl OutboundRoom {
    /// Empty lanes under `limits`, which count in `total`.
    pub fn new(limits: Arc<Limits>, total: Arc<OutboundTotal>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            total,
            control: Load::default(),
            rpc: Load::default(),
            event: Load::default(),
            snapshots: AtomicU64::new(0),
            begun: BegunRequests::default(),
        })
    }

    /// Takes room for one message, or `None` if the lane is full.
    pub fn reserve(self: &Arc<Self>, lane: Lane, bytes: usize) -> Option<Permit> {
        let limits = &self.limits;
        let (max_messages, max_bytes) = match lane {
            Lane::Control => (limits.control_lane_messages, usize::MAX),
            Lane::Rpc => (limits.rpc_lane_messages, limits.rpc_lane_bytes),
            Lane::Event => (limits.event_lane_messages, limits.event_lane_bytes),
        };
        let bytes = (bytes as u64).min(BYTES_MASK / 2);
        let added = self
            .load_of(lane)
            .try_add(bytes, max_messages as u64, max_bytes as u64);
        let Some(before) = added else {
            self.tallies().count(Tally::LaneFull);
            return None;
        };
        self.total.change(before, before + bytes);
        Some(Permit {
            room: Arc::clone(self),
            lane,
            bytes,
        })
    }

    /// Where what leaves by the lanes is counted.
    pub(crate) fn tallies(&self) -> &Tallies {
        self.total.tallies()
    }

    /// The snapshots that wait have this many bytes.
    pub fn set_snapshots(&self, bytes: usize) {
        self.snapshots.store(bytes as u64, Ordering::Release);
    }

    /// All bytes that wait for the connection: what it owes when the process holds too much.
    pub fn debt(&self) -> u64 {
        let lanes = [Lane::Control, Lane::Rpc, Lane::Event];
        let lanes: u64 = lanes.map(|lane| self.load(lane).bytes).iter().sum();
        lanes + self.snapshots.load(Ordering::Acquire)
    }

    /// What waits in a lane.
    pub fn load(&self, lane: Lane) -> LaneLoad {
        self.load_of(lane).get()
    }

    /// How many requests left for this connection's peer.
    pub fn begun_requests(&self) -> &BegunRequests {
        &self.begun
    }

    fn load_of(&self, lane: Lane) -> &Load {
        match lane {
            Lane::Control => &self.control,
            Lane::Rpc => &self.rpc,
            Lane::Event => &self.event,
        }
    }
}

/// Room in a lane, given back when the frame is written or dropped.
#[derive(Debug)]
pub struct Permit {
    room: Arc<OutboundRoom>,
    lane: Lane,
    bytes: u64,
}

impl Permit {
    /// The lane that it is for.
    pub fn lane(&self) -> Lane {
        self.lane
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let before = self.room.load_of(self.lane).remove(self.bytes);
        self.room.total.change(before, before - self.bytes);
    }
}

/// How many of a desktop connection's requests were handed to its socket, in the order of its lane:
/// the proof behind `delivered` (RPC-5). The registry numbers the requests of a connection from 1;
/// the socket claims a request before the first attempt to write it and gives the claim back if no
/// byte was accepted. Once sealed, no further request may be claimed, so the number is final.
#[derive(Debug, Default)]
pub struct BegunRequests(AtomicU64);

const SEALED: u64 = 1 << 63;

impl BegunRequests {
    /// Claims the next request for writing; false once sealed.
    pub fn claim(&self) -> bool {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                (word & SEALED == 0).then(|| word + 1)
            })
            .is_ok()
    }

    /// Gives back the last `count` claims, of which no byte was accepted. Once sealed they stay
    /// counted: the answer that was given on their ground must not become untrue.
    pub fn unclaim(&self, count: u64) {
        if count > 0 {
            // Failing means sealed, which keeps the claims.
            let _ = self
                .0
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                    (word & SEALED == 0).then(|| word - count)
                });
        }
    }

    /// Forbids further claims and returns how many requests may have reached the peer.
    pub fn seal(&self) -> u64 {
        self.0.fetch_or(SEALED, Ordering::AcqRel) & !SEALED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::ceilings::Ceilings;

    fn room(change: impl FnOnce(&mut Limits)) -> Arc<OutboundRoom> {
        let mut limits = Limits::default();
        change(&mut limits);
        let total = Arc::clone(&Ceilings::new(&limits).outbound);
        OutboundRoom::new(Arc::new(limits), total)
    }

    /// TR-10: a lane holds so many messages and not one more, until a permit is given back.
    #[test]
    fn lanes_are_bounded_in_messages() {
        let room = room(|limits| limits.rpc_lane_messages = 2);
        let first = room.reserve(Lane::Rpc, 10).unwrap();
        let _second = room.reserve(Lane::Rpc, 10).unwrap();
        assert!(room.reserve(Lane::Rpc, 10).is_none());
        assert!(
            room.reserve(Lane::Event, 10).is_some(),
            "lanes are separate"
        );
        drop(first);
        assert!(room.reserve(Lane::Rpc, 10).is_some());
    }

    /// TR-10: a lane holds so many bytes; a message that alone exceeds them waits alone.
    #[test]
    fn lanes_are_bounded_in_bytes() {
        let room = room(|limits| limits.event_lane_bytes = 1_000);
        let large = room.reserve(Lane::Event, 5_000).unwrap();
        assert!(room.reserve(Lane::Event, 1).is_none());
        drop(large);
        let _exact = room.reserve(Lane::Event, 1_000).unwrap();
        assert!(room.reserve(Lane::Event, 1).is_none());
        assert!(room.reserve(Lane::Event, 5_000).is_none());
        assert_eq!(
            room.load(Lane::Event),
            LaneLoad {
                messages: 1,
                bytes: 1_000
            }
        );
    }

    #[test]
    fn everything_given_back_leaves_nothing() {
        let room = room(|_| ());
        let permits: Vec<_> = (0..200)
            .filter_map(|n| room.reserve(Lane::Rpc, n * 100))
            .collect();
        assert_eq!(permits.len(), 200);
        drop(permits);
        assert_eq!(
            room.load(Lane::Rpc),
            LaneLoad {
                messages: 0,
                bytes: 0
            }
        );
    }

    /// RPC-5: after the seal no request can leave, and the count is what may have left.
    #[test]
    fn sealing_ends_the_claims() {
        let begun = BegunRequests::default();
        assert!(begun.claim() && begun.claim() && begun.claim());
        begun.unclaim(1);
        assert_eq!(begun.seal(), 2);
        assert!(!begun.claim());
        begun.unclaim(1);
        assert_eq!(begun.seal(), 2);
    }
}
