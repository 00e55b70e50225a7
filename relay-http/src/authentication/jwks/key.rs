//! One key of a JWK Set (RFC 7517): whether user tokens may be signed with it, and with which
//! algorithm. A token's `alg` has no say in this (HTTP-4).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use relay_model::limits::{MAX_RSA_KEY_BITS, MIN_RSA_KEY_BITS};
use serde::Deserialize;
use serde_json::Value;

use crate::authentication::tokens::signature_only;

/// Bytes of a coordinate of P-256 (RFC 7518, section 6.2.1.2) and of an Ed25519 key (RFC 8037).
const COORDINATE_BYTES: usize = 32;
/// The largest public exponent of RSA, in bytes; 3 is what everybody uses.
const MAX_EXPONENT_BYTES: usize = 4;

/// A public key that may have signed a token.
#[derive(Debug)]
pub(in crate::authentication) struct PublicKey {
    /// Its `kid`.
    pub(super) id: Option<Box<str>>,
    /// The only algorithm that it is used with.
    pub(super) algorithm: Algorithm,
    /// The key itself.
    pub(in crate::authentication) decoding: DecodingKey,
    /// That algorithm, for the library.
    pub(in crate::authentication) validation: Validation,
}

/// Why a key of a set is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::authentication) enum Unusable {
    #[error("not a JWK")]
    Malformed,
    #[error("of a type that signs no tokens here")]
    KeyType,
    #[error("a secret, which has no place among public keys")]
    Symmetric,
    #[error("not meant for signatures")]
    Purpose,
    #[error("for an algorithm other than RS256, ES256 and EdDSA")]
    Algorithm,
    #[error("RSA of less than {MIN_RSA_KEY_BITS} or more than {MAX_RSA_KEY_BITS} bits")]
    RsaSize,
    #[error("there twice")]
    Duplicate,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    crv: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    kid: Option<Box<str>>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl PublicKey {
    /// Reads one element of `keys`.
    pub(super) fn read(element: &Value) -> Result<Self, Unusable> {
        let jwk = Jwk::deserialize(element).map_err(|_| Unusable::Malformed)?;
        let (algorithm, decoding) = match jwk.kty.as_str() {
            "RSA" => (Algorithm::RS256, jwk.rsa()?),
            "EC" if jwk.crv.as_deref() == Some("P-256") => (Algorithm::ES256, jwk.p256()?),
            "OKP" if jwk.crv.as_deref() == Some("Ed25519") => (Algorithm::EdDSA, jwk.ed25519()?),
            "oct" => return Err(Unusable::Symmetric),
            _ => return Err(Unusable::KeyType),
        };
        let for_signatures = jwk.r#use.as_deref().is_none_or(|usage| usage == "sig")
            && jwk
                .key_ops
                .as_ref()
                .is_none_or(|operations| operations.iter().any(|name| name == "verify"));
        if !for_signatures {
            return Err(Unusable::Purpose);
        }
        let agreed = |named: &str| {
            named
                .parse()
                .is_ok_and(|named: Algorithm| named == algorithm)
        };
        if !jwk.alg.as_deref().is_none_or(agreed) {
            return Err(Unusable::Algorithm);
        }
        Ok(Self {
            id: jwk.kid,
            algorithm,
            decoding,
            validation: signature_only(algorithm),
        })
    }
}

impl Jwk {
    fn rsa(&self) -> Result<DecodingKey, Unusable> {
        let modulus = bytes(self.n.as_deref())?;
        let exponent = bytes(self.e.as_deref())?;
        if !(MIN_RSA_KEY_BITS..=MAX_RSA_KEY_BITS).contains(&bits(&modulus)) {
            return Err(Unusable::RsaSize);
        }
        // An exponent of 1 would make every text its own signature.
        let is_odd = exponent.last().is_some_and(|last| last % 2 == 1);
        if !is_odd || bits(&exponent) < 2 || exponent.len() > MAX_EXPONENT_BYTES {
            return Err(Unusable::Malformed);
        }
        Ok(DecodingKey::from_rsa_raw_components(&modulus, &exponent))
    }

    fn p256(&self) -> Result<DecodingKey, Unusable> {
        let (x, y) = (bytes(self.x.as_deref())?, bytes(self.y.as_deref())?);
        if x.len() != COORDINATE_BYTES || y.len() != COORDINATE_BYTES {
            return Err(Unusable::Malformed);
        }
        let point: Vec<u8> = [0x04].into_iter().chain(x).chain(y).collect();
        Ok(DecodingKey::from_ec_der(&point))
    }

    fn ed25519(&self) -> Result<DecodingKey, Unusable> {
        let x = bytes(self.x.as_deref())?;
        if x.len() != COORDINATE_BYTES {
            return Err(Unusable::Malformed);
        }
        Ok(DecodingKey::from_ed_der(&x))
    }
}

fn bytes(text: Option<&str>) -> Result<Vec<u8>, Unusable> {
    let decoded = text.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    decoded.ok_or(Unusable::Malformed)
}

/// Bits of a number, leading zeros not counted.
fn bits(number: &[u8]) -> usize {
    let zeros: usize = number.iter().take_while(|byte| **byte == 0).count();
    match number.get(zeros) {
        Some(first) => (number.len() - zeros) * 8 - first.leading_zeros() as usize,
        None => 0,
    }
}
