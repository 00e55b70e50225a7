//! What can be wrong with a configuration. Every message names the key, where its value came from
//! and what is allowed instead (OP-1); a secret's value is left out.

use std::fmt;
use std::path::PathBuf;

use super::origin::Origin;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// No key has this name.
    #[error("{key} ({origin}): unknown key{}", Nearest(.nearest))]
    UnknownKey {
        /// As it was written, with its section.
        key: String,
        /// Where.
        origin: Origin,
        /// The known key that looks most like it, if any does.
        nearest: Option<String>,
    },
    /// The value is not one that the key can take.
    #[error("{key}{} ({origin}): {reason}; allowed: {allowed}", Value(.value))]
    BadValue {
        /// The key with its section.
        key: Box<str>,
        /// The value; `None` for a secret.
        value: Option<Box<str>>,
        /// Where it was set.
        origin: Origin,
        /// What is wrong with it.
        reason: Box<str>,
        /// What the key can take.
        allowed: Box<str>,
    },
    /// Two values that make no sense together.
    #[error("{first} must be {relation} {second}")]
    Contradiction {
        /// Key, value and origin of the one.
        first: Box<Assignment>,
        /// How they must stand to each other.
        relation: &'static str,
        /// Key, value and origin of the other.
        second: Box<Assignment>,
    },
    /// The file cannot be read or is not TOML.
    #[error("{}: {reason}", .path.display())]
    UnreadableFile {
        /// Which file.
        path: PathBuf,
        /// Why; shows no line of the file, which may hold a secret.
        reason: String,
    },
    /// An environment variable that is not text.
    #[error("environment variable {variable}: its value is not UTF-8")]
    UnreadableVariable {
        /// Its name.
        variable: String,
    },
}

/// A key with its value and origin, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The key with its section.
    pub key: &'static str,
    /// Its value as it would be written.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.key, self.value, self.origin)
    }
}

struct Nearest<'a>(&'a Option<String>);

impl fmt::Display for Nearest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, "; did you mean {key}?"),
            None => f.write_str("; `relay config reference` prints every key"),
        }
    }
}

struct Value<'a>(&'a Option<Box<str>>);

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => write!(f, " = {value:?}"),
            None => Ok(()),
        }
    }
}

/// A configuration that cannot be used: everything that is wrong with it, in the order of the
/// layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigurationError {
    /// At least one problem.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration cannot be used:")?;
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigurationError {}
