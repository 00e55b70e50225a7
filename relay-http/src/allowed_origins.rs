//! Which web pages may speak to the relay (TR-12): a browser names the page in `Origin`, and a page of
//! a stranger's site must not use what its visitor can reach.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use actix_http::RequestHead;
use actix_http::header::{HOST, ORIGIN};

/// How the configuration names the pages that the relay's own host serves.
const SAME_HOST: &str = "same-host";

/// Why a request with an `Origin` is refused. The text of the header is a stranger's and is not
/// repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// A site that is not in the list.
    #[error("pages of this origin may not use the relay (server.allowed_origins)")]
    NotAllowed,
    /// `null`: a page that hides where it comes from.
    #[error("pages without an origin may not use the relay")]
    Opaque,
    /// Not of the form `scheme://host[:port]`.
    #[error("the header Origin is not an origin")]
    Malformed,
    /// More than one header.
    #[error("the header Origin was sent more than once")]
    Ambiguous,
}

/// The web origins that may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedOrigins {
    /// Whether the host that a request names is allowed.
    same_host: bool,
    others: Vec<WebOrigin>,
}

impl Default for AllowedOrigins {
    /// The same host only.
    fn default() -> Self {
        Self {
            same_host: true,
            others: Vec::new(),
        }
    }
}

impl AllowedOrigins {
    /// Whether a request may be served as far as its `Origin` goes; one without is no browser's.
    ///
    /// # Errors
    /// When it has one that is not allowed; answered with 403.
    pub fn check(&self, head: &RequestHead) -> Result<(), OriginError> {
        let mut sent = head.headers.get_all(ORIGIN);
        let Some(origin) = sent.next() else {
            return Ok(());
        };
        if sent.next().is_some() {
            return Err(OriginError::Ambiguous);
        }
        // RFC 9112, section 3.2.2: a host in the request line counts instead of the header.
        let host = match head.uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => head.headers.get(HOST).and_then(|host| host.to_str().ok()),
        };
        self.judge(origin.to_str().unwrap_or_default(), host)
    }

    fn judge(&self, origin: &str, host: Option<&str>) -> Result<(), OriginError> {
        if origin == "null" {
            return Err(OriginError::Opaque);
        }
        let origin: WebOrigin = origin.parse().map_err(|_| OriginError::Malformed)?;
        let same_host = || host.and_then(Authority::parse);
        let allowed = self.others.contains(&origin)
            || self.same_host && same_host().is_some_and(|host| origin.is_of(&host));
        allowed.then_some(()).ok_or(OriginError::NotAllowed)
    }
}

impl fmt::Display for AllowedOrigins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let same_host = self.same_host.then_some(SAME_HOST);
        if let Some(word) = same_host {
            f.write_str(word)?;
        }
        for (place, origin) in self.others.iter().enumerate() {
            if place > 0 || same_host.is_some() {
                f.write_str(", ")?;
            }
            write!(f, "{origin}")?;
        }
        Ok(())
    }
}

/// A list that cannot be meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AllowedOriginsError {
    /// Nothing between two commas, or nothing at all.
    #[error("an entry is empty")]
    Empty,
    /// `*`, and `null`, which any page can make itself.
    #[error("`*` and `null` would let in every page that a user visits; name each origin")]
    Everyone,
    /// An address of a page.
    #[error("an origin ends with its host or port, without a path")]
    Path,
    /// Anything else.
    #[error("an entry is not an origin")]
    Malformed,
}

impl FromStr for AllowedOrigins {
    type Err = AllowedOriginsError;

    /// Reads `same-host` and origins, separated by commas.
    fn from_str(text: &str) -> Result<Self, AllowedOriginsError> {
        let mut read = Self {
            same_host: false,
            others: Vec::new(),
        };
        for entry in text.split(',').map(str::trim) {
            if entry == SAME_HOST {
                read.same_host = true;
                continue;
            }
            let origin = entry.parse().map_err(|_| blame(entry))?;
            if !read.others.contains(&origin) {
                read.others.push(origin);
            }
        }
        Ok(read)
    }
}

/// What is wrong with an entry that is no origin.
fn blame(entry: &str) -> AllowedOriginsError {
    let after_scheme = entry.split_once("://").map(|(_, rest)| rest);
    if entry.is_empty() {
        AllowedOriginsError::Empty
    } else if entry.contains('*') || entry == "null" {
        AllowedOriginsError::Everyone
    } else if after_scheme.is_some_and(|rest| rest.contains('/')) {
        AllowedOriginsError::Path
    } else {
        AllowedOriginsError::Malformed
    }
}

/// Scheme, host and port of a page, in the one spelling in which they can be compared (RFC 6454).
#[derive(Debug, Clone, PartialEq, Eq)]
struct WebOrigin {
    /// In lower case.
    scheme: String,
    authority: Authority,
}

/// Not an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NotAnOrigin;

impl FromStr for WebOrigin {
    type Err = NotAnOrigin;

    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        let (scheme, rest) = text.split_once("://").ok_or(NotAnOrigin)?;
        let mut letters = scheme.bytes();
        let is_scheme = letters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        if !is_scheme {
            return Err(NotAnOrigin);
        }
        let scheme = scheme.to_ascii_lowercase();
        let mut authority = Authority::parse(rest).ok_or(NotAnOrigin)?;
        authority.port = authority.port.or_else(|| default_port(&scheme));
        Ok(Self { scheme, authority })
    }
}

impl WebOrigin {
    /// Whether a request to `host` goes to the host of this page. A relay behind a proxy does not
    /// know by which scheme it was reached, so a host without a port may stand for the default port
    /// of either.
    fn is_of(&self, host: &Authority) -> bool {
        let ports_match = match (self.authority.port, host.port) {
            (Some(port), Some(named)) => port == named,
            (Some(port), None) => ["http", "https"].map(default_port).contains(&Some(port)),
            // An app's own scheme: nothing that a host serves.
            (None, _) => false,
        };
        ports_match && self.authority.host == host.host
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, authority } = self;
        write!(f, "{scheme}://{}", authority.host)?;
        match authority.port {
            Some(port) if default_port(scheme) != Some(port) => write!(f, ":{port}"),
            _ => Ok(()),
        }
    }
}

/// The port that a scheme implies; `None` for those of apps.
fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        _ => None,
    }
}

/// A host with an optional port, as in `Host`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Authority {
    /// In lower case; an IPv6 address in its canonical form and in brackets.
    host: String,
    port: Option<u16>,
}

impl Authority {
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, after) = rest.split_once(']')?;
                let address: Ipv6Addr = address.parse().ok()?;
                (format!("[{address}]"), after)
            }
            None => {
                let end = text.find(':').unwrap_or(text.len());
                let (name, after) = text.split_at(end);
                let is_name = !name.is_empty()
                    && name
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
                if !is_name {
                    return None;
                }
                (name.to_ascii_lowercase(), after)
            }
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => Some(parse_port(digits)?),
            None if port.is_empty() => None,
            None => return None,
        };
        Some(Self { host, port })
    }
}

/// A port as origins write it: digits alone, which `u16`'s own parser does not insist on.
fn parse_port(digits: &str) -> Option<u16> {
    let only_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| only_digits)
}

#[cfg(test)]
mod tests;
