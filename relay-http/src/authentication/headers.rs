//! Credentials as they stand in the headers of a request (TR-2, HTTP-4).

use actix_http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::CredentialsError;

/// The header of an API key that is not sent as `Authorization: ApiKey`.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Credentials as they were sent; nothing is known of them yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presented<'h> {
    /// In `Authorization: Bearer`.
    Token(&'h str),
    /// In `Authorization: ApiKey` or `X-API-Key`.
    ApiKey(&'h str),
}

/// The credentials of a request. `Authorization` wins over `X-API-Key`: a proxy may add a key of its
/// own beside the token of the user.
///
/// # Errors
/// When there are none, or they cannot be read.
pub(super) fn presented(headers: &HeaderMap) -> Result<Presented<'_>, CredentialsError> {
    let Some(value) = single(headers, &AUTHORIZATION)? else {
        let key = single(headers, &API_KEY)?.ok_or(CredentialsError::Missing)?;
        let text = key.to_str().map_err(|_| CredentialsError::UnknownKey)?;
        return Ok(Presented::ApiKey(text.trim()));
    };
    let (scheme, credentials) = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().split_once(' '))
        .ok_or(CredentialsError::UnknownScheme)?;
    if scheme.eq_ignore_ascii_case("bearer") {
        Ok(Presented::Token(credentials.trim()))
    } else if scheme.eq_ignore_ascii_case("apikey") {
        Ok(Presented::ApiKey(credentials.trim()))
    } else {
        Err(CredentialsError::UnknownScheme)
    }
}

fn single<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h HeaderValue>, CredentialsError> {
    let mut values = headers.get_all(name);
    let value = values.next();
    match values.next() {
        None => Ok(value),
        Some(_) => Err(CredentialsError::Ambiguous),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        headers
    }

    /// TR-2: the scheme is read in any case.
    #[test]
    fn bearer_tokens_are_found() {
        for value in [
            "Bearer t.o.k",
            "bearer t.o.k",
            "BEARER   t.o.k ",
            " Bearer t.o.k",
        ] {
            let headers = headers(&[("authorization", value)]);
            assert!(
                presented(&headers) == Ok(Presented::Token("t.o.k")),
                "{value}"
            );
        }
    }

    /// TR-2: API keys have two places; a token wins over the second.
    #[test]
    fn api_keys_are_found() {
        for (name, value) in [
            ("x-api-key", "rk_1"),
            ("x-api-key", " rk_1 "),
            ("authorization", "ApiKey rk_1"),
            ("authorization", "apikey  rk_1"),
        ] {
            let headers = headers(&[(name, value)]);
            assert!(
                presented(&headers) == Ok(Presented::ApiKey("rk_1")),
                "{name}: {value}"
            );
        }
        let both = headers(&[("authorization", "Bearer t"), ("x-api-key", "rk_1")]);
        assert!(presented(&both) == Ok(Presented::Token("t")));
        let keys = headers(&[("authorization", "ApiKey rk_2"), ("x-api-key", "rk_1")]);
        assert!(presented(&keys) == Ok(Presented::ApiKey("rk_2")));
    }

    /// TR-2: everything else is refused.
    #[test]
    fn other_credentials_are_refused() {
        for (pairs, error) in [
            (&[][..], CredentialsError::Missing),
            (
                &[("x-api-key", "rk_1"), ("x-api-key", "rk_1")],
                CredentialsError::Ambiguous,
            ),
            // A broken token does not become a key.
            (
                &[("authorization", "Bearer"), ("x-api-key", "rk_1")],
                CredentialsError::UnknownScheme,
            ),
            (
                &[("authorization", "Basic dTpw")],
                CredentialsError::UnknownScheme,
            ),
            (
                &[("authorization", "Bearer")],
                CredentialsError::UnknownScheme,
            ),
            (&[("authorization", "")], CredentialsError::UnknownScheme),
            (
                &[("authorization", "Bearer a"), ("authorization", "Bearer b")],
                CredentialsError::Ambiguous,
            ),
        ] {
            assert!(presented(&headers(pairs)) == Err(error), "{pairs:?}");
        }
    }
}
