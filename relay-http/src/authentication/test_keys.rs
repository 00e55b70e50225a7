//! Key pairs made on the spot, for the tests of this folder: the side of an identity provider.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

pub(super) const ACCOUNT: &str = "7f1c2f5e-0c0a-4d3b-9a51-2b8f6f9d7e10";

/// A key pair with the one algorithm that it is used with.
pub(super) struct TestKey {
    pub(super) algorithm: Algorithm,
    signing: EncodingKey,
}

impl TestKey {
    pub(super) fn rsa() -> Self {
        let pair = aws_lc_rs::rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
        let signing = EncodingKey::from_rsa_pem(&pem(pair.as_der().unwrap().as_ref())).unwrap();
        Self {
            algorithm: Algorithm::RS256,
            signing,
        }
    }

    pub(super) fn p256() -> Self {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).unwrap();
        Self {
            algorithm: Algorithm::ES256,
            signing: EncodingKey::from_ec_pem(&pem(pair.as_ref())).unwrap(),
        }
    }

    pub(super) fn ed25519() -> Self {
        let pair = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).unwrap();
        Self {
            algorithm: Algorithm::EdDSA,
            signing: EncodingKey::from_ed_pem(&pem(pair.as_ref())).unwrap(),
        }
    }

    pub(super) fn all() -> [Self; 3] {
        [Self::rsa(), Self::p256(), Self::ed25519()]
    }

    /// The public half.
    pub(super) fn jwk(&self, id: &str) -> Value {
        let jwk = Jwk::from_encoding_key(&self.signing, self.algorithm).unwrap();
        let mut jwk = serde_json::to_value(jwk).unwrap();
        jwk["kid"] = json!(id);
        jwk["use"] = json!("sig");
        jwk
    }

    pub(super) fn sign(&self, id: Option<&str>, claims: &Value) -> String {
        let header = Header {
            kid: id.map(str::to_owned),
            ..Header::new(self.algorithm)
        };
        jsonwebtoken::encode(&header, claims, &self.signing).unwrap()
    }
}

fn pem(der: &[u8]) -> Vec<u8> {
    let text = STANDARD.encode(der);
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n").into_bytes()
}

/// A JWK Set.
pub(super) fn jwks(keys: &[Value]) -> Vec<u8> {
    json!({ "keys": keys }).to_string().into_bytes()
}
