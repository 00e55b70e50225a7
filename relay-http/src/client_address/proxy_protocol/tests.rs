//! PROXY protocol headers, whole, split, broken and made up (TR-11).

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A header with this second line of its fixed part and these bytes behind it.
fn header(version_and_command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap();
    let mut bytes = SIGNATURE.to_vec();
    bytes.extend([version_and_command, family]);
    bytes.extend(length.to_be_bytes());
    bytes.extend(rest);
    bytes
}

fn ipv4() -> Vec<u8> {
    header(
        0x21,
        0x11,
        b"\xc0\x00\x02\x01\x0a\x00\x00\x01\x30\x39\x01\xbb",
    )
}

fn whole(bytes: &[u8]) -> Option<SocketAddr> {
    match parse(bytes) {
        Ok(Progress::Whole { source }) => source,
        other => panic!("{other:?}"),
    }
}

/// TR-11: the source of TCP over IPv4 and IPv6, with and without further data.
#[test]
fn sources_are_read() {
    assert_eq!(whole(&ipv4()), Some("192.0.2.1:12345".parse().unwrap()));

    let mut block = Vec::new();
    block.extend("2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
    block.extend(Ipv6Addr::LOCALHOST.octets());
    block.extend([0x30, 0x39, 0x01, 0xbb]);
    let expected = Some("[2001:db8::7]:12345".parse().unwrap());
    assert_eq!(whole(&header(0x21, 0x21, &block)), expected);
    block.extend(b"\x04\x00\x03xyz");
    assert_eq!(whole(&header(0x21, 0x21, &block)), expected);
}

/// TR-11: LOCAL, and families without a client over TCP, name nobody.
#[test]
fn some_headers_name_nobody() {
    assert_eq!(whole(&header(0x20, 0x00, b"")), None);
    assert_eq!(whole(&header(0x20, 0x11, b"")), None);
    assert_eq!(whole(&header(0x20, 0xff, b"whatever")), None);
    for family in [0x00, 0x12, 0x22, 0x31, 0x32] {
        assert_eq!(whole(&header(0x21, family, &[7; 216])), None, "{family:#x}");
    }
}

/// TR-11: what is no header of version 2 is told apart for the operator.
#[test]
fn broken_headers_are_refused() {
    use ProxyProtocolError::*;
    for (bytes, error) in [
        (b"PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n".to_vec(), Version1),
        (b"PROXY UNKNOWN\r\n".to_vec(), Version1),
        (b"GET / HTTP/1.1\r\n".to_vec(), Missing),
        (b"POST".to_vec(), Missing),
        (b"\x16\x03\x01".to_vec(), Missing),
        (b"\r\n\r\n\0\r\nQUIT\r".to_vec(), Missing),
        (header(0x11, 0x11, &[0; 12]), Version(1)),
        (header(0x31, 0x11, &[0; 12]), Version(3)),
        (header(0x22, 0x11, &[0; 12]), Command(2)),
        (header(0x21, 0x10, &[0; 12]), Family(0x10)),
        (header(0x21, 0x13, &[0; 12]), Family(0x13)),
        (header(0x21, 0x41, &[0; 12]), Family(0x41)),
        (header(0x21, 0x11, &[0; 11]), TooShort),
        (header(0x21, 0x21, &[0; 35]), TooShort),
        (header(0x21, 0x11, &[0; 521]), TooLong { length: 537 }),
        (header(0x20, 0x00, &[0; 60_000]), TooLong { length: 60_016 }),
    ] {
        assert_eq!(parse(&bytes), Err(error), "{}", bytes.escape_ascii());
    }
    assert_eq!(
        parse(b"PROX"),
        Ok(Progress::NeedMore { until: FIXED_BYTES })
    );
    let longest = header(0x21, 0x11, &[0; 520]);
    assert_eq!(longest.len(), PROXY_HEADER_BYTES);
    assert!(whole(&longest).is_some());
}

/// A header of any kind that is taken.
fn any_header() -> impl Strategy<Value = Vec<u8>> {
    let families = proptest::sample::select(vec![0x00, 0x11, 0x12, 0x21, 0x22, 0x31, 0x32]);
    (0x20u8..=0x21, families, vec(any::<u8>(), 36..520))
        .prop_map(|(command, family, rest)| header(command, family, &rest))
}

proptest! {
    /// TR-11: a header that is split anywhere wants more, and never so much that it would take what
    /// comes behind.
    #[test]
    fn every_piece_wants_the_rest(header in any_header()) {
        for end in 0..header.len() {
            match parse(&header[..end]) {
                Ok(Progress::NeedMore { until }) => {
                    prop_assert!(end < until && until <= header.len());
                }
                other => return Err(TestCaseError::fail(format!("{end}: {other:?}"))),
            }
        }
        let whole = matches!(parse(&header), Ok(Progress::Whole { .. }));
        prop_assert!(whole);
    }

    /// TR-11: bytes of any kind, behind a good signature or not, are judged without a panic, what is
    /// asked for stays in bounds, and a verdict on a piece is the verdict on the whole.
    #[test]
    fn any_bytes_are_judged(signed in any::<bool>(), bytes in vec(any::<u8>(), 0..600)) {
        let bytes = if signed { [&SIGNATURE[..], &[0x21], &bytes].concat() } else { bytes };
        let mut verdict = None;
        let mut end = 0;
        while verdict.is_none() {
            match parse(&bytes[..end]) {
                Ok(Progress::NeedMore { until }) => {
                    prop_assert!(end < until && until <= PROXY_HEADER_BYTES);
                    if until > bytes.len() {
                        return Ok(());
                    }
                    end += 1;
                }
                other => verdict = Some(other),
            }
        }
        if let Some(Err(error)) = verdict {
            prop_assert_eq!(parse(&bytes), Err(error));
        }
    }
}
