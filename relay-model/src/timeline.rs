//! What identifies a timeline snapshot: the session that phones take an interest in, the window
//! within it, and the version by which a newer snapshot replaces an older one (section 8).

use std::fmt;
use std::sync::Arc;

use crate::limits::Limits;

/// What an app may put behind a session's id to name its agent's view; it is the same session (TL-2).
const ALIAS: &str = ":skills-agent";

/// The largest number in a version: what every JSON reader keeps exactly, 2^53 - 1 (TL-5).
pub const MAX_VERSION_NUMBER: u64 = (1 << 53) - 1;

/// An app session as leases know it: trimmed, of limited length, without its alias (TL-2). Clones
/// share the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaseSession(Arc<str>);

impl BaseSession {
    /// The base session of an `appSessionId`.
    ///
    /// # Errors
    /// [`NotASession`]: nothing is left of it, or it is longer than `timeline.session_id`.
    pub fn read(app_session_id: &str, limits: &Limits) -> Result<Self, NotASession> {
        let max = limits.timeline_session_id;
        let trimmed = app_session_id.trim();
        if trimmed.len() > max {
            return Err(NotASession::TooLong { max });
        }
        let base = trimmed.strip_suffix(ALIAS).unwrap_or(trimmed).trim();
        if base.is_empty() {
            return Err(NotASession::Empty);
        }
        Ok(Self(base.into()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BaseSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An `appSessionId` that names no session. It is refused and never cut: a cut id would be another
/// session's (TL-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotASession {
    /// Nothing but white space and the alias.
    #[error("appSessionId is empty")]
    Empty,
    /// More bytes than `max` after trimming.
    #[error("appSessionId must have at most {max} bytes")]
    TooLong {
        /// `timeline.session_id`.
        max: usize,
    },
}

/// A window of a session: what a newer snapshot replaces (TL-8). Clones share their texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineKey {
    /// The session.
    pub session: BaseSession,
    /// `threadId`, if the snapshot is of one thread.
    pub thread: Option<Arc<str>>,
}

/// The version of a snapshot; the settlement epoch decides first (TL-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineVersion {
    /// `settlementEpoch`, 0 to [`MAX_VERSION_NUMBER`].
    pub settlement_epoch: u64,
    /// `revision`, 0 to [`MAX_VERSION_NUMBER`].
    pub revision: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, NotASession> {
        BaseSession::read(text, &Limits::default()).map(|session| session.to_string())
    }

    /// TL-2: white space of any kind goes, one alias goes, and white space before it.
    #[test]
    fn sessions_are_trimmed_and_lose_one_alias() {
        for (text, base) in [
            ("s", "s"),
            (" \t s \u{a0}\u{2003}\n", "s"),
            ("s:skills-agent", "s"),
            (" s \u{3000}:skills-agent ", "s"),
            ("s:skills-agent:skills-agent", "s:skills-agent"),
            ("s:Skills-Agent", "s:Skills-Agent"),
            ("a b", "a b"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(base), "{text:?}");
        }
        for text in ["", " ", ":skills-agent", "\u{a0} :skills-agent "] {
            assert_eq!(read(text), Err(NotASession::Empty), "{text:?}");
        }
    }

    /// TL-2: 1,024 bytes are taken, 1,025 refused, wherever the characters end; spaces do not count,
    /// the alias does.
    #[test]
    fn long_sessions_are_refused_and_not_cut() {
        let too_long = Err(NotASession::TooLong { max: 1024 });
        assert_eq!(
            read(&format!(" {} ", "x".repeat(1024))).unwrap().len(),
            1024
        );
        assert_eq!(read(&"x".repeat(1025)), too_long);
        assert_eq!(read(&"é".repeat(512)).unwrap().len(), 1024);
        assert_eq!(read(&format!("x{}", "é".repeat(512))), too_long);
        let aliased = format!("{}{ALIAS}", "x".repeat(1024 - ALIAS.len()));
        assert_eq!(read(&aliased).unwrap().len(), 1024 - ALIAS.len());
        assert_eq!(read(&format!("x{aliased}")), too_long);
    }

    /// TL-5: the epoch decides before the revision.
    #[test]
    fn versions_compare_as_pairs() {
        let version = |settlement_epoch, revision| TimelineVersion {
            settlement_epoch,
            revision,
        };
        assert!(version(1, 9) < version(2, 0));
        assert!(version(2, 0) < version(2, 1));
    }
}
