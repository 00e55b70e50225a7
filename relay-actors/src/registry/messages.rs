//! What a pair's registry is told: routes by DirectoryActor, frames by sockets.

use actix::Message;
use relay_model::ids::{ConnectionId, DeviceId};
use relay_model::wire::OutgoingText;

use crate::socket::SocketHandle;
use crate::socket::inbound_room::InboundPermit;

/// The desktop has a route; from DirectoryActor, one a registration.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct DesktopAttached(pub(crate) SocketHandle);

/// The desktop's connection is gone; from DirectoryActor, one a connection.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct DesktopGone {
    /// Which one: a later registration may have replaced it already.
    pub(crate) connection: ConnectionId,
}

/// The desktop's grace is over, or it never had one; from DirectoryActor, one a grace.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct DesktopOffline;

/// The desktop is taken as reconnecting although this relay has not seen it (PR-8); from
/// DirectoryActor, at most one a desktop and start of the process.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct DesktopReconnecting;

/// A phone of the account has a route; from DirectoryActor, one a registration and pair.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PhoneAttached {
    /// The phone.
    pub(crate) phone: DeviceId,
    /// Its route.
    pub(crate) route: SocketHandle,
    /// Whether it wants this pair's desktop; if not, it only gets the answers that it still waits
    /// for (REG-10).
    pub(crate) targets_this: bool,
}

/// A phone's connection is gone; from DirectoryActor, one a connection and pair.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PhoneGone {
    /// The phone.
    pub(crate) phone: DeviceId,
    /// Which connection: a later registration may have replaced it already.
    pub(crate) connection: ConnectionId,
}

/// Nobody is attached to the pair and nobody will be: end. From DirectoryActor, one a pair, in
/// answer to its [`crate::directory::PairIdle`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct EndPair;

/// A phone's request, ready to be forwarded; from the phone's socket, bounded by its permits.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Request {
    /// The connection that it came on.
    pub(crate) connection: ConnectionId,
    /// The phone.
    pub(crate) phone: DeviceId,
    /// The request's id, valid.
    pub(crate) id: Box<str>,
    /// The frame for the desktop.
    pub(crate) text: OutgoingText,
    /// Room of the phone's socket.
    pub(crate) permit: InboundPermit,
}

/// A desktop's response, ready to be forwarded; from the desktop's socket, bounded by its permits.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Response {
    /// The connection that it came on: only the one to which the request went may answer (RPC-2).
    pub(crate) connection: ConnectionId,
    /// The request's id.
    pub(crate) id: Box<str>,
    /// Whether it ends the request.
    pub(crate) is_final: bool,
    /// The frame for the phone.
    pub(crate) text: OutgoingText,
    /// Room of the desktop's socket.
    pub(crate) permit: InboundPermit,
}

/// Asks for the registry's counts; from tests, and from whoever shows a pair's state.
#[derive(Message)]
#[rtype(result = "PairState")]
pub(crate) struct ReadPairState;

/// What a pair holds and has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, actix::MessageResponse)]
pub struct PairState {
    /// Whether the desktop has a route.
    pub desktop_attached: bool,
    /// Phones with a route that want this desktop.
    pub phones: usize,
    /// Requests without a final answer.
    pub pending: usize,
    /// What was counted since the pair began.
    pub counts: PairCounts,
}

/// What a pair counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// Requests that were forwarded.
    pub forwarded: u64,
    /// Requests dropped because the same phone had the id pending (RPC-7).
    pub duplicate_requests: u64,
    /// Responses that were forwarded.
    pub answered: u64,
    /// Responses to a request that is not pending on that connection (RPC-2, RPC-3).
    pub unknown_responses: u64,
    /// Responses for a phone without a route (RPC-3).
    pub undeliverable_responses: u64,
    /// Records that ended at their deadline (RPC-6).
    pub expired: u64,
    /// Requests that the relay answered itself.
    pub failed: u64,
}
