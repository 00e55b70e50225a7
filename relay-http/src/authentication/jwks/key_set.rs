//! A JWK Set as it was read last: which of its keys may have signed a token.

use jsonwebtoken::Algorithm;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::key::{PublicKey, Unusable};
use crate::authentication::tokens::TokenError;

/// The usable keys of one JWK Set.
#[derive(Debug)]
pub(in crate::authentication) struct KeySet {
    keys: Vec<PublicKey>,
    /// Place and reason of each key that was left out.
    skipped: Vec<(usize, Unusable)>,
    digest: [u8; 32],
}

/// Why a text is no key set that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::authentication) enum KeySetError {
    #[error("it is not a JWK Set: {0}")]
    Malformed(String),
    #[error("it has {found} keys; auth.jwks_keys allows {allowed}")]
    TooManyKeys { found: usize, allowed: usize },
    #[error(
        "none of its {0} keys can be used; wanted are RSA, P-256 or Ed25519 keys for signatures"
    )]
    NoUsableKey(usize),
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a JWK Set. Keys that cannot be used are left out and do not spoil the others.
    pub(super) fn parse(text: &[u8], most_keys: usize) -> Result<Self, KeySetError> {
        let document: Document = serde_json::from_slice(text)
            // The position is enough: the text comes from somewhere else.
            .map_err(|error| {
                KeySetError::Malformed(format!("line {}, column {}", error.line(), error.column()))
            })?;
        let found = document.keys.len();
        if found > most_keys {
            return Err(KeySetError::TooManyKeys {
                found,
                allowed: most_keys,
            });
        }
        let mut keys: Vec<PublicKey> = Vec::new();
        let mut skipped = Vec::new();
        for (place, element) in document.keys.iter().enumerate() {
            match PublicKey::read(element) {
                Ok(key) if key.id.is_some() && keys.iter().any(|other| other.is_like(&key)) => {
                    skipped.push((place, Unusable::Duplicate));
                }
                Ok(key) => keys.push(key),
                Err(unusable) => skipped.push((place, unusable)),
            }
        }
        if keys.is_empty() {
            return Err(KeySetError::NoUsableKey(found));
        }
        Ok(Self {
            keys,
            skipped,
            digest: Sha256::digest(text).into(),
        })
    }

    /// The one key that may have signed a token with this `alg` and `kid`.
    pub(in crate::authentication) fn find(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
    ) -> Result<&PublicKey, TokenError> {
        let Some(id) = id else {
            let mut possible = self.keys.iter().filter(|key| key.algorithm == algorithm);
            let only = possible.next().ok_or(TokenError::UnknownKey)?;
            return match possible.next() {
                None => Ok(only),
                Some(_) => Err(TokenError::KeyNotNamed),
            };
        };
        let mut error = TokenError::UnknownKey;
        for key in &self.keys {
            if key.id.as_deref() == Some(id) {
                if key.algorithm == algorithm {
                    return Ok(key);
                }
                error = TokenError::WrongAlgorithm;
            }
        }
        Err(error)
    }

    /// How many keys can be used.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it was read from the same text.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    /// The keys that were left out, for one line of the log; `None` if all are used.
    pub(super) fn skipped(&self) -> Option<String> {
        let parts: Vec<String> = self
            .skipped
            .iter()
            .map(|(place, reason)| format!("keys[{place}]: {reason}"))
            .collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

impl PublicKey {
    fn is_like(&self, other: &Self) -> bool {
        self.id == other.id && self.algorithm == other.algorithm
    }
}

#[cfg(test)]
mod tests;
