//! A socket that sends back what it gets: the WebSocket conformance suite measures the real actor,
//! its turns, its link and its lanes, without the relay's protocol on top. Not in the product.

use bytes::Bytes;
use relay_model::websocket::reader::Reader;
use relay_model::wire::OutgoingText;

use super::SocketActor;
use super::lanes::Lane;
use super::link::LinkEvent;
use super::messages::CloseReason;
use super::transport::Transport;
use crate::relay::{ConnectionOrigin, Relay};

impl SocketActor {
    /// Starts a socket that echoes; it need not register, and takes messages of full size.
    fn open_echo(
        relay: Relay,
        origin: ConnectionOrigin,
        transport: Box<dyn Transport>,
        early: Bytes,
    ) {
        let reader = Reader::new(relay.limits().max_message).keeping_binary();
        let mut socket = Self::new(relay, origin, transport, early, reader);
        socket.registration_deadline = None;
        socket.echoes = true;
        socket.run();
    }

    /// Sends a message back, if this socket echoes; everything else is for the caller.
    pub(super) fn echo(&mut self, event: LinkEvent) -> Option<LinkEvent> {
        if !self.echoes {
            return Some(event);
        }
        let sent = match event {
            LinkEvent::Text(text) => self
                .link
                .try_send(Lane::Rpc, OutgoingText::new(text.into_bytes())),
            LinkEvent::Binary(payload) => {
                let payload = payload.unwrap_or_default();
                self.link.try_send_binary(Lane::Rpc, payload)
            }
            other => return Some(other),
        };
        if !sent {
            self.close(CloseReason::Congested);
        }
        None
    }
}

impl Relay {
    /// Takes over an upgraded connection like [`Relay::accept`], but echoes.
    pub fn accept_echo(
        &self,
        origin: ConnectionOrigin,
        transport: Box<dyn Transport>,
        early: Bytes,
    ) {
        SocketActor::open_echo(self.clone(), origin, transport, early);
    }
}
