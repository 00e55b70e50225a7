//! What one socket may have under way inside the relay. At the bound it stops reading its peer, so
//! that one busy peer fills its own TCP window and nobody else's queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Context;

use futures_util::task::AtomicWaker;
use relay_model::limits::Limits;

/// The room of one socket, shared with its messages under way.
#[derive(Debug)]
pub(crate) struct InboundRoom {
    max_messages: usize,
    max_bytes: usize,
    messages: AtomicUsize,
    bytes: AtomicUsize,
    waiting: AtomicBool,
    reader: AtomicWaker,
}

impl InboundRoom {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            max_messages: limits.inbound_messages,
            max_bytes: limits.inbound_bytes,
            messages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            waiting: AtomicBool::new(false),
            reader: AtomicWaker::new(),
        })
    }

    /// Takes room for a message that was read. It is always given: the bound is kept by not reading
    /// the next one (one large message may exceed it alone).
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> InboundPermit {
        self.messages.fetch_add(1, Ordering::AcqRel);
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        InboundPermit {
            room: Arc::clone(self),
            bytes,
        }
    }

    /// Whether another message may be read. If not, the task of `cx` is woken once room is back.
    pub(crate) fn may_read(&self, cx: &Context<'_>) -> bool {
        if self.has_room() {
            return true;
        }
        self.reader.register(cx.waker());
        self.waiting.store(true, Ordering::SeqCst);
        // Room may have come back between the look and the registration.
        self.has_room()
    }

    fn has_room(&self) -> bool {
        self.messages.load(Ordering::SeqCst) < self.max_messages
            && self.bytes.load(Ordering::SeqCst) < self.max_bytes
    }
}

/// Room taken by one message, given back when whoever handles the message is done with it.
#[derive(Debug)]
pub(crate) struct InboundPermit {
    room: Arc<InboundRoom>,
    bytes: usize,
}

impl Drop for InboundPermit {
    fn drop(&mut self) {
        self.room.messages.fetch_sub(1, Ordering::SeqCst);
        self.room.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        if self.room.waiting.swap(false, Ordering::SeqCst) {
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

        let room = InboundRoom::new(&limits);
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
