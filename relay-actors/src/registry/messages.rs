//! What a pair's registry is told: routes by DirectoryActor, frames by sockets.

use std::sync::Arc;

use actix::Message;
use relay_model::ids::{AuthorizationGeneration, ConnectionId, DeviceId};
use relay_model::timeline::BaseSession;
use relay_model::wire::OutgoingText;
use relay_model::wire::timeline::snapshot::Snapshot;
use tokio::time::{Duration, Instant};

use super::tally::TallyShare;
use crate::socket::SocketHandle;
use crate::socket::inbound_room::InboundPermit;
use crate::traces::OpenTrace;

/// The desktop has a route; from DirectoryActor, one a registration. Answered with the states of its
/// phones' leases, as frames for the desktop (REG-7).
#[derive(Message)]
#[rtype(result = "Vec<OutgoingText>")]
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

/// A device of the account was forgotten: if it is a phone, its requests end with it. From DirectoryActor,
/// one a forget and pair.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PhoneForgotten(pub(crate) DeviceId);

/// Nobody is attached to the pair and nobody will be: end. From DirectoryActor, one a pair, in
/// answer to its [`crate::directory::PairIdle`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct EndPair;

/// The relay drains and its memory is cleared: no request is answered any more, and nothing that still
/// comes has an effect (DR-3). From DirectoryActor, once a pair.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Forget;

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
    /// Its trace, if it has one.
    pub(crate) trace: Option<Arc<OpenTrace>>,
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
    /// Whether the desktop answers with an error.
    pub(crate) is_error: bool,
    /// When it was read.
    pub(crate) read_at: Instant,
    /// The frame for the phone.
    pub(crate) text: OutgoingText,
    /// Room of the desktop's socket.
    pub(crate) permit: InboundPermit,
}

/// A phone takes or renews an interest (TL-1); from the phone's socket, bounded by its permits.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct InterestTaken {
    /// The connection that it came on.
    pub(crate) connection: ConnectionId,
    /// The phone.
    pub(crate) phone: DeviceId,
    /// The number of the lease, among those of the connection.
    pub(crate) lease: u64,
    /// The session.
    pub(crate) session: BaseSession,
    /// When the lease ends by itself.
    pub(crate) deadline: Instant,
    /// Room of the phone's socket.
    pub(crate) permit: InboundPermit,
}

/// A phone ends its interest (TL-1); from the phone's socket, bounded by its permits.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct InterestEnded {
    /// The connection that it came on.
    pub(crate) connection: ConnectionId,
    /// The phone.
    pub(crate) phone: DeviceId,
    /// The number of the lease, among those of the connection.
    pub(crate) lease: u64,
    /// Room of the phone's socket.
    pub(crate) permit: InboundPermit,
}

/// A desktop's timeline snapshot (TL-5); from the desktop's socket, bounded by its permits.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct TimelineUpdate {
    /// The connection that it came on.
    pub(crate) connection: ConnectionId,
    /// Its proof of an interest, and the snapshot; `None` if it had no proof that can be read.
    pub(crate) authorized: Option<(AuthorizationGeneration, Snapshot)>,
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
    /// Leases of phones, those counted that are at their deadline and not dropped yet (TL-3).
    pub leases: usize,
    /// What was counted since the pair began.
    pub counts: PairCounts,
}

/// Has the registry add what it holds to a sum; from whoever shows what all pairs hold, one a question and
/// pair.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AddUp(pub(crate) TallyShare);

/// Asks what exactly a pair holds; from whoever shows an account to its operator.
#[derive(Message)]
#[rtype(result = "PairDetails")]
pub(crate) struct ReadPairDetails;

/// What exactly a pair holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PairDetails {
    /// Requests without a final answer, by phone.
    pub(crate) pending: Vec<(DeviceId, usize)>,
    /// Leases.
    pub(crate) leases: Vec<HeldLease>,
}

/// A lease, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    /// Who holds it.
    pub phone: DeviceId,
    /// Of which session.
    pub session: BaseSession,
    /// For how long already, renewals included.
    pub held_for: Duration,
    /// How long it holds if it is not renewed.
    pub ends_in: Duration,
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
    /// Timeline snapshots that were offered to phones.
    pub snapshots: u64,
    /// Timeline snapshots dropped as their `authorizationGeneration` was not the current one (TL-5).
    pub unauthorized_snapshots: u64,
}
