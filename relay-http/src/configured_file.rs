//! A file that a key of the configuration names. Whatever is wrong with it is told with the key, the path
//! and where that was set (OP-1).

use std::fs;
use std::path::{Path, PathBuf};

use crate::configuration::{Configuration, Origin};

/// A file that cannot be used. No line of it is shown: most of these files are secrets.
#[derive(Debug, thiserror::Error)]
#[error("{key} = {} ({origin}): {reason}", .path.display())]
pub struct UnusableFile {
    /// The key of the configuration.
    key: &'static str,
    /// The file.
    path: PathBuf,
    /// Where it was configured.
    origin: Origin,
    /// What is wrong.
    reason: String,
}

/// A file by its key.
#[derive(Debug, Clone)]
pub(crate) struct ConfiguredFile {
    key: &'static str,
    path: PathBuf,
    origin: Origin,
}

impl ConfiguredFile {
    /// The one at `path`, which `key` names.
    pub(crate) fn new(configuration: &Configuration, key: &'static str, path: &Path) -> Self {
        Self {
            key,
            path: path.to_owned(),
            origin: configuration.origin(key),
        }
    }

    /// Its key.
    pub(crate) const fn key(&self) -> &'static str {
        self.key
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, UnusableFile> {
        fs::read(&self.path).map_err(|error| self.unusable(error))
    }

    /// The text in it.
    ///
    /// # Errors
    /// When it cannot be read, or is not UTF-8.
    pub(crate) fn text(&self) -> Result<String, UnusableFile> {
        fs::read_to_string(&self.path).map_err(|error| self.unusable(error))
    }

    /// That it cannot be used, for this reason.
    pub(crate) fn unusable(&self, reason: impl ToString) -> UnusableFile {
        UnusableFile {
            key: self.key,
            path: self.path.clone(),
            origin: self.origin.clone(),
            reason: reason.to_string(),
        }
    }
}
