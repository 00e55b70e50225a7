//! What others tell a socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix::Message;
use relay_model::wire::OutgoingText;
use relay_model::wire::codes::{CloseCode, ErrorCode};

use super::inbound_room::InboundPermit;
use super::lanes::{LaneLoad, Permit};
use super::timeline::SharedSnapshot;
use super::timeline_buffer::TimelineCounts;
use crate::directory::RegistrationSequence;
use crate::traces::OpenTrace;

/// A frame for the peer; from RegistryActor and DirectoryActor by [`super::SocketHandle`]. Carries
/// its permit, so the mailbox holds no more of them than the lanes have room for.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Deliver {
    /// The frame.
    pub(crate) text: OutgoingText,
    /// Its room, which also names the lane.
    pub(crate) permit: Permit,
    /// What it is, where that matters for its order or its count.
    pub(crate) kind: FrameKind,
    /// The trace of the request that it is, or answers.
    pub(crate) trace: Option<Arc<OpenTrace>>,
}

/// What a delivered frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// A forwarded request: counted when it leaves (RPC-5).
    Request,
    /// A device's status, sent to the route that this registration made: it may not overtake that
    /// registration's reply (REG-7).
    Status(RegistrationSequence),
    /// Anything else.
    Other,
}

/// A timeline snapshot for the phone, if it still holds the lease; from RegistryActor, bounded by the
/// permits of the desktop's socket.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Offer {
    /// The number of the lease, among those of the connection.
    pub(crate) lease: u64,
    /// The snapshot, shared by all phones with a lease.
    pub(crate) snapshot: Arc<SharedSnapshot>,
    /// Room of the desktop's socket.
    pub(crate) _permit: Arc<InboundPermit>,
}

/// The target desktop registered anew: versions count from the start (TL-8). From RegistryActor, one a
/// registration of the desktop and lease.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct DesktopRegistered;

/// Asks for the socket's counts; from whoever shows a device's state.
#[derive(Message)]
#[rtype(result = "SocketState")]
pub(crate) struct ReadSocketState;

/// What one connection holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, actix::MessageResponse)]
pub struct SocketState {
    /// What waits in the control lane.
    pub control: LaneLoad,
    /// What waits in the RPC lane.
    pub rpc: LaneLoad,
    /// What waits in the event lane.
    pub event: LaneLoad,
    /// Timeline snapshots that wait (TL-8), and their bytes with those of the one that is being written.
    pub snapshots: LaneLoad,
    /// What became of the snapshots that were offered.
    pub timeline: TimelineCounts,
    /// Messages of the peer that are under way inside the relay, and their bytes.
    pub inbound: LaneLoad,
    /// Bytes of a message that the peer has not finished.
    pub unfinished: usize,
    /// How long the peer has taken nothing although something waits (TR-10).
    pub stalled_for: Option<Duration>,
    /// How long the peer took to answer the last ping that it answered.
    pub round_trip: Option<Duration>,
    /// How long ago its last frame came.
    pub silent_for: Duration,
    /// Its address, as the log knows it.
    pub peer: Option<SocketAddr>,
}

/// Ends the connection; from RegistryActor and DirectoryActor, at most a few a connection.
#[derive(Message, Debug, Clone, Copy, PartialEq, Eq)]
#[rtype(result = "()")]
pub(crate) struct Close(pub(crate) CloseReason);

/// Why the relay ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// A newer connection of the same device took over (REG-6).
    Replaced,
    /// A lane of the connection was full (TR-10).
    Congested,
    /// Nothing could be written for too long (TR-10).
    Stalled,
    /// All connections together held too much, and this one the most (TR-10).
    MemoryCeiling,
    /// Two snapshots of one window had the same version (TL-9).
    VersionConflict,
    /// The pair's RegistryActor failed.
    PairLost,
    /// The relay drains (DR-3).
    Drained,
    /// The peer was silent (TR-5).
    Silent,
    /// No registration in time (TR-9).
    RegistrationTimeout,
    /// The credentials expired (SES-6).
    Expired,
    /// The API key was revoked, or ended otherwise (SES-6).
    KeyEnded,
    /// The desktop was hidden (EV-5).
    Hidden,
    /// The device was forgotten (PR-4).
    Forgotten,
    /// The user signed out on the device (SES-2).
    SignedOut,
    /// The registration was refused (REG-4); the error frame said why.
    Refused(CloseCode),
}

impl CloseReason {
    /// Its word in the log (OP-5).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Congested => "congested",
            Self::Stalled => "stalled",
            Self::MemoryCeiling => "memory_ceiling",
            Self::VersionConflict => "version_conflict",
            Self::PairLost => "pair_lost",
            Self::Drained => "drained",
            Self::Silent => "peer_silent",
            Self::RegistrationTimeout => "registration_timeout",
            Self::Expired => "expired",
            Self::KeyEnded => "key_ended",
            Self::Hidden => "hidden",
            Self::Forgotten => "forgotten",
            Self::SignedOut => "signed_out",
            Self::Refused(_) => "refused",
        }
    }

    /// What a registration is told that is not answered yet when this ends it (REG-11).
    pub(super) const fn refusal(self) -> Option<ErrorCode> {
        match self {
            Self::Hidden => Some(ErrorCode::DesktopNotEligible),
            Self::Forgotten => Some(ErrorCode::DesktopForgotten),
            _ => None,
        }
    }

    /// The close code that the peer sees.
    pub fn code(self) -> CloseCode {
        match self {
            Self::Replaced => CloseCode::Replaced,
            Self::Congested
            | Self::Stalled
            | Self::MemoryCeiling
            | Self::VersionConflict
            | Self::PairLost => CloseCode::Retired,
            Self::Drained => CloseCode::Draining,
            Self::Silent => CloseCode::Silent,
            Self::RegistrationTimeout => CloseCode::RegistrationTimeout,
            Self::Expired | Self::KeyEnded | Self::SignedOut => CloseCode::CredentialsEnded,
            Self::Hidden | Self::Forgotten => CloseCode::DeviceRemoved,
            Self::Refused(code) => code,
        }
    }
}
