//! How the process ends (OP-1), in the numbers of sysexits.h.

use std::process::ExitCode;

/// The exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Done.
    Done = 0,
    /// Bad usage or configuration; the message says what is allowed.
    Usage = 64,
    /// A service that is needed cannot be reached.
    Unavailable = 69,
    /// A fault of the relay itself.
    Internal = 70,
}

impl ExitStatus {
    /// Its number, for [`std::process::exit`].
    pub const fn code(self) -> i32 {
        self as i32
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status as u8)
    }
}
