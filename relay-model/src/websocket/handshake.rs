//! The opening handshake, server side: judges an upgrade request and computes the key that accepts it
//! (TR-1, RFC 6455 4.2). Knows no HTTP library: the request comes as plain parts.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use sha1::{Digest, Sha1};

/// The version of the protocol that is spoken.
pub const VERSION: &str = "13";

/// Appended to the client's key before it is hashed (RFC 6455, 1.3).
const ACCEPT_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Bytes of a decoded `Sec-WebSocket-Key`.
const KEY_BYTES: usize = 16;
/// Shipped clients of other relays write 22 random characters and `==`, so the bits that the last
/// character has to spare are not looked at.
const KEY_ENCODING: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The head of a request that wants to become a WebSocket.
#[derive(Debug, Clone)]
pub struct UpgradeRequest<'a, H> {
    /// The method, as it stands in the request line.
    pub method: &'a str,
    /// Major and minor version of HTTP.
    pub http_version: (u8, u8),
    /// Header lines, names in any case; a name that occurs twice comes twice.
    pub headers: H,
}

/// The value of `Sec-WebSocket-Accept`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptKey(String);

impl AcceptKey {
    /// The key that answers the client's `key`.
    pub fn answering(key: &[u8]) -> Self {
        let hash = Sha1::new()
            .chain_update(key)
            .chain_update(ACCEPT_GUID)
            .finalize();
        Self(STANDARD.encode(hash))
    }

    /// As it stands in the header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a request cannot become a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HandshakeError {
    /// The method is not GET.
    #[error("a WebSocket is opened with GET")]
    NotGet,
    /// The request is not HTTP/1.1.
    #[error("a WebSocket is opened over HTTP/1.1")]
    HttpVersion,
    /// `Host` is missing or given twice.
    #[error("exactly one Host header is needed")]
    Host,
    /// No `Upgrade` header lists `websocket`.
    #[error("the header `Upgrade: websocket` is missing")]
    UpgradeMissing,
    /// `Upgrade` lists more than `websocket`, which the HTTP server below does not take apart.
    #[error("the header `Upgrade` has to be `websocket`, without other protocols beside it")]
    UpgradeListed,
    /// No `Connection` header lists `upgrade`.
    #[error("the header `Connection: Upgrade` is missing")]
    ConnectionWithoutUpgrade,
    /// `Sec-WebSocket-Version` is not 13, missing, or given twice.
    #[error("exactly one header `Sec-WebSocket-Version: 13` is needed")]
    Version,
    /// `Sec-WebSocket-Key` is missing.
    #[error("the header Sec-WebSocket-Key is missing")]
    KeyMissing,
    /// `Sec-WebSocket-Key` is given twice.
    #[error("only one header Sec-WebSocket-Key is allowed")]
    KeyRepeated,
    /// `Sec-WebSocket-Key` is not 16 bytes in base64.
    #[error("Sec-WebSocket-Key has to be 16 bytes in base64")]
    KeyInvalid,
    /// The request announces a body, which would be read as frames.
    #[error("a request that opens a WebSocket has no body")]
    Body,
}

impl HandshakeError {
    /// The HTTP status that answers it.
    pub const fn status(&self) -> u16 {
        match self {
            Self::NotGet => 405,
            Self::UpgradeMissing | Self::UpgradeListed | Self::Version => 426,
            Self::HttpVersion
            | Self::Host
            | Self::ConnectionWithoutUpgrade
            | Self::KeyMissing
            | Self::KeyRepeated
            | Self::KeyInvalid
            | Self::Body => 400,
        }
    }

    /// Header lines that the answer needs beside its status.
    pub const fn headers(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::NotGet => &[("Allow", "GET")],
            Self::UpgradeMissing | Self::UpgradeListed => {
                &[("Upgrade", "websocket"), ("Connection", "Upgrade")]
            }
            Self::Version => &[
                ("Upgrade", "websocket"),
                ("Connection", "Upgrade"),
                ("Sec-WebSocket-Version", VERSION),
            ],
            Self::HttpVersion
            | Self::Host
            | Self::ConnectionWithoutUpgrade
            | Self::KeyMissing
            | Self::KeyRepeated
            | Self::KeyInvalid
            | Self::Body => &[],
        }
    }
}

/// A header that may stand in a request once.
#[derive(Debug, Clone, Copy)]
enum Single<'a> {
    Missing,
    Once(&'a [u8]),
    Repeated,
}

impl<'a> Single<'a> {
    fn add(&mut self, value: &'a [u8]) {
        *self = match self {
            Self::Missing => Self::Once(value.trim_ascii()),
            Self::Once(_) | Self::Repeated => Self::Repeated,
        };
    }
}

/// Judges `request` and returns the key that accepts it.
///
/// # Errors
/// The first thing that is wrong with it, in the order of [`HandshakeError`]'s variants, but never
/// [`UpgradeListed`](HandshakeError::UpgradeListed). Answer with its status, its headers and its text.
pub fn accept<'a, H>(request: UpgradeRequest<'a, H>) -> Result<AcceptKey, HandshakeError>
where
    H: IntoIterator<Item = (&'a str, &'a [u8])>,
{
    if request.method != "GET" {
        return Err(HandshakeError::NotGet);
    }
    if request.http_version != (1, 1) {
        return Err(HandshakeError::HttpVersion);
    }

    let mut host = Single::Missing;
    let mut version = Single::Missing;
    let mut key = Single::Missing;
    let mut upgrades_to_websocket = false;
    let mut connection_upgrades = false;
    let mut has_body = false;
    for (name, value) in request.headers {
        if name.eq_ignore_ascii_case("host") {
            host.add(value);
        } else if name.eq_ignore_ascii_case("upgrade") {
            upgrades_to_websocket |= lists(value, b"websocket");
        } else if name.eq_ignore_ascii_case("connection") {
            connection_upgrades |= lists(value, b"upgrade");
        } else if name.eq_ignore_ascii_case("sec-websocket-version") {
            version.add(value);
        } else if name.eq_ignore_ascii_case("sec-websocket-key") {
            key.add(value);
        } else if name.eq_ignore_ascii_case("content-length") {
            has_body |= value.trim_ascii() != b"0";
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            has_body = true;
        }
    }

    if !matches!(host, Single::Once(_)) {
        return Err(HandshakeError::Host);
    }
    if !upgrades_to_websocket {
        return Err(HandshakeError::UpgradeMissing);
    }
    if !connection_upgrades {
        return Err(HandshakeError::ConnectionWithoutUpgrade);
    }
    if !matches!(version, Single::Once(value) if value == VERSION.as_bytes()) {
        return Err(HandshakeError::Version);
    }
    match key {
        Single::Missing => Err(HandshakeError::KeyMissing),
        Single::Repeated => Err(HandshakeError::KeyRepeated),
        Single::Once(key) if !is_key(key) => Err(HandshakeError::KeyInvalid),
        Single::Once(_) if has_body => Err(HandshakeError::Body),
        Single::Once(key) => Ok(AcceptKey::answering(key)),
    }
}

/// Whether the comma-separated `list` holds `token`, in any case.
fn lists(list: &[u8], token: &[u8]) -> bool {
    list.split(|&byte| byte == b',')
        .any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

fn is_key(value: &[u8]) -> bool {
    // Room for what the longest text of that length could hold, so that nothing is allocated.
    let mut decoded = [0; KEY_BYTES + 2];
    value.len() == 4 * KEY_BYTES.div_ceil(3)
        && matches!(
            KEY_ENCODING.decode_slice(value, &mut decoded),
            Ok(KEY_BYTES)
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and its answer from RFC 6455, 1.3.
    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
    const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

    const GOOD: &[(&str, &str)] = &[
        ("Host", "relay.example"),
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", KEY),
    ];

    fn judge(headers: &[(&str, &str)]) -> Result<AcceptKey, HandshakeError> {
        accept(UpgradeRequest {
            method: "GET",
            http_version: (1, 1),
            headers: (headers.iter()).map(|(name, value)| (*name, value.as_bytes())),
        })
    }

    /// The good request with the lines of `name` replaced by `values`.
    fn judge_with(name: &str, values: &[&str]) -> Result<AcceptKey, HandshakeError> {
        let kept = (GOOD.iter().copied()).filter(|(other, _)| !other.eq_ignore_ascii_case(name));
        let headers: Vec<_> = kept
            .chain(values.iter().map(|value| (name, *value)))
            .collect();
        judge(&headers)
    }

    /// TR-1: the RFC's own example.
    #[test]
    fn a_good_request_is_accepted() {
        assert_eq!(judge(GOOD).unwrap().as_str(), ACCEPT);
    }

    /// TR-2: names in any case; lists, several lines and blanks where the RFC allows them.
    #[test]
    fn names_lists_and_case_are_taken_as_http_means_them() {
        for (name, values) in [
            ("CONNECTION", &["keep-alive, Upgrade"][..]),
            ("connection", &["keep-alive", "\tUPGRADE ,x"]),
            ("Connection", &["upgrade"]),
            ("UPGRADE", &["WebSocket"]),
            ("Upgrade", &["h2c, websocket"]),
            ("Sec-Websocket-Version", &[" 13 "]),
            ("sec-websocket-key", &["  dGhlIHNhbXBsZSBub25jZQ== "]),
            ("Content-Length", &["0"]),
        ] {
            let accepted = judge_with(name, values).unwrap();
            assert_eq!(accepted.as_str(), ACCEPT, "{name} {values:?}");
        }
    }

    /// TR-1: everything that can be wrong, with its status.
    #[test]
    fn each_fault_has_its_error_and_status() {
        use HandshakeError as E;
        for (name, values, error, status) in [
            ("Host", &[][..], E::Host, 400),
            ("Host", &["a.example", "b.example"], E::Host, 400),
            ("Upgrade", &[], E::UpgradeMissing, 426),
            ("Upgrade", &["websockets", "h2c"], E::UpgradeMissing, 426),
            ("Connection", &[], E::ConnectionWithoutUpgrade, 400),
            (
                "Connection",
                &["keep-alive", "close"],
                E::ConnectionWithoutUpgrade,
                400,
            ),
            (
                "Connection",
                &["upgraded"],
                E::ConnectionWithoutUpgrade,
                400,
            ),
            ("Sec-WebSocket-Version", &[], E::Version, 426),
            ("Sec-WebSocket-Version", &["8"], E::Version, 426),
            ("Sec-WebSocket-Version", &["13, 8"], E::Version, 426),
            ("Sec-WebSocket-Version", &["13", "13"], E::Version, 426),
            ("Sec-WebSocket-Key", &[], E::KeyMissing, 400),
            ("Sec-WebSocket-Key", &[KEY, KEY], E::KeyRepeated, 400),
            ("Sec-WebSocket-Key", &[""], E::KeyInvalid, 400),
            (
                "Sec-WebSocket-Key",
                &["dGhlIHNhbXBsZSBub25jZQ"],
                E::KeyInvalid,
                400,
            ),
            (
                "Sec-WebSocket-Key",
                &["dGhlIHNhbXBsZSBub25j"],
                E::KeyInvalid,
                400,
            ),
            (
                "Sec-WebSocket-Key",
                &["dGhlIHNhbXBsZSBub25jZWU="],
                E::KeyInvalid,
                400,
            ),
            (
                "Sec-WebSocket-Key",
                &["dGhlIHNhbXBsZSBub25jZWUh"],
                E::KeyInvalid,
                400,
            ),
            (
                "Sec-WebSocket-Key",
                &["dGhlIHNhbXBsZSBub2 jZQ=="],
                E::KeyInvalid,
                400,
            ),
            ("Content-Length", &["5"], E::Body, 400),
            ("Content-Length", &["0", "00"], E::Body, 400),
            ("Transfer-Encoding", &["chunked"], E::Body, 400),
        ] {
            let refused = judge_with(name, values).unwrap_err();
            assert_eq!(refused, error, "{name} {values:?}");
            assert_eq!(refused.status(), status);
        }
    }

    /// Clients that fill 22 characters at random leave bits that no byte uses.
    #[test]
    fn spare_bits_of_the_key_do_not_matter() {
        assert!(judge_with("Sec-WebSocket-Key", &["dGhlIHNhbXBsZSBub25jZR=="]).is_ok());
    }

    /// TR-1: a wrong version is told which one is spoken.
    #[test]
    fn a_wrong_version_is_told_the_right_one() {
        let headers = HandshakeError::Version.headers();
        assert!(headers.contains(&("Sec-WebSocket-Version", "13")));
    }

    /// TR-1: the request line is judged first.
    #[test]
    fn method_and_version_of_http_are_judged() {
        for (method, http_version, error) in [
            ("POST", (1, 1), HandshakeError::NotGet),
            ("get", (1, 1), HandshakeError::NotGet),
            ("GET", (1, 0), HandshakeError::HttpVersion),
            ("GET", (2, 0), HandshakeError::HttpVersion),
        ] {
            let headers = GOOD.iter().map(|(name, value)| (*name, value.as_bytes()));
            let refused = accept(UpgradeRequest {
                method,
                http_version,
                headers,
            });
            assert_eq!(refused, Err(error));
        }
        assert_eq!(HandshakeError::NotGet.headers(), [("Allow", "GET")]);
        assert_eq!(HandshakeError::NotGet.status(), 405);
    }
}
