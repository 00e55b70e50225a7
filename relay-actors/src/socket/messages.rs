//! What others tell a socket.

use actix::Message;
use relay_model::wire::OutgoingText;
use relay_model::wire::codes::CloseCode;

use super::lanes::Permit;
use crate::directory::RegistrationSequence;

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
    /// The pair's RegistryActor failed.
    PairLost,
    /// The process stops.
    Stopping,
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
    /// The registration was refused (REG-4); the error frame said why.
    Refused(CloseCode),
}

impl CloseReason {
    /// Its word in the log (OP-5).
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Congested => "congested",
            Self::Stalled => "stalled",
            Self::MemoryCeiling => "memory_ceiling",
            Self::PairLost => "pair_lost",
            Self::Stopping => "drained",
            Self::Silent => "peer_silent",
            Self::RegistrationTimeout => "registration_timeout",
            Self::Expired => "expired",
            Self::KeyEnded => "key_ended",
            Self::Hidden => "hidden",
            Self::Refused(_) => "refused",
        }
    }

    /// The close code that the peer sees.
    pub fn code(self) -> CloseCode {
        match self {
            Self::Replaced => CloseCode::Replaced,
            Self::Congested | Self::Stalled | Self::MemoryCeiling | Self::PairLost => {
                CloseCode::Retired
            }
            Self::Stopping => CloseCode::Draining,
            Self::Silent => CloseCode::Silent,
            Self::RegistrationTimeout => CloseCode::RegistrationTimeout,
            Self::Expired | Self::KeyEnded => CloseCode::CredentialsEnded,
            Self::Hidden => CloseCode::DeviceRemoved,
            Self::Refused(code) => code,
        }
    }
}
