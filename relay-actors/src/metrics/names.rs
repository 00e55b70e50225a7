//! The name of every metric, with its kind, unit, labels and meaning (OP-6): the table that
//! `docs/operations/metrics.md` is generated from.

/// What kind of figure a metric is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricKind {
    /// It only rises, from the start of the process.
    Counter,
    /// It is what holds at the moment.
    Gauge,
    /// It is a distribution, counted in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

impl MetricKind {
    /// Its name, as Prometheus has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// In what a metric is measured: always a base unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricUnit {
    /// A number of things.
    Count,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

impl MetricUnit {
    /// Its name; a number of things has none.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
        }
    }

    pub(super) const fn unit(self) -> metrics::Unit {
        match self {
            Self::Count => metrics::Unit::Count,
            Self::Seconds => metrics::Unit::Seconds,
            Self::Bytes => metrics::Unit::Bytes,
        }
    }
}

/// From a request to its answer: desktops answer at once, or after minutes of work.
const ANSWER_TIMES: &[f64] = &[
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    300.0,
];

/// Of what the relay does itself, up to the deadline of a database call.
const SHORT_TIMES: &[f64] = &[
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];

/// Builds the enum of the metrics with its table, so that all that is said of one stands together.
macro_rules! metric_names {
    ($( $variant:ident = $name:literal, $kind:expr, $unit:ident, [$($label:literal),*], $meaning:literal; )+) => {
        /// A metric. None has a label that names an account, a device or a connection.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Metric {
            $( #[doc = $meaning] $variant, )+
        }

        impl Metric {
            /// Every metric, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name on the page.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Its kind.
            pub const fn kind(self) -> MetricKind {
                match self { $(Self::$variant => $kind,)+ }
            }

            /// Its unit.
            pub const fn unit(self) -> MetricUnit {
                match self { $(Self::$variant => MetricUnit::$unit,)+ }
            }

            /// The names of its labels.
            pub const fn labels(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$($label),*],)+ }
            }

            /// What it counts or measures, in a sentence or two.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)+ }
            }
        }
    };
}

metric_names! {
    BuildInfo = "relay_build_info", MetricKind::Gauge, Count, ["version"],
        "Always 1; the label says which version runs.";
    Draining = "relay_draining", MetricKind::Gauge, Count, [],
        "1 from the moment at which the relay takes no registration any more, else 0 (DR-1).";
    DrainWork = "relay_drain_work", MetricKind::Gauge, Count, ["kind"],
        "What a draining relay still waits for, by kind: requests, frames, database, push (as its last look found them), sockets; 0 while it does not drain (DR-2, DR-3).";

    SocketsAccepted = "relay_sockets_accepted_total", MetricKind::Counter, Count, [],
        "Device sockets that were upgraded.";
    Sockets = "relay_sockets", MetricKind::Gauge, Count, [],
        "Device sockets that are open, registered or not.";
    ConnectionsRefused = "relay_connections_refused_total", MetricKind::Counter, Count, ["reason"],
        "Connections that got no further than the door: connect_limit (TR-11), open_files (none was left), proxy_header (none, or a bad one).";
    UpgradesRefused = "relay_upgrades_refused_total", MetricKind::Counter, Count, ["status", "error"],
        "Upgrade requests that were refused, by HTTP status and errorType.";
    TlsErrors = "relay_tls_handshake_errors_total", MetricKind::Counter, Count, [],
        "TLS handshakes that failed.";
    Routes = "relay_routes", MetricKind::Gauge, Count, ["client_type"],
        "Registered connections, by desktop and mobile.";
    Accounts = "relay_accounts", MetricKind::Gauge, Count, [],
        "Accounts with a device that is connected or within its grace.";
    Pairs = "relay_pairs", MetricKind::Gauge, Count, [],
        "Desktops that are connected, within their grace, or wanted by a phone.";
    Sessions = "relay_sessions", MetricKind::Gauge, Count, [],
        "Relay sessions in memory, expired ones included until they are swept (SES-3).";
    KeySockets = "relay_key_sockets", MetricKind::Gauge, Count, [],
        "Open sockets that came in by an API key.";
    Registrations = "relay_registrations_total", MetricKind::Counter, Count, ["code"],
        "Registrations over sockets, by outcome: registered, resumed, superseded (a later one of the device came first), signedOut, or the error code of the refusal (REG-4).";
    Closes = "relay_closes_total", MetricKind::Counter, Count, ["code", "side", "reason"],
        "Connections that ended, by close code (none if there was none, other if it is not the protocol's), and by the side and reason that the log names (OP-5).";
    Retirements = "relay_retirements_total", MetricKind::Counter, Count, ["reason"],
        "Connections that the relay retired with 4409, by reason (TR-10); they are among the closes.";

    FramesReceived = "relay_frames_received_total", MetricKind::Counter, Count, ["type"],
        "Messages that devices sent, by frame type; invalid: none that can be read, binary: no text, rate_limited: dropped unread (TR-6), control: WebSocket pings and pongs. A message in fragments counts once.";
    BytesReceived = "relay_received_bytes_total", MetricKind::Counter, Bytes, ["type"],
        "Their payload; of binary messages and WebSocket's own frames it is not counted.";
    FramesSent = "relay_frames_sent_total", MetricKind::Counter, Count, ["type"],
        "Messages whose last byte the socket took; reply: the relay's own answers and device statuses, timeline: snapshots and notices, control: WebSocket pings, pongs and closes.";
    BytesSent = "relay_sent_bytes_total", MetricKind::Counter, Bytes, ["type"],
        "Their payload.";
    RateLimited = "relay_rate_limited_frames_total", MetricKind::Counter, Count, [],
        "Messages that were dropped because their connection sent too many (TR-6).";

    RpcRequests = "relay_rpc_requests_total", MetricKind::Counter, Count, ["outcome"],
        "Requests by what became of them: forwarded, duplicate (the phone had the id pending, RPC-7), refused (the relay answered with an error instead).";
    RpcAnswers = "relay_rpc_answers_total", MetricKind::Counter, Count, ["outcome"],
        "Answers: delivered (a desktop's, handed to the phone's connection), unknown (to no pending request, dropped, RPC-3), undeliverable (the phone had no route, or no room).";
    RpcErrors = "relay_rpc_errors_total", MetricKind::Counter, Count, ["code"],
        "Errors that the relay answered requests with itself, refused or forwarded ones, by code (RPC-5).";
    RpcExpired = "relay_rpc_expired_total", MetricKind::Counter, Count, [],
        "Requests whose record ended without an answer (RPC-6).";
    RpcPending = "relay_rpc_pending", MetricKind::Gauge, Count, [],
        "Requests that were forwarded and have no final answer yet.";
    RpcDuration = "relay_rpc_duration_seconds", MetricKind::Histogram(ANSWER_TIMES), Seconds, [],
        "From forwarding a request to its final answer, as the relay sees them.";

    EventsPublished = "relay_events_published_total", MetricKind::Counter, Count, [],
        "Events of devices that went to the other devices of their account (EV-1).";
    EventsRouted = "relay_events_routed_total", MetricKind::Counter, Count, [],
        "Copies of such events that were handed to connections.";
    TimelineFrames = "relay_timeline_frames_total", MetricKind::Counter, Count, ["outcome"],
        "Timeline snapshots. unauthorized: dropped at the pair, as no live lease allows them (TL-5). Of the copies for phones: accepted, and of these later coalesced (a newer one took its place), evicted (no room, TL-8), expired (its lease or connection ended first) or sent; stale: not newer than what the phone has or waits for.";
    TimelineNotices = "relay_timeline_stale_notices_total", MetricKind::Counter, Count, [],
        "Notices to phones that they missed a snapshot (TL-13).";
    TimelineLeases = "relay_timeline_leases", MetricKind::Gauge, Count, [],
        "Leases of phones on sessions (TL-3).";

    OutboundBytes = "relay_outbound_bytes", MetricKind::Gauge, Bytes, [],
        "What waits to be written, over all connections, in whole blocks of 64 KiB: small backlogs are not counted (TR-10).";
    UnfinishedBytes = "relay_unfinished_bytes", MetricKind::Gauge, Bytes, [],
        "What devices have sent of messages that are not finished.";
    MailboxDepth = "relay_mailbox_depth", MetricKind::Gauge, Count, ["actor"],
        "What waits for an actor. Mailboxes are bounded by permits: registry is the messages of all sockets on their way to, or in, registries and the directory; store the database calls that wait or run.";
    MailboxFull = "relay_mailbox_full_total", MetricKind::Counter, Count, ["actor"],
        "How often there was no permit: socket, a lane of a connection had no room for a frame (TR-10); registry, a socket had so much under way that it stopped reading; store, the queue of database calls was full.";
    MailboxWait = "relay_mailbox_wait_seconds", MetricKind::Gauge, Seconds, ["actor"],
        "How long the page's own question waited for the actor's answer: the delay that everything in its mailbox has.";

    PresenceTransitions = "relay_presence_transitions_total", MetricKind::Counter, Count, ["status"],
        "Changes of devices' presence, by what they became (PR-1).";
    PresenceGraces = "relay_presence_graces", MetricKind::Gauge, Count, [],
        "Desktops that dropped and are within their grace (PR-2).";

    DatabasePool = "relay_database_pool_connections", MetricKind::Gauge, Count, ["state"],
        "Connections of the pool, by whether a call uses them: busy or idle.";
    DatabaseWait = "relay_database_wait_seconds", MetricKind::Histogram(SHORT_TIMES), Seconds, ["access"],
        "How long database calls waited for their turn and a connection, by read and write.";
    DatabaseQuery = "relay_database_query_seconds", MetricKind::Histogram(SHORT_TIMES), Seconds, ["access"],
        "How long database calls then took, by read and write.";
    DatabaseErrors = "relay_database_errors_total", MetricKind::Counter, Count, ["kind"],
        "Database calls that came to nothing: queue_full, unavailable (away, or too late), not_writable (read-only, or a full disk) or failed.";

    Push = "relay_push_total", MetricKind::Counter, Count, ["provider", "kind", "outcome"],
        "Pushes by provider (apns, fcm; unread: before the phone's token was read), kind and outcome (PUSH-4).";
    PushPending = "relay_push_pending", MetricKind::Gauge, Count, ["state"],
        "Pushes that are queued, or in_flight to their service.";

    HttpRequests = "relay_http_requests_total", MetricKind::Counter, Count, ["route", "method", "status"],
        "HTTP calls that are no upgrades, by the route's pattern (other: none), method and status.";
    HttpDuration = "relay_http_request_duration_seconds", MetricKind::Histogram(SHORT_TIMES), Seconds, ["route", "method"],
        "How long they took, up to the head of the answer.";

    TracesExported = "relay_trace_spans_exported_total", MetricKind::Counter, Count, [],
        "Spans that the collector took (OP-7).";
    TracesDropped = "relay_trace_spans_dropped_total", MetricKind::Counter, Count, ["reason"],
        "Spans that were lost: queue_full (the collector is too slow), export_failed (it did not take them).";

    ProcessCpu = "relay_process_cpu_seconds_total", MetricKind::Counter, Seconds, [],
        "Processor time of the process.";
    ProcessFiles = "relay_process_open_fds", MetricKind::Gauge, Count, [],
        "Files that the process has open; each socket is one.";
    ProcessMaxFiles = "relay_process_max_fds", MetricKind::Gauge, Count, [],
        "Files that it may have open.";
    ProcessVirtualMemory = "relay_process_virtual_memory_bytes", MetricKind::Gauge, Bytes, [],
        "Address space of the process.";
    ProcessMaxVirtualMemory = "relay_process_virtual_memory_max_bytes", MetricKind::Gauge, Bytes, [],
        "Address space that it may have.";
    ProcessMemory = "relay_process_resident_memory_bytes", MetricKind::Gauge, Bytes, [],
        "Memory that the process holds.";
    ProcessStart = "relay_process_start_time_seconds", MetricKind::Gauge, Seconds, [],
        "When the process started, since the epoch.";
    ProcessThreads = "relay_process_threads", MetricKind::Gauge, Count, [],
        "Threads of the process.";
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// OP-6: prefix, base units, `_total` for counters and for nothing else.
    #[test]
    fn names_follow_the_rules() {
        let mut names = HashSet::new();
        for metric in Metric::ALL {
            let name = metric.name();
            assert!(names.insert(name), "{name} is there twice");
            assert!(name.starts_with("relay_"), "{name}");
            let is_counter = metric.kind() == MetricKind::Counter;
            assert_eq!(name.ends_with("_total"), is_counter, "{name}");
            let base = name.trim_end_matches("_total");
            let base = base.trim_end_matches("_max");
            match metric.unit() {
                MetricUnit::Count => assert!(!base.ends_with("_bytes"), "{name}"),
                unit => assert!(base.ends_with(unit.name()), "{name}"),
            }
        }
    }

    /// OP-6: no label tells accounts, devices or connections apart.
    #[test]
    fn labels_name_nobody() {
        for metric in Metric::ALL {
            for label in metric.labels() {
                for word in ["account", "device", "connection", "user", "peer", "token"] {
                    assert!(!label.contains(word), "{}: {label}", metric.name());
                }
            }
        }
    }

    #[test]
    fn buckets_rise() {
        for metric in Metric::ALL {
            if let MetricKind::Histogram(bounds) = metric.kind() {
                assert!(bounds.is_sorted() && !bounds.is_empty());
            }
        }
    }
}
