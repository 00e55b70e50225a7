//! `auth.jwks_url`: whoever can change what is read from it can sign in as anybody, so nothing on
//! the way may.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

/// The address of a JWK Set: `https`, or `http` on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwksUrl(Url);

/// Why a text is no such address. It does not repeat the text, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JwksUrlError {
    /// Not a URL of the web.
    #[error("not an https URL")]
    NotHttps,
    /// `http` to somewhere else.
    #[error("http goes over a network where anybody could put keys of their own into the answer")]
    Insecure,
    /// A user or password in it.
    #[error("a user or password in the URL would stand in logs")]
    HasPassword,
}

impl JwksUrl {
    /// The URL itself.
    pub fn as_url(&self) -> &Url {
        &self.0
    }

    /// Whether it is read without TLS, which is allowed on this machine only.
    pub fn is_plain(&self) -> bool {
        self.0.scheme() == "http"
    }
}

impl FromStr for JwksUrl {
    type Err = JwksUrlError;

    fn from_str(text: &str) -> Result<Self, JwksUrlError> {
        let url = Url::parse(text).map_err(|_| JwksUrlError::NotHttps)?;
        match url.scheme() {
            "https" => (),
            "http" if is_this_machine(url.host_str().unwrap_or_default()) => (),
            "http" => return Err(JwksUrlError::Insecure),
            _ => return Err(JwksUrlError::NotHttps),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(JwksUrlError::HasPassword);
        }
        Ok(Self(url))
    }
}

pub(super) fn is_this_machine(host: &str) -> bool {
    let address: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

impl fmt::Display for JwksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HTTP-4: keys come over TLS, or from this machine.
    #[test]
    fn urls_are_https_or_local() {
        for good in [
            "https://login.example/.well-known/jwks.json",
            "https://login.example:8443/keys?tenant=7",
            "http://127.0.0.1:9/keys",
            "http://127.8.8.8/keys",
            "http://[::1]:9/keys",
            "http://localhost:9/keys",
            "HTTP://LOCALHOST/keys",
        ] {
            assert!(good.parse::<JwksUrl>().is_ok(), "{good}");
        }
        for (bad, error) in [
            ("", JwksUrlError::NotHttps),
            ("login.example/keys", JwksUrlError::NotHttps),
            ("ftp://login.example/keys", JwksUrlError::NotHttps),
            ("file:///etc/keys.json", JwksUrlError::NotHttps),
            ("https://", JwksUrlError::NotHttps),
            ("http://login.example/keys", JwksUrlError::Insecure),
            ("http://10.0.0.1/keys", JwksUrlError::Insecure),
            ("http://localhost.example/keys", JwksUrlError::Insecure),
            ("http://127.0.0.1.example/keys", JwksUrlError::Insecure),
            (
                "https://me:hunter2@login.example/",
                JwksUrlError::HasPassword,
            ),
            ("https://me@login.example/", JwksUrlError::HasPassword),
        ] {
            assert_eq!(bad.parse::<JwksUrl>(), Err(error), "{bad}");
        }
    }
}
