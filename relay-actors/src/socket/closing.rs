//! How a connection ends, by whichever side: closed once, logged once, taken out of the directory once
//! (OP-5, REG-6).

use std::fmt::Display;

use relay_model::ids::DeviceId;
use relay_model::wire::codes::CloseCode;
use tokio::time::Instant;

use super::SocketActor;
use super::end_reason::EndReason;
use super::link::CloseCause;
use super::messages::CloseReason;
use super::stage::Stage;
use crate::directory::SocketClosing;
use crate::mailbox::post;
use crate::outcomes::{ConnectionClosed, LastClose};
use crate::sessions::TouchSession;

impl SocketActor {
    /// Ends the connection from this side.
    pub(super) fn close(&mut self, reason: CloseReason) {
        if self.link.is_closing() {
            return;
        }
        if let (Stage::Checking(_), Some(code)) = (&self.stage, reason.refusal()) {
            // The directory had made it a route, and took that back before it could be told.
            self.reply_error(code, code.meaning(), Some("register"));
            if self.link.is_closing() {
                return;
            }
        }
        let (code, now) = (reason.code(), Instant::now());
        if code == CloseCode::Retired {
            self.link.retire(code, now);
            self.core().metrics.retired(reason.as_str());
        } else {
            self.link.close(code, now);
        }
        self.log_close(EndReason::ByRelay(reason), Some(code.code()), None);
        self.detach(reason.as_str());
    }

    pub(super) fn peer_closes(&mut self, cause: &CloseCause) {
        let detail: Option<&dyn Display> = match cause {
            CloseCause::Violation(violation) => Some(violation),
            CloseCause::Failed(error) => Some(error),
            CloseCause::Peer(_) | CloseCause::EndOfStream => None,
        };
        let reason = cause.reason();
        self.log_close(reason, cause.code(), detail);
        self.detach(reason.as_str());
    }

    /// One line a close: which side, and why (OP-5). It is counted with the same words (OP-6), and
    /// remembered beyond the log (OP-9).
    pub(super) fn log_close(
        &self,
        reason: EndReason,
        code: Option<u16>,
        detail: Option<&dyn Display>,
    ) {
        self.core()
            .metrics
            .closed(code, reason.side(), reason.as_str());
        self.remember_close(reason, code);
        let registered = self.registered();
        let generation = registered.and_then(|registered| registered.generation);
        tracing::info!(
            connection = %self.connection,
            account = %self.origin.account,
            device = registered.map(|registered| tracing::field::display(registered.device)),
            generation = generation.map(|generation| generation.get()),
            close_code = code,
            side = reason.side(),
            reason = reason.as_str(),
            detail = detail.map(tracing::field::display),
            "closed"
        );
    }

    /// Leaves behind how the device's connection ended, also if it never got as far as to register.
    fn remember_close(&self, reason: EndReason, code: Option<u16>) {
        let registered = self.registered().map(|registered| registered.device);
        let Some(device) = registered.or_else(|| self.claimed_device()) else {
            return;
        };
        let close = LastClose {
            connection: self.connection,
            reason,
            code,
            at: self.core().environment.now(),
        };
        let device = (self.origin.account, device);
        post(self.relay.outcomes(), ConnectionClosed { device, close });
    }

    /// The device that the upgrade request named.
    pub(super) fn claimed_device(&self) -> Option<DeviceId> {
        self.origin.device_header.as_deref()?.parse().ok()
    }

    /// Tells the directory, once, that this is no route any more, and reports the last touch.
    fn detach(&mut self, reason: &'static str) {
        if std::mem::replace(&mut self.detached, true) {
            return;
        }
        self.end_interest();
        if let Some(registered) = self.registered()
            && let Some(at) = registered.touches.unreported()
        {
            let (owner, session) = ((self.origin.account, registered.device), registered.session);
            post(self.relay.sessions(), TouchSession { owner, session, at });
        }
        let connection = self.connection;
        post(self.relay.directory(), SocketClosing { connection, reason });
    }
}
