//! What one socket may have under way inside the relay. At the bound it stops reading its peer, so
//! that one busy peer fills its own TCP window and nobody else's queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Context;

use futures_util::task::AtomicWaker;
use relay_model::limits::Limits;

use super::lanes::LaneLoad;
use crate::metrics::{Tallies, Tally};

/// One message, in the word that counts messages (16 bits) and bytes (48 bits) together.
const MESSAGE: u64 = 1 << 48;

/// The room of one socket, shared with its messages under way.
#[derive(Debug)]
pub(crate) struct InboundRoom {
    max_messages: u64,
    max_bytes: u64,
    under_way: AtomicU64,
    waiting: AtomicBool,
    reader: AtomicWaker,
    tallies: Arc<Tallies>,
}

impl InboundRoom {
    pub(crate) fn new(limits: &Limits, tallies: Arc<Tallies>) -> Arc<Self> {
        Arc::new(Self {
            max_messages: limits.inbound_messages as u64,
            max_bytes: limits.inbound_bytes as u64,
            under_way: AtomicU64::new(0),
            waiting: AtomicBool::new(false),
            reader: AtomicWaker::new(),
            tallies,
        })
    }

    /// Takes room for a message that was read. It is always given: the bound is kept by not reading
    /// the next one (one large message may exceed it alone).
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> InboundPermit {
        // A message has 32 MiB at most, and the bound on messages keeps the sum within 48 bits.
        let load = MESSAGE | bytes as u64;
        self.under_way.fetch_add(load, Ordering::SeqCst);
        self.tallies.count(Tally::UnderWay);
        InboundPermit {
            room: Arc::clone(self),
            load,
        }
    }

    /// Whether another message may be read. If not, the task of `cx` is woken once room is back.
    pub(crate) fn may_read(&self, cx: &Context<'_>) -> bool {
        if self.has_room() {
            return true;
        }
        self.reader.register(cx.waker());
        if !self.waiting.swap(true, Ordering::SeqCst) {
            self.tallies.count(Tally::ReadingPaused);
        }
        // Room may have come back between the look and the registration.
        self.has_room()
    }

    /// What is under way.
    pub(crate) fn load(&self) -> LaneLoad {
        let load = self.under_way.load(Ordering::SeqCst);
        LaneLoad {
            messages: load / MESSAGE,
            bytes: load % MESSAGE,
        }
    }

    fn has_room(&self) -> bool {
        let LaneLoad { messages, bytes } = self.load();
        messages < self.max_messages && bytes < self.max_bytes
    }
}

/// Room taken by one message, given back when whoever handles the message is done with it.
#[derive(Debug)]
pub(crate) struct InboundPermit {
    room: Arc<InboundRoom>,
    load: u64,
}

impl Drop for InboundPermit {
    fn drop(&mut self) {
        self.room.under_way.fetch_sub(self.load, Ordering::SeqCst);
        self.room.tallies.subtract(Tally::UnderWay, 1);
        let waiting = &self.room.waiting;
        if waiting.load(Ordering::SeqCst) && waiting.swap(false, Ordering::SeqCst) {
            self.room.reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::{Wake, Waker};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn reading_stops_at_the_bound_and_goes_on_when_room_is_back() {
        let limits = Limits {
            inbound_messages: 2,
            inbound_bytes: 100,
            ..Limits::default()
        };
        let wakes = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let cx = Context::from_waker(&waker);

        let room = InboundRoom::new(&limits, Arc::default());
        let first = room.take(10);
        assert!(room.may_read(&cx));
        let second = room.take(10);
        assert!(!room.may_read(&cx), "two messages");
        drop(first);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        assert!(room.may_read(&cx));
        let _large = room.take(1_000);
        drop(second);
        assert!(!room.may_read(&cx), "too many bytes");
    }
}
