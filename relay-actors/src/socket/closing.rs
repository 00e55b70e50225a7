//! How a connection ends, by whichever side: closed once, logged once, taken out of the directory once
//! (OP-5, REG-6).

use std::fmt::Display;

use relay_model::wire::codes::CloseCode;
use tokio::time::Instant;

use super::SocketActor;
use super::link::CloseCause;
use super::messages::CloseReason;
use super::stage::Stage;
use crate::directory::SocketClosing;
use crate::mailbox::post;
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
        } else {
            self.link.close(code, now);
        }
        if code == CloseCode::Retired {
            self.core().metrics.retired(reason.as_str());
        }
        self.log_close("relay", reason.as_str(), Some(reason.code().code()), None);
        self.detach(reason.as_str());
    }

    pub(super) fn peer_closes(&mut self, cause: &CloseCause) {
        let (side, detail): (_, Option<&dyn Display>) = match cause {
            CloseCause::Violation(violation) => ("relay", Some(violation)),
            CloseCause::Failed(error) => ("peer", Some(error)),
            CloseCause::Peer(_) | CloseCause::EndOfStream => ("peer", None),
        };
        self.log_close(side, cause.as_str(), cause.code(), detail);
        self.detach(cause.as_str());
    }

    /// One line a close: which side, and why (OP-5). Counted here too, with the same words (OP-6).
    fn log_close(
        &self,
        side: &'static str,
        reason: &'static str,
        code: Option<u16>,
        detail: Option<&dyn Display>,
    ) {
        self.core().metrics.closed(code, side, reason);
        let registered = self.registered();
        let generation = registered.and_then(|registered| registered.generation);
        tracing::info!(
            connection = %self.connection,
            account = %self.origin.account,
            device = registered.map(|registered| tracing::field::display(registered.device)),
            generation = generation.map(|generation| generation.get()),
            close_code = code,
            side,
            reason,
            detail = detail.map(tracing::field::display),
            "closed"
        );
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
