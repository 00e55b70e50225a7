//! The device store: what the relay keeps in a database, behind one trait, so that the actors run
//! the same over SQLite, over another backend, and over a store in memory in simulated runs.
//!
//! Every query that names a device also names the account that asks; a foreign device is told apart
//! from an unknown one only where a rule wants it, and then by yes or no alone.

mod api_keys;
mod changes;
mod columns;
mod devices;
mod dialect;
mod diesel_store;
mod faults;
mod forgetting;
mod instances;
mod migrations;
mod policy;
mod pool;
mod prepared_update;
mod presence;
mod presence_history;
mod probes;
mod push_tokens;
mod registration;
mod registration_facts;
mod schema;
#[cfg(any(test, feature = "test-database"))]
#[expect(clippy::panic, reason = "a test that has no database has failed")]
mod test_database;
mod url;

use std::future::Future;
use std::pin::Pin;

use diesel::deserialize::FromSqlRow;
use diesel::expression::AsExpression;
use serde::Serialize;

pub use api_keys::{ApiKeyRow, NewApiKey, StoredApiKey};
pub use diesel_store::DieselStore;
pub use pool::OpenError;
#[cfg(any(test, feature = "test-database"))]
pub use test_database::TestDatabase;
pub use url::{DatabaseUrl, DatabaseUrlError, PostgresUrl, PostgresUrlError};

use crate::ids::{AccountId, ApiKeyId, ConnectionGeneration, DeviceId, RelayInstanceId};
use crate::push::{
    NewPushToken, PushOutcomeWrite, PushRegistration, PushTokenRow, PushTokenSetting,
};
use crate::time::Timestamp;

/// What a call to the store returns: it runs where the caller polls it.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Why the store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or did not answer in time. Worth another try later.
    #[error("the database is unavailable: {0}; check database.url and that the server runs")]
    Unavailable(String),
    /// The database can be read and not written. Worth another try once somebody has seen to it.
    #[error(
        "the database cannot be written: {0}; look for a full disk, a limit on file sizes, a file or \
         folder that the relay's user may not write, or a server that takes no writes"
    )]
    NotWritable(String),
    /// Too many calls wait already (`database.queue`).
    #[error("the database queue is full; try again, or raise database.queue and database.pool")]
    QueueFull,
    /// The database answered with an error that trying again will not mend.
    #[error("the database refused the query: {0}")]
    Failed(String),
}

/// What a device is: decides its rights in the protocol.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, AsExpression, FromSqlRow,
)]
#[serde(rename_all = "lowercase")]
#[diesel(sql_type = diesel::sql_types::Text)]
pub enum DeviceType {
    /// Runs the coding agent, answers requests.
    Desktop,
    /// Asks.
    Mobile,
}

/// Presence as the database and `GET /api/devices` spell it (PR-1, PR-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, AsExpression, FromSqlRow)]
#[serde(rename_all = "lowercase")]
#[diesel(sql_type = diesel::sql_types::Text)]
pub enum DeviceStatus {
    /// Has a route.
    Online,
    /// A desktop within its grace.
    Reconnecting,
    /// Neither.
    Offline,
}

/// Why a device is offline (OP-9), as `offlineReason` and `device-status` spell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, AsExpression, FromSqlRow)]
#[serde(rename_all = "snake_case")]
#[diesel(sql_type = diesel::sql_types::Text)]
pub enum OfflineReason {
    /// A desktop did not come back within its grace (PR-2).
    ReconnectTimeout,
    /// A phone closed its connection, or lost it.
    Disconnected,
    /// Its user hid the desktop (EV-5, PR-4).
    Hidden,
    /// Its user forgot the device (PR-4).
    Unlinked,
    /// Its user signed out on it (SES-2).
    SignedOut,
    /// The relay stopped while the device was connected.
    RelayStopped,
    /// The relay that held the device died without a word (PR-6).
    RelayLost,
}

/// All that a registration is checked against, read in one query (REG-4, REG-9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationFacts {
    /// The lowest protocol version admitted; 0 admits a missing one too.
    pub protocol_floor: u32,
    /// The device that wants to register.
    pub device: DeviceStanding,
    /// The phone's target, if one was asked for and it is a desktop of this account.
    pub target: Option<TargetFacts>,
}

/// How a device id stands to the account that uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceStanding {
    /// No row.
    Unknown,
    /// A row of another account. Nothing more is told.
    Foreign,
    /// A row of this account.
    Owned {
        /// The row's type.
        device_type: DeviceType,
        /// Forgotten by its user.
        forgotten: bool,
        /// Admitted to the relay: not hidden (EV-5). Always true for phones.
        relay_eligible: bool,
    },
}

/// What a phone's registration needs to know of its target desktop (REG-5, PR-5, PR-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetFacts {
    /// Not forgotten and not hidden.
    pub admitted: bool,
    /// See [`DeviceRow::elsewhere`].
    pub elsewhere: Option<Elsewhere>,
}

/// What another instance knew of a device that it held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elsewhere {
    /// The last time at which it knew the device online or reconnecting: `now` under a live instance,
    /// the last renewal of one that drains or has lapsed, and `last_seen` once a stop or a sweep has
    /// marked the row (`relay_stopped`, `relay_lost`).
    pub seen: Timestamp,
    /// What that instance is now.
    pub holder: Holder,
}

/// What the relay is that holds, or held, a device (PR-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// It owns the device.
    Live,
    /// It owns nothing any more, and its devices may be connected to it until its drain is over.
    Draining,
    /// It has lapsed or stopped.
    Gone,
}

impl Holder {
    /// Of an instance with these columns in its row, at `now`.
    pub fn of(draining: bool, lease_until: Timestamp, now: Timestamp) -> Self {
        match draining {
            false if lease_until >= now => Self::Live,
            // A stop ends the lease at its own moment.
            true if lease_until > now => Self::Draining,
            false | true => Self::Gone,
        }
    }
}

/// Who asks, and when: the relay instance whose own rows are not "elsewhere".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The instance.
    pub instance: RelayInstanceId,
    /// Its wall clock.
    pub now: Timestamp,
}

/// A desktop's HTTP registration (`POST /api/devices/register`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesktopRegistration {
    /// Trimmed, 1 to 255 characters (HTTP-3).
    pub device_name: String,
    /// `macos`, `windows` or `linux`.
    pub platform: String,
    /// Version of the operating system.
    pub platform_version: Option<String>,
    /// Version of the app.
    pub app_version: String,
    /// Opaque JSON; `None` keeps what the row has.
    pub capabilities: Option<serde_json::Value>,
    /// `None` keeps what the row has (EV-5); a new row is eligible.
    pub relay_eligible: Option<bool>,
    /// Undoes a forget, on the user's action only.
    pub rejoin: bool,
}

/// A phone's HTTP registration (`POST /api/devices/mobile/register`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhoneRegistration {
    /// Trimmed, 1 to 255 characters (HTTP-3).
    pub device_name: String,
    /// `ios` or `android`.
    pub platform: String,
    /// Version of the app.
    pub app_version: String,
    /// Opaque JSON; `None` keeps what the row has.
    pub capabilities: Option<serde_json::Value>,
    /// Undoes a forget, on the user's action only.
    pub rejoin: bool,
    /// Where it is reached when it is not connected; `None` keeps what it has.
    pub push_token: Option<NewPushToken>,
}

/// What came of an HTTP registration.
#[derive(Debug, Clone, PartialEq)]
pub enum RegistrationOutcome {
    /// The row was made or updated.
    Registered(Box<ChangedDevice>),
    /// The id belongs to another account (HTTP-1); nothing changed.
    Foreign,
    /// The device was forgotten and did not ask to rejoin; nothing changed.
    Forgotten,
    /// The row is of the other type; nothing changed.
    TypeMismatch,
}

/// A row that was changed.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedDevice {
    /// The row as it stands.
    pub row: DeviceRow,
    /// Whether it was admitted to the relay before the call; of a new row, whether it is.
    pub was_eligible: bool,
    /// Whether it was forgotten before the call, and has rejoined by it.
    pub was_forgotten: bool,
}

/// A device that is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForgottenDevice {
    /// What it was.
    pub device_type: DeviceType,
    /// Whether it had been forgotten before the call, which then changed nothing.
    pub was_forgotten: bool,
    /// When its row was changed last: at the forget, if nothing has changed it since.
    pub updated_at: Timestamp,
}

/// What to change of a device; `None` keeps what the row has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceChange {
    /// Trimmed, 1 to 255 characters (HTTP-3).
    pub device_name: Option<String>,
    /// Whether a desktop is admitted to the relay (EV-5); a phone is always, and its flag is only kept.
    pub relay_eligible: Option<bool>,
    /// The directory that the desktop works in.
    pub project_directory: Option<String>,
}

/// A device as `GET /api/devices` shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRow {
    /// Its id.
    pub id: DeviceId,
    /// Phone or desktop.
    pub device_type: DeviceType,
    /// Its name.
    pub device_name: String,
    /// Its operating system.
    pub platform: String,
    /// Version of the operating system.
    pub platform_version: Option<String>,
    /// Version of the app.
    pub app_version: String,
    /// Opaque JSON.
    pub capabilities: serde_json::Value,
    /// Whether a desktop is admitted to the relay.
    pub relay_eligible: bool,
    /// Presence as last written.
    pub status: DeviceStatus,
    /// Why it is offline, when it is and that is known.
    pub offline_reason: Option<OfflineReason>,
    /// That *another* instance knew it online or reconnecting (PR-8). `None` if its own relay saw it
    /// go, and in the answer of a registration over HTTP, where no instance asks.
    pub elsewhere: Option<Elsewhere>,
    /// When it was last known to be connected.
    pub last_seen: Option<Timestamp>,
    /// When its last heartbeat was written (KA-1).
    pub last_heartbeat: Option<Timestamp>,
    /// The directory that the desktop works in.
    pub active_project_directory: Option<String>,
    /// When the row was made.
    pub created_at: Timestamp,
    /// When its device last registered or changed it. Rises with each change of the row, so that of
    /// two changes the later one is known, whatever the clocks of their relays said.
    pub updated_at: Timestamp,
}

/// A device as its operator sees it: forgotten ones are known too (OP-9).
#[derive(Debug, Clone, PartialEq)]
pub struct KnownDevice {
    /// The row.
    pub row: DeviceRow,
    /// Whether its user forgot it.
    pub forgotten: bool,
    /// When its presence became what the row says.
    pub status_at: Timestamp,
}

/// A presence change that took effect, as the history keeps it (PR-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresenceEntry {
    /// The device.
    pub device: DeviceId,
    /// When.
    pub at: Timestamp,
    /// The relay that held it.
    pub instance: RelayInstanceId,
    /// The generation of its connection.
    pub generation: ConnectionGeneration,
    /// What it became.
    pub status: DeviceStatus,
    /// Why, if it is offline and that is known.
    pub reason: Option<OfflineReason>,
}

/// Which devices `GET /api/devices` wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceFilter {
    /// Only this type.
    pub device_type: Option<DeviceType>,
}

/// One presence change to be stored. Changes of one device are written in the order of `at`; a
/// change other than `Online` is written only while the row still carries this instance and
/// generation and this instance has not released it, so that a late write of a draining relay
/// undoes nothing (DR-5); and not once the device was forgotten.
///
/// `Online` is written unless the row carries a later word about a connection. A mark that another
/// relay's stop left, or a sweep, is no such word: a device may have moved to this relay before the
/// mark was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresenceWrite {
    /// The device's account.
    pub account: AccountId,
    /// The device.
    pub device: DeviceId,
    /// The relay that saw the change.
    pub instance: RelayInstanceId,
    /// The generation of the connection that it is about.
    pub generation: ConnectionGeneration,
    /// What the device is from `at` on.
    pub status: DeviceStatus,
    /// Why, if it is offline.
    pub reason: Option<OfflineReason>,
    /// When.
    pub at: Timestamp,
}

/// One heartbeat to be stored (KA-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatWrite {
    /// The device's account.
    pub account: AccountId,
    /// The device.
    pub device: DeviceId,
    /// When the heartbeat came.
    pub at: Timestamp,
}

/// The database as the relay uses it. Implementations bound nothing and retry nothing: StoreActor
/// stands in front of them.
pub trait DeviceStore: Send + Sync + 'static {
    /// Reads all that a registration over the socket is checked against. `asker` is the instance
    /// from which "another instance" is counted.
    fn registration_facts(
        &self,
        asker: Asker,
        account: AccountId,
        device: DeviceId,
        target: Option<DeviceId>,
    ) -> StoreFuture<RegistrationFacts>;

    /// Creates or updates a desktop's row.
    fn register_desktop(
        &self,
        account: AccountId,
        device: DeviceId,
        registration: DesktopRegistration,
        now: Timestamp,
    ) -> StoreFuture<RegistrationOutcome>;

    /// Creates or updates a phone's row.
    fn register_phone(
        &self,
        account: AccountId,
        device: DeviceId,
        registration: PhoneRegistration,
        now: Timestamp,
    ) -> StoreFuture<RegistrationOutcome>;

    /// The account's devices that are not forgotten, oldest first.
    fn devices(
        &self,
        asker: Asker,
        account: AccountId,
        filter: DeviceFilter,
    ) -> StoreFuture<Vec<DeviceRow>>;

    /// All devices of the account, forgotten ones included, oldest first (OP-9).
    fn known_devices(&self, asker: Asker, account: AccountId) -> StoreFuture<Vec<KnownDevice>>;

    /// The last `limit` presence changes of each of these devices of the account, in the order of
    /// `devices`, the newest first (OP-9).
    fn presence_history(
        &self,
        account: AccountId,
        devices: Vec<DeviceId>,
        limit: usize,
    ) -> StoreFuture<Vec<PresenceEntry>>;

    /// Changes a device's row and its `updated_at`. `None` if it is unknown, of another account or
    /// forgotten.
    fn change_device(
        &self,
        account: AccountId,
        device: DeviceId,
        change: DeviceChange,
        now: Timestamp,
    ) -> StoreFuture<Option<ChangedDevice>>;

    /// Forgets a device, marks its row as offline (`unlinked`) and removes its push token, in one
    /// transaction (PR-4). A device
    /// that is forgotten stays as it is. `None` if it is unknown or of another account.
    fn forget_device(
        &self,
        account: AccountId,
        device: DeviceId,
        now: Timestamp,
    ) -> StoreFuture<Option<ForgottenDevice>>;

    /// Stores presence changes, all or none, and keeps those that took effect in the history (PR-6).
    fn write_presence(&self, writes: Vec<PresenceWrite>) -> StoreFuture<()>;

    /// Stores heartbeats, all or none; a heartbeat also counts as "seen".
    fn write_heartbeats(&self, writes: Vec<HeartbeatWrite>) -> StoreFuture<()>;

    /// Makes or renews this instance's row until `lease_until` (PR-6).
    fn renew_instance(
        &self,
        instance: RelayInstanceId,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> StoreFuture<()>;

    /// Marks this instance as draining, for good: it owns nothing any more (PR-6). Its lease goes on
    /// being renewed, so that others know until when its devices were connected.
    fn mark_draining(
        &self,
        instance: RelayInstanceId,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> StoreFuture<()>;

    /// Marks every row that is online or reconnecting under an instance that is gone, draining or
    /// past its lease at `now` as offline (`relay_stopped` if it drains, else `relay_lost`), and keeps
    /// when it was last known online (PR-6). Returns how many. Rows of live instances are not touched. Instances that lapsed
    /// longer ago than [`INSTANCE_RETENTION`](crate::limits::INSTANCE_RETENTION) are forgotten.
    fn sweep_lost(&self, now: Timestamp) -> StoreFuture<usize>;

    /// The devices whose rows this instance held last and a sweep marked `relay_lost`, in the order of
    /// their ids. Reads every row: it is for an instance whose lease lapsed while it lived (PR-6).
    fn marked_lost(&self, instance: RelayInstanceId) -> StoreFuture<Vec<(AccountId, DeviceId)>>;

    /// Marks every row that this instance holds as offline (`relay_stopped`) and ends its lease, in
    /// one transaction.
    fn release_instance(&self, instance: RelayInstanceId, now: Timestamp) -> StoreFuture<()>;

    /// Drops the presence history before `before` and returns how many changes that were (PR-6).
    fn purge_presence_history(&self, before: Timestamp) -> StoreFuture<usize>;

    /// Keeps an API key (HTTP-4). Its id must be of no other key.
    fn create_api_key(&self, key: NewApiKey) -> StoreFuture<()>;

    /// The account's API keys, oldest first, ended ones included.
    fn api_keys(&self, account: AccountId) -> StoreFuture<Vec<ApiKeyRow>>;

    /// The API key of this id, ended or not: for whoever presents its secret.
    fn api_key(&self, id: ApiKeyId) -> StoreFuture<Option<StoredApiKey>>;

    /// Ends an API key; revoking it again keeps the first time. False if it is unknown or of another
    /// account.
    fn revoke_api_key(&self, account: AccountId, id: ApiKeyId, now: Timestamp)
    -> StoreFuture<bool>;

    /// Which of these API keys are revoked, expired at `now`, or gone.
    fn ended_api_keys(&self, ids: Vec<ApiKeyId>, now: Timestamp) -> StoreFuture<Vec<ApiKeyId>>;

    /// Gives a phone its push token. Whatever device held it before, of any account, has none then.
    fn set_push_token(
        &self,
        account: AccountId,
        device: DeviceId,
        token: NewPushToken,
        now: Timestamp,
    ) -> StoreFuture<PushTokenSetting>;

    /// Removes the push token of a device of this account, or of all its devices, and returns how many
    /// tokens those were.
    fn remove_push_tokens(
        &self,
        account: AccountId,
        device: Option<DeviceId>,
    ) -> StoreFuture<usize>;

    /// The push tokens of the account's phones that are not forgotten, in the order of their ids.
    fn push_tokens(&self, account: AccountId) -> StoreFuture<Vec<PushTokenRow>>;

    /// Removes the token of this registration, unless the phone has registered one since, be it the
    /// same (PUSH-4). Says whether it did.
    fn remove_push_registration(&self, registration: PushRegistration) -> StoreFuture<bool>;

    /// Keeps what became of pushes, all or none. A token that is not there any more is passed over,
    /// and so is an outcome that is older than the one that is kept.
    fn record_push_outcomes(&self, writes: Vec<PushOutcomeWrite>) -> StoreFuture<()>;

    /// The protocol floor (REG-9).
    fn protocol_floor(&self) -> StoreFuture<u32>;

    /// Sets the protocol floor, from the next registration on (REG-9). At most
    /// [`MAX_PROTOCOL_FLOOR`](crate::limits::MAX_PROTOCOL_FLOOR).
    fn set_protocol_floor(&self, floor: u32) -> StoreFuture<()>;

    /// Whether the database answers (OP-8).
    fn check(&self) -> StoreFuture<()>;
}
