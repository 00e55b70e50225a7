//! What is taken, what is refused and with which words.

use proptest::prelude::*;

use super::*;

fn refused(text: &str) -> (ErrorCode, String, Option<String>) {
    match ClientFrame::read(text) {
        Ok(frame) => panic!("{text:?} was taken as {frame:?}"),
        Err(error) => (error.code, error.message, error.request_type),
    }
}

/// TR-7: what is not JSON, at any depth and size.
#[test]
fn text_that_is_not_json() {
    let deep = "[".repeat(100_000);
    let deep_payload = format!(r#"{{"type":"ping","payload":{deep}"#);
    for text in [
        "",
        " ",
        "{",
        "nul",
        "[1,",
        r#"{"type":"ping"} x"#,
        r#"{"type":"ping",}"#,
        r#"{"type":5,"payload":{]}"#,
        r#"{"type":"rpc.request","payload":{"id":01}}"#,
        "{\"type\":\"ping\",\"x\":\"\u{1}\"}",
        &deep,
        &deep_payload,
    ] {
        let (code, message, request_type) = refused(text);
        assert_eq!(code, ErrorCode::InvalidJson, "{text:.40}");
        assert!(message.starts_with("the frame is not JSON") && request_type.is_none());
    }
}

/// TR-7, ENV-3: each defect has its code, a message that names the field, and the frame's type
/// where that can be read.
#[test]
fn payloads_that_are_wrong() {
    let (request, response) = ("rpc.request", "rpc.response");
    for (text, field, request_type) in [
        ("[1,2]", "the frame must be", None),
        ("5", "the frame must be", None),
        (r#""x""#, "the frame must be", None),
        ("{}", "type must", None),
        (r#"{"type":null}"#, "type must", None),
        (r#"{"type":5}"#, "type must", None),
        (r#"{"type":"\ud800"}"#, "type must", None),
        (r#"{"type":"ping","type":"ping"}"#, "type stands", None),
        (
            r#"{"type":"register"}"#,
            "payload is missing",
            Some("register"),
        ),
        (
            r#"{"type":"register","payload":null}"#,
            "payload is missing",
            Some("register"),
        ),
        (
            r#"{"type":"register","payload":[1]}"#,
            "payload must",
            Some("register"),
        ),
        (
            r#"{"payload":7,"type":"register"}"#,
            "payload must",
            Some("register"),
        ),
        (
            r#"{"type":"register","payload":{},"payload":{}}"#,
            "payload stands",
            Some("register"),
        ),
        (
            r#"{"type":"register","payload":{}}"#,
            "payload.deviceId",
            Some("register"),
        ),
        (
            r#"{"type":"register","payload":{"deviceId":1}}"#,
            "payload.deviceId",
            Some("register"),
        ),
        (
            r#"{"type":"register","payload":{"deviceId":"a","deviceId":"b"}}"#,
            "payload.deviceId",
            Some("register"),
        ),
        (
            r#"{"type":"register","payload":{"deviceId":"a","sessionId":1}}"#,
            "payload.sessionId",
            Some("register"),
        ),
        (
            r#"{"type":"rpc.request","payload":{"method":"m"}}"#,
            "payload.id",
            Some(request),
        ),
        (
            r#"{"type":"rpc.request","payload":{"id":null}}"#,
            "payload.id",
            Some(request),
        ),
        (
            r#"{"type":"rpc.request","payload":{"id":"\ud800"}}"#,
            "payload.id",
            Some(request),
        ),
        (
            r#"{"type":"rpc.request","payload":{"id":"a","method":1}}"#,
            "payload.method",
            Some(request),
        ),
        (
            r#"{"type":"rpc.request","payload":{"id":"a","method":"m","params":1,"params":2}}"#,
            "payload.params",
            Some(request),
        ),
        (
            r#"{"type":"rpc.response","payload":{"id":"a"}}"#,
            "payload.result",
            Some(response),
        ),
        (
            r#"{"type":"rpc.response","payload":{"id":"a","error":null}}"#,
            "payload.result",
            Some(response),
        ),
        (
            r#"{"type":"rpc.response","payload":{"id":"a","error":"x"}}"#,
            "payload.error",
            Some(response),
        ),
        (
            r#"{"type":"rpc.response","payload":{"id":"a","error":{"code":1.5,"message":""}}}"#,
            "payload.error.code",
            Some(response),
        ),
        (
            r#"{"type":"rpc.response","payload":{"id":"a","error":{"code":1}}}"#,
            "payload.error.message",
            Some(response),
        ),
        (
            r#"{"type":"rpc.response","payload":{"id":"a","result":1,"isFinal":"yes"}}"#,
            "payload.isFinal",
            Some(response),
        ),
        (
            r#"{"type":"heartbeat","payload":[]}"#,
            "payload must",
            Some("heartbeat"),
        ),
        (r#"{"type":"ping","\ud800":1}"#, "cannot be read", None),
        (
            r#"{"type":"register","payload":1e999}"#,
            "cannot be read",
            None,
        ),
    ] {
        let (code, message, kind) = refused(text);
        assert_eq!(code, ErrorCode::InvalidPayload, "{text}: {message}");
        assert!(message.contains(field), "{text}: {message}");
        assert_eq!(kind.as_deref(), request_type, "{text}");
    }
}

/// TR-7: unknown types, terminal frames of older clients among them.
#[test]
fn unknown_types() {
    for kind in ["x", "", "Ping", "terminal.binary.open", "rpc.request "] {
        let (code, _, request_type) = refused(&format!(r#"{{"type":"{kind}"}}"#));
        assert_eq!(code, ErrorCode::UnknownMessageType);
        assert_eq!(request_type.as_deref(), Some(kind));
    }
}

/// Frames of older clients are taken without an answer, whatever else stands in them.
#[test]
fn frames_of_older_clients_are_ignored() {
    for text in [
        r#"{"type":"pong"}"#,
        r#" {"type":"event-ack","payload":[{"id":1}]} "#,
    ] {
        assert!(
            matches!(ClientFrame::read(text), Ok(ClientFrame::Ignored)),
            "{text}"
        );
    }
    let older =
        r#"{"type":"register","payload":{"deviceId":"a","lastEventId":[5],"deviceName":1}}"#;
    assert!(matches!(
        ClientFrame::read(older),
        Ok(ClientFrame::Register(_))
    ));
}

/// REG-4: which protocol versions can be parsed.
#[test]
fn protocol_versions() {
    use ProtocolVersion::{Invalid, Missing, Number};
    for (sent, expected) in [
        ("null", Missing),
        ("1", Number(1)),
        ("-3", Number(-3)),
        ("99999999999999999999", Number(i64::MAX)),
        ("-99999999999999999999", Number(i64::MIN)),
        (r#""0""#, Number(0)),
        (r#""123456789""#, Number(123_456_789)),
        (r#""1234567890""#, Invalid),
        (r#""""#, Invalid),
        (r#""+1""#, Invalid),
        (r#""-1""#, Invalid),
        (r#"" 1""#, Invalid),
        (r#""١""#, Invalid),
        ("1.0", Invalid),
        ("1e2", Invalid),
        ("true", Invalid),
        ("[1]", Invalid),
    ] {
        let text = format!(
            r#"{{"type":"register","payload":{{"deviceId":"a","relayProtocolVersion":{sent}}}}}"#
        );
        let Ok(ClientFrame::Register(register)) = ClientFrame::read(&text) else {
            panic!("{text}");
        };
        assert_eq!(register.protocol_version, expected, "{sent}");
    }
}

/// REG-5: null and empty leave the target to the header.
#[test]
fn targets() {
    let id = "123e4567-e89b-12d3-a456-426614174000";
    let quoted = format!("{:?}", id.to_uppercase());
    for (sent, expected) in [
        ("null", TargetField::Absent),
        (r#""""#, TargetField::Absent),
        ("5", TargetField::Invalid),
        (r#""x""#, TargetField::Invalid),
        (quoted.as_str(), TargetField::Device(id.parse().unwrap())),
    ] {
        let text = format!(
            r#"{{"type":"register","payload":{{"deviceId":"a","targetDesktopDeviceId":{sent}}}}}"#
        );
        let Ok(ClientFrame::Register(register)) = ClientFrame::read(&text) else {
            panic!("{text}");
        };
        assert_eq!(register.target, expected, "{sent}");
    }
}

/// RPC-10: `traceparent` of the payload or the root; an invalid one is dropped and the request
/// goes on.
#[test]
fn traces() {
    let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let other = good.replace("-01", "-00");
    for (in_payload, at_root, expected) in [
        (None, None, None),
        (Some(good), None, Some(good)),
        (None, Some(good), Some(good)),
        (Some("bad"), Some(good), Some(good)),
        (Some(good), Some(other.as_str()), Some(good)),
        (Some("bad"), Some("bad"), None),
    ] {
        let field = |value: Option<&str>| {
            value.map_or(String::new(), |value| {
                format!(r#","traceparent":"{value}""#)
            })
        };
        let text = format!(
            r#"{{"type":"rpc.request"{},"payload":{{"id":"a","method":"m"{}}}}}"#,
            field(at_root),
            field(in_payload)
        );
        let Ok(ClientFrame::Request(request)) = ClientFrame::read(&text) else {
            panic!("{text}");
        };
        assert_eq!(request.traceparent.as_deref(), expected, "{text}");
    }
}

/// TR-6: only a request with an id and a valid trace can be told that it was dropped.
#[test]
fn dropped_requests() {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let request = |kind: &str, id: &str, trace: &str| {
        format!(r#"{{"type":"{kind}","payload":{{"id":{id},"traceparent":"{trace}"}}}}"#)
    };
    let told = request("rpc.request", r#""a""#, trace);
    assert_eq!(dropped_request_id(&told).as_deref(), Some("a"));
    for text in [
        request("rpc.request", r#""a""#, "bad"),
        request("rpc.request", r#""""#, trace),
        request("rpc.request", "5", trace),
        request("rpc.response", r#""a""#, trace),
        "{".to_owned(),
    ] {
        assert_eq!(dropped_request_id(&text), None, "{text}");
    }
}

fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?",
        "\"([a-zA-Z_ é]|\\\\n|\\\\\"|\\\\ud800|\\\\u0000){0,12}\"",
    ];
    let space = "[ \t\n\r]{0,3}";
    leaf.prop_recursive(4, 32, 4, move |inner| {
        let members = prop::collection::vec(("[a-c_]{0,2}", inner.clone()), 0..4);
        let items = prop::collection::vec(inner, 0..4);
        prop_oneof![
            (members, space).prop_map(|(members, space)| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(key, value)| format!("{space}\"{key}\"{space}:{space}{value}"))
                    .collect();
                format!("{{{}{space}}}", members.join(","))
            }),
            (items, space).prop_map(|(items, space)| {
                format!("[{space}{}]", items.join(&format!("{space},")))
            }),
        ]
    })
}

proptest! {
    /// TR-8: whatever the opaque value, the order of the keys and the white space, the value is
    /// found byte for byte, in one pass (type first) as in two (payload first).
    #[test]
    fn opaque_values_are_found_byte_for_byte(
        value in any_json(),
        payload_first in any::<bool>(),
        params_first in any::<bool>(),
        space in "[ \t\n\r]{0,3}",
    ) {
        let params = format!(r#""params":{space}{value}"#);
        let rest = r#""id":"a","method":"m","x":{"params":1}"#;
        let fields = if params_first { format!("{params},{rest}") } else { format!("{rest},{params}") };
        let payload = format!(r#""payload"{space}:{{{fields}{space}}}"#);
        let kind = r#""type":"rpc.request""#;
        let root = if payload_first { format!("{payload},{kind}") } else { format!("{kind},{payload}") };
        let text = format!("{space}{{{space}{root}{space}}}{space}");
        match ClientFrame::read(&text) {
            Ok(ClientFrame::Request(request)) => {
                prop_assert_eq!(request.params.map(RawValue::get), Some(value.as_str()));
                prop_assert_eq!(&*request.id, "a");
            }
            other => prop_assert!(false, "{text}: {other:?}"),
        }
    }

    /// TR-7: no text makes the reading panic, and what is taken was JSON.
    #[test]
    fn any_text_is_judged(text in "[\\[\\]{}\",:a-e0-9\\\\ ]{0,60}") {
        let text = text.replace('a', "type").replace('b', "payload").replace('c', "ping");
        if ClientFrame::read(&text).is_ok() {
            prop_assert!(serde_json::from_str::<IgnoredAny>(&text).is_ok());
        }
    }
}
