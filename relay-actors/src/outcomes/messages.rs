//! What is told of connections, and asked by operators.

use std::collections::BTreeMap;

use actix::Message;
use relay_model::ids::{AccountId, DeviceId};

use super::{DeviceOutcomes, LastClose, LastRefusal};

/// A connection ended that had registered as a device, or said which one it is; from its socket, at
/// most one a connection.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ConnectionClosed {
    pub(crate) device: (AccountId, DeviceId),
    pub(crate) close: LastClose,
}

/// A registration was refused; from its socket, which reads no other frame of its peer before it has
/// answered this one.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct RegistrationRefused {
    pub(crate) account: AccountId,
    /// The device that the client says it is, if it says one.
    pub(crate) device: Option<DeviceId>,
    pub(crate) refusal: LastRefusal,
}

/// Asks what is remembered of an account's devices, in the order of their ids; from whoever shows an
/// account to its operator.
#[derive(Message)]
#[rtype(result = "Vec<(DeviceId, DeviceOutcomes)>")]
pub(crate) struct ReadOutcomes(pub(crate) AccountId);

/// Asks how many registrations were refused since the process started, by code.
#[derive(Message)]
#[rtype(result = "Refusals")]
pub(crate) struct CountRefusals;

/// How many registrations were refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    /// Since the process started, by code.
    pub(crate) by_code: BTreeMap<&'static str, u64>,
    /// Of how many devices something is remembered.
    pub(crate) remembered_devices: usize,
}
