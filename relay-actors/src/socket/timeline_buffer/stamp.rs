//! What orders the snapshots of one key at a phone: the desktop's generation, then the version.

use relay_model::timeline::TimelineVersion;

/// A version together with the desktop generation that it means something in: a desktop that
/// registers anew may count from the start, and what it says is newer all the same (TL-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    /// Counts the registrations of the desktop that this buffer saw.
    pub(super) generation: u64,
    /// What the desktop wrote.
    pub(super) version: TimelineVersion,
}
