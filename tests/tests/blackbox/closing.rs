//! Close frames of a client, every code and every form (RFC 6455, 5.5.1 and 7.4; TR-4).

use relay_tests::blackbox::{Account, OpCode, RawFrame, RawSocket, Relay, encode};
use serde_json::json;

async fn registered_desktop(relay: &Relay) -> RawSocket {
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut raw = relay.raw(&device).await;
    raw.register(&device).await;
    raw
}

/// Sends bytes that hold a close frame, and returns the relay's, behind which the end comes at once.
async fn closed_by(raw: &mut RawSocket, bytes: &[u8]) -> RawFrame {
    raw.send(bytes).await;
    let close = raw.next_frame_but_ping().await;
    assert_eq!(close.op, OpCode::Close, "{}", bytes.escape_ascii());
    raw.expect_end().await;
    close
}

/// RFC 6455, 7.4: a code that a client may send is sent back; one that nobody may send, or that no
/// range holds, is a violation.
#[tokio::test]
async fn every_code_is_answered() {
    let relay = Relay::start().await;
    let mine = [
        0, 1, 16, 999, 1000, 1016, 1100, 1999, 2000, 2999, 3000, 3999,
    ];
    let edges = [4000_u16, 4401, 4999, 5000, 5001, 9999, 32_768, 65_535];
    for code in (1000_u16..=1015).chain(mine).chain(edges) {
        let may_be_sent = match code {
            1000..=1003 | 1007..=1014 | 3000..=4999 => true,
            0..1000 | 1004..=1006 | 1015..3000 | 5000.. => false,
        };
        let answer = if may_be_sent { code } else { 1002 };
        for reason in ["", "bye", "Füße 😀"] {
            let payload = [&code.to_be_bytes(), reason.as_bytes()].concat();
            let mut raw = registered_desktop(&relay).await;
            let close = closed_by(&mut raw, &encode(OpCode::Close, true, &payload)).await;
            assert_eq!(close.close_code(), Some(answer), "{code} {reason}");
        }
    }
}

/// RFC 6455, 5.5.1: without a code, with half a code, with a reason that is no UTF-8, too long, in
/// fragments.
#[tokio::test]
async fn every_form_is_answered() {
    let relay = Relay::start().await;
    let longest = [&b"\x03\xe8"[..], &[b'x'; 123]].concat();
    for (payload, code) in [
        (&b""[..], None),
        (b"\x03", Some(1002)),
        (b"\x03\xe8\xff", Some(1007)),
        (b"\x03\xe8\xed\xa0\x80", Some(1007)),
        (b"\x03\xe8cut \xe2\x82", Some(1007)),
        // What is wrong with the code is told before the reason.
        (b"\x03\xed\xff", Some(1002)),
        (&longest, Some(1000)),
    ] {
        let mut raw = registered_desktop(&relay).await;
        let close = closed_by(&mut raw, &encode(OpCode::Close, true, payload)).await;
        assert_eq!(close.close_code(), code, "{}", payload.escape_ascii());
    }
    let too_long = encode(OpCode::Close, true, &[&longest[..], b"x"].concat());
    let in_fragments = encode(OpCode::Close, false, b"\x03\xe8");
    for bytes in [too_long, in_fragments] {
        let mut raw = registered_desktop(&relay).await;
        let close = closed_by(&mut raw, &bytes).await;
        assert_eq!(close.close_code(), Some(1002));
    }
}

/// RFC 6455, 5.5.1: before registration, in the middle of a message, and with more behind it, of
/// which nothing is read.
#[tokio::test]
async fn a_close_is_the_last_word() {
    let relay = Relay::start().await;
    let goodbye = encode(OpCode::Close, true, b"\x0f\xa0done");
    let ping = encode(OpCode::Text, true, br#"{"type":"ping"}"#);
    let begun = encode(OpCode::Text, false, br#"{"type":"#);
    for bytes in [
        goodbye.clone(),
        [goodbye.clone(), ping.clone(), ping].concat(),
        [goodbye.clone(), vec![0xFF; 1_000]].concat(),
        [goodbye.clone(), goodbye.clone()].concat(),
        [begun, goodbye].concat(),
    ] {
        let mut unregistered = relay.raw(&Account::new().new_phone()).await;
        let mut registered = registered_desktop(&relay).await;
        for raw in [&mut unregistered, &mut registered] {
            let close = closed_by(raw, &bytes).await;
            assert_eq!(close.close_code(), Some(4000));
        }
    }
}

/// OP-5, PR-2: a client's close ends its route, whatever its code, and is told as the client's.
#[tokio::test]
async fn a_close_ends_the_route() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut phone = relay.phone(&device).await;
    for code in [1000_u16, 1001, 1006, 4999] {
        let mut raw = relay.raw(&device).await;
        raw.register(&device).await;
        assert_eq!(phone.next_status().await["status"], "online");
        closed_by(&mut raw, &encode(OpCode::Close, true, &code.to_be_bytes())).await;
        assert_eq!(phone.next_status().await["status"], "reconnecting");
        phone.request(&format!("r{code}"), "m", json!(1)).await;
        assert_eq!(phone.next_response().await["error"]["code"], -32011);
    }
    phone.assert_all_read();
}
