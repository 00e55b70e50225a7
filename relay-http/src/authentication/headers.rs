//! Credentials as they stand in the headers of a request (TR-2, HTTP-4).

use actix_http::header::{AUTHORIZATION, HeaderMap};

use super::CredentialsError;

/// The header of an API key that is not sent as `Authorization: ApiKey`.
const API_KEY: &str = "x-api-key";

/// The user token of a request.
///
/// # Errors
/// When there is none, or something else stands in its place.
pub(super) fn bearer_token(headers: &HeaderMap) -> Result<&str, CredentialsError> {
    let mut values = headers.get_all(AUTHORIZATION);
    let Some(value) = values.next() else {
        let has_key = headers.contains_key(API_KEY);
        return Err(if has_key {
            CredentialsError::ApiKey
        } else {
            CredentialsError::Missing
        });
    };
    if values.next().is_some() {
        return Err(CredentialsError::Ambiguous);
    }
    let (scheme, credentials) = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().split_once(' '))
        .ok_or(CredentialsError::UnknownScheme)?;
    if scheme.eq_ignore_ascii_case("bearer") {
        Ok(credentials.trim())
    } else if scheme.eq_ignore_ascii_case("apikey") {
        Err(CredentialsError::ApiKey)
    } else {
        Err(CredentialsError::UnknownScheme)
    }
}

#[cfg(test)]
mod tests {
    use actix_http::header::{HeaderName, HeaderValue};

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
            assert_eq!(
                bearer_token(&headers(&[("authorization", value)])),
                Ok("t.o.k"),
                "{value}"
            );
        }
        let both = headers(&[("authorization", "Bearer t"), ("x-api-key", "rk_1")]);
        assert_eq!(bearer_token(&both), Ok("t"));
    }

    /// TR-2: everything else is refused.
    #[test]
    fn other_credentials_are_refused() {
        for (pairs, error) in [
            (&[][..], CredentialsError::Missing),
            (&[("x-api-key", "rk_1")], CredentialsError::ApiKey),
            (
                &[("authorization", "ApiKey rk_1")],
                CredentialsError::ApiKey,
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
            assert_eq!(bearer_token(&headers(pairs)), Err(error), "{pairs:?}");
        }
    }
}
