//! Who a connection comes from (TR-11): the TCP peer, or whom a proxy names that the operator trusts.
//! What anybody else says about addresses is not believed.

mod forwarded_for;
pub(crate) mod proxy_header;
mod proxy_protocol;
mod trusted_proxies;

use std::net::{IpAddr, SocketAddr};

use actix_http::header::HeaderMap;

pub use trusted_proxies::{TrustedProxies, TrustedProxiesError};

/// Where proxies write whom they speak for. `Forwarded` (RFC 7239) is not read: of two headers that
/// contradict each other, a client behind a proxy that sets only one could choose the other.
const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// The proxies in front of the relay, and how they name clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// Who may name clients.
    pub trusted: TrustedProxies,
    /// Whether every connection begins with a PROXY protocol v2 header.
    pub proxy_protocol: bool,
}

impl Proxies {
    /// The client of a request that came from `peer` with `headers`. Port 0 stands for one that the
    /// proxy did not name.
    pub(crate) fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> SocketAddr {
        // Several lines are one list, and the nearest proxy wrote last.
        let lines = headers.get_all(X_FORWARDED_FOR).rev();
        let entries = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
        forwarded_for::client(peer, entries, &self.trusted)
    }

    /// Whether connections of the client `address` are counted (TR-11): not those of this machine,
    /// and not those of a proxy that named no client, which may be anybody's.
    pub(crate) fn are_counted(&self, address: IpAddr) -> bool {
        !address.to_canonical().is_loopback() && !self.trusted.contains(address)
    }
}

#[cfg(test)]
mod tests {
    use actix_http::header::{HeaderName, HeaderValue};

    use super::*;

    fn client(trusted: &str, peer: &str, lines: &[&[u8]]) -> String {
        let proxies = Proxies {
            trusted: trusted.parse().unwrap(),
            proxy_protocol: false,
        };
        let mut headers = HeaderMap::new();
        for line in lines {
            let name = HeaderName::from_static(X_FORWARDED_FOR);
            headers.append(name, HeaderValue::from_bytes(line).unwrap());
        }
        proxies
            .client(peer.parse().unwrap(), &headers)
            .ip()
            .to_string()
    }

    /// TR-11: the lines of the header are one list, read from its end.
    #[test]
    fn lines_are_joined() {
        let client = |lines| client("10.0.0.0/8", "10.0.0.1:9", lines);
        assert_eq!(client(&[]), "10.0.0.1");
        assert_eq!(client(&[b"192.0.2.1", b"192.0.2.2"]), "192.0.2.2");
        assert_eq!(client(&[b"192.0.2.1, 192.0.2.2", b"10.1.1.1"]), "192.0.2.2");
        assert_eq!(client(&[b"192.0.2.1", b"", b" , "]), "192.0.2.1");
        assert_eq!(client(&[b"192.0.2.1", b"\xff", b"10.1.1.1"]), "10.1.1.1");
    }

    /// TR-11: loopback and proxies that name no client are exempt, in every spelling; nobody else is.
    #[test]
    fn who_is_counted() {
        let proxies = Proxies {
            trusted: "10.0.0.0/8, 2001:db8::/32".parse().unwrap(),
            proxy_protocol: false,
        };
        for (address, counted) in [
            ("127.0.0.1", false),
            ("127.8.8.8", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("10.9.9.9", false),
            ("::ffff:10.9.9.9", false),
            ("2001:db8::1", false),
            ("192.0.2.1", true),
            ("2001:db9::1", true),
        ] {
            assert_eq!(
                proxies.are_counted(address.parse().unwrap()),
                counted,
                "{address}"
            );
        }
        assert!(Proxies::default().are_counted("10.9.9.9".parse().unwrap()));
    }
}
