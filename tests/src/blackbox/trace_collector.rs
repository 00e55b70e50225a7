//! An OpenTelemetry collector as the relay meets one: a server in the test's own process that takes
//! traces over OTLP/HTTP and keeps their spans.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::DEADLINE;

/// A running collector; it ends when it is dropped.
pub struct TraceCollector {
    address: SocketAddr,
    spans: watch::Receiver<Vec<Span>>,
    serving: JoinHandle<()>,
}

impl Drop for TraceCollector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl TraceCollector {
    /// Starts one that takes everything.
    pub async fn start() -> Self {
        Self::answering(StatusCode::OK).await
    }

    /// Starts one that answers with this status, and keeps what it was sent all the same.
    ///
    /// # Panics
    /// When there is no port for it.
    pub async fn answering(status: StatusCode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (keep, spans) = watch::channel(Vec::new());
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let keep = keep.clone();
                let service = service_fn(move |request| take(request, keep.clone(), status));
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(serving);
            }
        });
        Self {
            address,
            spans,
            serving,
        }
    }

    /// Its `telemetry.otlp_endpoint`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans that came so far.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.borrow().clone()
    }

    /// Waits until so many spans of a trace have come, and returns them.
    ///
    /// # Panics
    /// When they do not within [`DEADLINE`].
    pub async fn spans_of(&self, trace_id: &str, number: usize) -> Vec<Span> {
        let of_trace = |spans: &[Span]| -> Vec<Span> {
            let wanted = spans.iter().filter(|span| hex(&span.trace_id) == trace_id);
            wanted.cloned().collect()
        };
        let mut spans = self.spans.clone();
        let waiting = spans.wait_for(|spans| of_trace(spans).len() >= number);
        let outcome = tokio::time::timeout(DEADLINE, waiting).await.map(drop);
        let found = of_trace(&self.spans());
        assert!(
            outcome.is_ok() && found.len() == number,
            "{number} spans expected: {found:#?}"
        );
        found
    }
}

/// Bytes as they stand in a `traceparent`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn take(
    request: Request<Incoming>,
    keep: watch::Sender<Vec<Span>>,
    status: StatusCode,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let answer = |status| {
        let mut response = Response::new(Empty::new());
        *response.status_mut() = status;
        Ok(response)
    };
    let kind = request.headers().get("content-type");
    if request.method() != Method::POST
        || request.uri().path() != "/v1/traces"
        || kind.is_none_or(|kind| kind != "application/x-protobuf")
    {
        return answer(StatusCode::NOT_FOUND);
    }
    let Ok(body) = request.into_body().collect().await else {
        return answer(StatusCode::BAD_REQUEST);
    };
    let Ok(traces) = ExportTraceServiceRequest::decode(body.to_bytes()) else {
        return answer(StatusCode::BAD_REQUEST);
    };
    keep.send_modify(|spans| {
        for resource in traces.resource_spans {
            let scopes = resource.scope_spans;
            spans.extend(scopes.into_iter().flat_map(|scope| scope.spans));
        }
    });
    answer(status)
}
