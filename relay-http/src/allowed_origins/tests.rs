//! Tables and properties of the origins that may connect.

use actix_http::test::TestRequest;
use proptest::prelude::*;

use super::*;

fn same_host(origin: &str, host: &str) -> Result<(), OriginError> {
    AllowedOrigins::default().judge(origin, Some(host))
}

fn listed(list: &str, origin: &str) -> Result<(), OriginError> {
    let list: AllowedOrigins = list.parse().unwrap();
    list.judge(origin, Some("relay.example"))
}

/// TR-12: by default pages of the same host may connect, whatever the scheme before a proxy was.
#[test]
fn the_same_host_is_allowed() {
    for (origin, host) in [
        ("https://relay.example", "relay.example"),
        ("http://relay.example", "relay.example"),
        ("https://relay.example:443", "relay.example"),
        ("https://relay.example", "relay.example:443"),
        ("http://relay.example:80", "relay.example:80"),
        ("HTTPS://Relay.Example", "rELAY.eXAMPLE"),
        ("https://relay.example:8443", "relay.example:8443"),
        ("wss://relay.example", "relay.example"),
        ("http://127.0.0.1:8787", "127.0.0.1:8787"),
        ("http://[::1]:8787", "[::1]:8787"),
        ("http://[0:0:0:0:0:0:0:1]:8787", "[::1]:8787"),
        ("https://[2001:DB8::1]", "[2001:db8::1]"),
    ] {
        assert_eq!(same_host(origin, host), Ok(()), "{origin} to {host}");
    }
}

/// TR-12: another host or port is another site.
#[test]
fn other_hosts_and_ports_are_refused() {
    for (origin, host) in [
        ("https://evil.example", "relay.example"),
        ("https://relay.example.evil.example", "relay.example"),
        ("https://evil-relay.example", "relay.example"),
        ("https://relay.example.", "relay.example"),
        ("https://relay.example:8443", "relay.example"),
        ("https://relay.example", "relay.example:8443"),
        ("https://relay.example:8443", "relay.example:8787"),
        // The port of the other scheme counts only where the host names none.
        ("http://relay.example", "relay.example:443"),
        ("https://relay.example", "relay.example:80"),
        ("http://[::1]", "[::2]"),
        ("http://127.0.0.1", "localhost"),
        // Schemes of apps are no host's pages.
        ("capacitor://localhost", "localhost"),
        ("tauri://localhost:8787", "localhost"),
    ] {
        let refused = Err(OriginError::NotAllowed);
        assert_eq!(same_host(origin, host), refused, "{origin} to {host}");
    }
    let nowhere = AllowedOrigins::default().judge("https://relay.example", None);
    assert_eq!(nowhere, Err(OriginError::NotAllowed));
    for host in ["", "relay.example:", "relay.example:x", "[::1", "a b"] {
        assert!(same_host("https://relay.example", host).is_err(), "{host}");
    }
}

/// TR-12: what is no origin is refused, and `null` too.
#[test]
fn garbage_is_refused() {
    assert_eq!(same_host("null", "null"), Err(OriginError::Opaque));
    for origin in [
        "",
        " ",
        "NULL",
        "relay.example",
        "//relay.example",
        "://relay.example",
        "1http://relay.example",
        "ht tp://relay.example",
        "https:relay.example",
        "https://",
        "https://relay.example/",
        "https://relay.example/path",
        "https://relay.example?x",
        "https://relay.example#x",
        "https://user@relay.example",
        "https://relay.example:",
        "https://relay.example:+443",
        "https://relay.example:65536",
        "https://relay.example:443:443",
        "https://relay.example https://relay.example",
        "https://relay.example, https://relay.example",
        "https://[::1",
        "https://::1",
        "https://[relay.example]",
        "https://[::1]443",
        "https://*",
        "*",
    ] {
        let judged = same_host(origin, "relay.example");
        assert_eq!(judged, Err(OriginError::Malformed), "{origin:?}");
    }
}

/// TR-12: a list takes the place of the default, and compares scheme, host and port.
#[test]
fn listed_origins_are_allowed() {
    let list = "https://app.example, HTTP://Localhost:3000,capacitor://localhost";
    for origin in [
        "https://app.example",
        "https://APP.example:443",
        "http://localhost:3000",
        "capacitor://localhost",
    ] {
        assert_eq!(listed(list, origin), Ok(()), "{origin}");
    }
    for origin in [
        "http://app.example",
        "https://app.example:8443",
        "https://sub.app.example",
        "http://localhost",
        "capacitor://localhost:1",
        "https://relay.example",
    ] {
        assert_eq!(
            listed(list, origin),
            Err(OriginError::NotAllowed),
            "{origin}"
        );
    }
    let both = "https://app.example, same-host";
    assert_eq!(listed(both, "https://app.example"), Ok(()));
    assert_eq!(listed(both, "https://relay.example"), Ok(()));
}

/// OP-1: what cannot be meant is refused at the start.
#[test]
fn bad_lists_are_refused() {
    for (list, error) in [
        ("", AllowedOriginsError::Empty),
        ("same-host,", AllowedOriginsError::Empty),
        ("*", AllowedOriginsError::Everyone),
        ("https://*.example", AllowedOriginsError::Everyone),
        ("same-host, null", AllowedOriginsError::Everyone),
        ("https://app.example/", AllowedOriginsError::Path),
        ("https://app.example/app", AllowedOriginsError::Path),
        ("app.example", AllowedOriginsError::Malformed),
        ("https://bücher.example", AllowedOriginsError::Malformed),
        ("https://app.example:port", AllowedOriginsError::Malformed),
        ("Same-Host", AllowedOriginsError::Malformed),
    ] {
        assert_eq!(list.parse::<AllowedOrigins>(), Err(error), "{list:?}");
    }
}

/// OP-2: a list is shown in the spelling in which it is compared, and can be read back.
#[test]
fn lists_are_shown() {
    let list = "HTTPS://App.Example:443, same-host,http://[::0001]:81, https://app.example";
    let read: AllowedOrigins = list.parse().unwrap();
    let shown = "same-host, https://app.example, http://[::1]:81";
    assert_eq!(read.to_string(), shown);
    assert_eq!(shown.parse(), Ok(read));
    assert_eq!(AllowedOrigins::default().to_string(), "same-host");
}

/// TR-12: one header at most, and a request without one is no browser's.
#[test]
fn headers_are_read() {
    let check = |origins: &[&[u8]], uri: &str| {
        let mut request = TestRequest::default();
        request.uri(uri).insert_header(("host", "relay.example"));
        for origin in origins {
            request.append_header(("origin", *origin));
        }
        AllowedOrigins::default().check(request.finish().head())
    };
    let here: &[u8] = b"https://relay.example";
    assert_eq!(check(&[], "/"), Ok(()));
    assert_eq!(check(&[here], "/"), Ok(()));
    assert_eq!(check(&[here, here], "/"), Err(OriginError::Ambiguous));
    assert_eq!(check(&[b"https://\xff"], "/"), Err(OriginError::Malformed));
    let elsewhere = "http://other.example/";
    assert_eq!(check(&[here], elsewhere), Err(OriginError::NotAllowed));
    assert_eq!(check(&[b"http://other.example"], elsewhere), Ok(()));
}

/// A scheme, a host and a port, in lower case.
fn parts() -> impl Strategy<Value = (String, String, Option<u16>)> {
    let scheme = prop_oneof![
        Just("http".to_owned()),
        Just("https".to_owned()),
        "[a-z]{1,6}"
    ];
    let host = prop_oneof![
        "[a-z0-9]{1,8}(\\.[a-z]{2,5}){0,2}",
        any::<[u16; 8]>().prop_map(|groups| format!("[{}]", Ipv6Addr::from(groups))),
    ];
    (scheme, host, any::<Option<u16>>())
}

fn spelled((scheme, host, port): &(String, String, Option<u16>)) -> String {
    match port {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

fn effective((scheme, host, port): &(String, String, Option<u16>)) -> (&str, &str, Option<u16>) {
    (scheme, host, port.or_else(|| default_port(scheme)))
}

proptest! {
    /// TR-12: a list allows exactly the origin that it names, in any case.
    #[test]
    fn exactly_the_named_origin_is_allowed(named in parts(), asked in parts()) {
        prop_assume!(spelled(&named) != SAME_HOST);
        let list: AllowedOrigins = spelled(&named).parse().unwrap();
        for spelling in [spelled(&named), spelled(&named).to_uppercase(), list.to_string()] {
            prop_assert_eq!(list.judge(&spelling, None), Ok(()));
        }
        let same = effective(&named) == effective(&asked);
        prop_assert_eq!(list.judge(&spelled(&asked), None).is_ok(), same);
    }

    /// TR-12: under the default an origin passes if the request names its host and port, and never
    /// if it names another host.
    #[test]
    fn exactly_the_same_host_is_allowed(page in parts(), other in parts()) {
        let (scheme, host, port) = effective(&page);
        if let Some(port) = port {
            let named = format!("{host}:{port}");
            prop_assert_eq!(same_host(&spelled(&page), &named), Ok(()));
            let elsewhere = format!("{host}:{}", port ^ 1);
            prop_assert!(same_host(&spelled(&page), &elsewhere).is_err());
        }
        let unnamed = matches!((scheme, port), (_, Some(80 | 443)));
        prop_assert_eq!(same_host(&spelled(&page), host).is_ok(), unnamed);
        if other.1 != host {
            prop_assert!(same_host(&spelled(&page), &other.1).is_err());
        }
    }

    /// TR-12: no text makes the judge fail, and what passes begins like an origin of that host.
    #[test]
    fn any_text_is_judged(origin in ".{0,40}", host in ".{0,20}") {
        if same_host(&origin, &host).is_ok() {
            let (_, rest) = origin.split_once("://").unwrap();
            let name = Authority::parse(&host).unwrap().host;
            prop_assert_eq!(Authority::parse(rest).unwrap().host, name);
        }
    }
}
