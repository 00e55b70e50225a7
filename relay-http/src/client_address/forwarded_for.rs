//! Reads `X-Forwarded-For` from its end, as far as it can be believed (TR-11). Pure.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::TrustedProxies;

/// The client of a request that `peer` passed on. `entries` are those of the header, the last one
/// first: each was written by the one who sent the next, so they hold as far as the senders are
/// trusted.
///
/// An entry that is no address names nobody: the proxy that wrote it stands for its clients then.
pub(super) fn client<'h>(
    peer: SocketAddr,
    entries: impl Iterator<Item = &'h [u8]>,
    trusted: &TrustedProxies,
) -> SocketAddr {
    let mut client = canonical(peer);
    // RFC 9110, section 5.6.1: empty entries of a list count for nothing.
    let mut entries = entries
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty());
    while trusted.contains(client.ip()) {
        match entries.next().and_then(address) {
            Some(named) => client = named,
            None => break,
        }
    }
    client
}

/// The address in `entry`, in one of the forms that proxies write: alone, with a port, and IPv6 in
/// brackets with or without one.
fn address(entry: &[u8]) -> Option<SocketAddr> {
    let entry = str::from_utf8(entry).ok()?;
    let without_port = || {
        let bare = entry
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let ip = match bare {
            Some(bare) => IpAddr::V6(bare.parse::<Ipv6Addr>().ok()?),
            None => entry.parse().ok()?,
        };
        Some(SocketAddr::new(ip, 0))
    };
    without_port().or_else(|| entry.parse().ok()).map(canonical)
}

/// The one spelling of an address: an IPv4 address that IPv6 carries is that IPv4 address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(trusted: &str, peer: &str, header: &str) -> String {
        let trusted = trusted.parse().unwrap();
        let entries = header.as_bytes().rsplit(|byte| *byte == b',');
        client(peer.parse().unwrap(), entries, &trusted).to_string()
    }

    /// TR-11: what a peer says that nobody trusts changes nothing.
    #[test]
    fn strangers_are_not_believed() {
        for trusted in ["none", "10.0.0.0/8", "192.0.2.8"] {
            for header in ["", "198.51.100.1", "10.0.0.1", "127.0.0.1", "nonsense"] {
                let client = named(trusted, "192.0.2.7:99", header);
                assert_eq!(client, "192.0.2.7:99", "{trusted} {header}");
            }
        }
    }

    /// TR-11: trusted proxies are skipped from the end, and what lies behind the first stranger is
    /// what that stranger says.
    #[test]
    fn the_first_stranger_from_the_end_is_the_client() {
        for (header, client) in [
            ("198.51.100.1", "198.51.100.1:0"),
            ("1.1.1.1, 198.51.100.1", "198.51.100.1:0"),
            ("1.1.1.1,198.51.100.1 ,\t10.2.2.2", "198.51.100.1:0"),
            ("198.51.100.1, 10.3.3.3, ::ffff:10.2.2.2", "198.51.100.1:0"),
            ("10.0.0.9, 198.51.100.1", "198.51.100.1:0"),
            ("2001:db8::1", "[2001:db8::1]:0"),
            ("::ffff:198.51.100.1", "198.51.100.1:0"),
        ] {
            assert_eq!(
                named("10.0.0.0/8", "10.0.0.1:99", header),
                client,
                "{header}"
            );
            let mapped = named("10.0.0.0/8", "[::ffff:10.0.0.1]:99", header);
            assert_eq!(mapped, client, "{header}");
        }
    }

    /// TR-11: a proxy that names no client stands for its clients, and so does the last one before an
    /// entry that cannot be read.
    #[test]
    fn proxies_that_name_nobody() {
        for (header, client) in [
            ("", "10.0.0.1:99"),
            (" , ,", "10.0.0.1:99"),
            ("10.2.2.2", "10.2.2.2:0"),
            ("10.3.3.3:7, 10.2.2.2", "10.3.3.3:7"),
            ("unknown", "10.0.0.1:99"),
            ("198.51.100.1, unknown", "10.0.0.1:99"),
            ("198.51.100.1, nonsense, 10.2.2.2", "10.2.2.2:0"),
        ] {
            assert_eq!(
                named("10.0.0.0/8", "10.0.0.1:99", header),
                client,
                "{header}"
            );
        }
    }

    /// TR-11: the forms that proxies write.
    #[test]
    fn forms_of_addresses() {
        for (entry, read) in [
            ("192.0.2.1", Some("192.0.2.1:0")),
            ("192.0.2.1:443", Some("192.0.2.1:443")),
            ("2001:db8::1", Some("[2001:db8::1]:0")),
            ("[2001:db8::1]", Some("[2001:db8::1]:0")),
            ("[2001:db8::1]:443", Some("[2001:db8::1]:443")),
            ("[::ffff:192.0.2.1]:443", Some("192.0.2.1:443")),
            ("192.0.2.1:", None),
            ("192.0.2.1:65536", None),
            ("[192.0.2.1]", None),
            ("[2001:db8::1", None),
            ("2001:db8::1]", None),
            ("\"192.0.2.1\"", None),
            ("for=192.0.2.1", None),
            ("192.0.2.01", None),
            ("localhost", None),
        ] {
            let expected = read.map(|text| text.parse().unwrap());
            assert_eq!(address(entry.as_bytes()), expected, "{entry}");
        }
        assert_eq!(address(b"\xff"), None);
    }

    proptest! {
        /// TR-11: whatever a client sends, a proxy that appends the client's address has the last word.
        #[test]
        fn forged_entries_change_nothing(forged in proptest::collection::vec(any::<u8>(), 0..60)) {
            let trusted = "10.0.0.0/8".parse().unwrap();
            let mut header = forged;
            header.extend_from_slice(b", 198.51.100.1, 10.2.2.2");
            let entries = header.rsplit(|byte| *byte == b',');
            let client = client("10.0.0.1:1".parse().unwrap(), entries, &trusted);
            prop_assert_eq!(client.to_string(), "198.51.100.1:0");
        }
    }
}
