//! Which keys of a set are used, and for which tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::authentication::test_keys::{TestKey, jwks};

const MOST: usize = 10;

fn parse(keys: &[Value]) -> Result<KeySet, KeySetError> {
    KeySet::parse(&jwks(keys), MOST)
}

fn changed(jwk: &Value, member: &str, value: Value) -> Value {
    let mut jwk = jwk.clone();
    jwk[member] = value;
    jwk
}

fn without(jwk: &Value, member: &str) -> Value {
    let mut jwk = jwk.clone();
    jwk.as_object_mut().unwrap().remove(member);
    jwk
}

/// HTTP-4: RS256, ES256 and EdDSA; the algorithm is the key's, with and without `alg`.
#[test]
fn a_key_has_the_algorithm_of_its_type() {
    for key in TestKey::all() {
        let jwk = key.jwk("a");
        for spelling in [
            jwk.clone(),
            without(&jwk, "alg"),
            without(&jwk, "use"),
            changed(&jwk, "key_ops", json!(["verify"])),
            changed(&jwk, "x5t", json!("unknown members do not matter")),
        ] {
            let set = parse(&[spelling]).unwrap();
            assert_eq!((set.len(), set.skipped()), (1, None));
            assert!(set.find(key.algorithm, Some("a")).is_ok());
            assert!(set.find(key.algorithm, None).is_ok());
            for other in [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA] {
                if other != key.algorithm {
                    assert_eq!(
                        set.find(other, Some("a")).err(),
                        Some(TokenError::WrongAlgorithm)
                    );
                    assert_eq!(set.find(other, None).err(), Some(TokenError::UnknownKey));
                }
            }
        }
    }
}

/// HTTP-4: keys that cannot be used are left out with their reason, and spoil nothing.
#[test]
fn unusable_keys_are_skipped() {
    let [rsa, p256, ed25519] = TestKey::all().map(|key| key.jwk("a"));
    let modulus = |bytes: &[u8]| changed(&rsa, "n", json!(URL_SAFE_NO_PAD.encode(bytes)));
    let secret = json!({ "kty": "oct", "k": "c2VjcmV0", "alg": "HS256", "kid": "a" });
    for (jwk, reason) in [
        (json!(null), Unusable::Malformed),
        (json!("key"), Unusable::Malformed),
        (json!({}), Unusable::Malformed),
        (json!({ "kty": 7 }), Unusable::Malformed),
        (changed(&rsa, "kty", json!("AKP")), Unusable::KeyType),
        (changed(&rsa, "kty", json!("rsa")), Unusable::KeyType),
        (changed(&p256, "crv", json!("P-384")), Unusable::KeyType),
        (changed(&p256, "crv", json!("secp256k1")), Unusable::KeyType),
        (without(&p256, "crv"), Unusable::KeyType),
        (changed(&ed25519, "crv", json!("X25519")), Unusable::KeyType),
        (changed(&ed25519, "crv", json!("Ed448")), Unusable::KeyType),
        (secret, Unusable::Symmetric),
        (changed(&rsa, "use", json!("enc")), Unusable::Purpose),
        (
            changed(&p256, "key_ops", json!(["sign"])),
            Unusable::Purpose,
        ),
        (changed(&p256, "key_ops", json!([])), Unusable::Purpose),
        (changed(&rsa, "alg", json!("RS384")), Unusable::Algorithm),
        (changed(&rsa, "alg", json!("PS256")), Unusable::Algorithm),
        (changed(&rsa, "alg", json!("HS256")), Unusable::Algorithm),
        (changed(&rsa, "alg", json!("none")), Unusable::Algorithm),
        (changed(&rsa, "alg", json!("RSA-OAEP")), Unusable::Algorithm),
        (changed(&p256, "alg", json!("EdDSA")), Unusable::Algorithm),
        (
            changed(&ed25519, "alg", json!("ES256")),
            Unusable::Algorithm,
        ),
        (modulus(&[0xff; 128]), Unusable::RsaSize),
        // 2,047 bits, also with zeros before them.
        (
            modulus(&[&[0x7f][..], &[0xff; 255]].concat()),
            Unusable::RsaSize,
        ),
        (
            modulus(&[&[0; 200][..], &[0xff; 128]].concat()),
            Unusable::RsaSize,
        ),
        (modulus(&[0xff; 1_025]), Unusable::RsaSize),
        (modulus(&[]), Unusable::RsaSize),
        (changed(&rsa, "n", json!("=?")), Unusable::Malformed),
        (without(&rsa, "n"), Unusable::Malformed),
        (without(&rsa, "e"), Unusable::Malformed),
        // 1, 0, even, and larger than anybody uses.
        (changed(&rsa, "e", json!("AQ")), Unusable::Malformed),
        (changed(&rsa, "e", json!("AA")), Unusable::Malformed),
        (changed(&rsa, "e", json!("BA")), Unusable::Malformed),
        (changed(&rsa, "e", json!("AQAAAAE")), Unusable::Malformed),
        (changed(&p256, "x", json!("AQ")), Unusable::Malformed),
        (without(&p256, "y"), Unusable::Malformed),
        (changed(&ed25519, "x", json!("AQ")), Unusable::Malformed),
    ] {
        assert_eq!(PublicKey::read(&jwk).err(), Some(reason), "{jwk}");
        let good = changed(&p256, "kid", json!("good"));
        let set = parse(&[jwk.clone(), good]).unwrap();
        assert!(set.find(Algorithm::ES256, Some("good")).is_ok(), "{jwk}");
        let line = set.skipped().unwrap();
        assert_eq!(line, format!("keys[0]: {reason}"));
        assert_eq!(parse(&[jwk]).err(), Some(KeySetError::NoUsableKey(1)));
    }
}

/// HTTP-4: a token without `kid` is accepted only if one key alone can be meant.
#[test]
fn a_token_without_kid_needs_a_single_key() {
    let (one, two, rsa) = (TestKey::p256(), TestKey::p256(), TestKey::rsa());
    let nameless = without(&one.jwk("a"), "kid");
    let set = parse(&[nameless.clone(), rsa.jwk("r")]).unwrap();
    assert!(set.find(Algorithm::ES256, None).is_ok());
    assert!(set.find(Algorithm::RS256, None).is_ok());
    assert_eq!(
        set.find(Algorithm::ES256, Some("a")).err(),
        Some(TokenError::UnknownKey)
    );
    let set = parse(&[nameless, two.jwk("b")]).unwrap();
    assert_eq!(
        set.find(Algorithm::ES256, None).err(),
        Some(TokenError::KeyNotNamed)
    );
    assert!(set.find(Algorithm::ES256, Some("b")).is_ok());
}

/// HTTP-4: one `kid` may name keys of different types; of the same type the first one counts.
#[test]
fn key_ids_are_unique_per_algorithm() {
    let (one, two, rsa) = (TestKey::p256(), TestKey::p256(), TestKey::rsa());
    let set = parse(&[one.jwk("a"), two.jwk("a"), rsa.jwk("a")]).unwrap();
    assert_eq!(set.len(), 2);
    assert_eq!(set.skipped().unwrap(), "keys[1]: there twice");
    assert!(set.find(Algorithm::RS256, Some("a")).is_ok());
    let first = set.find(Algorithm::ES256, Some("a")).unwrap();
    let token = one.sign(Some("a"), &json!({}));
    assert!(jsonwebtoken::decode::<Value>(&token, &first.decoding, &first.validation).is_ok());
}

/// HTTP-4: what is no key set is refused whole.
#[test]
fn other_documents_are_refused() {
    for text in [
        "",
        "<html>",
        "[]",
        "{}",
        r#"{"keys":{}}"#,
        r#"{"keys":null}"#,
        "{\"keys\":[]",
    ] {
        let refused = KeySet::parse(text.as_bytes(), MOST).err();
        assert!(
            matches!(refused, Some(KeySetError::Malformed(_))),
            "{text}: {refused:?}"
        );
    }
    assert_eq!(parse(&[]).err(), Some(KeySetError::NoUsableKey(0)));
    let keys: Vec<Value> = (0..=MOST).map(|_| json!({})).collect();
    assert_eq!(
        parse(&keys).err(),
        Some(KeySetError::TooManyKeys {
            found: MOST + 1,
            allowed: MOST
        })
    );
}

proptest! {
    /// HTTP-4: no document makes the reading panic, and only whole key sets are taken.
    #[test]
    fn any_document_is_read_or_refused(
        member in "(kty|crv|alg|use|key_ops|kid|n|e|x|y)",
        text in "(RSA|EC|OKP|P-256|Ed25519|sig|[A-Za-z0-9_-]{0,60})",
        cut in 0_usize..400,
    ) {
        for jwk in [TestKey::p256().jwk("a"), TestKey::ed25519().jwk("b")] {
            let whole = jwks(&[changed(&jwk, &member, json!(text))]);
            let _ = KeySet::parse(&whole, MOST);
            if cut < whole.len() {
                prop_assert!(KeySet::parse(&whole[..cut], MOST).is_err());
            }
        }
    }
}
