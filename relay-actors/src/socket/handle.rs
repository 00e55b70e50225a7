//! The cheap handle of a socket that the registry and the directory keep: an address with the room
//! of its lanes.

use std::sync::Arc;

use actix::Addr;
use relay_model::ids::ConnectionId;
use relay_model::wire::OutgoingText;

use super::SocketActor;
use super::lanes::{Lane, OutboundRoom};
use super::messages::{Close, CloseReason, Deliver, DesktopRegistered, FrameKind, Offer};
use crate::directory::RegistrationSequence;
use crate::mailbox::post;
use crate::traces::OpenTrace;

/// A frame found no room in its lane (TR-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection's lane is full")]
pub(crate) struct LaneFull;

/// How to reach one socket.
#[derive(Clone)]
pub(crate) struct SocketHandle {
    /// The socket's connection.
    pub(crate) connection: ConnectionId,
    address: Addr<SocketActor>,
    room: Arc<OutboundRoom>,
}

impl SocketHandle {
    pub(super) fn new(
        connection: ConnectionId,
        address: Addr<SocketActor>,
        room: Arc<OutboundRoom>,
    ) -> Self {
        Self {
            connection,
            address,
            room,
        }
    }

    /// Sends a forwarded request, unless its lane is full.
    pub(crate) fn request(
        &self,
        text: OutgoingText,
        trace: Option<Arc<OpenTrace>>,
    ) -> Result<(), LaneFull> {
        self.deliver(Lane::Rpc, text, FrameKind::Request, trace)
    }

    /// Sends an answer, unless its lane is full.
    pub(crate) fn answer(
        &self,
        text: OutgoingText,
        trace: Option<Arc<OpenTrace>>,
    ) -> Result<(), LaneFull> {
        self.deliver(Lane::Rpc, text, FrameKind::Other, trace)
    }

    /// Sends an event, unless its lane is full.
    pub(crate) fn event(&self, text: OutgoingText) -> Result<(), LaneFull> {
        self.deliver(Lane::Event, text, FrameKind::Other, None)
    }

    /// Sends a device's status, or that it was forgotten, to the route that `registration` made, unless its lane is full.
    pub(crate) fn status(
        &self,
        text: OutgoingText,
        registration: RegistrationSequence,
    ) -> Result<(), LaneFull> {
        self.deliver(Lane::Control, text, FrameKind::Status(registration), None)
    }

    fn deliver(
        &self,
        lane: Lane,
        text: OutgoingText,
        kind: FrameKind,
        trace: Option<Arc<OpenTrace>>,
    ) -> Result<(), LaneFull> {
        let permit = self.room.reserve(lane, text.len()).ok_or(LaneFull)?;
        let deliver = Deliver {
            text,
            permit,
            kind,
            trace,
        };
        post(&self.address, deliver);
        Ok(())
    }

    /// Offers a timeline snapshot.
    pub(crate) fn offer(&self, offer: Offer) {
        post(&self.address, offer);
    }

    /// Has a phone forget which versions it was sent.
    pub(crate) fn desktop_registered(&self) {
        post(&self.address, DesktopRegistered);
    }

    /// All bytes that wait for the connection.
    pub(crate) fn debt(&self) -> u64 {
        self.room.debt()
    }

    /// Ends the connection.
    pub(crate) fn close(&self, reason: CloseReason) {
        post(&self.address, Close(reason));
    }

    /// Lets no further request leave for the peer and returns how many may have reached it (RPC-5).
    pub(crate) fn seal_requests(&self) -> u64 {
        self.room.begun_requests().seal()
    }

    /// The socket's address, for those who ask rather than tell.
    pub(crate) fn address(&self) -> &Addr<SocketActor> {
        &self.address
    }
}
