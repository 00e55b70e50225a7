//! What the store is asked and told.

use actix::Message;
use relay_model::ids::{AccountId, DeviceId};
use relay_model::store::{
    ChangedDevice, DesktopRegistration, DeviceChange, DeviceFilter, DeviceRow, ForgottenDevice,
    HeartbeatWrite, KnownDevice, PhoneRegistration, PresenceEntry, PresenceWrite,
    RegistrationFacts, RegistrationOutcome, StoreError,
};

/// Reads what a registration is checked against; from the socket that registers.
#[derive(Message)]
#[rtype(result = "Result<RegistrationFacts, StoreError>")]
pub(crate) struct ReadRegistrationFacts {
    pub(crate) account: AccountId,
    pub(crate) device: DeviceId,
    pub(crate) target: Option<DeviceId>,
}

/// Creates or updates a desktop's row; from the device API.
#[derive(Message)]
#[rtype(result = "Result<RegistrationOutcome, StoreError>")]
pub(crate) struct RegisterDesktop {
    pub(crate) account: AccountId,
    pub(crate) device: DeviceId,
    pub(crate) registration: DesktopRegistration,
}

/// Creates or updates a phone's row; from the device API.
#[derive(Message)]
#[rtype(result = "Result<RegistrationOutcome, StoreError>")]
pub(crate) struct RegisterPhone {
    pub(crate) account: AccountId,
    pub(crate) device: DeviceId,
    pub(crate) registration: PhoneRegistration,
}

/// Changes a device's row; from a socket's own events and the device API.
#[derive(Message)]
#[rtype(result = "Result<Option<ChangedDevice>, StoreError>")]
pub(crate) struct ChangeDevice {
    pub(crate) account: AccountId,
    pub(crate) device: DeviceId,
    pub(crate) change: DeviceChange,
}

/// Forgets a device (PR-4); from the device API.
#[derive(Message)]
#[rtype(result = "Result<Option<ForgottenDevice>, StoreError>")]
pub(crate) struct ForgetDevice {
    pub(crate) account: AccountId,
    pub(crate) device: DeviceId,
}

/// Lists an account's devices; from the device API.
#[derive(Message)]
#[rtype(result = "Result<Vec<DeviceRow>, StoreError>")]
pub(crate) struct ListDevices {
    pub(crate) account: AccountId,
    pub(crate) filter: DeviceFilter,
}

/// Lists all devices of an account, forgotten ones included; for its operator (OP-9).
#[derive(Message)]
#[rtype(result = "Result<Vec<KnownDevice>, StoreError>")]
pub(crate) struct ListKnownDevices(pub(crate) AccountId);

/// Reads the last presence changes of devices; for their operator (OP-9).
#[derive(Message)]
#[rtype(result = "Result<Vec<PresenceEntry>, StoreError>")]
pub(crate) struct ReadPresenceHistory {
    pub(crate) account: AccountId,
    pub(crate) devices: Vec<DeviceId>,
    /// Changes of each device.
    pub(crate) limit: usize,
}

/// Sets the protocol floor (REG-9); from the operator.
#[derive(Message)]
#[rtype(result = "Result<(), StoreError>")]
pub(crate) struct SetProtocolFloor(pub(crate) u32);

/// Reads the protocol floor (REG-9).
#[derive(Message)]
#[rtype(result = "Result<u32, StoreError>")]
pub(crate) struct ReadProtocolFloor;

/// Asks whether the database answers (OP-8).
#[derive(Message)]
#[rtype(result = "Result<(), StoreError>")]
pub(crate) struct CheckDatabase;

/// Asks for the store's counts; from whoever shows the relay's state.
#[derive(Message)]
#[rtype(result = "StoreState")]
pub(crate) struct ReadStoreState;

/// What the store has to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, actix::MessageResponse)]
pub struct StoreState {
    /// Calls to the database that wait or run.
    pub calls: usize,
    /// Those among them whose deadline has not come.
    pub awaited: usize,
    /// Devices whose presence waits to be written.
    pub presence: usize,
    /// The database does not take presence at present; it is tried again.
    pub presence_stuck: bool,
    /// Heartbeats that wait to be written.
    pub heartbeats: usize,
}

/// Asks how many connections of the pool calls use, and how many not; from whoever shows figures.
#[derive(Message)]
#[rtype(result = "PoolState")]
pub(crate) struct ReadPool;

/// The connections to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, actix::MessageResponse)]
pub(crate) struct PoolState {
    pub(crate) busy: usize,
    pub(crate) idle: usize,
}

/// Stores a presence change, soon; from DirectoryActor. At most two a device wait.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct RecordPresence(pub(crate) PresenceWrite);

/// Stores a heartbeat, soon; from a socket, at most one in `presence.heartbeat_interval` (KA-1).
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct RecordHeartbeat(pub(crate) HeartbeatWrite);

/// Marks this instance as one that drains: it owns nothing any more (PR-6). From DrainActor, once.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct MarkDraining;

/// Stores what waits, then marks this instance's rows as offline and gives up its lease; from
/// DrainActor, once, or twice if it was cut short.
#[derive(Message)]
#[rtype(result = "Result<(), StoreError>")]
pub(crate) struct ReleaseInstance;
