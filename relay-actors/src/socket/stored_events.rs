//! Events that change the sender's row: stored first, then sent to all (EV-4). While one is being
//! stored the sender's later events wait, and nothing else does.

use std::collections::VecDeque;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use bytestring::ByteString;
use relay_model::store::{DeviceChange, DeviceRow, StoreError};
use relay_model::wire::OutgoingText;
use relay_model::wire::codes::ErrorCode;
use relay_model::wire::inbound::ClientFrame;

use super::SocketActor;
use super::inbound_room::InboundPermit;
use super::stage::Stage;

/// The events of one sender behind one that is being stored. Each holds its room under way, so that
/// large ones stop the reading of this socket.
#[derive(Default)]
pub(super) struct WaitingEvents {
    storing: bool,
    waiting: VecDeque<(ByteString, InboundPermit)>,
}

impl SocketActor {
    /// Lets an event wait if one before it does; false if it may be handled at once.
    pub(super) fn event_waits(&mut self, source: &ByteString) -> bool {
        let limit = self.limits().waiting_events;
        let Some(events) = &mut self.waiting_events else {
            return false;
        };
        if events.waiting.len() < limit {
            let permit = self.inbound.take(source.len());
            events.waiting.push_back((source.clone(), permit));
        } else {
            self.event_unavailable("too many events wait for the database");
        }
        true
    }

    /// Stores a change of the sender's row and has `event` sent once it is.
    pub(super) fn store_event(
        &mut self,
        change: DeviceChange,
        event: OutgoingText,
        ctx: &mut Context<Self>,
    ) {
        let Stage::Registered(registered) = &self.stage else {
            return;
        };
        self.waiting_events.get_or_insert_default().storing = true;
        let permit = self.inbound.take(event.len());
        let (account, device) = (self.origin.account, registered.device);
        let stored = self
            .relay
            .apply_change(account, device, change, Some(event))
            .into_actor(self)
            .map(|stored, actor, ctx| {
                drop(permit);
                actor.event_stored(stored, ctx);
                actor.wake();
            });
        ctx.spawn(stored);
    }

    fn event_stored(
        &mut self,
        stored: Result<Option<DeviceRow>, StoreError>,
        ctx: &mut Context<Self>,
    ) {
        match stored {
            Ok(Some(_)) => {}
            Ok(None) => {
                let code = ErrorCode::DeviceNotRegistered;
                self.reply_error(code, code.meaning(), Some("event"));
            }
            Err(error) => {
                tracing::warn!(%error, connection = %self.connection, "an event could not be stored");
                let code = ErrorCode::RelayUnavailable;
                self.event_unavailable(code.meaning());
            }
        }
        if let Some(events) = &mut self.waiting_events {
            events.storing = false;
        }
        self.handle_waiting_events(ctx);
    }

    /// Handles what waited, in order, up to the next event that has to be stored. While a
    /// registration is checked they go on waiting: its outcome decides whose they are.
    pub(super) fn handle_waiting_events(&mut self, ctx: &mut Context<Self>) {
        while let (Stage::Registered(registered), Some(events)) =
            (&self.stage, &mut self.waiting_events)
        {
            if events.storing {
                return;
            }
            let device_type = registered.device_type;
            let Some((source, permit)) = events.waiting.pop_front() else {
                self.waiting_events = None;
                return;
            };
            drop(permit);
            // It was read as an event before it was made to wait.
            if let Ok(ClientFrame::Event(event)) = ClientFrame::read(&source) {
                self.handle_event(&event, source.as_bytes(), device_type, ctx);
            }
        }
    }

    fn event_unavailable(&mut self, why: &str) {
        self.reply_error(ErrorCode::RelayUnavailable, why, Some("event"));
    }
}
