//! What became of single requests, for those whose callers asked to have them traced (OP-7, RPC-10).
//! A request's trace is shared by whoever holds a part of the request; each notes the moment that it is
//! about, and when the last one lets go, the trace is over and is handed on. Without somebody to hand
//! it to nothing is noted at all.

mod traced;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use relay_model::time::Timestamp;
use relay_model::wire::codes::RpcErrorCode;
use relay_model::wire::traceparent::TraceParent;
use tokio::time::Instant;

pub(crate) use traced::TracedRequests;

/// How a traced request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceOutcome {
    /// The desktop answered with a result.
    Answered,
    /// The desktop answered with an error of its own.
    DesktopError,
    /// The relay answered with this error.
    Failed(RpcErrorCode),
    /// The phone had the id pending already; the one answer serves both (RPC-7).
    Duplicate,
    /// No answer came: the record ended at its deadline, or a connection that had to do with it did.
    Lost,
}

impl TraceOutcome {
    /// Its word in a span.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::DesktopError => "desktop_error",
            Self::Failed(_) => "failed",
            Self::Duplicate => "duplicate",
            Self::Lost => "lost",
        }
    }

    /// As a number: those of the errors are their codes, which are negative.
    const fn number(self) -> i32 {
        match self {
            Self::Lost => 0,
            Self::Answered => 1,
            Self::DesktopError => 2,
            Self::Duplicate => 3,
            Self::Failed(code) => code.code(),
        }
    }

    fn from_number(number: i32) -> Self {
        let failed = |number| RpcErrorCode::ALL.iter().find(|code| code.code() == number);
        match number {
            1 => Self::Answered,
            2 => Self::DesktopError,
            3 => Self::Duplicate,
            other => failed(other).map_or(Self::Lost, |code| Self::Failed(*code)),
        }
    }
}

/// A traced request that is over. Times are counted from its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedRequest {
    /// What the caller said its trace is.
    pub parent: TraceParent,
    /// The request's method.
    pub method: Box<str>,
    /// When the relay read it.
    pub began: Timestamp,
    /// When it was put into the desktop's lane.
    pub forwarded: Option<Duration>,
    /// When the desktop's socket had taken all of it.
    pub written: Option<Duration>,
    /// When the final answer was read, or the relay made one.
    pub answered: Option<Duration>,
    /// When the phone's socket had taken all of the answer.
    pub delivered: Option<Duration>,
    /// When nobody held any of it any more.
    pub ended: Duration,
    /// How it ended.
    pub outcome: TraceOutcome,
}

/// Takes traces that are over. Called on the threads that serve connections: it may not wait.
pub trait TraceSink: Send + Sync + 'static {
    /// Takes one.
    fn finished(&self, request: TracedRequest);
}

/// A moment of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Forwarded,
    Written,
    Answered,
    Delivered,
}

const MOMENTS: usize = 4;

/// A request that is being traced.
pub(crate) struct OpenTrace {
    sink: Arc<dyn TraceSink>,
    parent: TraceParent,
    method: Box<str>,
    began: Timestamp,
    began_at: Instant,
    /// Nanoseconds since the beginning, by [`Moment`]; 0 if it has not come.
    moments: [AtomicU64; MOMENTS],
    outcome: AtomicI32,
}

impl fmt::Debug for OpenTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTrace")
            .field("parent", &self.parent)
            .finish_non_exhaustive()
    }
}

impl OpenTrace {
    /// Begins the trace of a request that was read at `now`, which is `wall` by the clock on the wall.
    pub(crate) fn begin(
        sink: &Arc<dyn TraceSink>,
        parent: TraceParent,
        method: &str,
        wall: Timestamp,
        now: Instant,
    ) -> Arc<Self> {
        Arc::new(Self {
            sink: Arc::clone(sink),
            parent,
            method: method.into(),
            began: wall,
            began_at: now,
            moments: [const { AtomicU64::new(0) }; MOMENTS],
            outcome: AtomicI32::new(TraceOutcome::Lost.number()),
        })
    }

    /// Notes that a moment has come; the first time counts.
    pub(crate) fn mark(&self, moment: Moment, now: Instant) {
        let since = now.saturating_duration_since(self.began_at).as_nanos();
        // What took no time that the clock can tell has come all the same.
        let since = u64::try_from(since).unwrap_or(u64::MAX).max(1);
        let noted = &self.moments[moment as usize];
        let _ = noted.compare_exchange(0, since, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Notes how the request ends; the last word counts.
    pub(crate) fn ends(&self, outcome: TraceOutcome) {
        self.outcome.store(outcome.number(), Ordering::Release);
    }

    fn since(&self, moment: Moment) -> Option<Duration> {
        let nanos = self.moments[moment as usize].load(Ordering::Acquire);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }
}

impl Drop for OpenTrace {
    fn drop(&mut self) {
        let delivered = self.since(Moment::Delivered);
        let now = || Instant::now().saturating_duration_since(self.began_at);
        self.sink.finished(TracedRequest {
            parent: self.parent,
            method: std::mem::take(&mut self.method),
            began: self.began,
            forwarded: self.since(Moment::Forwarded),
            written: self.since(Moment::Written),
            answered: self.since(Moment::Answered),
            delivered,
            ended: delivered.unwrap_or_else(now),
            outcome: TraceOutcome::from_number(self.outcome.load(Ordering::Acquire)),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    struct Sent(mpsc::Sender<TracedRequest>);

    impl TraceSink for Sent {
        fn finished(&self, request: TracedRequest) {
            self.0.send(request).unwrap();
        }
    }

    /// OP-7: the trace is handed on once, when nobody holds the request any more, with the moments that
    /// came and the last word on how it ended.
    #[tokio::test(start_paused = true)]
    async fn a_trace_ends_with_its_last_holder() {
        let (sender, traces) = mpsc::channel();
        let sink: Arc<dyn TraceSink> = Arc::new(Sent(sender));
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = TraceParent::read(parent).unwrap();
        let (wall, now) = (Timestamp::from_unix_micros(5), Instant::now());
        let trace = OpenTrace::begin(&sink, parent, "a.method", wall, now);
        let other = Arc::clone(&trace);
        trace.mark(Moment::Forwarded, now);
        trace.mark(Moment::Written, now + Duration::from_millis(2));
        trace.mark(Moment::Written, now + Duration::from_millis(3));
        trace.ends(TraceOutcome::Answered);
        trace.ends(TraceOutcome::Failed(RpcErrorCode::DesktopReconnecting));
        drop(trace);
        assert!(traces.try_recv().is_err());
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(other);
        let ended = traces.try_recv().unwrap();
        assert_eq!(ended.forwarded, Some(Duration::from_nanos(1)));
        assert_eq!(ended.written, Some(Duration::from_millis(2)));
        assert_eq!((ended.answered, ended.delivered), (None, None));
        assert_eq!(ended.ended, Duration::from_secs(1));
        let failed = TraceOutcome::Failed(RpcErrorCode::DesktopReconnecting);
        assert_eq!(
            (ended.outcome, &*ended.method, ended.began),
            (failed, "a.method", wall)
        );
        assert!(traces.try_recv().is_err());
    }

    #[test]
    fn outcomes_have_numbers_of_their_own() {
        let failed = RpcErrorCode::ALL
            .iter()
            .map(|code| TraceOutcome::Failed(*code));
        use TraceOutcome::{Answered, DesktopError, Duplicate, Lost};
        for outcome in failed.chain([Answered, DesktopError, Duplicate, Lost]) {
            assert_eq!(TraceOutcome::from_number(outcome.number()), outcome);
        }
    }
}
