//! What is counted on the way of every frame. Each thread counts in cells of its own, so that two
//! threads never write to one place; a reading adds them up.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::names::Metric;

/// Builds the enum of the tallies: each is one series of a metric, with the values of its labels.
macro_rules! tallies {
    ($( $variant:ident => $metric:ident [$($value:literal),*]; )+) => {
        /// One figure that is counted by threads apart.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Tally {
            $( #[doc = concat!(stringify!($metric) $(, " ", $value)*)] $variant, )+
        }

        impl Tally {
            /// Every tally.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The metric that it is a series of.
            pub const fn metric(self) -> Metric {
                match self { $(Self::$variant => Metric::$metric,)+ }
            }

            /// The values of that metric's labels.
            pub const fn values(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$($value),*],)+ }
            }
        }
    };
}

tallies! {
    SocketsAccepted => SocketsAccepted [];
    ReceivedRegister => FramesReceived ["register"];
    ReceivedPing => FramesReceived ["ping"];
    ReceivedHeartbeat => FramesReceived ["heartbeat"];
    ReceivedRequest => FramesReceived ["rpc.request"];
    ReceivedResponse => FramesReceived ["rpc.response"];
    ReceivedEvent => FramesReceived ["event"];
    ReceivedRenew => FramesReceived ["auth.renew"];
    ReceivedIgnored => FramesReceived ["ignored"];
    ReceivedInvalid => FramesReceived ["invalid"];
    ReceivedBinary => FramesReceived ["binary"];
    ReceivedRateLimited => FramesReceived ["rate_limited"];
    ReceivedControl => FramesReceived ["control"];
    RegisterBytes => BytesReceived ["register"];
    PingBytes => BytesReceived ["ping"];
    HeartbeatBytes => BytesReceived ["heartbeat"];
    RequestBytes => BytesReceived ["rpc.request"];
    ResponseBytes => BytesReceived ["rpc.response"];
    EventBytes => BytesReceived ["event"];
    RenewBytes => BytesReceived ["auth.renew"];
    IgnoredBytes => BytesReceived ["ignored"];
    InvalidBytes => BytesReceived ["invalid"];
    RateLimitedBytes => BytesReceived ["rate_limited"];
    SentReply => FramesSent ["reply"];
    SentRequest => FramesSent ["rpc.request"];
    SentResponse => FramesSent ["rpc.response"];
    SentEvent => FramesSent ["event"];
    SentTimeline => FramesSent ["timeline"];
    SentControl => FramesSent ["control"];
    SentReplyBytes => BytesSent ["reply"];
    SentRequestBytes => BytesSent ["rpc.request"];
    SentResponseBytes => BytesSent ["rpc.response"];
    SentEventBytes => BytesSent ["event"];
    SentTimelineBytes => BytesSent ["timeline"];
    SentControlBytes => BytesSent ["control"];
    RateLimited => RateLimited [];
    RpcForwarded => RpcRequests ["forwarded"];
    RpcDuplicate => RpcRequests ["duplicate"];
    RpcRefused => RpcRequests ["refused"];
    RpcDelivered => RpcAnswers ["delivered"];
    RpcUnknown => RpcAnswers ["unknown"];
    RpcUndeliverable => RpcAnswers ["undeliverable"];
    RpcExpired => RpcExpired [];
    RpcPending => RpcPending [];
    EventsPublished => EventsPublished [];
    EventsRouted => EventsRouted [];
    TimelineUnauthorized => TimelineFrames ["unauthorized"];
    TimelineAccepted => TimelineFrames ["accepted"];
    TimelineCoalesced => TimelineFrames ["coalesced"];
    TimelineEvicted => TimelineFrames ["evicted"];
    TimelineExpired => TimelineFrames ["expired"];
    TimelineSent => TimelineFrames ["sent"];
    TimelineStale => TimelineFrames ["stale"];
    TimelineNotices => TimelineNotices [];
    TimelineLeases => TimelineLeases [];
    UnderWay => MailboxDepth ["registry"];
    LaneFull => MailboxFull ["socket"];
    ReadingPaused => MailboxFull ["registry"];
    StoreFull => MailboxFull ["store"];
    DatabaseNotWritable => DatabaseErrors ["not_writable"];
    DatabaseQueueFull => DatabaseErrors ["queue_full"];
    DatabaseUnavailable => DatabaseErrors ["unavailable"];
    DatabaseFailed => DatabaseErrors ["failed"];
    BecameOnline => PresenceTransitions ["online"];
    BecameReconnecting => PresenceTransitions ["reconnecting"];
    BecameOffline => PresenceTransitions ["offline"];
}

/// Sets of cells. With more threads than these some share one, which costs them time only.
const STRIPES: usize = 16;

/// The cells of a thread, on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe([AtomicU64; Tally::ALL.len()]);

/// The tallies of a relay.
#[derive(Debug)]
pub struct Tallies(Box<[Stripe]>);

impl Default for Tallies {
    fn default() -> Self {
        let stripe = |_| Stripe([const { AtomicU64::new(0) }; Tally::ALL.len()]);
        Self((0..STRIPES).map(stripe).collect())
    }
}

/// Which stripe the current thread counts in.
fn stripe_of_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: Cell<Option<usize>> = const { Cell::new(None) };
    }
    STRIPE.get().unwrap_or_else(|| {
        let stripe = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES;
        STRIPE.set(Some(stripe));
        stripe
    })
}

impl Tallies {
    /// Counts `number` more.
    pub(crate) fn add(&self, tally: Tally, number: u64) {
        let Stripe(cells) = &self.0[stripe_of_thread()];
        // A sum that is read while others count may be of no single moment; that is enough here.
        cells[tally as usize].fetch_add(number, Ordering::Relaxed);
    }

    /// Counts one more.
    pub(crate) fn count(&self, tally: Tally) {
        self.add(tally, 1);
    }

    /// Takes `number` away, for what goes up and down. One thread's cell may fall below zero and wrap
    /// around, the sum of all is right.
    pub(crate) fn subtract(&self, tally: Tally, number: u64) {
        self.add(tally, number.wrapping_neg());
    }

    /// What was counted, over all threads.
    pub fn read(&self, tally: Tally) -> u64 {
        self.0.iter().fold(0, |sum, Stripe(cells)| {
            sum.wrapping_add(cells[tally as usize].load(Ordering::Relaxed))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::metrics::MetricKind;

    /// OP-6: nothing is lost between threads, also of what one adds and another takes away.
    #[test]
    fn threads_count_apart_and_add_up() {
        let tallies = Tallies::default();
        thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        tallies.count(Tally::RpcForwarded);
                        tallies.add(Tally::RpcPending, 3);
                    }
                });
            }
        });
        thread::scope(|scope| {
            scope.spawn(|| tallies.subtract(Tally::RpcPending, 3 * 1_000 * 2 * STRIPES as u64 - 5));
        });
        assert_eq!(tallies.read(Tally::RpcForwarded), 2_000 * STRIPES as u64);
        assert_eq!(tallies.read(Tally::RpcPending), 5);
        assert_eq!(tallies.read(Tally::RpcUnknown), 0);
    }

    /// OP-6: each tally is one series: as many values as its metric has labels, and no other the same.
    #[test]
    fn tallies_are_series() {
        for (place, tally) in Tally::ALL.iter().enumerate() {
            assert_eq!(tally.values().len(), tally.metric().labels().len());
            assert!(!matches!(tally.metric().kind(), MetricKind::Histogram(_)));
            let series = |tally: &Tally| (tally.metric(), tally.values());
            assert!(
                !Tally::ALL[..place]
                    .iter()
                    .any(|other| series(other) == series(tally))
            );
        }
    }
}
