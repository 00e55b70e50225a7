//! Every number of the protocol: its default as a named constant, its place in the configuration
//! (OP-2), the range in which it makes sense, and the rule that it comes from. Nothing else in the
//! project writes such a number down.

use std::ops::RangeInclusive;
use std::time::Duration;

/// One KiB in bytes.
pub const KIB: usize = 1024;
/// One MiB in bytes.
pub const MIB: usize = 1024 * KIB;

/// The longest a device's name may be, in characters (HTTP-3).
pub const NAME_CHARACTERS: usize = 255;
/// Room that the relay's own fields may need when it rewrites a request, in bytes: a request whose
/// rewritten form leaves less than this below the message limit is refused as too large.
pub const ENVELOPE_HEADROOM: usize = KIB;
/// How much of a request's method its trace names, in bytes (OP-7).
pub const TRACED_METHOD_BYTES: usize = 128;
/// Finished traces that wait for the collector; over it they are dropped and counted (OP-7).
pub const TRACE_QUEUE: usize = 4_096;
/// Traces that are sent to the collector at once (OP-7).
pub const TRACE_BATCH: usize = 256;
/// How long a trace waits for others to be sent with (OP-7).
pub const TRACE_BATCH_WAIT: Duration = millis(500);
/// How long the collector may take to accept a batch (OP-7).
pub const TRACE_EXPORT_TIMEOUT: Duration = secs(5);
/// How long a stopping process waits for the collector to take what is left (OP-7).
pub const TRACE_FLUSH_TIMEOUT: Duration = secs(2);
/// Connections that the kernel keeps waiting until the relay accepts them.
pub const LISTEN_BACKLOG: i32 = 4_096;
/// Connections that one worker thread of the door holds at most; it accepts no further ones then.
pub const WORKER_CONNECTIONS: usize = 100_000;
/// Open files that sockets leave to the rest of the process, beside those of the database.
pub const OPEN_FILES_RESERVED: usize = 32;
/// Open files of one connection to the database: an SQLite file has two more beside it.
pub const OPEN_FILES_PER_DATABASE_CONNECTION: usize = 3;
/// Pages of an SQLite file that one connection to it keeps in memory for itself, in bytes.
pub const SQLITE_CACHE: usize = 64 * KIB;
/// The most worker threads that the door can run.
pub const MAX_WORKERS: usize = 512;
/// Unsent bytes of a socket from which on the kernel calls it not writable, so that the order of
/// the lanes means something on a slow link (RPC-9) and a stalled peer costs little memory.
pub const TCP_NOTSENT_LOWAT: u32 = 128 * 1024;
/// How long sent bytes may stay unacknowledged before the kernel ends a connection: a net below the
/// relay's own verdicts, so longer than the defaults of all of them.
pub const TCP_USER_TIMEOUT: Duration = secs(240);
/// Bytes that a refused client may still send before its connection is dropped while it reads the
/// refusal: enough for the frames that shipped clients send right behind their upgrade request.
pub const REFUSED_UPGRADE_BYTES: usize = 64 * KIB;
/// The longest PROXY protocol header that is read, in bytes (TR-11): one that every network carries
/// in a single segment.
pub const PROXY_HEADER_BYTES: usize = 536;
/// Source addresses whose connections are counted at a time (TR-11), of about 50 bytes each. With the
/// default limits it takes 330,000 connections a second to reach this.
pub const CONNECT_SOURCES: usize = 65_536;
/// How often source addresses are forgotten that may connect as often as new ones (TR-11).
pub const CONNECT_SWEEP_INTERVAL: Duration = secs(1);
/// How long a drain that was cut short may take to store what was accepted (DR-4).
pub const HURRIED_RELEASE_TIMEOUT: Duration = secs(1);
/// When a client that finds the relay draining should try again, in seconds (DR-1): the next process
/// runs already, and only who connects has to be sent there.
pub const DRAIN_RETRY_AFTER_SECONDS: u16 = 1;
/// The digits that a protocol version sent as a string may have (REG-4).
pub const PROTOCOL_VERSION_DIGITS: usize = 9;
/// The protocol floor of a new database (REG-9).
pub const DEFAULT_PROTOCOL_FLOOR: u32 = 1;

/// The longest push token, in bytes (section 12).
pub const PUSH_TOKEN_BYTES: usize = 4_096;
/// The highest protocol floor: what a version sent as a string can still reach (REG-4, REG-9).
pub const MAX_PROTOCOL_FLOOR: u32 = 999_999_999;

/// Devices of which the relay remembers how they last left and were last refused, the ones that were
/// heard of last (OP-9), of about 200 bytes each.
pub const REMEMBERED_DEVICES: usize = 65_536;
/// Devices of one account among them: whoever makes up device ids costs others nothing.
pub const REMEMBERED_DEVICES_PER_ACCOUNT: usize = 128;
/// Presence changes of a device that an operator is shown (OP-9).
pub const SHOWN_PRESENCE_CHANGES: usize = 20;
/// How long an operator's question may take that the actors answer: one that hangs is told, not
/// waited for (OP-9).
pub const OPERATOR_ANSWER_TIMEOUT: Duration = secs(2);
/// The longest title of an alert, in characters (PUSH-3).
pub const PUSH_TITLE_CHARACTERS: usize = 120;
/// The longest body of an alert, in characters (PUSH-3).
pub const PUSH_BODY_CHARACTERS: usize = 1_000;
/// What APNs and FCM take of one push, in bytes: a longer alert is cut further (PUSH-3).
pub const PUSH_PAYLOAD_BYTES: usize = 4_096;
/// The longest `apns-collapse-id`, in bytes (PUSH-2).
pub const APNS_COLLAPSE_ID_BYTES: usize = 64;
/// How long a provider token is used; Apple takes it for an hour (PUSH-1).
pub const PROVIDER_TOKEN_LIFETIME: Duration = mins(40);
/// The least time between two provider tokens that Apple takes (PUSH-1).
pub const PROVIDER_TOKEN_PAUSE: Duration = mins(20);
/// What is read of a push service's answer, in bytes.
pub const PUSH_ANSWER_BYTES: usize = 64 * KIB;
/// How far two clocks may be apart before that is named as the cause of a refusal (PUSH-1).
pub const PUSH_CLOCK_TOLERANCE: Duration = mins(1);
/// How often a connection to APNs with pushes under way is asked whether it still stands, and how long
/// the answer may take.
pub const PUSH_KEEP_ALIVE: Duration = secs(10);

/// The shortest RSA key that may sign user tokens, in bits (HTTP-4; RFC 7518, section 3.3).
pub const MIN_RSA_KEY_BITS: usize = 2_048;
/// The longest RSA key that may sign user tokens, in bits: checking a signature of a longer one costs
/// more than a stranger's token is worth.
pub const MAX_RSA_KEY_BITS: usize = 8_192;

/// The value of a limit, with its range's type: what the configuration reads and prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitValue {
    /// A span of time, written like `90s`.
    Duration(Duration),
    /// A number of bytes, written like `4MiB`.
    Bytes(usize),
    /// A plain number.
    Count(usize),
}

/// The range that a limit's value must lie in, ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitRange {
    /// For a span of time.
    Duration(RangeInclusive<Duration>),
    /// For a number of bytes.
    Bytes(RangeInclusive<usize>),
    /// For a plain number.
    Count(RangeInclusive<usize>),
}

/// A value given to a limit that cannot take it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// The value lies outside the limit's range.
    #[error("{value:?} is outside the range {range:?}")]
    OutOfRange {
        /// What was given.
        value: LimitValue,
        /// What is allowed.
        range: LimitRange,
    },
    /// A duration was given to a size, or the like.
    #[error("{value:?} is of another kind than the range {range:?}")]
    WrongKind {
        /// What was given.
        value: LimitValue,
        /// What is allowed.
        range: LimitRange,
    },
}

/// One configurable limit: everything that the configuration reference prints about it, and how to
/// read and set it.
pub struct LimitKey {
    /// The section of the configuration (OP-3).
    pub section: &'static str,
    /// Its name in that section.
    pub name: &'static str,
    /// What it means, with its rule id.
    pub meaning: &'static str,
    /// The value without configuration.
    pub default: LimitValue,
    /// Whether a running relay keeps the value that it was started with (OP-4): what the limit sizes or
    /// times is made once a process.
    pub needs_restart: bool,
    get: fn(&Limits) -> LimitValue,
    set: fn(&mut Limits, LimitValue) -> Result<(), LimitError>,
    range: fn() -> LimitRange,
}

impl LimitKey {
    /// Its value in `limits`.
    pub fn get(&self, limits: &Limits) -> LimitValue {
        (self.get)(limits)
    }

    /// The values that it may take.
    pub fn range(&self) -> LimitRange {
        (self.range)()
    }

    /// Puts its value of `from` into `limits`.
    pub fn copy(&self, from: &Limits, limits: &mut Limits) {
        // A value that is in force is in the range.
        let _ = self.set(limits, self.get(from));
    }

    /// Sets it in `limits`.
    ///
    /// # Errors
    /// When `value` is outside the range or of another kind; `limits` is then unchanged.
    pub fn set(&self, limits: &mut Limits, value: LimitValue) -> Result<(), LimitError> {
        (self.set)(limits, value)
    }
}

macro_rules! limits {
    (@type Duration) => { Duration };
    (@type Bytes) => { usize };
    (@type Count) => { usize };
    (@needs_restart) => { false };
    (@needs_restart restart) => { true };
    ($(
        $(#[doc = $doc:literal])+
        $section:ident.$key:ident => $field:ident, $constant:ident: $kind:ident = $default:expr, $range:expr $(, $restart:ident)?;
    )+) => {
        $(
            $(#[doc = $doc])+
            pub const $constant: limits!(@type $kind) = $default;
        )+

        /// The limits in force; [`Limits::default`] holds the constants of this module.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Limits {
            $(
                $(#[doc = $doc])+
                pub $field: limits!(@type $kind),
            )+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($field: $constant,)+ }
            }
        }

        /// Every limit, in the order of the configuration reference.
        pub const LIMIT_KEYS: &[LimitKey] = &[$(
            LimitKey {
                section: stringify!($section),
                name: stringify!($key),
                meaning: concat!($($doc,)+),
                default: LimitValue::$kind($constant),
                needs_restart: limits!(@needs_restart $($restart)?),
                get: |limits| LimitValue::$kind(limits.$field),
                set: |limits, value| {
                    let range = $range;
                    match value {
                        LimitValue::$kind(inner) if range.contains(&inner) => {
                            limits.$field = inner;
                            Ok(())
                        }
                        LimitValue::$kind(_) => Err(LimitError::OutOfRange {
                            value,
                            range: LimitRange::$kind(range),
                        }),
                        _ => Err(LimitError::WrongKind { value, range: LimitRange::$kind(range) }),
                    }
                },
                range: || LimitRange::$kind($range),
            },
        )+];
    };
}

const fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}
const fn secs(number: u64) -> Duration {
    Duration::from_secs(number)
}
const fn mins(number: u64) -> Duration {
    Duration::from_secs(60 * number)
}
const fn hours(number: u64) -> Duration {
    mins(60 * number)
}

// `restart` at the end of a limit: see `LimitKey::needs_restart`.
limits! {
    /// How often the watchdog looks at a socket and pings it (TR-5).
    limits.ping_interval => ping_interval, PING_INTERVAL: Duration = secs(30), millis(50)..=mins(10);
    /// Silence after which the watchdog closes a socket (TR-5).
    limits.client_timeout => client_timeout, CLIENT_TIMEOUT: Duration = secs(180), millis(50)..=hours(1);
    /// How long a closed socket may take to answer the close before TCP is dropped (TR-5).
    limits.close_timeout => close_timeout, CLOSE_TIMEOUT: Duration = secs(5), millis(10)..=mins(1);
    /// Progress on an unfinished message that the watchdog takes as a sign of life (TR-5).
    limits.message_progress => message_progress, MESSAGE_PROGRESS: Bytes = KIB, 1..=MIB;
    /// How long progress on one unfinished message counts as a sign of life (TR-5).
    limits.message_timeout => message_timeout, MESSAGE_TIMEOUT: Duration = secs(600), millis(50)..=hours(1);
    /// The largest message in bytes of payload (TR-3).
    limits.max_message => max_message, MAX_MESSAGE: Bytes = 32 * MIB, 64 * KIB..=32 * MIB;
    /// The largest message before registration, in bytes of payload (TR-3).
    limits.max_message_unregistered => max_message_unregistered, MAX_MESSAGE_UNREGISTERED: Bytes = 64 * KIB, KIB..=MIB;
    /// Larger messages leave the relay in fragments of this size (TR-3).
    limits.fragment_size => fragment_size, FRAGMENT_SIZE: Bytes = MIB, KIB..=16 * MIB;
    /// Messages that a connection may send at once (TR-6).
    limits.rate_burst => rate_burst, RATE_BURST: Count = 300, 1..=1_000_000;
    /// Messages a second that a connection may send for ever (TR-6).
    limits.rate_per_second => rate_per_second, RATE_PER_SECOND: Count = 150, 1..=1_000_000;
    /// Connections that one source address may open at once (TR-11).
    limits.connect_burst => connect_burst, CONNECT_BURST: Count = 100, 1..=1_000_000;
    /// Connections a second that one source address may open for ever (TR-11).
    limits.connects_per_second => connects_per_second, CONNECTS_PER_SECOND: Count = 5, 1..=1_000_000;
    /// How long a socket may take to register (TR-9).
    limits.registration_timeout => registration_timeout, REGISTRATION_TIMEOUT: Duration = secs(15), millis(50)..=mins(10);
    /// Messages that may wait in a connection's control lane (TR-10).
    limits.control_lane_messages => control_lane_messages, CONTROL_LANE_MESSAGES: Count = 64, 8..=1_024;
    /// Messages that may wait in a connection's RPC lane (TR-10). Not less than 128: the answers to what
    /// a connection has under way may come at once.
    limits.rpc_lane_messages => rpc_lane_messages, RPC_LANE_MESSAGES: Count = 256, 128..=65_535;
    /// Bytes that may wait in a connection's RPC lane (TR-10).
    limits.rpc_lane_bytes => rpc_lane_bytes, RPC_LANE_BYTES: Bytes = 40 * MIB, KIB..=1_024 * MIB;
    /// Messages that may wait in a connection's event lane (TR-10).
    limits.event_lane_messages => event_lane_messages, EVENT_LANE_MESSAGES: Count = 1_024, 1..=65_535;
    /// Bytes that may wait in a connection's event lane (TR-10).
    limits.event_lane_bytes => event_lane_bytes, EVENT_LANE_BYTES: Bytes = 8 * MIB, KIB..=1_024 * MIB;
    /// How long a retired connection may take to accept its close frame before TCP is reset (TR-10).
    limits.retire_timeout => retire_timeout, RETIRE_TIMEOUT: Duration = secs(1), millis(10)..=mins(1);
    /// How long a connection with something to write may make no progress (TR-10).
    limits.write_stall_timeout => write_stall_timeout, WRITE_STALL_TIMEOUT: Duration = secs(60), millis(50)..=mins(10);
    /// Bytes that may wait for all connections together; over it the one with the most is retired.
    limits.outbound_total => outbound_total, OUTBOUND_TOTAL: Bytes = 1_024 * MIB, MIB..=1_024 * 1_024 * MIB, restart;
    /// Bytes of unfinished messages that all connections together may have sent; over it the ones with
    /// the most are not read.
    limits.inbound_total => inbound_total, INBOUND_TOTAL: Bytes = 512 * MIB, MIB..=1_024 * 1_024 * MIB, restart;
    /// Messages of one socket that may be under way inside the relay before it stops reading it.
    limits.inbound_messages => inbound_messages, INBOUND_MESSAGES: Count = 32, 1..=1_024;
    /// Bytes of one socket that may be under way inside the relay before it stops reading it.
    limits.inbound_bytes => inbound_bytes, INBOUND_BYTES: Bytes = MIB, KIB..=64 * MIB;
    /// Frames that may wait while a registration is checked (REG-1).
    limits.waiting_frames => waiting_frames, WAITING_FRAMES: Count = 16, 0..=1_024;
    /// Bytes that may wait while a registration is checked (REG-1).
    limits.waiting_bytes => waiting_bytes, WAITING_BYTES: Bytes = 64 * KIB, 0..=16 * MIB;
    /// Events that may wait while one of their sender is being stored (EV-4).
    limits.waiting_events => waiting_events, WAITING_EVENTS: Count = 16, 0..=1_024;
    /// The longest project directory that a device may have, in bytes.
    limits.project_directory_bytes => project_directory_bytes, PROJECT_DIRECTORY_BYTES: Bytes = 4 * KIB, 256..=64 * KIB;
    /// Refused resumes on one socket, the last of which closes it (REG-4).
    limits.resume_attempts => resume_attempts, RESUME_ATTEMPTS: Count = 4, 1..=100;
    /// The largest HTTP body (HTTP-2).
    limits.http_body => http_body, HTTP_BODY: Bytes = 256 * KIB, KIB..=16 * MIB;
    /// How long the head of an HTTP request may take to arrive, and its body after that.
    limits.http_timeout => http_timeout, HTTP_TIMEOUT: Duration = secs(15), millis(50)..=mins(10), restart;
    /// How long a client may take for the TLS handshake, before its first request (TR-1).
    limits.tls_handshake_timeout => tls_handshake_timeout, TLS_HANDSHAKE_TIMEOUT: Duration = secs(10), millis(50)..=mins(1);

    /// How far a token's `exp` and `nbf` may be off, for clocks that differ (HTTP-4, SES-6).
    auth.leeway => token_leeway, TOKEN_LEEWAY: Duration = secs(30), millis(0)..=mins(10), restart;
    /// How often the keys at auth.jwks_url are read again: a key that was taken away there signs no
    /// valid token after this (HTTP-4).
    auth.jwks_refresh_interval => jwks_refresh_interval, JWKS_REFRESH_INTERVAL: Duration = mins(5), millis(50)..=hours(24), restart;
    /// The shortest time between two readings of auth.jwks_url, however many tokens name unknown keys;
    /// also how often auth.jwks_file is looked at (HTTP-4).
    auth.jwks_min_interval => jwks_min_interval, JWKS_MIN_INTERVAL: Duration = secs(10), millis(50)..=hours(1), restart;
    /// How long one reading of the keys may take, and so how long a token with an unknown key waits.
    auth.jwks_timeout => jwks_timeout, JWKS_TIMEOUT: Duration = secs(5), millis(50)..=mins(1), restart;
    /// The largest key set, in bytes of JSON.
    auth.jwks_bytes => jwks_bytes, JWKS_BYTES: Bytes = MIB, KIB..=16 * MIB, restart;
    /// Keys that a key set may have.
    auth.jwks_keys => jwks_keys, JWKS_KEYS: Count = 100, 1..=1_000, restart;
    /// API keys that an account may have at a time; ended ones do not count (HTTP-4).
    auth.api_keys => api_keys, API_KEYS: Count = 100, 1..=10_000;
    /// The longest token that is looked at, in bytes (SES-6).
    auth.token_bytes => token_bytes, TOKEN_BYTES: Bytes = 16 * KIB, KIB..=MIB;
    /// How often the relay asks which API keys of its sockets have ended. A revocation by another
    /// process is acted on within this time and that of the question (SES-6).
    auth.api_key_check_interval => api_key_check_interval, API_KEY_CHECK_INTERVAL: Duration = secs(2), millis(50)..=secs(4), restart;

    /// A relay session lives this long after its last touch (SES-1).
    session.lifetime => session_lifetime, SESSION_LIFETIME: Duration = hours(24), millis(100)..=hours(24 * 90);
    /// How often expired sessions are removed (SES-3).
    session.sweep_interval => session_sweep_interval, SESSION_SWEEP_INTERVAL: Duration = mins(5), millis(50)..=hours(24), restart;
    /// How often at most a socket reports that its session was touched.
    session.touch_interval => session_touch_interval, SESSION_TOUCH_INTERVAL: Duration = secs(60), millis(10)..=hours(1);

    /// How long a desktop that dropped counts as reconnecting (PR-2).
    presence.reconnect_grace => reconnect_grace, DESKTOP_RECONNECT_GRACE: Duration = secs(90), millis(50)..=hours(1);
    /// How long the relay takes a desktop that another instance held as reconnecting: after its own start
    /// (PR-8), and after that instance began to drain or was lost (DR-5).
    presence.startup_grace => startup_grace, STARTUP_GRACE: Duration = secs(90), millis(0)..=hours(1);
    /// How often an instance renews its lease in the database (PR-6).
    presence.instance_renewal => instance_renewal, INSTANCE_RENEWAL: Duration = secs(10), millis(50)..=mins(10), restart;
    /// How long an instance lives in the database after its last renewal (PR-6).
    presence.instance_lease => instance_lease, INSTANCE_LEASE: Duration = secs(30), millis(100)..=hours(1), restart;
    /// How often rows left online by dead instances are corrected (PR-6).
    presence.sweep_interval => presence_sweep_interval, PRESENCE_SWEEP_INTERVAL: Duration = secs(30), millis(50)..=hours(1), restart;
    /// How long the database remembers an instance after its lease ended (PR-6).
    presence.instance_retention => instance_retention, INSTANCE_RETENTION: Duration = hours(24 * 7), hours(1)..=hours(24 * 90), restart;
    /// The least time between two batches of presence changes, so that many devices that return at
    /// once share a few transactions (KA-1, PR-6). A change after a quiet time is written at once.
    presence.write_interval => presence_write_interval, PRESENCE_WRITE_INTERVAL: Duration = millis(10), millis(0)..=secs(10);
    /// How long the database keeps what became of each device's presence (PR-6).
    presence.history_retention => history_retention, HISTORY_RETENTION: Duration = hours(24 * 30), hours(1)..=hours(24 * 366);
    /// How often older presence history is dropped (PR-6).
    presence.history_purge_interval => history_purge_interval, HISTORY_PURGE_INTERVAL: Duration = hours(1), millis(50)..=hours(24), restart;
    /// How often at most a device's heartbeat reaches the database (KA-1).
    presence.heartbeat_interval => heartbeat_interval, HEARTBEAT_INTERVAL: Duration = secs(5), millis(10)..=mins(10), restart;

    /// How long a phone's interest in a session holds after its last renewal (TL-3).
    timeline.interest_ttl => timeline_interest_ttl, TIMELINE_INTEREST_TTL: Duration = secs(60), millis(50)..=hours(1);
    /// The pause between two timeline events to a phone, for each begun timeline.block of the one that was
    /// sent; also how long the first one waits (TL-10).
    timeline.flush_interval => timeline_flush_interval, TIMELINE_EVENT_FLUSH_INTERVAL: Duration = millis(250), millis(0)..=secs(60);
    /// The part of a timeline event that one pause stands for; a larger snapshot waits in a slot of its
    /// own (TL-10, TL-11).
    timeline.block => timeline_block, TIMELINE_BLOCK: Bytes = 512 * KIB, KIB..=32 * MIB;
    /// Snapshots that may wait for a phone (TL-8).
    timeline.buffer_keys => timeline_buffer_keys, TIMELINE_BUFFER_KEYS: Count = 16, 1..=1_024;
    /// Bytes of snapshots that may wait for a phone, the one in the slot of its own aside (TL-8).
    timeline.buffer_bytes => timeline_buffer_bytes, TIMELINE_BUFFER_BYTES: Bytes = MIB, KIB..=64 * MIB;
    /// Windows that a phone can be told to reload one by one; of more it is told once to reload all
    /// (TL-13).
    timeline.stale_keys => timeline_stale_keys, TIMELINE_STALE_KEYS: Count = 64, 1..=1_024;
    /// The longest id of an app session, in bytes (TL-2).
    timeline.session_id => timeline_session_id, TIMELINE_SESSION_ID: Bytes = KIB, 16..=64 * KIB;

    /// Requests without a final answer that one desktop may have (RPC-6).
    rpc.records_per_pair => records_per_pair, RECORDS_PER_PAIR: Count = 1_024, 1..=1_000_000;
    /// Requests without a final answer that one phone may have (RPC-6).
    rpc.records_per_phone => records_per_phone, RECORDS_PER_PHONE: Count = 256, 1..=1_000_000;
    /// A request's record ends this long after it was forwarded or last answered (RPC-6).
    rpc.record_lifetime => record_lifetime, RECORD_LIFETIME: Duration = mins(15), millis(50)..=hours(24);
    /// The longest request id, in bytes (RPC-5).
    rpc.id_bytes => id_bytes, REQUEST_ID_BYTES: Count = 256, 36..=4_096;

    /// Connections to the database.
    database.pool => database_pool, DATABASE_POOL: Count = 8, 1..=256, restart;
    /// Database calls that may wait for a connection.
    database.queue => database_queue, DATABASE_QUEUE: Count = 4_096, 16..=1_000_000, restart;
    /// How long a database call may take, waiting included (REG-4, EV-4).
    database.timeout => database_timeout, DATABASE_TIMEOUT: Duration = secs(5), millis(50)..=mins(1), restart;

    /// How long `/readyz` says that the relay goes before its drain begins, so that a load balancer which
    /// asks it has looked elsewhere by then (OP-8).
    drain.readiness_lead => readiness_lead, READINESS_LEAD: Duration = millis(0), millis(0)..=mins(10);
    /// How long a drain waits for work in progress (DR-2).
    drain.timeout => drain_timeout, DRAIN_TIMEOUT: Duration = secs(60), millis(0)..=hours(1);
    /// How often at most a drain looks whether work is still in progress (DR-2).
    drain.look_interval => drain_look_interval, DRAIN_LOOK_INTERVAL: Duration = millis(100), millis(10)..=secs(10);
    /// Frames do not count as work once their peer has taken nothing for this long (DR-2).
    drain.stall_tolerance => drain_stall_tolerance, DRAIN_STALL_TOLERANCE: Duration = secs(5), millis(10)..=mins(10);
    /// Over what time a drain spreads the closes of the device sockets (DR-3).
    drain.close_spread => close_spread, CLOSE_SPREAD: Duration = secs(5), millis(0)..=mins(10);
    /// How long a draining process waits for its sockets to close once the last was told to,
    /// and for pushes that were accepted (DR-3).
    drain.stop_timeout => stop_timeout, STOP_TIMEOUT: Duration = secs(5), millis(10)..=mins(5);

    /// Pushes that may wait; the oldest `desktop_online` goes first when more come (PUSH-4).
    push.queue => push_queue, PUSH_QUEUE: Count = 10_000, 1..=1_000_000;
    /// Pushes that may be under way to their services at a time.
    push.concurrency => push_concurrency, PUSH_CONCURRENCY: Count = 64, 1..=1_000;
    /// How long a push service may take to answer (PUSH-4).
    push.timeout => push_timeout, PUSH_TIMEOUT: Duration = secs(20), millis(50)..=mins(2);
    /// How often at most a desktop's registrations wake the phones of its account (PUSH-2).
    push.desktop_online_pause => desktop_online_pause, DESKTOP_ONLINE_PAUSE: Duration = secs(30), millis(0)..=hours(1), restart;
    /// How long a `desktop_online` is of use (PUSH-4).
    push.desktop_online_lifetime => desktop_online_lifetime, DESKTOP_ONLINE_LIFETIME: Duration = secs(60), millis(50)..=hours(1), restart;
    /// How long an alert is of use (PUSH-4).
    push.alert_lifetime => alert_lifetime, ALERT_LIFETIME: Duration = hours(1), millis(50)..=hours(24);
    /// The wait after a push has failed for the first time; it doubles with each further failure (PUSH-4).
    push.backoff => push_backoff, PUSH_BACKOFF: Duration = secs(1), millis(1)..=mins(10);
    /// The longest wait of a push that keeps failing, unless its service asks for more (PUSH-4).
    push.backoff_ceiling => push_backoff_ceiling, PUSH_BACKOFF_CEILING: Duration = mins(2), millis(1)..=hours(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-2: every default lies in its own range, so a printed default can be written back.
    #[test]
    fn defaults_lie_in_their_ranges() {
        let mut limits = Limits::default();
        for key in LIMIT_KEYS {
            assert_eq!(
                key.get(&limits),
                key.default,
                "{}.{}",
                key.section,
                key.name
            );
            assert_eq!(
                key.set(&mut limits, key.default),
                Ok(()),
                "{}.{}",
                key.section,
                key.name
            );
            assert!(!key.meaning.is_empty());
        }
        assert_eq!(limits, Limits::default());
    }

    /// OP-2: a value outside the range, or of another kind, changes nothing.
    #[test]
    fn values_out_of_range_are_refused() {
        for key in LIMIT_KEYS {
            let mut limits = Limits::default();
            let (outside, other_kind) = match key.range() {
                LimitRange::Duration(range) => (
                    LimitValue::Duration(*range.end() + secs(1)),
                    LimitValue::Count(1),
                ),
                LimitRange::Bytes(range) => {
                    (LimitValue::Bytes(*range.end() + 1), LimitValue::Count(1))
                }
                LimitRange::Count(range) => {
                    (LimitValue::Count(*range.end() + 1), LimitValue::Bytes(1))
                }
            };
            let refused = key.set(&mut limits, outside);
            assert!(
                matches!(refused, Err(LimitError::OutOfRange { .. })),
                "{}",
                key.name
            );
            let refused = key.set(&mut limits, other_kind);
            assert!(
                matches!(refused, Err(LimitError::WrongKind { .. })),
                "{}",
                key.name
            );
            assert_eq!(limits, Limits::default());
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = LIMIT_KEYS
            .iter()
            .map(|key| (key.section, key.name))
            .collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
