//! User tokens: JWTs signed with HS256 (HTTP-4). The algorithm is fixed here and never taken from
//! the token; time comes from the caller, so that a test can stand before and after a deadline.

use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use relay_model::ids::AccountId;
use relay_model::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::configuration::Secret;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Why a token is not accepted. No message repeats any part of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a JWT, or claims of the wrong type.
    #[error("the token is not a well-formed JWT")]
    Malformed,
    /// Signed with an algorithm that is not configured, or not at all.
    #[error("the token is not signed with HS256")]
    WrongAlgorithm,
    /// Signed with another secret, or altered.
    #[error("the token's signature does not match")]
    WrongSignature,
    /// No `exp`.
    #[error("the token has no expiry (exp)")]
    NoExpiry,
    /// `exp` has passed.
    #[error("the token has expired; get a new one")]
    Expired,
    /// `nbf` has not come.
    #[error("the token is not valid yet (nbf)")]
    NotYetValid,
    /// `sub` is missing or no UUID.
    #[error("the token's subject (sub) is not an account's UUID")]
    NotAnAccount,
}

/// A token that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the token could not be signed: {0}")]
pub struct MintError(jsonwebtoken::errors::Error);

/// Checks and makes user tokens with one secret.
pub struct UserTokens {
    verifying: DecodingKey,
    signing: EncodingKey,
    validation: Validation,
    leeway: Duration,
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
    exp: Option<NumericDate>,
    nbf: Option<NumericDate>,
}

#[derive(Serialize)]
struct MintedClaims {
    sub: AccountId,
    iat: i64,
    exp: i64,
}

/// Seconds since 1970, fractions allowed (RFC 7519, section 2).
#[derive(Clone, Copy)]
struct NumericDate(Timestamp);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let micros = match number.as_i64() {
            Some(seconds) => seconds.saturating_mul(MICROS_PER_SECOND),
            // A cast from floating point saturates.
            None => (number.as_f64().unwrap_or(f64::MAX) * MICROS_PER_SECOND as f64) as i64,
        };
        Ok(Self(Timestamp::from_unix_micros(micros)))
    }
}

impl UserTokens {
    /// Tokens signed with `secret`, whose times may be off by `leeway`.
    ///
    /// # Errors
    /// When the cryptographic library refuses the secret, as it does an empty one.
    pub fn new(secret: &Secret, leeway: Duration) -> Result<Self, jsonwebtoken::errors::Error> {
        let mut validation = Validation::new(Algorithm::HS256);
        // Times are compared with the caller's clock below; audiences count only once they can be
        // configured.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        Ok(Self {
            verifying: DecodingKey::from_secret(secret.expose())?,
            signing: EncodingKey::from_secret(secret.expose())?,
            validation,
            leeway,
        })
    }

    /// The account that `token` speaks for at `now`.
    ///
    /// # Errors
    /// When it is not a valid token of any account.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<AccountId, TokenError> {
        let claims = jsonwebtoken::decode::<Claims>(token, &self.verifying, &self.validation)
            .map_err(|error| match error.kind() {
                ErrorKind::InvalidAlgorithm => TokenError::WrongAlgorithm,
                ErrorKind::InvalidSignature => TokenError::WrongSignature,
                _ => TokenError::Malformed,
            })?
            .claims;
        let NumericDate(expiry) = claims.exp.ok_or(TokenError::NoExpiry)?;
        if expiry.plus(self.leeway) <= now {
            return Err(TokenError::Expired);
        }
        if claims
            .nbf
            .is_some_and(|NumericDate(start)| start.minus(self.leeway) > now)
        {
            return Err(TokenError::NotYetValid);
        }
        claims
            .sub
            .and_then(|sub| sub.parse().ok())
            .ok_or(TokenError::NotAnAccount)
    }

    /// A token for `account` that is valid from `now` for `lifetime`, rounded up to whole seconds.
    ///
    /// # Errors
    /// When the cryptographic library fails.
    pub fn mint(
        &self,
        account: AccountId,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<String, MintError> {
        let expiry = now.plus(lifetime).unix_micros();
        let claims = MintedClaims {
            sub: account,
            iat: now.unix_micros().div_euclid(MICROS_PER_SECOND),
            exp: expiry
                .saturating_add(MICROS_PER_SECOND - 1)
                .div_euclid(MICROS_PER_SECOND),
        };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.signing)
            .map_err(MintError)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    use super::*;

    const ACCOUNT: &str = "7f1c2f5e-0c0a-4d3b-9a51-2b8f6f9d7e10";
    const SECRET: &str = "a secret of this test, long enough";
    const LEEWAY: u64 = 30;
    /// Seconds since 1970 at which these tests take place.
    const NOW: i64 = 1_800_000_000;

    fn tokens() -> UserTokens {
        tokens_of(SECRET)
    }

    fn tokens_of(secret: &str) -> UserTokens {
        UserTokens::new(&Secret::new(secret.to_owned()), Duration::from_secs(LEEWAY)).unwrap()
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
        tokens().verify(token, at(NOW))
    }

    /// HTTP-4: `sub` is the account, in any case.
    #[test]
    fn a_valid_token_names_its_account() {
        let account: AccountId = ACCOUNT.parse().unwrap();
        assert_eq!(verify(&signed(&valid_claims())), Ok(account));
        let upper =
            json!({ "sub": ACCOUNT.to_uppercase(), "exp": NOW + 60, "aud": "x", "iss": "y" });
        assert_eq!(verify(&signed(&upper)), Ok(account));
    }

    /// HTTP-4: a minted token is valid for its lifetime.
    #[test]
    fn minted_tokens_are_valid_for_their_lifetime() {
        let account: AccountId = ACCOUNT.parse().unwrap();
        let token = tokens()
            .mint(account, at(NOW), Duration::from_secs(60))
            .unwrap();
        assert_eq!(verify(&token), Ok(account));
        let end = NOW + 60 + LEEWAY as i64;
        assert_eq!(tokens().verify(&token, at(end - 1)), Ok(account));
        assert_eq!(tokens().verify(&token, at(end)), Err(TokenError::Expired));
    }

    /// HTTP-4, SES-6: `exp` counts, with the leeway, to the microsecond.
    #[test]
    fn expired_tokens_are_refused() {
        let token = signed(&valid_claims());
        let end = at(NOW + 60 + LEEWAY as i64);
        let just_before = Timestamp::from_unix_micros(end.unix_micros() - 1);
        assert!(tokens().verify(&token, just_before).is_ok());
        assert_eq!(tokens().verify(&token, end), Err(TokenError::Expired));
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
        let other = tokens_of("another secret, also long enough to use");
        let token = other
            .mint(ACCOUNT.parse().unwrap(), at(NOW), Duration::from_secs(60))
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
        assert!(UserTokens::new(&Secret::new(String::new()), Duration::ZERO).is_err());
    }
}
