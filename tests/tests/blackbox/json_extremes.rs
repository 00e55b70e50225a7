//! JSON that is legal and absurd, or nearly legal: the relay's stack holds, nothing of what it does
//! not read is touched, and the connection is what it was (TR-7, TR-8).

use relay_tests::blackbox::{Account, Relay, Socket};
use serde_json::json;

const DEPTH: usize = 100_000;
const MIB: usize = 1024 * 1024;

/// A desktop and a phone on it.
async fn pair(relay: &Relay) -> (Socket, Socket) {
    let desktop = relay.desktop(&Account::new()).await;
    let phone = relay.phone(&desktop.device).await;
    (desktop, phone)
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

/// Sends `text` through every place that is opaque and checks that it arrives as it was.
async fn passes(desktop: &mut Socket, phone: &mut Socket, id: &str, text: &str) {
    let request = format!(r#"{{"id":"{id}","method":"m","params":{text}}}"#);
    send(phone, "rpc.request", &request).await;
    let request = desktop.take_kind("rpc.request").await;
    assert!(request.raw_member("params") == text, "{id}: params");

    let partial = format!(r#"{{"id":"{id}","result":{text},"isFinal":false}}"#);
    send(desktop, "rpc.response", &partial).await;
    let response = phone.take_kind("rpc.response").await;
    assert!(response.raw_member("result") == text, "{id}: result");

    let failure = format!(r#"{{"id":"{id}","error":{{"code":1,"message":"m","data":{text}}}}}"#);
    send(desktop, "rpc.response", &failure).await;
    let response = phone.take_kind("rpc.response").await;
    let error = response.raw_member("error");
    assert!(error.contains(&format!(r#""data":{text}"#)), "{id}: data");

    passes_as_event(desktop, phone, id, text).await;
    passes_as_event(phone, desktop, id, text).await;
}

async fn passes_as_event(sender: &mut Socket, receiver: &mut Socket, id: &str, text: &str) {
    let event = format!(r#"{{"eventType":"x","payload":{text}}}"#);
    send(sender, "event", &event).await;
    let event = receiver.next_event("x").await;
    assert!(event.raw_member("payload") == text, "{id}: payload");
}

async fn send(socket: &mut Socket, kind: &str, payload: &str) {
    socket
        .send_text(&format!(r#"{{"type":"{kind}","payload":{payload}}}"#))
        .await;
}

/// TR-8: values that are nested 100,000 deep pass through every opaque place.
#[tokio::test]
async fn deep_values_pass() {
    let relay = Relay::start().await;
    let (mut desktop, mut phone) = pair(&relay).await;
    for (id, text) in [
        ("arrays", nested("[", "1", "]", DEPTH)),
        ("objects", nested(r#"{"a":"#, "1", "}", DEPTH)),
        (
            "both",
            nested(r#"[{"a_":[ "#, "-0", r#" ],"b":[]}]"#, DEPTH),
        ),
    ] {
        passes(&mut desktop, &mut phone, id, &text).await;
    }
}

/// TR-8: a MiB of white space is the value's where it stands inside it, keys come twice, numbers are
/// of any length, and strings hold whatever JSON can write.
#[tokio::test]
async fn wide_values_pass() {
    let relay = Relay::start().await;
    let (mut desktop, mut phone) = pair(&relay).await;
    let space = " \t\r\n".repeat(MIB / 4);
    let digits = "7".repeat(400);
    for (id, text) in [
        ("space", format!("[{space}]")),
        ("space in an object", format!(r#"{{{space}"a"{space}:1}}"#)),
        ("a MiB of digits", "3".repeat(MIB)),
        ("400 digits", format!("[-{digits},{digits}.{digits},1E+{digits}]")),
        ("numbers", "[-0,-0.0,0e0,1e400,-1E-400,1.10,10e-1]".to_owned()),
        (
            "keys again",
            r#"{"a":1,"a":{"b":1,"b":2,"\u0062":3},"\u0061":2,"":0,"":1}"#.to_owned(),
        ),
        (
            "names of the envelope",
            r#"{"type":"ping","type":"ping","payload":{},"id":1,"id":2,"eventType":"device-status","eventType":1,"isFinal":false,"clientId":"x","userId":"y","authorizationGeneration":1}"#
                .to_owned(),
        ),
        ("underscores", r#"{"_":{"a_b":{"__":[{"_c":1}]}}}"#.to_owned()),
        (
            "surrogates and NUL",
            r#"["\ud800","\uDBFF\ud800","\udfff","\u0000","\u0000\ud83d\ude00",{"\ud800":"\u0000"},"\ud800\u0041"]"#
                .to_owned(),
        ),
        (
            "many members",
            format!("{{{}\"z\":0}}", r#""k":0,"#.repeat(100_000)),
        ),
        ("escapes", r#"{"\u0069\u0064":"\/\u002F/\b\f\n\r\t\"\\"}"#.to_owned()),
    ] {
        passes(&mut desktop, &mut phone, id, &text).await;
    }
}

/// TR-7, TR-8: depth, width and repeats in the envelope itself, before and behind what the relay
/// looks for: read or refused, and the stack holds.
#[tokio::test]
async fn deep_envelopes_are_read_or_refused() {
    let relay = Relay::start().await;
    let (mut desktop, _phone) = pair(&relay).await;
    let arrays = nested("[", "", "]", DEPTH);
    let objects = nested(r#"{"type":"#, "1", "}", DEPTH);
    let space = " \n".repeat(MIB / 2);
    for text in [
        format!(r#"{{"x":{arrays},"type":"ping"}}"#),
        format!(r#"{{"type":"ping","x":{objects}}}"#),
        format!(r#"{{"type":"ping","payload":{arrays}}}"#),
        format!(r#"{{"payload":{objects},"type":"ping"}}"#),
        format!(r#"{space}{{{space}"type"{space}:{space}"ping"{space}}}{space}"#),
        format!(r#"{{{}"type":"ping"}}"#, r#""x":1,"#.repeat(100_000)),
        format!(r#"{{"type":"heartbeat","payload":{{"status":{arrays},"x":{objects}}}}}"#),
    ] {
        desktop.send_text(&text).await;
        desktop.expect_pong().await;
    }
    for (code, text) in [
        ("invalidJson", "[".repeat(DEPTH)),
        ("invalidJson", "]".repeat(DEPTH)),
        ("invalidJson", r#"{"type":"#.repeat(DEPTH)),
        ("invalidJson", r#"{"type":"ping","payload":"#.repeat(DEPTH)),
        (
            "invalidJson",
            format!(r#"{{"type":"ping","x":{}"#, "[".repeat(MIB)),
        ),
        ("invalidJson", " ".repeat(MIB)),
        ("invalidJson", "\0".repeat(MIB)),
        ("invalidPayload", arrays.clone()),
        ("invalidPayload", objects.clone()),
        ("invalidPayload", format!(r#"{{"type":{arrays}}}"#)),
        (
            "invalidPayload",
            format!(r#"{{"type":"event","payload":{arrays}}}"#),
        ),
        (
            "invalidPayload",
            format!(r#"{{"type":"event","payload":{objects}}}"#),
        ),
        (
            "invalidPayload",
            format!(r#"{{"type":"event","payload":{{"eventType":{objects}}}}}"#),
        ),
        (
            "invalidPayload",
            format!(r#"{{"type":"rpc.response","payload":{{"id":{arrays},"result":1}}}}"#),
        ),
    ] {
        desktop.send_text(&text).await;
        desktop.expect_error(code).await;
    }
    desktop.ping().await;
    desktop.assert_all_read();
}

/// TR-7: before registration too, where 64 KiB are allowed; a `register` may hold depth that nobody
/// reads.
#[tokio::test]
async fn deep_registrations() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut socket = relay.upgrade(&device).await;
    let deep = nested("[", "", "]", 30_000);
    for (code, text) in [
        ("invalidJson", "[".repeat(60_000)),
        ("invalidPayload", deep.clone()),
        (
            "invalidPayload",
            format!(r#"{{"type":"register","payload":{{"deviceId":{deep}}}}}"#),
        ),
        (
            "registrationRequired",
            format!(r#"{{"type":"rpc.request","payload":{deep}}}"#),
        ),
    ] {
        socket.send_text(&text).await;
        socket.expect_error(code).await;
    }
    let payload = device.registration().to_string();
    let payload = payload.strip_suffix('}').unwrap();
    let register = format!(r#"{{"type":"register","payload":{payload},"deep":{deep}}}}}"#);
    socket.send_text(&register).await;
    assert_eq!(socket.next().await["type"], "registered");
}

/// TR-7: strings in the fields that the relay does read: what is no text is refused in its place, what
/// is text passes, whatever it looks like.
#[tokio::test]
async fn strings_that_the_relay_reads() {
    let relay = Relay::start().await;
    let (mut desktop, mut phone) = pair(&relay).await;
    for text in [
        r#"{"type":"\ud800"}"#,
        r#"{"type":"event","payload":{"eventType":"\ud800","payload":1}}"#,
        r#"{"type":"event","payload":{"eventType":"x\udc00y","payload":1}}"#,
        r#"{"type":"rpc.request","payload":{"id":"\udfff","method":"m"}}"#,
        r#"{"type":"rpc.request","payload":{"id":"r","method":"\ud800"}}"#,
    ] {
        phone.send_text(text).await;
        phone.expect_error("invalidPayload").await;
    }
    for text in [
        "{\"type\":\"pi\0ng\"}",
        "{\"type\":\"event\",\"payload\":{\"eventType\":\"x\",\"payload\":\"\0\"}}",
        "{\"type\":\"event\",\"payload\":{\"eventType\":\"x\",\"payload\":\"\n\"}}",
        "\u{0}{\"type\":\"ping\"}",
        r#"{"type":"event","payload":{"eventType":"x","payload":"\u12"}}"#,
        r#"{"type":"event","payload":{"eventType":"x","payload":"\x00"}}"#,
        r#"{"type":"event","payload":{"eventType":"x","payload":01}}"#,
        r#"{"type":"event","payload":{"eventType":"x","payload":+1}}"#,
        r#"{"type":"event","payload":{"eventType":"x","payload":1.}}"#,
        r#"{"type":"event","payload":{"eventType":"x","payload":NaN}}"#,
        r#"{"type":"event","payload":{"eventType":"x","payload":-}}"#,
        r#"{"type":"event","payload":{"eventType":"x","payload":[1,]}}"#,
    ] {
        phone.send_text(text).await;
        phone.expect_error("invalidJson").await;
    }
    // Escapes of the names are the names.
    phone
        .send_text(r#"{"\u0074ype":"e\u0076ent","payl\u006fad":{"eventTyp\u0065":"a_b\u0000","payload":-0}}"#)
        .await;
    let event = desktop.take_kind("event").await;
    assert_eq!(event.event_type.as_deref(), Some("a_b\0"));
    assert_eq!(event.raw_member("payload"), "-0");
    phone
        .send_text(r#"{"\u0074ype":"ping","type":"ping"}"#)
        .await;
    phone.expect_error("invalidPayload").await;
    let request = json!({ "id": "a_b\u{0}\u{7f}\u{2028}", "method": "m\u{0}" });
    phone
        .send(&json!({ "type": "rpc.request", "payload": request }))
        .await;
    let arrived = desktop.next_request().await;
    assert_eq!(arrived["id"], request["id"]);
    assert_eq!(arrived["method"], request["method"]);
    desktop.answer(&arrived, json!(1)).await;
    assert_eq!(phone.next_response().await["id"], request["id"]);
    phone.assert_all_read();
}
