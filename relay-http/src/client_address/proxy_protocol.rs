//! The header of the PROXY protocol, version 2, by which a proxy below HTTP names its client (TR-11).
//! Pure: takes the bytes that came, and says how many more it wants, so that nothing behind the
//! header is taken from whoever reads on.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use relay_model::limits::PROXY_HEADER_BYTES;

/// What every header begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// What version 1 begins with, which is text.
const VERSION_1: &[u8] = b"PROXY ";
/// Signature, version and command, family, and the length of the rest.
const FIXED_BYTES: usize = 16;

/// How far a header has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Not whole: read on until there are `until` bytes, and no further. At most
    /// [`PROXY_HEADER_BYTES`].
    NeedMore {
        /// More than there are.
        until: usize,
    },
    /// The bytes are a whole header.
    Whole {
        /// The client; `None` if the proxy speaks for itself or names none over TCP.
        source: Option<SocketAddr>,
    },
}

/// Bytes that are no header of version 2, or one that cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProxyProtocolError {
    /// Something else, such as HTTP.
    #[error("it does not begin with a PROXY protocol header; make the proxy send one (version 2)")]
    Missing,
    /// The text form.
    #[error("its PROXY protocol header is of version 1; make the proxy send version 2")]
    Version1,
    /// A version that does not exist yet.
    #[error("its PROXY protocol header is of version {0}; make the proxy send version 2")]
    Version(u8),
    /// Neither LOCAL nor PROXY.
    #[error("its PROXY protocol header has the unknown command {0}")]
    Command(u8),
    /// An unknown kind of address.
    #[error("its PROXY protocol header has the unknown address family {0:#04x}")]
    Family(u8),
    /// The addresses do not fit into the announced length.
    #[error("its PROXY protocol header has no room for its addresses")]
    TooShort,
    /// Longer than it may be.
    #[error(
        "its PROXY protocol header has {length} bytes, and at most {PROXY_HEADER_BYTES} are taken; \
         make the proxy add less to it"
    )]
    TooLong {
        /// What it says, in bytes.
        length: usize,
    },
}

/// Reads `bytes`, which is everything that came so far, and no more than a previous
/// [`Progress::NeedMore`] asked for.
///
/// # Errors
/// As soon as the bytes cannot become a header.
pub(super) fn parse(bytes: &[u8]) -> Result<Progress, ProxyProtocolError> {
    let signed = bytes.len().min(SIGNATURE.len());
    if bytes[..signed] != SIGNATURE[..signed] {
        return version_1(bytes);
    }
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED_BYTES>() else {
        return Ok(Progress::NeedMore { until: FIXED_BYTES });
    };
    let [.., version_and_command, family, high, low] = *fixed;
    let announced = usize::from(u16::from_be_bytes([high, low]));
    let length = FIXED_BYTES + announced;
    let (version, command) = (version_and_command >> 4, version_and_command & 0xf);
    if version != 2 {
        return Err(ProxyProtocolError::Version(version));
    }
    if command > 1 {
        return Err(ProxyProtocolError::Command(command));
    }
    if length > PROXY_HEADER_BYTES {
        return Err(ProxyProtocolError::TooLong { length });
    }
    // With LOCAL the rest is to be ignored, whatever it is.
    let addresses = if command == 0 {
        Addresses::None
    } else {
        Addresses::of(family)?
    };
    if announced < addresses.bytes() {
        return Err(ProxyProtocolError::TooShort);
    }
    if bytes.len() < length {
        return Ok(Progress::NeedMore { until: length });
    }
    let source = addresses.source(rest);
    Ok(Progress::Whole { source })
}

/// The verdict on bytes that are not version 2.
fn version_1(bytes: &[u8]) -> Result<Progress, ProxyProtocolError> {
    if bytes.starts_with(VERSION_1) {
        Err(ProxyProtocolError::Version1)
    } else if VERSION_1.starts_with(bytes) {
        // Not a header for sure, but the operator shall read which mistake it is.
        Ok(Progress::NeedMore { until: FIXED_BYTES })
    } else {
        Err(ProxyProtocolError::Missing)
    }
}

/// Which addresses follow the fixed part.
#[derive(Debug, Clone, Copy)]
enum Addresses {
    /// None that could be a client over TCP.
    None,
    /// Source and destination, then their ports.
    Ipv4,
    /// The same for IPv6.
    Ipv6,
}

impl Addresses {
    /// The protocol names seven families, and wants all others refused.
    fn of(family: u8) -> Result<Self, ProxyProtocolError> {
        match family {
            0x11 => Ok(Self::Ipv4),
            0x21 => Ok(Self::Ipv6),
            // Unspecified, datagrams, and sockets of a machine's own.
            0x00 | 0x12 | 0x22 | 0x31 | 0x32 => Ok(Self::None),
            _ => Err(ProxyProtocolError::Family(family)),
        }
    }

    /// What they take; other data of the proxy may follow.
    const fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Ipv4 => 12,
            Self::Ipv6 => 36,
        }
    }

    fn source(self, block: &[u8]) -> Option<SocketAddr> {
        match self {
            Self::None => None,
            Self::Ipv4 => {
                let (source, rest) = block.split_first_chunk::<4>()?;
                let port = rest.get(4..)?.first_chunk()?;
                Some((Ipv4Addr::from(*source), u16::from_be_bytes(*port)).into())
            }
            Self::Ipv6 => {
                let (source, rest) = block.split_first_chunk::<16>()?;
                let port = rest.get(16..)?.first_chunk()?;
                Some((Ipv6Addr::from(*source), u16::from_be_bytes(*port)).into())
            }
        }
    }
}

#[cfg(test)]
mod tests;
