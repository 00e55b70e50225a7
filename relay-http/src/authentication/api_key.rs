//! API keys as their owners hold them (HTTP-4): `rk_<id>_<secret>`, the id as 32 hex digits, the
//! secret as base64url. The relay keeps the secret's hash only, and compares in constant time.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use relay_model::ids::ApiKeyId;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;
use zeroize::Zeroizing;

/// What every key begins with, so that people and scanners of leaked secrets know one.
const PREFIX: &str = "rk_";
/// Hex digits of the id.
const ID_DIGITS: usize = 32;
/// Random bytes of the secret: 256 bits.
const SECRET_BYTES: usize = 32;
/// What [`SECRET_BYTES`] are in base64url.
const SECRET_CHARACTERS: usize = 43;

/// An API key. `Debug` shows its id alone.
#[derive(Clone)]
pub struct ApiKey {
    id: ApiKeyId,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
}

/// A text that no relay has ever given out as a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an API key; a key looks like rk_ with 32 hex digits, _ and 43 characters")]
pub struct NotAnApiKey;

impl ApiKey {
    /// A key with a new secret.
    ///
    /// # Errors
    /// When the operating system gives no random numbers.
    pub fn generate(id: ApiKeyId) -> Result<Self, getrandom::Error> {
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        getrandom::fill(secret.as_mut())?;
        Ok(Self { id, secret })
    }

    /// The part that is no secret.
    pub fn id(&self) -> ApiKeyId {
        self.id
    }

    /// The whole key, to be shown once.
    pub fn reveal(&self) -> Zeroizing<String> {
        let id = self.id.as_uuid().as_simple();
        let secret = Zeroizing::new(URL_SAFE_NO_PAD.encode(self.secret.as_ref()));
        Zeroizing::new(format!("{PREFIX}{id}_{}", *secret))
    }

    /// What the relay keeps of the secret.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.secret.as_ref()).into()
    }

    /// Whether this is the key whose hash was kept, in constant time.
    pub fn matches(&self, kept: &[u8; 32]) -> bool {
        self.hash().ct_eq(kept).into()
    }
}

impl FromStr for ApiKey {
    type Err = NotAnApiKey;

    /// Reads one spelling only, so that a key that leaked is found wherever it stands.
    fn from_str(text: &str) -> Result<Self, NotAnApiKey> {
        let parts = text
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('_'));
        let (id, secret) = parts.ok_or(NotAnApiKey)?;
        let is_id = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if id.len() != ID_DIGITS || !id.bytes().all(is_id) || secret.len() != SECRET_CHARACTERS {
            return Err(NotAnApiKey);
        }
        let id = Uuid::try_parse(id).map_err(|_| NotAnApiKey)?;
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        let length = URL_SAFE_NO_PAD
            .decode_slice(secret, bytes.as_mut())
            .map_err(|_| NotAnApiKey)?;
        if length != SECRET_BYTES {
            return Err(NotAnApiKey);
        }
        Ok(Self {
            id: ApiKeyId::from_uuid(id),
            secret: bytes,
        })
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> ApiKey {
        let id = "0d9a7f1e-52a4-4f0e-8a53-9f3f4f6f2b11".parse().unwrap();
        ApiKey::generate(id).unwrap()
    }

    /// HTTP-4: a key survives being written down, matches its own hash only, and is never printed.
    #[test]
    fn keys_round_trip_and_stay_secret() {
        let key = key();
        let text = key.reveal();
        assert_eq!(text.len(), 3 + ID_DIGITS + 1 + SECRET_CHARACTERS);
        assert!(text.starts_with("rk_0d9a7f1e52a44f0e8a539f3f4f6f2b11_"));
        let read: ApiKey = text.parse().unwrap();
        assert_eq!(read.id(), key.id());
        assert!(read.matches(&key.hash()));
        let other = ApiKey::generate(key.id()).unwrap();
        assert!(!other.matches(&key.hash()));
        let shown = format!("{key:?}");
        assert!(
            !shown.contains(&text[36..]) && shown.contains("0d9a7f1e"),
            "{shown}"
        );
    }

    /// HTTP-4: nothing else is a key.
    #[test]
    fn other_texts_are_no_keys() {
        let good = key().reveal();
        let (id, secret) = (&good[3..35], &good[36..]);
        // The last character carries two bits that no 32 bytes have.
        let loose = format!("{}B", &secret[..42]);
        for bad in [
            String::new(),
            "rk_".to_owned(),
            format!("rk_{id}"),
            format!("rk_{id}_"),
            format!("RK_{id}_{secret}"),
            format!("rk-{id}-{secret}"),
            format!("{id}_{secret}"),
            format!("rk_{}_{secret}", id.to_uppercase()),
            format!("rk_{}_{secret}", &id[1..]),
            format!("rk_0d9a7f1e-52a4-4f0e-8a53-9f3f4f6f2b11_{secret}"),
            format!("rk_{id}_{secret}A"),
            format!("rk_{id}_{}", &secret[1..]),
            format!("rk_{id}_{loose}"),
            format!("rk_{id}_{}=", &secret[1..]),
            format!(" {}", *good),
            format!("{} ", *good),
        ] {
            assert!(bad.parse::<ApiKey>().is_err(), "{bad}");
        }
    }

    proptest! {
        /// HTTP-4: a text is refused or is exactly the key that is read from it.
        #[test]
        fn keys_have_one_spelling(text in "(rk_)?[0-9a-fA-F]{31,33}_[A-Za-z0-9_-]{42,44}|.{0,90}") {
            if let Ok(key) = text.parse::<ApiKey>() {
                let revealed = key.reveal();
                prop_assert_eq!(revealed.as_str(), text);
            }
        }

        /// HTTP-4: any key that differs in one character is another key or none.
        #[test]
        fn altered_keys_do_not_match(place in 0_usize..79, byte in 33_u8..127) {
            let key = key();
            let mut text = key.reveal().as_bytes().to_vec();
            if text[place] != byte {
                text[place] = byte;
                let altered = String::from_utf8(text).unwrap();
                if let Ok(altered) = altered.parse::<ApiKey>() {
                    prop_assert!(altered.id() != key.id() || !altered.matches(&key.hash()));
                }
            }
        }
    }
}
