//! How far a drain has come (DR-1): one way, and readable by everybody without asking an actor.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The phases of a drain, in the order in which a process passes them. There is no way back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DrainPhase {
    /// No drain was asked for.
    #[default]
    Running,
    /// `/readyz` says that the relay goes, and everything works as ever (`drain.readiness_lead`).
    Announced,
    /// Nobody registers any more, and work in progress is waited for (DR-1, DR-2).
    Draining,
    /// Memory is cleared, and the device sockets are closed one after the other (DR-3).
    Closing,
    /// All is closed and stored: the process may exit.
    Drained,
}

impl DrainPhase {
    const ALL: [Self; 5] = [
        Self::Running,
        Self::Announced,
        Self::Draining,
        Self::Closing,
        Self::Drained,
    ];

    /// Its word in answers and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Announced => "announced",
            Self::Draining => "draining",
            Self::Closing => "closing",
            Self::Drained => "drained",
        }
    }
}

impl fmt::Display for DrainPhase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The phase, for those who only read it; DrainActor alone moves it. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct DrainSignal(Arc<AtomicU8>);

impl DrainSignal {
    /// The phase that holds.
    pub fn phase(&self) -> DrainPhase {
        let reached = usize::from(self.0.load(Ordering::Acquire));
        DrainPhase::ALL.get(reached).copied().unwrap_or_default()
    }

    /// Whether a drain was asked for: load balancers look elsewhere (OP-8).
    pub fn is_leaving(&self) -> bool {
        self.phase() >= DrainPhase::Announced
    }

    /// Whether registrations and upgrades are refused (DR-1).
    pub fn refuses(&self) -> bool {
        self.phase() >= DrainPhase::Draining
    }

    /// Goes on to a later phase; false, and nothing done, if that is reached already.
    pub(super) fn advance(&self, phase: DrainPhase) -> bool {
        self.0.fetch_max(phase as u8, Ordering::AcqRel) < phase as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DR-1: there is no way back, and a phase is reached once.
    #[test]
    fn a_drain_goes_one_way() {
        for from in DrainPhase::ALL {
            for to in DrainPhase::ALL {
                let signal = DrainSignal::default();
                let reader = signal.clone();
                signal.advance(from);
                assert_eq!(signal.advance(to), to > from, "{from} to {to}");
                assert_eq!(reader.phase(), from.max(to));
            }
        }
    }

    /// OP-8, DR-1: readiness turns before anything is refused.
    #[test]
    fn readiness_turns_first() {
        let signal = DrainSignal::default();
        assert!(!signal.is_leaving() && !signal.refuses());
        signal.advance(DrainPhase::Announced);
        assert!(signal.is_leaving() && !signal.refuses());
        signal.advance(DrainPhase::Draining);
        assert!(signal.is_leaving() && signal.refuses());
    }
}
