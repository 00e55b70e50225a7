//! Traces for an OpenTelemetry collector (OP-7). Whatever becomes of the collector, those who make
//! traces only ever try to put them into a bounded queue; a thread of its own empties it.

mod collector;
mod spans;

use std::sync::Arc;
use std::thread;

use actix_web::http::header::HeaderMap;
use relay_actors::environment::Environment;
use relay_actors::metrics::Metrics;
use relay_actors::traces::{TraceSink, TracedRequest};
use relay_model::limits::{TRACE_FLUSH_TIMEOUT, TRACE_QUEUE};
use relay_model::time::Timestamp;
use relay_model::wire::traceparent::TraceParent;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::configuration::OtlpEndpoint;
pub use collector::TracesError;
use collector::{Collector, Work};
use spans::{Finished, TracedCall};

/// The traces of a relay, on their way to a collector. Clones are the same.
#[derive(Clone)]
pub struct Traces {
    queue: mpsc::Sender<Work>,
    metrics: Arc<Metrics>,
    environment: Arc<dyn Environment>,
}

/// An HTTP call that is being traced.
pub(crate) struct OpenCall {
    parent: TraceParent,
    began: Timestamp,
    began_at: Instant,
}

impl Traces {
    /// Starts the thread that talks to the collector at `endpoint`.
    ///
    /// # Errors
    /// When the process can make no such thread, or no TLS.
    pub(crate) fn start(
        endpoint: &OtlpEndpoint,
        metrics: Arc<Metrics>,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, TracesError> {
        let (queue, work) = mpsc::channel(TRACE_QUEUE);
        let collector = Collector::new(endpoint, Arc::clone(&metrics))?;
        thread::Builder::new()
            .name("relay-traces".to_owned())
            .spawn(move || collector.run(work))
            .map_err(TracesError::Thread)?;
        Ok(Self {
            queue,
            metrics,
            environment,
        })
    }

    /// Begins the trace of an HTTP call whose caller asks for one.
    pub(crate) fn begin_call(&self, headers: &HeaderMap) -> Option<OpenCall> {
        let mut named = headers.get_all("traceparent");
        let parent = TraceParent::read(named.next()?.to_str().ok()?)?;
        // Two are none (section 3.2 of W3C Trace Context).
        let asked = parent.sampled && named.next().is_none();
        asked.then(|| OpenCall {
            parent,
            began: self.environment.now(),
            began_at: Instant::now(),
        })
    }

    /// Ends it.
    pub(crate) fn end_call(
        &self,
        call: OpenCall,
        route: String,
        method: &'static str,
        status: u16,
    ) {
        let OpenCall {
            parent,
            began,
            began_at,
        } = call;
        self.put(Finished::Call(TracedCall {
            parent,
            began,
            took: began_at.elapsed(),
            route,
            method,
            status,
        }));
    }

    /// Has the collector take what is left, or gives up after a while.
    pub(crate) async fn flush(&self) {
        let flushed = tokio::time::timeout(TRACE_FLUSH_TIMEOUT, async {
            let (done, flushed) = oneshot::channel();
            if self.queue.send(Work::Flush(done)).await.is_ok() {
                let _ = flushed.await;
            }
        });
        if flushed.await.is_err() {
            tracing::warn!("the collector did not take the last traces in time; they are lost");
        }
    }

    fn put(&self, finished: Finished) {
        if let Err(
            TrySendError::Full(Work::Finished(lost)) | TrySendError::Closed(Work::Finished(lost)),
        ) = self.queue.try_send(Work::Finished(finished))
        {
            self.metrics.spans_dropped("queue_full", lost.spans());
        }
    }
}

impl TraceSink for Traces {
    fn finished(&self, request: TracedRequest) {
        self.put(Finished::Request(request));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use metrics_exporter_prometheus::PrometheusBuilder;
    use relay_actors::traces::TraceOutcome;

    use super::*;
    use crate::system_environment::SystemEnvironment;

    /// OP-7: a full queue makes nobody wait; what it cannot take is counted, span by span.
    #[tokio::test]
    async fn what_the_queue_cannot_take_is_counted() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let page = recorder.handle();
        let (queue, mut work) = mpsc::channel(1);
        let traces = Traces {
            queue,
            metrics: Arc::new(Metrics::new(Arc::new(recorder))),
            environment: Arc::new(SystemEnvironment),
        };
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = TraceParent::read(parent).unwrap();
        let moment = Some(Duration::from_millis(1));
        let request = TracedRequest {
            parent,
            method: "m".into(),
            began: Timestamp::from_unix_micros(0),
            forwarded: moment,
            written: moment,
            answered: None,
            delivered: None,
            ended: Duration::from_millis(1),
            outcome: TraceOutcome::Lost,
        };
        let dropped = |number: usize| {
            let line =
                format!("relay_trace_spans_dropped_total{{reason=\"queue_full\"}} {number}\n");
            assert!(page.render().contains(&line), "{}", page.render());
        };
        traces.finished(request.clone());
        dropped(0);
        traces.finished(request.clone());
        dropped(3);
        assert!(work.recv().await.is_some());
        drop(work);
        traces.finished(request);
        dropped(6);
    }

    /// OP-7, RPC-10: the caller's flag decides, and of two headers neither counts.
    #[test]
    fn calls_are_traced_when_their_callers_ask() {
        use actix_web::http::header::{HeaderName, HeaderValue};
        let (queue, _work) = mpsc::channel(1);
        let traces = Traces {
            queue,
            metrics: Arc::default(),
            environment: Arc::new(SystemEnvironment),
        };
        let sampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        for (values, traced) in [
            (&[sampled][..], true),
            (&[unsampled], false),
            (&["00-4bf9"], false),
            (&[sampled, sampled], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                let name = HeaderName::from_static("traceparent");
                headers.append(name, HeaderValue::from_static(value));
            }
            assert_eq!(traces.begin_call(&headers).is_some(), traced, "{values:?}");
        }
    }
}
