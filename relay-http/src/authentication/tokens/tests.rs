//! User tokens under one shared secret.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::FutureExt;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Value, json};

use super::claims::MICROS_PER_SECOND;
use super::*;
use crate::authentication::still_world::StillWorld;

const ACCOUNT: &str = "7f1c2f5e-0c0a-4d3b-9a51-2b8f6f9d7e10";
const SECRET: &str = "a secret of this test, long enough";
const LEEWAY: u64 = 30;
/// Seconds since 1970 at which these tests take place.
const NOW: i64 = 1_800_000_000;

fn tokens_at(now: Timestamp) -> UserTokens {
    tokens_of(SECRET, ClaimRules::default(), now)
}

fn tokens_of(secret: &str, rules: ClaimRules, now: Timestamp) -> UserTokens {
    let rules = ClaimRules {
        leeway: Duration::from_secs(LEEWAY),
        ..rules
    };
    let secret = Secret::new(secret.to_owned());
    UserTokens::new(rules, Some(&secret), None, StillWorld::at(now)).unwrap()
}

/// With a secret alone nobody ever waits.
fn judge(tokens: &UserTokens, token: &str) -> Result<AccountId, TokenError> {
    let judged = tokens.verify(token).now_or_never().expect("no waiting");
    judged
        .map(|token| token.account)
        .map_err(|refusal| match refusal {
            TokenRefusal::Invalid(error) => error,
            TokenRefusal::NoPublicKeys => panic!("{refusal}"),
        })
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_micros(seconds * MICROS_PER_SECOND)
}

fn signed(claims: &Value) -> String {
    signed_with(Algorithm::HS256, claims)
}

fn signed_with(algorithm: Algorithm, claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    jsonwebtoken::encode(&Header::new(algorithm), claims, &key).unwrap()
}

/// A token with any header, signed as HS256 would be or not at all.
fn forged(header: &Value, claims: &Value, signature: &[u8]) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!(
        "{}.{}.{}",
        part(header),
        part(claims),
        URL_SAFE_NO_PAD.encode(signature)
    )
}

fn valid_claims() -> Value {
    json!({ "sub": ACCOUNT, "exp": NOW + 60 })
}

fn verify(token: &str) -> Result<AccountId, TokenError> {
    judge(&tokens_at(at(NOW)), token)
}

/// HTTP-4: `sub` is the account, in any case.
#[test]
fn a_valid_token_names_its_account() {
    let account: AccountId = ACCOUNT.parse().unwrap();
    assert_eq!(verify(&signed(&valid_claims())), Ok(account));
    let upper = json!({ "sub": ACCOUNT.to_uppercase(), "exp": NOW + 60, "aud": "x", "iss": "y" });
    assert_eq!(verify(&signed(&upper)), Ok(account));
}

/// HTTP-4: a minted token is valid for its lifetime.
#[test]
fn minted_tokens_are_valid_for_their_lifetime() {
    let account: AccountId = ACCOUNT.parse().unwrap();
    let token = tokens_at(at(NOW))
        .mint(account, Duration::from_secs(60))
        .unwrap();
    assert_eq!(verify(&token), Ok(account));
    let end = NOW + 60 + LEEWAY as i64;
    assert_eq!(judge(&tokens_at(at(end - 1)), &token), Ok(account));
    assert_eq!(judge(&tokens_at(at(end)), &token), Err(TokenError::Expired));
}

/// HTTP-4, SES-6: `exp` counts, with the leeway, to the microsecond.
#[test]
fn expired_tokens_are_refused() {
    let token = signed(&valid_claims());
    let end = at(NOW + 60 + LEEWAY as i64);
    let just_before = Timestamp::from_unix_micros(end.unix_micros() - 1);
    assert!(judge(&tokens_at(just_before), &token).is_ok());
    assert_eq!(judge(&tokens_at(end), &token), Err(TokenError::Expired));
    for exp in [json!(0), json!(-1), json!(-1e300), json!(NOW as f64 - 30.5)] {
        let token = signed(&json!({ "sub": ACCOUNT, "exp": exp }));
        assert_eq!(verify(&token), Err(TokenError::Expired), "{exp}");
    }
}

/// HTTP-4: a token from the future is refused, with the leeway.
#[test]
fn tokens_that_are_not_valid_yet_are_refused() {
    let starting = |nbf: i64| signed(&json!({ "sub": ACCOUNT, "exp": NOW + 900, "nbf": nbf }));
    assert!(verify(&starting(NOW + LEEWAY as i64)).is_ok());
    assert_eq!(
        verify(&starting(NOW + LEEWAY as i64 + 1)),
        Err(TokenError::NotYetValid)
    );
}

/// HTTP-4: `exp` is required.
#[test]
fn tokens_without_expiry_are_refused() {
    assert_eq!(
        verify(&signed(&json!({ "sub": ACCOUNT }))),
        Err(TokenError::NoExpiry)
    );
    let null = signed(&json!({ "sub": ACCOUNT, "exp": null }));
    assert_eq!(verify(&null), Err(TokenError::NoExpiry));
    let text = signed(&json!({ "sub": ACCOUNT, "exp": "tomorrow" }));
    assert_eq!(verify(&text), Err(TokenError::Malformed));
    let far = signed(&json!({ "sub": ACCOUNT, "exp": 1e300 }));
    assert!(verify(&far).is_ok());
}

/// HTTP-4: `sub` is a UUID.
#[test]
fn tokens_of_nobody_are_refused() {
    for sub in [
        json!(null),
        json!(""),
        json!("alice"),
        json!(format!("{ACCOUNT} ")),
    ] {
        let token = signed(&json!({ "sub": sub, "exp": NOW + 60 }));
        assert_eq!(verify(&token), Err(TokenError::NotAnAccount), "{sub}");
    }
    let number = signed(&json!({ "sub": 7, "exp": NOW + 60 }));
    assert_eq!(verify(&number), Err(TokenError::Malformed));
    assert_eq!(
        verify(&signed(&json!({ "exp": NOW + 60 }))),
        Err(TokenError::NotAnAccount)
    );
}

/// HTTP-4: only the configured secret.
#[test]
fn tokens_of_another_secret_are_refused() {
    let rules = ClaimRules::default();
    let other = tokens_of("another secret, also long enough to use", rules, at(NOW));
    let token = other
        .mint(ACCOUNT.parse().unwrap(), Duration::from_secs(60))
        .unwrap();
    assert_eq!(verify(&token), Err(TokenError::WrongSignature));
}

/// HTTP-4: `alg` of the token decides nothing.
#[test]
fn other_algorithms_are_refused() {
    for algorithm in [Algorithm::HS384, Algorithm::HS512] {
        let token = signed_with(algorithm, &valid_claims());
        assert_eq!(
            verify(&token),
            Err(TokenError::WrongAlgorithm),
            "{algorithm:?}"
        );
    }
    let hs256 = signed(&valid_claims());
    let signature = URL_SAFE_NO_PAD
        .decode(hs256.rsplit('.').next().unwrap())
        .unwrap();
    for (algorithm, error) in [
        ("RS256", TokenError::WrongAlgorithm),
        ("ES256", TokenError::WrongAlgorithm),
        ("EdDSA", TokenError::WrongAlgorithm),
        ("none", TokenError::Malformed),
        ("None", TokenError::Malformed),
        ("hs256", TokenError::Malformed),
        ("", TokenError::Malformed),
    ] {
        let header = json!({ "typ": "JWT", "alg": algorithm });
        for signature in [&signature[..], &[]] {
            let token = forged(&header, &valid_claims(), signature);
            assert_eq!(verify(&token), Err(error), "{algorithm}");
        }
    }
    let unsigned = forged(&json!({ "alg": "HS256" }), &valid_claims(), &[]);
    assert_eq!(verify(&unsigned), Err(TokenError::WrongSignature));
}

/// HTTP-4: no text is a token by accident, and an altered token is none.
#[test]
fn garbage_is_refused() {
    let token = signed(&valid_claims());
    let altered = token.replacen('.', ".A", 1);
    let cut = &token[..token.len() - 4];
    for garbage in [
        "",
        ".",
        "..",
        "a.b.c",
        "....",
        "Bearer x",
        "\u{1f980}",
        &altered,
        cut,
    ] {
        assert!(verify(garbage).is_err(), "{garbage}");
    }
}

/// OP-5: no error shows any part of a token or the secret.
#[test]
fn errors_do_not_repeat_the_token() {
    let expired = signed(&json!({ "sub": ACCOUNT, "exp": 1 }));
    let error = verify(&expired).unwrap_err();
    let shown = format!("{error} {error:?}");
    for part in expired.split('.').chain([ACCOUNT, SECRET]) {
        assert!(!shown.contains(part), "{shown}");
    }
}

/// An empty secret would sign everything.
#[test]
fn empty_secrets_are_refused() {
    let secret = Secret::new(String::new());
    let world = StillWorld::at(at(NOW));
    assert!(UserTokens::new(ClaimRules::default(), Some(&secret), None, world).is_err());
}

/// HTTP-4: issuer and audience count when they are configured; `aud` may list several.
#[test]
fn issuer_and_audience_are_checked() {
    let rules = ClaimRules {
        issuer: Some("https://login.example".to_owned()),
        audience: Some("relay".to_owned()),
        ..ClaimRules::default()
    };
    let tokens = tokens_of(SECRET, rules, at(NOW));
    let judged = |iss: Value, aud: Value| {
        let claims = json!({ "sub": ACCOUNT, "exp": NOW + 60, "iss": iss, "aud": aud });
        judge(&tokens, &signed(&claims)).map(drop)
    };
    let issuer = json!("https://login.example");
    for aud in [json!("relay"), json!(["relay"]), json!(["other", "relay"])] {
        assert_eq!(judged(issuer.clone(), aud), Ok(()));
    }
    for aud in [
        json!(null),
        json!("other"),
        json!("Relay"),
        json!([]),
        json!(["other", "relays"]),
    ] {
        assert_eq!(judged(issuer.clone(), aud), Err(TokenError::WrongAudience));
    }
    for iss in [
        json!(null),
        json!(""),
        json!("https://login.example/"),
        json!("HTTPS://login.example"),
    ] {
        assert_eq!(judged(iss, json!("relay")), Err(TokenError::WrongIssuer));
    }
    for (iss, aud) in [
        (json!(["https://login.example"]), json!("relay")),
        (issuer, json!(7)),
    ] {
        assert_eq!(judged(iss, aud), Err(TokenError::Malformed));
    }
    let minted = tokens
        .mint(ACCOUNT.parse().unwrap(), Duration::from_secs(60))
        .unwrap();
    assert!(judge(&tokens, &minted).is_ok());
}
