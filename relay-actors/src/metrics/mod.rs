//! What is counted and measured of a relay (OP-6). Names stand in one table, what is counted with every
//! frame in cells of each thread, the rest in series of a recorder that whoever starts the relay brings;
//! without one, measuring is nothing but those cells.

mod names;
mod page;
mod tallies;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, NoopRecorder, Recorder,
    SharedString,
};
use relay_model::wire::codes::{CloseCode, ErrorCode, RpcErrorCode};

pub use names::{Metric, MetricKind, MetricUnit};
pub use tallies::{Tallies, Tally};

/// Where series are kept.
pub type SharedRecorder = Arc<dyn Recorder + Send + Sync>;

/// Of a metric that is one series.
const NO_LABELS: [&str; 0] = [];

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// Outcomes of a registration that are no error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registration {
    /// A session was opened.
    Registered,
    /// A session goes on.
    Resumed,
    /// A later registration of the device came first.
    Superseded,
    /// The user signed out on the device meanwhile.
    SignedOut,
    /// It was refused.
    Refused(ErrorCode),
}

impl Registration {
    const fn label(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Resumed => "resumed",
            Self::Superseded => "superseded",
            Self::SignedOut => "signedOut",
            Self::Refused(code) => code.code(),
        }
    }
}

/// Two series by what a database call does.
#[derive(Debug)]
pub(crate) struct ByAccess {
    pub(crate) read: Histogram,
    pub(crate) write: Histogram,
}

/// The figures of one relay. What happens with every frame is a [`Tally`]; series that happen often are
/// made once, here; the others are looked up when they happen.
pub struct Metrics {
    recorder: SharedRecorder,
    pub(crate) tallies: Arc<Tallies>,
    pub(crate) rpc_duration: Histogram,
    /// In the order of [`RpcErrorCode::ALL`].
    rpc_errors: Vec<Counter>,
    pub(crate) database_wait: ByAccess,
    pub(crate) database_query: ByAccess,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    /// Without a recorder.
    fn default() -> Self {
        Self::new(Arc::new(NoopRecorder))
    }
}

impl Metrics {
    /// Describes every metric to `recorder` and makes the series that are known beforehand, so that each
    /// metric is there from the start.
    pub fn new(recorder: SharedRecorder) -> Self {
        for metric in Metric::ALL {
            let name = KeyName::from_const_str(metric.name());
            let (unit, meaning) = (Some(metric.unit().unit()), metric.meaning().into());
            match metric.kind() {
                MetricKind::Counter => recorder.describe_counter(name, unit, meaning),
                MetricKind::Gauge => recorder.describe_gauge(name, unit, meaning),
                MetricKind::Histogram(_) => recorder.describe_histogram(name, unit, meaning),
            }
        }
        let series = Series(&*recorder);
        let by_access = |metric| ByAccess {
            read: series.histogram(metric, ["read"]),
            write: series.histogram(metric, ["write"]),
        };
        let rpc_error =
            |code: &RpcErrorCode| series.counter(Metric::RpcErrors, [code.code().to_string()]);
        let rpc_errors = RpcErrorCode::ALL.iter().map(rpc_error).collect();
        let rpc_duration = series.histogram(Metric::RpcDuration, NO_LABELS);
        let (database_wait, database_query) = (
            by_access(Metric::DatabaseWait),
            by_access(Metric::DatabaseQuery),
        );
        let metrics = Self {
            tallies: Arc::default(),
            rpc_duration,
            rpc_errors,
            database_wait,
            database_query,
            recorder,
        };
        metrics.begin();
        metrics
    }

    /// Makes the series that would otherwise be missing until something happens.
    fn begin(&self) {
        let series = self.series();
        for refusal in ErrorCode::ALL {
            let label = Registration::Refused(*refusal).label();
            series.counter(Metric::Registrations, [label]).increment(0);
        }
        use Registration::{Registered, Resumed, SignedOut, Superseded};
        for outcome in [Registered, Resumed, Superseded, SignedOut] {
            series
                .counter(Metric::Registrations, [outcome.label()])
                .increment(0);
        }
        for reason in ["connect_limit", "open_files", "proxy_header"] {
            series
                .counter(Metric::ConnectionsRefused, [reason])
                .increment(0);
        }
        for reason in [
            "congested",
            "stalled",
            "memory_ceiling",
            "version_conflict",
            "pair_lost",
        ] {
            series.counter(Metric::Retirements, [reason]).increment(0);
        }
        for reason in ["queue_full", "export_failed"] {
            series.counter(Metric::TracesDropped, [reason]).increment(0);
        }
        series
            .counter(Metric::Closes, ["1000", "peer", "client_closed"])
            .increment(0);
        series
            .counter(Metric::UpgradesRefused, ["401", "authRequired"])
            .increment(0);
        series.counter(Metric::TlsErrors, NO_LABELS).increment(0);
        series
            .counter(Metric::TracesExported, NO_LABELS)
            .increment(0);
    }

    fn series(&self) -> Series<'_> {
        Series(&*self.recorder)
    }

    /// The tallies, for whoever reads them without a page.
    pub fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    /// A registration came to an end.
    pub(crate) fn registered(&self, outcome: Registration) {
        self.series()
            .counter(Metric::Registrations, [outcome.label()])
            .increment(1);
    }

    /// A connection began to close: once each, where it is logged.
    pub(crate) fn closed(&self, code: Option<u16>, side: &'static str, reason: &'static str) {
        let code: SharedString = match code {
            None => "none".into(),
            // What a peer sends is its own affair, and must not make series without end.
            Some(code) if CloseCode::ALL.iter().any(|known| known.code() == code) => {
                code.to_string().into()
            }
            Some(_) => "other".into(),
        };
        self.series()
            .counter(Metric::Closes, [code, side.into(), reason.into()])
            .increment(1);
    }

    /// The relay retired a connection (TR-10).
    pub(crate) fn retired(&self, reason: &'static str) {
        self.series()
            .counter(Metric::Retirements, [reason])
            .increment(1);
    }

    /// The relay answers a request with an error of its own (RPC-5).
    pub(crate) fn rpc_failed(&self, code: RpcErrorCode) {
        if let Some(counter) = self.rpc_errors.get(code as usize) {
            counter.increment(1);
        }
    }

    /// An upgrade request was refused, with this HTTP status and `errorType`.
    pub fn upgrade_refused(&self, status: u16, error: &'static str) {
        let labels: [SharedString; 2] = [status.to_string().into(), error.into()];
        self.series()
            .counter(Metric::UpgradesRefused, labels)
            .increment(1);
    }

    /// A connection was dropped or refused before it said anything, or for its source address alone.
    pub fn connection_refused(&self, reason: &'static str) {
        self.series()
            .counter(Metric::ConnectionsRefused, [reason])
            .increment(1);
    }

    /// A TLS handshake failed.
    pub fn tls_handshake_failed(&self) {
        self.series()
            .counter(Metric::TlsErrors, NO_LABELS)
            .increment(1);
    }

    /// An HTTP call was answered. `route` is the pattern of its path and `method` one of the known ones.
    pub fn http_answered(&self, route: String, method: &'static str, status: u16, took: Duration) {
        let route = SharedString::from(route);
        let (series, status) = (self.series(), SharedString::from(status.to_string()));
        let labels = [route.clone(), method.into(), status];
        series.counter(Metric::HttpRequests, labels).increment(1);
        series
            .histogram(Metric::HttpDuration, [route, method.into()])
            .record(took);
    }

    /// Which version runs.
    pub fn set_version(&self, version: &'static str) {
        self.series().gauge(Metric::BuildInfo, [version]).set(1);
    }

    /// The collector took spans (OP-7).
    pub fn spans_exported(&self, number: usize) {
        self.series()
            .counter(Metric::TracesExported, NO_LABELS)
            .increment(number as u64);
    }

    /// Spans were lost (OP-7).
    pub fn spans_dropped(&self, reason: &'static str, number: usize) {
        self.series()
            .counter(Metric::TracesDropped, [reason])
            .increment(number as u64);
    }
}

/// Makes series of metrics.
struct Series<'a>(&'a (dyn Recorder + Send + Sync));

impl Series<'_> {
    fn key<V: Into<SharedString>>(metric: Metric, values: impl IntoIterator<Item = V>) -> Key {
        let labels = metric.labels().iter().zip(values);
        let labels: Vec<_> = labels
            .map(|(name, value)| Label::new(*name, value))
            .collect();
        Key::from_parts(metric.name(), labels)
    }

    fn counter<V: Into<SharedString>, const N: usize>(
        &self,
        metric: Metric,
        values: [V; N],
    ) -> Counter {
        self.0
            .register_counter(&Self::key(metric, values), &METADATA)
    }

    fn gauge<V: Into<SharedString>, const N: usize>(
        &self,
        metric: Metric,
        values: [V; N],
    ) -> Gauge {
        self.0.register_gauge(&Self::key(metric, values), &METADATA)
    }

    fn histogram<V: Into<SharedString>, const N: usize>(
        &self,
        metric: Metric,
        values: [V; N],
    ) -> Histogram {
        self.0
            .register_histogram(&Self::key(metric, values), &METADATA)
    }
}
