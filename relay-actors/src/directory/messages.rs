//! What the directory is asked and told.

use std::collections::BTreeMap;

use actix::Message;
use actix_rt::ArbiterHandle;
use relay_model::ids::{AccountId, ConnectionGeneration, ConnectionId, DeviceId, SessionId};
use relay_model::store::{DeviceStatus, DeviceType, OfflineReason};
use relay_model::time::Timestamp;
use relay_model::wire::OutgoingText;
use relay_model::wire::outbound::{DeviceStatusEvent, SessionReply};

use super::{PairEpoch, RegistrationSequence};
use crate::push::Alert;
use crate::registry::RegistryActor;
use crate::socket::SocketHandle;
use crate::socket::inbound_room::InboundPermit;
use crate::socket::registration::Target;

/// A socket exists; from whoever starts it, before anything that the socket says itself.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SocketOpened(pub(crate) SocketHandle);

/// A socket has begun to close: it is no route any more. From the socket, at most one.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SocketClosing {
    pub(crate) connection: ConnectionId,
    /// Why, in the word of the log (OP-5).
    pub(crate) reason: &'static str,
}

/// A socket is gone; from the socket, its last word, whatever ended it.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SocketGone(pub(crate) ConnectionId);

/// Makes a checked registration a route; from the socket, one a registration. This message decides
/// against everything that came before it (REG-11).
#[derive(Message)]
#[rtype(result = "Result<Attached, NotAttached>")]
pub(crate) struct Attach {
    pub(crate) account: AccountId,
    pub(crate) device: DeviceId,
    pub(crate) device_type: DeviceType,
    pub(crate) target: Option<Target>,
    /// When the registration was read, among all of the process.
    pub(crate) sequence: RegistrationSequence,
    /// When the read of its facts began, in the same count.
    pub(crate) facts_read: RegistrationSequence,
    pub(crate) socket: SocketHandle,
    /// Where a new pair's registry is to run: on the arbiter of its first socket.
    pub(crate) arbiter: ArbiterHandle,
    /// The session that was checked and is to be resumed.
    pub(crate) resume: Option<SessionId>,
}

/// What a registered socket works with.
pub(crate) struct Attached {
    /// The pair: a desktop's own, or that of a phone's target.
    pub(crate) pair: Option<actix::Addr<RegistryActor>>,
    /// A desktop's generation.
    pub(crate) generation: Option<ConnectionGeneration>,
    /// What the reply says of the session.
    pub(crate) session: SessionReply,
    /// The status of a phone's target (PR-5).
    pub(crate) target_status: Option<DeviceStatusEvent>,
    /// The states of the live leases of a desktop's phones (REG-7).
    pub(crate) leases: Vec<OutgoingText>,
}

/// Why a checked registration did not become a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAttached {
    /// A later registration of the device came first, or replaced this socket.
    #[error("a later registration of the device took over")]
    Superseded,
    /// The desktop was hidden after its row was read.
    #[error("the desktop was hidden meanwhile")]
    Hidden,
    /// The relay drains (DR-1).
    #[error("the relay drains")]
    Draining,
    /// The device was forgotten after its row was read.
    #[error("the device was forgotten meanwhile")]
    Forgotten,
    /// The user signed out on the device after its registration was read.
    #[error("the user signed out on the device meanwhile")]
    SignedOut,
    /// The session could not be opened: its actor is gone.
    #[error("no session could be opened")]
    NoSession,
}

/// An event for every other route of the account (EV-1); from the sender's socket, bounded by its
/// permits.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PublishEvent {
    pub(crate) account: AccountId,
    pub(crate) device: DeviceId,
    pub(crate) connection: ConnectionId,
    pub(crate) text: OutgoingText,
    /// What is to be pushed to the account's phones besides (PUSH-3).
    pub(crate) alert: Option<Box<Alert>>,
    pub(crate) permit: InboundPermit,
}

/// A grace is over; from PresenceActor, one a grace.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct GraceOver {
    pub(crate) pair: (AccountId, DeviceId),
    pub(crate) generation: ConnectionGeneration,
}

/// A pair has nobody and waits for nothing; from its registry. Answered by
/// [`crate::registry::EndPair`] if nobody was attached meanwhile.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PairIdle {
    pub(crate) account: AccountId,
    pub(crate) desktop: DeviceId,
    pub(crate) epoch: PairEpoch,
}

/// Asks for what is known of an account's devices; from the device API.
#[derive(Message)]
#[rtype(result = "Vec<LiveDevice>")]
pub(crate) struct ReadLiveDevices(pub(crate) AccountId);

/// What the directory knows of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveDevice {
    /// The device.
    pub device: DeviceId,
    /// Its presence.
    pub status: DeviceStatus,
    /// Why it is offline.
    pub reason: Option<OfflineReason>,
    /// Since when.
    pub since: Timestamp,
}

/// Asks for the directory's counts.
#[derive(Message)]
#[rtype(result = "DirectoryState")]
pub(crate) struct ReadDirectoryState;

/// What the directory holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, actix::MessageResponse)]
pub struct DirectoryState {
    /// Sockets, registered or not, closing ones included.
    pub sockets: usize,
    /// Accounts with a device or a pair.
    pub accounts: usize,
    /// Devices with a route or within a grace.
    pub devices: usize,
    /// Devices with a route.
    pub routes: usize,
    /// Desktops among them.
    pub desktops: usize,
    /// Phones among them.
    pub phones: usize,
    /// Pairs with a registry.
    pub pairs: usize,
    /// Devices that were hidden, shown, forgotten or signed out a short time ago (REG-11).
    pub removals: usize,
}

/// Asks how many connections ended since the process started, by the reason in the log (OP-5).
#[derive(Message)]
#[rtype(result = "BTreeMap<&'static str, u64>")]
pub(crate) struct CountCloses;

/// Asks for the socket that is a device's route, if it has one; from whoever shows a device's state.
#[derive(Message)]
#[rtype(result = "Option<SocketHandle>")]
pub(crate) struct FindRoute {
    pub(crate) account: AccountId,
    pub(crate) device: DeviceId,
}

/// Asks for the registry of a pair, if there is one; from tests, and from whoever shows a pair.
#[derive(Message)]
#[rtype(result = "Option<actix::Addr<RegistryActor>>")]
pub(crate) struct FindPair {
    pub(crate) account: AccountId,
    pub(crate) desktop: DeviceId,
}
