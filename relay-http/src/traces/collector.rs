//! The thread that hands traces to the collector, with an event loop of its own: the HTTP client needs
//! one, and a batch that takes long must keep nobody else waiting.

use std::io;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{RandomIdGenerator, SpanData, SpanExporter as _};
use relay_actors::metrics::Metrics;
use relay_model::limits::{TRACE_BATCH, TRACE_BATCH_WAIT, TRACE_EXPORT_TIMEOUT};
use reqwest::Client;
use reqwest::redirect::Policy;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::spans::Finished;
use crate::configuration::OtlpEndpoint;

/// What the thread is given to do.
pub(super) enum Work {
    /// Send this, with others.
    Finished(Finished),
    /// Send what there is and say so.
    Flush(oneshot::Sender<()>),
}

/// Why no traces can be sent.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// There is no TLS to be had, as on a machine without root certificates.
    #[error("no HTTP client for telemetry.otlp_endpoint: {0}")]
    Client(#[from] reqwest::Error),
    /// The library does not take what was configured.
    #[error("telemetry.otlp_endpoint cannot be used: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// The operating system gives no event loop.
    #[error("no event loop for traces: {0}")]
    Runtime(io::Error),
    /// The operating system gives no thread.
    #[error("no thread for traces: {0}")]
    Thread(io::Error),
}

/// Who talks to the collector.
pub(super) struct Collector {
    runtime: Runtime,
    exporter: SpanExporter,
    ids: RandomIdGenerator,
    metrics: Arc<Metrics>,
    /// The last batch was not taken.
    away: bool,
}

impl Collector {
    pub(super) fn new(endpoint: &OtlpEndpoint, metrics: Arc<Metrics>) -> Result<Self, TracesError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(TracesError::Runtime)?;
        let mut client = Client::builder()
            .user_agent(concat!("relay/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .timeout(TRACE_EXPORT_TIMEOUT);
        if endpoint.is_plain() {
            client = client.no_proxy();
        }
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint.traces_url())
            .with_timeout(TRACE_EXPORT_TIMEOUT)
            .with_http_client(client.build()?)
            .build()?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder_empty()
            .with_service_name("relay")
            .with_attribute(version);
        exporter.set_resource(&resource.build());
        Ok(Self {
            runtime,
            exporter,
            ids: RandomIdGenerator::default(),
            metrics,
            away: false,
        })
    }

    /// Works until nobody can give it work any more.
    pub(super) fn run(self, work: mpsc::Receiver<Work>) {
        let Self {
            runtime,
            exporter,
            ids,
            metrics,
            away,
        } = self;
        runtime.block_on(async move {
            let mut sender = Sender {
                exporter,
                ids,
                metrics,
                away,
            };
            sender.work(work).await;
        });
    }
}

struct Sender {
    exporter: SpanExporter,
    ids: RandomIdGenerator,
    metrics: Arc<Metrics>,
    away: bool,
}

impl Sender {
    async fn work(&mut self, mut work: mpsc::Receiver<Work>) {
        while let Some(first) = work.recv().await {
            let mut spans = Vec::new();
            let mut flushed = self.add(first, &mut spans);
            let deadline = Instant::now() + TRACE_BATCH_WAIT;
            for _ in 1..TRACE_BATCH {
                if flushed.is_some() {
                    break;
                }
                match timeout_at(deadline, work.recv()).await {
                    Ok(Some(more)) => flushed = self.add(more, &mut spans),
                    Ok(None) | Err(_) => break,
                }
            }
            self.send(spans).await;
            if let Some(flushed) = flushed {
                // Who asked may have given up.
                let _ = flushed.send(());
            }
        }
    }

    /// Adds the spans of a piece of work, and returns who waits for them to be sent.
    fn add(&self, work: Work, spans: &mut Vec<SpanData>) -> Option<oneshot::Sender<()>> {
        match work {
            Work::Finished(finished) => {
                spans.extend(finished.into_spans(&self.ids));
                None
            }
            Work::Flush(flushed) => Some(flushed),
        }
    }

    /// Sends a batch. One that the collector does not take is lost: it is worth less than the memory
    /// that it would take until somebody looks after the collector.
    async fn send(&mut self, spans: Vec<SpanData>) {
        let number = spans.len();
        if number == 0 {
            return;
        }
        let sent = timeout(TRACE_EXPORT_TIMEOUT, self.exporter.export(spans)).await;
        let failure = match sent {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in time".to_owned()),
        };
        match failure {
            None => {
                self.metrics.spans_exported(number);
                if std::mem::take(&mut self.away) {
                    tracing::info!("the collector takes traces again");
                }
            }
            Some(error) => {
                self.metrics.spans_dropped("export_failed", number);
                if !std::mem::replace(&mut self.away, true) {
                    tracing::warn!(
                        error,
                        "the collector does not take traces; they are dropped until it does"
                    );
                }
            }
        }
    }
}
