//! A value that may be used but never shown.

use std::fmt;

use zeroize::Zeroizing;

/// A secret of the configuration. Neither `Debug` nor any message shows it, and its memory is wiped
/// when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a secret over.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// Its bytes, for a cryptographic function.
    pub fn expose(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        let shown = format!("{:?}", Secret::new("hunter2".to_owned()));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
