//! What a finished trace looks like as spans (OP-7). Pure but for the ids of the spans, which are drawn
//! anew. A span says what was done and how it ended, and nothing of whose it was.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SpanData, SpanEvents, SpanLinks};
use relay_actors::traces::{TraceOutcome, TracedRequest};
use relay_model::time::Timestamp;
use relay_model::wire::traceparent::TraceParent;

/// A trace that is over.
#[derive(Debug)]
pub(super) enum Finished {
    /// Of a request to a desktop.
    Request(TracedRequest),
    /// Of an HTTP call.
    Call(TracedCall),
}

/// An HTTP call.
#[derive(Debug)]
pub(super) struct TracedCall {
    pub(super) parent: TraceParent,
    pub(super) began: Timestamp,
    pub(super) took: Duration,
    /// The pattern of its path.
    pub(super) route: String,
    pub(super) method: &'static str,
    pub(super) status: u16,
}

/// A part of a request's time: its name, and when it began and ended if it did both.
type Part = (&'static str, Option<Duration>, Option<Duration>);

impl Finished {
    /// How many spans it has.
    pub(super) fn spans(&self) -> usize {
        match self {
            Self::Request(request) => 1 + complete(&parts(request)).count(),
            Self::Call(_) => 1,
        }
    }

    /// Its spans, the outermost first.
    pub(super) fn into_spans(self, ids: &RandomIdGenerator) -> Vec<SpanData> {
        match self {
            Self::Request(request) => of_request(&request, ids),
            Self::Call(call) => vec![of_call(call, ids)],
        }
    }
}

/// The parts of a request's way, in the order of time.
fn parts(request: &TracedRequest) -> [Part; 4] {
    let TracedRequest {
        forwarded,
        written,
        answered,
        delivered,
        ..
    } = *request;
    [
        ("queueing", Some(Duration::ZERO), forwarded),
        ("forward", forwarded, written),
        ("desktop", written, answered),
        ("answer", answered, delivered),
    ]
}

/// Those that were gone through to their end.
fn complete(parts: &[Part]) -> impl Iterator<Item = (&'static str, Duration, Duration)> {
    parts
        .iter()
        .filter_map(|(name, began, ended)| Some((*name, (*began)?, (*ended)?)))
}

fn of_request(request: &TracedRequest, ids: &RandomIdGenerator) -> Vec<SpanData> {
    let mut attributes = vec![
        KeyValue::new("rpc.method", request.method.to_string()),
        KeyValue::new("relay.outcome", request.outcome.as_str()),
    ];
    let status = match request.outcome {
        TraceOutcome::Answered | TraceOutcome::Duplicate => Status::Unset,
        TraceOutcome::DesktopError => Status::error("the desktop answered with an error"),
        TraceOutcome::Lost => Status::error("no answer came"),
        TraceOutcome::Failed(code) => {
            attributes.push(KeyValue::new("relay.error_code", i64::from(code.code())));
            Status::error(code.meaning())
        }
    };
    let root = SpanData {
        attributes,
        status,
        ..span(
            "rpc.request",
            SpanKind::Server,
            (
                &request.parent,
                SpanId::from(request.parent.parent_id),
                true,
            ),
            (request.began, Duration::ZERO, request.ended),
            ids,
        )
    };
    let root_id = root.span_context.span_id();
    let mut spans = vec![root];
    for (name, began, ended) in complete(&parts(request)) {
        let times = (request.began, began, ended);
        let parent = (&request.parent, root_id, false);
        spans.push(span(name, SpanKind::Internal, parent, times, ids));
    }
    spans
}

fn of_call(call: TracedCall, ids: &RandomIdGenerator) -> SpanData {
    let name = format!("{} {}", call.method, call.route);
    let status = if call.status >= 500 {
        Status::error("the relay could not do its part")
    } else {
        Status::Unset
    };
    SpanData {
        attributes: vec![
            KeyValue::new("http.request.method", call.method),
            KeyValue::new("http.route", call.route),
            KeyValue::new("http.response.status_code", i64::from(call.status)),
        ],
        status,
        ..span(
            name,
            SpanKind::Server,
            (&call.parent, SpanId::from(call.parent.parent_id), true),
            (call.began, Duration::ZERO, call.took),
            ids,
        )
    }
}

/// A span of the trace of `parent`, below this span of it, which is the caller's or ours.
fn span(
    name: impl Into<Cow<'static, str>>,
    kind: SpanKind,
    (parent, parent_span_id, parent_span_is_remote): (&TraceParent, SpanId, bool),
    (began, from, to): (Timestamp, Duration, Duration),
    ids: &RandomIdGenerator,
) -> SpanData {
    let began = wall(began);
    SpanData {
        span_context: SpanContext::new(
            TraceId::from(parent.trace_id),
            ids.new_span_id(),
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        ),
        parent_span_id,
        parent_span_is_remote,
        span_kind: kind,
        name: name.into(),
        start_time: began + from,
        end_time: began + to.max(from),
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("relay").build(),
    }
}

fn wall(time: Timestamp) -> SystemTime {
    let micros = u64::try_from(time.unix_micros()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use relay_model::wire::codes::RpcErrorCode;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn request() -> TracedRequest {
        let at = |millis| Some(Duration::from_millis(millis));
        TracedRequest {
            parent: TraceParent::read(PARENT).unwrap(),
            method: "session.list".into(),
            began: Timestamp::from_unix_micros(1_000_000),
            forwarded: at(1),
            written: at(3),
            answered: at(40),
            delivered: at(41),
            ended: Duration::from_millis(41),
            outcome: TraceOutcome::Answered,
        }
    }

    /// OP-7: a request's span joins the caller's trace; its children follow each other without a gap,
    /// from the reading of the request to the last byte of the answer.
    #[test]
    fn a_request_is_a_span_with_four_children() {
        let finished = Finished::Request(request());
        assert_eq!(finished.spans(), 5);
        let spans = finished.into_spans(&RandomIdGenerator::default());
        let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
        assert_eq!(
            names,
            ["rpc.request", "queueing", "forward", "desktop", "answer"]
        );
        let (root, children) = spans.split_first().unwrap();
        let trace = TraceId::from(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(root.parent_span_id, SpanId::from(0x00f0_67aa_0ba9_02b7));
        assert!(root.parent_span_is_remote);
        let mut time = root.start_time;
        for child in children {
            assert_eq!(child.span_context.trace_id(), trace);
            assert_eq!(child.parent_span_id, root.span_context.span_id());
            assert_eq!(child.start_time, time);
            time = child.end_time;
        }
        assert_eq!(time, root.end_time);
        assert_eq!(
            root.start_time,
            SystemTime::UNIX_EPOCH + Duration::from_secs(1)
        );
    }

    /// OP-7: a request that went no way has no children, and its error is named.
    #[test]
    fn what_did_not_happen_has_no_span() {
        let refused = TracedRequest {
            forwarded: None,
            written: None,
            answered: None,
            delivered: None,
            outcome: TraceOutcome::Failed(RpcErrorCode::DesktopOffline),
            ..request()
        };
        let spans = Finished::Request(refused).into_spans(&RandomIdGenerator::default());
        assert_eq!(spans.len(), 1);
        assert_eq!(spans[0].status, Status::error("Desktop is offline"));
        let code = KeyValue::new("relay.error_code", -32010_i64);
        assert!(
            spans[0].attributes.contains(&code),
            "{:?}",
            spans[0].attributes
        );
    }
}
