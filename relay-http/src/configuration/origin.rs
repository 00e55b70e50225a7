//! Where a value of the configuration came from, so that a refusal points at the line to change.

use std::fmt;
use std::path::PathBuf;

/// The source of one value, in rising order of precedence (OP-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A line of a configuration file.
    File {
        /// Which file.
        path: PathBuf,
        /// The line of the key, counted from one.
        line: usize,
    },
    /// The environment variable of this name.
    Environment(String),
    /// A flag of the command line, as it was written.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}, line {line}", path.display()),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}
