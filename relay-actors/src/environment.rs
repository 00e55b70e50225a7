//! Everything that makes two runs differ: wall clock, random ids and secrets, and what happens when
//! the process can not go on. A simulated run passes its own, so that it can be repeated.

use std::sync::Arc;

use relay_model::ids::ResumeToken;
use relay_model::time::Timestamp;
use uuid::Uuid;

/// A fault after which the process must not go on: an actor that everything depends on panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{actor} panicked; the relay cannot go on and must be restarted")]
pub struct FatalFault {
    /// The actor that is gone.
    pub actor: &'static str,
}

/// The outside world of the actors, beside sockets and the store.
pub trait Environment: Send + Sync + 'static {
    /// Wall-clock time: for stored times, times on the wire and token expiry only.
    fn now(&self) -> Timestamp;

    /// A new random id.
    fn new_uuid(&self) -> Uuid;

    /// A new resume token (SES-4).
    fn new_resume_token(&self) -> ResumeToken;

    /// Ends the process (exit code 70). May return in tests.
    fn fatal(&self, fault: FatalFault);
}

/// Held by an actor that everything depends on: if the actor is dropped by a panic, the process must
/// not go on as if it were there.
pub(crate) struct FatalGuard {
    actor: &'static str,
    environment: Arc<dyn Environment>,
}

impl FatalGuard {
    pub(crate) fn new(actor: &'static str, environment: Arc<dyn Environment>) -> Self {
        Self { actor, environment }
    }
}

impl Drop for FatalGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.environment.fatal(FatalFault { actor: self.actor });
        }
    }
}
