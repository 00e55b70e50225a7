//! The public keys that identity providers sign user tokens with (HTTP-4): read from a file or a
//! URL, kept when that fails, read again when a token names a key that is not there.
//!
//! Whoever checks a token looks at the last set that was read and waits for nobody. Only a token
//! whose key is not in it waits, for the one reading that runs or may begin.

mod key;
mod key_set;
mod public_keys;
mod reloads;
mod source;

pub(super) use key_set::KeySet;
pub use public_keys::{PublicKeys, PublicKeysError};
