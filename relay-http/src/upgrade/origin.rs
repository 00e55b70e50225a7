//! What the actors learn of a connection from its upgrade request (TR-2).

use std::net::SocketAddr;

use actix_http::Request;
use relay_actors::ConnectionOrigin;

use crate::authentication::Identity;
use crate::device_headers::{CLIENT_TYPE, DEVICE_ID, TARGET_DESKTOP, client_type, single};

/// What `request` says about a device of whoever sent it, which is `client`. Headers that cannot be read as text are passed
/// on as far as they can, so that the refusal comes at `register` and with its reason.
pub(super) fn origin_of(
    identity: Identity,
    request: &Request,
    client: Option<SocketAddr>,
) -> ConnectionOrigin {
    let headers = &request.head().headers;
    let text = |name| {
        headers
            .get(name)
            .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
    };
    ConnectionOrigin {
        account: identity.account,
        credentials: identity.credentials,
        client_type: single(headers, CLIENT_TYPE).and_then(client_type),
        device_header: text(DEVICE_ID),
        target_header: text(TARGET_DESKTOP),
        peer: client,
    }
}

#[cfg(test)]
mod tests {
    use actix_http::test::TestRequest;
    use relay_model::credentials::Credentials;
    use relay_model::store::DeviceType;
    use relay_model::time::Timestamp;

    use super::*;

    fn origin(headers: &[(&str, &str)]) -> ConnectionOrigin {
        let mut request = TestRequest::default();
        for header in headers {
            request.append_header(*header);
        }
        let identity = Identity {
            account: "7f1c2f5e-0c0a-4d3b-9a51-2b8f6f9d7e10".parse().unwrap(),
            credentials: Credentials::UserToken {
                expires_at: Timestamp::from_unix_micros(0),
            },
        };
        origin_of(identity, &request.finish(), None)
    }

    /// TR-2: header names in any case; a missing or odd client type is refused later, not here.
    #[test]
    fn client_types() {
        for (value, expected) in [
            ("desktop", Some(DeviceType::Desktop)),
            ("mobile", Some(DeviceType::Mobile)),
            ("Desktop", None),
            ("tablet", None),
            ("", None),
        ] {
            assert_eq!(
                origin(&[("x-client-type", value)]).client_type,
                expected,
                "{value:?}"
            );
            assert_eq!(
                origin(&[("X-CLIENT-TYPE", value)]).client_type,
                expected,
                "{value:?}"
            );
        }
        assert_eq!(origin(&[]).client_type, None);
        let twice = [("x-client-type", "desktop"), ("x-client-type", "mobile")];
        assert_eq!(origin(&twice).client_type, None);
    }

    /// TR-2: the device's headers go on as they were sent.
    #[test]
    fn device_headers() {
        let read = origin(&[
            ("X-Device-ID", "ABC"),
            ("X-Target-Desktop-Device-ID", "def"),
        ]);
        assert_eq!(read.device_header.as_deref(), Some("ABC"));
        assert_eq!(read.target_header.as_deref(), Some("def"));
        let none = origin(&[]);
        assert_eq!((none.device_header, none.target_header), (None, None));
    }
}
