//! The page of figures for Prometheus (OP-6): the recorder that a relay counts into, and the endpoint
//! that shows it. Nothing is installed for the process: each relay has its own.

mod calls;

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use actix_web::{HttpResponse, Resource};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use metrics_process::Collector;
use relay_actors::Relay;
use relay_actors::metrics::{Metric, MetricKind, Metrics};

use crate::endpoint::Endpoint;
pub(crate) use calls::CallObserver;

/// Where the page is.
pub const METRICS: &str = "/metrics";

/// The text format of Prometheus.
const TEXT_FORMAT: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// How often measured times are put into their buckets; until then each takes 24 bytes.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The figures of one relay. Clones are the same.
#[derive(Clone)]
pub struct Figures {
    recorder: Arc<PrometheusRecorder>,
    page: PrometheusHandle,
    metrics: Arc<Metrics>,
    process: Collector,
}

impl Default for Figures {
    fn default() -> Self {
        Self::new()
    }
}

impl Figures {
    /// Figures that stand at nothing.
    pub fn new() -> Self {
        let builder = Metric::ALL
            .iter()
            .fold(PrometheusBuilder::new(), |builder, metric| {
                let MetricKind::Histogram(bounds) = metric.kind() else {
                    return builder;
                };
                let name = Matcher::Full(metric.name().to_owned());
                // Fails for no buckets only, and each has some.
                builder
                    .set_buckets_for_metric(name, bounds)
                    .unwrap_or_default()
            });
        let recorder = Arc::new(builder.build_recorder());
        let metrics = Metrics::new(Arc::<PrometheusRecorder>::clone(&recorder));
        metrics.set_version(env!("CARGO_PKG_VERSION"));
        Self {
            page: recorder.handle(),
            metrics: Arc::new(metrics),
            recorder,
            process: Collector::new("relay_"),
        }
    }

    /// What a relay is to be started with, so that it counts here.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The page as it is now.
    pub async fn render(&self, relay: &Relay) -> String {
        if let Err(error) = relay.publish_metrics().await {
            tracing::warn!(%error, "some figures could not be asked for");
        }
        metrics::with_local_recorder(&*self.recorder, || self.process.collect());
        self.page.render()
    }

    /// Keeps measured times from piling up while nobody looks at the page; for ever.
    pub async fn keep_up(self) {
        loop {
            tokio::time::sleep(UPKEEP_INTERVAL).await;
            self.page.run_upkeep();
        }
    }
}

/// What serves the page of a relay that was started with `figures`, on whichever listener it is to be.
pub fn metrics_endpoint(figures: Figures, relay: Relay) -> Resource {
    let show = move || {
        let (figures, relay) = (figures.clone(), relay.clone());
        async move {
            let page = figures.render(&relay).await;
            HttpResponse::Ok()
                .insert_header((CONTENT_TYPE, TEXT_FORMAT))
                .body(page)
        }
    };
    Endpoint::at(METRICS).get(show).into_resource()
}
