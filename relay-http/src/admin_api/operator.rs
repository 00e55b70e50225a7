//! Who may use the admin API: whoever shows the operator token.

use std::fmt;
use std::future::{Ready, ready};

use actix_http::header::{AUTHORIZATION, HeaderMap};
use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::AdminApi;
use crate::configuration::Secret;
use crate::refusal::Refusal;

/// The operator token, kept as its hash: two hashes are compared, so that not even the token's length
/// shows in the time that it takes.
#[derive(Clone)]
pub(super) struct OperatorToken([u8; 32]);

/// Why a caller is not taken for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OperatorError {
    /// No `Authorization`, or not one token in it.
    #[error("send the operator token (admin.token) as `Authorization: Bearer <token>`")]
    Missing,
    /// Another token.
    #[error("this is not the operator token; admin.token of this relay's configuration is")]
    Wrong,
}

impl OperatorToken {
    pub(super) fn new(token: &Secret) -> Self {
        Self(Sha256::digest(token.expose()).into())
    }

    /// Whether a request shows this token.
    ///
    /// # Errors
    /// When it does not.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), OperatorError> {
        let shown = presented(headers).ok_or(OperatorError::Missing)?;
        let hash = Sha256::digest(shown);
        if bool::from(hash.as_slice().ct_eq(&self.0)) {
            Ok(())
        } else {
            Err(OperatorError::Wrong)
        }
    }
}

impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorToken(redacted)")
    }
}

fn presented(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION);
    let value = values.next()?.as_bytes().trim_ascii();
    if values.next().is_some() {
        return None;
    }
    let blank = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, token) = value.split_at(blank);
    scheme
        .eq_ignore_ascii_case(b"bearer")
        .then_some(token.trim_ascii())
}

/// The operator. As an argument of a handler it stands first, so that nothing else is said to anybody
/// else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operator;

impl FromRequest for Operator {
    type Error = Refusal;
    type Future = Ready<Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(identify(request))
    }
}

fn identify(request: &HttpRequest) -> Result<Operator, Refusal> {
    // The routes and their state are added together, so it is always there.
    let api = request
        .app_data::<web::Data<AdminApi>>()
        .ok_or(Refusal::NotFound)?;
    let Err(error) = api.token.check(request.headers()) else {
        return Ok(Operator);
    };
    // A warning: lines of this kind that repeat are held back and counted.
    tracing::warn!(
        peer = request.peer_addr().map(tracing::field::display),
        path = request.path(),
        reason = match error {
            OperatorError::Missing => "no operator token",
            OperatorError::Wrong => "wrong operator token",
        },
        "a call of the admin API was refused"
    );
    Err(error.into())
}

#[cfg(test)]
mod tests {
    use actix_http::header::HeaderValue;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn check(values: &[&str]) -> Result<(), OperatorError> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        OperatorToken::new(&Secret::new(TOKEN.to_owned())).check(&headers)
    }

    /// Section 11: the token itself, whatever the case of the scheme.
    #[test]
    fn the_token_is_taken() {
        for value in [
            format!("Bearer {TOKEN}"),
            format!("bearer  {TOKEN} "),
            format!("BEARER {TOKEN}"),
        ] {
            assert_eq!(check(&[&value]), Ok(()), "{value}");
        }
    }

    /// Section 11: nothing that is like the token, longer, shorter or empty.
    #[test]
    fn other_tokens_are_refused() {
        for wrong in [
            format!("Bearer {TOKEN}0"),
            format!("Bearer {}", &TOKEN[1..]),
            format!("Bearer {}", TOKEN.to_uppercase()),
            format!("Bearer {TOKEN} {TOKEN}"),
            format!("Bearer {}", "x".repeat(4_096)),
        ] {
            assert_eq!(check(&[&wrong]), Err(OperatorError::Wrong), "{wrong}");
        }
        for none in ["", "Bearer", "Bearer ", TOKEN, "Basic abc", "ApiKey abc"] {
            assert_eq!(check(&[none]), Err(OperatorError::Missing), "{none}");
        }
        assert_eq!(check(&[]), Err(OperatorError::Missing));
        let twice = format!("Bearer {TOKEN}");
        assert_eq!(check(&[&twice, &twice]), Err(OperatorError::Missing));
    }

    /// Section 11: the token is shown nowhere.
    #[test]
    fn debug_shows_nothing() {
        let token = OperatorToken::new(&Secret::new(TOKEN.to_owned()));
        assert_eq!(format!("{token:?}"), "OperatorToken(redacted)");
    }
}
