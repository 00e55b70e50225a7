//! What the drain is asked and told.

use std::time::Duration;

use actix::Message;
use tokio::time::Instant;

use super::DrainPhase;

/// Begins the drain; from a signal or the admin API. Asking again changes nothing (DR-1).
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct BeginDrain {
    /// Who asked, for the log.
    pub(crate) cause: &'static str,
}

/// Ends every wait of the drain at once (DR-4); from a second signal. Begins it, if need be.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct HurryDrain;

/// Answered when the drain is over, which may be never; from whoever ends the process then.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AwaitDrained;

/// Asks how far the drain has come; from whoever shows the relay's state.
#[derive(Message)]
#[rtype(result = "DrainState")]
pub(crate) struct ReadDrainState;

/// Work in progress that a drain waits for (DR-2), as its last look found it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DrainWork {
    /// Requests without a final answer.
    pub requests: usize,
    /// Frames that wait for a peer which takes them; timeline snapshots do not count.
    pub frames: u64,
    /// Calls to the database and presence changes that wait or run.
    pub database: usize,
    /// Pushes that wait or are being sent.
    pub push: usize,
}

impl DrainWork {
    /// Whether there is nothing left to wait for.
    pub fn is_done(&self) -> bool {
        *self == Self::default()
    }
}

/// How far a drain has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainState {
    /// The phase.
    pub phase: DrainPhase,
    /// How long it has been going on; zero while the relay runs.
    pub running_for: Duration,
    /// How long it will wait for work at most; `None` while it does not wait.
    pub waits_until: Option<Instant>,
    /// The work in progress when it was last looked at; `None` before the first look.
    pub work: Option<DrainWork>,
    /// Device sockets that are to be closed and are not closed yet; `None` before the closing.
    pub sockets_left: Option<usize>,
}
