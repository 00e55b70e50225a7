//! Which addresses belong to proxies that may name their clients (`server.trusted_proxies`, TR-11).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};

/// How the configuration says that there are none.
const NONE: &str = "none";
/// The bits in front of an IPv4 address that IPv6 carries.
const MAPPED_PREFIX: u8 = 96;

/// The networks of trusted proxies; none by default. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// Whether `address` is a trusted proxy's; an IPv4 address that IPv6 carries counts as itself.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Whether nobody is trusted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for TrustedProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str(NONE);
        }
        for (place, network) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{network}")?;
        }
        Ok(())
    }
}

/// A list that cannot be meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TrustedProxiesError {
    /// Nothing between two commas, or nothing at all.
    #[error("an entry is empty; `none` stands for no proxies")]
    Empty,
    /// Every address there is.
    #[error("a network of every address would let every client choose its own; name the proxies")]
    Everyone,
    /// `10.0.0.1/8`, where either the address or the length is not what was meant.
    #[error("an entry has bits behind its prefix; write the network's own address, or /32 or /128")]
    HostBits,
    /// Anything else.
    #[error("an entry is neither an IP address nor a network")]
    Malformed,
}

impl FromStr for TrustedProxies {
    type Err = TrustedProxiesError;

    /// Reads `none`, or addresses and networks, separated by commas.
    fn from_str(text: &str) -> Result<Self, TrustedProxiesError> {
        if text.trim() == NONE {
            return Ok(Self::default());
        }
        let entries = text.split(',').map(str::trim);
        entries.map(network).collect::<Result<_, _>>().map(Self)
    }
}

fn network(entry: &str) -> Result<IpNet, TrustedProxiesError> {
    if entry.is_empty() {
        return Err(TrustedProxiesError::Empty);
    }
    let read = match entry.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => entry.parse().map_err(|_| TrustedProxiesError::Malformed)?,
    };
    if read.addr() != read.network() {
        return Err(TrustedProxiesError::HostBits);
    }
    let read = canonical(read);
    if read.prefix_len() == 0 {
        return Err(TrustedProxiesError::Everyone);
    }
    Ok(read)
}

/// The network in the spelling in which addresses are compared.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(carrier) = network else {
        return network;
    };
    let bits = carrier.prefix_len().checked_sub(MAPPED_PREFIX);
    match (carrier.addr().to_ipv4_mapped(), bits) {
        (Some(address), Some(bits)) => Ipv4Net::new(address, bits).map_or(network, IpNet::V4),
        _ => network,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TrustedProxies, TrustedProxiesError> {
        text.parse()
    }

    /// OP-2: addresses and networks of both kinds, and `none`.
    #[test]
    fn lists_are_read() {
        for (text, shown) in [
            ("none", "none"),
            ("127.0.0.1", "127.0.0.1/32"),
            ("10.0.0.0/8,::1", "10.0.0.0/8, ::1/128"),
            (
                " 2001:db8::/32 , 192.0.2.0/24 ",
                "2001:db8::/32, 192.0.2.0/24",
            ),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ] {
            let proxies = read(text).unwrap();
            assert_eq!(proxies.to_string(), shown);
            assert_eq!(read(shown), Ok(proxies));
        }
    }

    /// OP-2: what cannot be meant is refused.
    #[test]
    fn odd_lists_are_refused() {
        use TrustedProxiesError::{Empty, Everyone, HostBits, Malformed};
        for (text, error) in [
            ("", Empty),
            ("10.0.0.0/8,", Empty),
            ("0.0.0.0/0", Everyone),
            ("::/0", Everyone),
            ("::ffff:0.0.0.0/96", Everyone),
            ("10.0.0.1/8", HostBits),
            ("2001:db8::1/64", HostBits),
            ("10.0.0.0/33", Malformed),
            ("10.0.0.0/8 192.0.2.1", Malformed),
            ("proxy.example", Malformed),
            ("none, 10.0.0.0/8", Malformed),
        ] {
            assert_eq!(read(text), Err(error), "{text:?}");
        }
    }

    /// TR-11: an address is compared as what it is, however it is written.
    #[test]
    fn addresses_are_found() {
        let proxies = read("10.0.0.0/8, 2001:db8:1::/48").unwrap();
        for (address, found) in [
            ("10.255.0.1", true),
            ("::ffff:10.255.0.1", true),
            ("11.0.0.1", false),
            ("2001:db8:1:ffff::1", true),
            ("2001:db8:2::1", false),
            ("::10.0.0.1", false),
        ] {
            assert_eq!(
                proxies.contains(address.parse().unwrap()),
                found,
                "{address}"
            );
        }
        assert!(!TrustedProxies::default().contains("127.0.0.1".parse().unwrap()));
    }
}
