//! User tokens under public keys, alone and beside a shared secret.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures_util::FutureExt;
use jsonwebtoken::{EncodingKey, Header};
use relay_model::limits::Limits;
use serde_json::{Value, json};

use super::*;
use crate::authentication::still_world::StillWorld;
use crate::authentication::test_keys::{ACCOUNT, TestKey, jwks};

const SECRET: &str = "a secret of this test, long enough";
/// Seconds since 1970 at which these tests take place.
const NOW: i64 = 1_800_000_000;

/// Tokens under the keys of a file.
struct Checked {
    _folder: tempfile::TempDir,
    tokens: UserTokens,
}

fn checked(keys: &[Value], secret: Option<&str>) -> Checked {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    std::fs::write(&path, jwks(keys)).unwrap();
    let secret = secret.map(|text| Secret::new(text.to_owned()));
    let now = Timestamp::from_unix_micros(NOW * 1_000_000);
    let tokens = UserTokens::new(
        ClaimRules::default(),
        secret.as_ref(),
        Some(PublicKeys::from_file(&path, &Limits::default()).unwrap()),
        StillWorld::at(now),
    )
    .unwrap();
    Checked {
        _folder: folder,
        tokens,
    }
}

impl Checked {
    /// The file was read just now, so that nobody waits.
    fn judge(&self, token: &str) -> Result<AccountId, TokenError> {
        let judged = self
            .tokens
            .verify(token)
            .now_or_never()
            .expect("no waiting");
        judged
            .map(|token| token.account)
            .map_err(|refusal| match refusal {
                TokenRefusal::Invalid(error) => error,
                TokenRefusal::NoPublicKeys => panic!("{refusal}"),
            })
    }
}

fn claims() -> Value {
    json!({ "sub": ACCOUNT, "exp": NOW + 60 })
}

fn hs256(secret: &[u8], id: Option<&str>) -> String {
    let header = Header {
        kid: id.map(str::to_owned),
        ..Header::new(Algorithm::HS256)
    };
    let key = EncodingKey::from_secret(secret).unwrap();
    jsonwebtoken::encode(&header, &claims(), &key).unwrap()
}

/// `token` with another header, its signature kept or left out.
fn with_header(token: &str, header: &Value, keeps_signature: bool) -> String {
    let mut parts: Vec<&str> = token.split('.').collect();
    let header = URL_SAFE_NO_PAD.encode(header.to_string());
    parts[0] = &header;
    if !keeps_signature {
        parts[2] = "";
    }
    parts.join(".")
}

/// HTTP-4: RS256, ES256 and EdDSA, by key id; the same claims count as under a secret.
#[tokio::test]
async fn tokens_of_public_keys_are_judged() {
    let keys = TestKey::all();
    let named: Vec<Value> = keys
        .iter()
        .zip(["r", "e", "d"])
        .map(|(key, id)| key.jwk(id))
        .collect();
    let checked = checked(&named, None);
    for (key, id) in keys.iter().zip(["r", "e", "d"]) {
        let account = Ok(ACCOUNT.parse().unwrap());
        assert_eq!(checked.judge(&key.sign(Some(id), &claims())), account);
        assert_eq!(checked.judge(&key.sign(None, &claims())), account);
        for (id, error) in [("x", TokenError::UnknownKey), ("", TokenError::UnknownKey)] {
            assert_eq!(checked.judge(&key.sign(Some(id), &claims())), Err(error));
        }
        let expired = key.sign(Some(id), &json!({ "sub": ACCOUNT, "exp": NOW }));
        assert_eq!(checked.judge(&expired), Err(TokenError::Expired));
        let nobody = key.sign(Some(id), &json!({ "sub": "alice", "exp": NOW + 60 }));
        assert_eq!(checked.judge(&nobody), Err(TokenError::NotAnAccount));
    }
    // A key of the right type and another identity provider.
    let foreign = TestKey::p256().sign(Some("e"), &claims());
    assert_eq!(checked.judge(&foreign), Err(TokenError::WrongSignature));
    // The name of a key of another type.
    let crossed = keys[1].sign(Some("r"), &claims());
    assert_eq!(checked.judge(&crossed), Err(TokenError::WrongAlgorithm));
}

/// HTTP-4: the public key is no secret to sign with, whatever `alg` says, with a shared secret
/// beside it and without.
#[tokio::test]
async fn public_keys_sign_no_hs256_tokens() {
    let key = TestKey::rsa();
    let jwk = key.jwk("r");
    let modulus = URL_SAFE_NO_PAD.decode(jwk["n"].as_str().unwrap()).unwrap();
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        STANDARD.encode(&modulus)
    );
    for (secret, expected) in [
        (None, TokenError::WrongAlgorithm),
        (Some(SECRET), TokenError::WrongSignature),
    ] {
        let checked = checked(&[key.jwk("r")], secret);
        for stolen in [
            &modulus[..],
            jwk["n"].as_str().unwrap().as_bytes(),
            jwk.to_string().as_bytes(),
            pem.as_bytes(),
        ] {
            for id in [None, Some("r")] {
                assert_eq!(checked.judge(&hs256(stolen, id)), Err(expected));
            }
        }
    }
}

/// HTTP-4: `alg` of a token never chooses how its key is used.
#[tokio::test]
async fn the_algorithm_is_the_keys() {
    let keys = TestKey::all();
    let named: Vec<Value> = keys
        .iter()
        .zip(["r", "e", "d"])
        .map(|(key, id)| key.jwk(id))
        .collect();
    let checked = checked(&named, Some(SECRET));
    for (key, id) in keys.iter().zip(["r", "e", "d"]) {
        let token = key.sign(Some(id), &claims());
        for algorithm in [
            "none", "None", "", "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256",
            "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519", "RSA-OAEP",
        ] {
            for kid in [json!(null), json!("r"), json!("e"), json!("d"), json!(7)] {
                let header = json!({ "alg": algorithm, "kid": kid });
                for keeps_signature in [true, false] {
                    let forged = with_header(&token, &header, keeps_signature);
                    assert!(checked.judge(&forged).is_err(), "{header} for {id}");
                }
            }
        }
        // A key that a token brings along, or points at, is not looked at.
        let header = json!({ "alg": "ES256", "kid": "mine", "jwk": TestKey::p256().jwk("mine"), "jku": "https://evil.example" });
        assert_eq!(
            checked.judge(&with_header(&token, &header, true)),
            Err(TokenError::UnknownKey)
        );
        let header = json!({ "alg": "RS256", "kid": "r", "crit": ["exp"], "exp": 1 });
        assert!(checked.judge(&with_header(&token, &header, true)).is_err());
    }
}

/// HTTP-4: a shared secret and public keys may stand side by side.
#[tokio::test]
async fn secret_and_public_keys_go_together() {
    let key = TestKey::ed25519();
    let both = checked(&[key.jwk("d")], Some(SECRET));
    let account = Ok(ACCOUNT.parse().unwrap());
    assert_eq!(both.judge(&hs256(SECRET.as_bytes(), None)), account);
    assert_eq!(both.judge(&hs256(SECRET.as_bytes(), Some("d"))), account);
    assert_eq!(both.judge(&key.sign(Some("d"), &claims())), account);
    let alone = checked(&[key.jwk("d")], None);
    assert_eq!(
        alone.judge(&hs256(SECRET.as_bytes(), None)),
        Err(TokenError::WrongAlgorithm)
    );
    assert!(
        alone
            .tokens
            .mint(ACCOUNT.parse().unwrap(), Duration::from_secs(1))
            .is_err()
    );
}

/// HTTP-4: no text is a token by accident.
#[tokio::test]
async fn garbage_is_refused() {
    let key = TestKey::p256();
    let checked = checked(&[key.jwk("e")], None);
    let token = key.sign(Some("e"), &claims());
    let long = "a".repeat(100_000);
    for garbage in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "\u{1f980}",
        &long,
        &token[1..],
        &token[..token.len() - 3],
    ] {
        assert!(checked.judge(garbage).is_err(), "{garbage}");
    }
}

/// HTTP-4: without any keys a token is neither good nor bad.
#[tokio::test]
async fn without_keys_nobody_can_tell() {
    let url = "http://127.0.0.1:1/keys".parse().unwrap();
    let keys = PublicKeys::from_url(&url, &Limits::default()).unwrap();
    let world = StillWorld::at(Timestamp::from_unix_micros(0));
    let tokens = UserTokens::new(ClaimRules::default(), None, Some(keys), world).unwrap();
    let token = TestKey::p256().sign(Some("e"), &claims());
    assert_eq!(tokens.verify(&token).await, Err(TokenRefusal::NoPublicKeys));
    // What could not be good under any keys is told at once.
    let verdict = tokens
        .verify(&hs256(SECRET.as_bytes(), None))
        .now_or_never();
    assert_eq!(
        verdict,
        Some(Err(TokenRefusal::Invalid(TokenError::WrongAlgorithm)))
    );
    let verdict = tokens.verify("garbage").now_or_never();
    assert_eq!(
        verdict,
        Some(Err(TokenRefusal::Invalid(TokenError::Malformed)))
    );
}
