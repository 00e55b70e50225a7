//! The WebSocket protocol itself, right and wrong, byte by byte (TR-1, TR-3, TR-4).

use relay_tests::blackbox::{Account, OpCode, RawSocket, Relay, encode, header};
use serde_json::json;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

async fn registered_desktop(relay: &Relay) -> RawSocket {
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut raw = relay.raw(&device).await;
    raw.register(&device).await;
    raw
}

/// Sends bytes on a fresh, registered connection and expects a close with `code`, then the end.
async fn violates(relay: &Relay, bytes: &[u8], code: u16) {
    let mut raw = registered_desktop(relay).await;
    raw.send(bytes).await;
    let close = raw.next_frame().await;
    assert_eq!(close.close_code(), Some(code), "{}", bytes.escape_ascii());
    raw.expect_end().await;
}

/// TR-4: a frame that breaks RFC 6455 ends the connection with 1002.
#[tokio::test]
async fn violations_close_with_1002() {
    let relay = Relay::start().await;
    let ping = encode(OpCode::Text, true, br#"{"type":"ping"}"#);
    let mut reserved = ping.clone();
    reserved[0] |= 0x40;
    let mut unmasked = b"\x81\x0f{\"type\":\"ping\"}".to_vec();
    unmasked.extend(&ping);
    let mut opcode = ping.clone();
    opcode[0] = 0x83;
    let mut control_opcode = ping.clone();
    control_opcode[0] = 0x8B;
    let mut overlong_length = vec![0x81, 0x80 | 126, 0, 5, 0, 0, 0, 0];
    overlong_length.extend(b"12345");
    let negative_length = [vec![0x81, 0xFF, 0x80], vec![0; 11]].concat();
    let text_in_text = [
        encode(OpCode::Text, false, b"{"),
        encode(OpCode::Text, true, b"}"),
    ]
    .concat();
    for bytes in [
        reserved,
        unmasked,
        opcode,
        control_opcode,
        overlong_length,
        negative_length,
        text_in_text,
        encode(OpCode::Continuation, true, b"x"),
        encode(OpCode::Ping, false, b"x"),
        encode(OpCode::Ping, true, &[b'x'; 126]),
        encode(OpCode::Close, true, &[3]),
        encode(OpCode::Close, true, &999_u16.to_be_bytes()),
        encode(OpCode::Close, true, &1005_u16.to_be_bytes()),
        encode(OpCode::Close, true, &1006_u16.to_be_bytes()),
    ] {
        violates(&relay, &bytes, 1002).await;
    }
}

/// TR-4: text that is not UTF-8 ends the connection with 1007, also over fragments, and as soon as
/// it is certain.
#[tokio::test]
async fn bad_utf8_closes_with_1007() {
    let relay = Relay::start().await;
    let euro = "€".as_bytes();
    for frames in [
        vec![encode(OpCode::Text, true, b"\xff")],
        vec![encode(OpCode::Text, true, b"\"\xed\xa0\x80\"")],
        vec![encode(OpCode::Text, true, b"\xc0\xaf")],
        vec![encode(OpCode::Text, true, &euro[..2])],
        vec![
            encode(OpCode::Text, false, &euro[..1]),
            encode(OpCode::Continuation, true, b"x"),
        ],
        // Certain before the message has ended.
        vec![encode(OpCode::Text, false, b"\xff")],
        vec![
            encode(OpCode::Text, false, &euro[..2]),
            encode(OpCode::Continuation, false, b"\x20"),
        ],
        vec![encode(OpCode::Close, true, b"\x03\xe8\xff")],
    ] {
        violates(&relay, &frames.concat(), 1007).await;
    }
}

/// TR-1, TR-4: one message in 1, 2 or 50 fragments, characters cut, pings between: it arrives the
/// same, and the pings are answered at once.
#[tokio::test]
async fn fragments_make_one_message() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let phone = desktop
        .device
        .account
        .new_phone()
        .targeting(&desktop.device);
    relay.enrol(&phone).await;
    let mut raw = relay.raw(&phone).await;
    raw.register(&phone).await;
    raw.next_json().await;
    for fragments in [1, 2, 50] {
        let id = format!("in {fragments}");
        let text = json!({
            "type": "rpc.request",
            "payload": { "id": id, "method": "m", "params": "é€😀".repeat(60) },
        })
        .to_string();
        let size = text.len().div_ceil(fragments);
        let count = text.len().div_ceil(size);
        for (number, part) in text.as_bytes().chunks(size).enumerate() {
            let op = if number == 0 {
                OpCode::Text
            } else {
                OpCode::Continuation
            };
            raw.send(&encode(op, number + 1 == count, part)).await;
            if number + 1 < count {
                let mark = format!("{fragments}.{number}");
                raw.send(&encode(OpCode::Ping, true, mark.as_bytes())).await;
                let pong = raw.next_frame_but_ping().await;
                assert_eq!(pong.op, OpCode::Pong);
                assert_eq!(pong.payload, mark.as_bytes());
            }
        }
        let request = desktop.next_request().await;
        assert_eq!(request["id"], id);
        assert_eq!(request["params"], "é€😀".repeat(60));
    }
    // Empty fragments, and one byte at a time.
    let ping = encode(OpCode::Text, false, br#"{"type":"ping""#);
    let rest = [
        encode(OpCode::Continuation, false, b""),
        encode(OpCode::Continuation, true, b"}"),
    ]
    .concat();
    for byte in [ping, rest].concat() {
        raw.send(&[byte]).await;
    }
    assert_eq!(raw.next_json().await, json!({ "type": "pong" }));
}

/// TR-3: before registration 64 KiB, decided from the header.
#[tokio::test]
async fn small_messages_only_before_registration() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    let mut raw = relay.raw(&device).await;
    let fits = format!("[\"{}\"]", "x".repeat(64 * KIB - 4));
    raw.send_text(&fits).await;
    assert_eq!(raw.next_json().await["code"], "invalidPayload");
    raw.send(&header(OpCode::Text, true, (64 * KIB + 1) as u64))
        .await;
    let close = raw.next_frame().await;
    assert_eq!(close.close_code(), Some(1009));
    raw.expect_end().await;

    // As fragments: the second one's header decides.
    let mut raw = relay.raw(&device).await;
    raw.send(&encode(OpCode::Text, false, &[b'x'; 64 * KIB]))
        .await;
    raw.send(&header(OpCode::Continuation, false, 1)).await;
    let close = raw.next_frame().await;
    assert_eq!(close.close_code(), Some(1009));
    raw.expect_end().await;
}

/// TR-3: after registration 32 MiB, decided from the header, whatever length it announces.
#[tokio::test]
async fn messages_over_32_mib_close_with_1009() {
    let relay = Relay::start().await;
    for length in [32 * MIB as u64 + 1, 1 << 30, i64::MAX as u64] {
        violates(&relay, &header(OpCode::Text, true, length), 1009).await;
        violates(&relay, &header(OpCode::Binary, true, length), 1009).await;
    }
}

/// TR-3: the limit holds for the sum of a message's fragments; exactly 32 MiB are taken.
#[tokio::test]
async fn the_limit_is_that_of_the_whole_message() {
    let relay = Relay::start().await;
    let mut raw = registered_desktop(&relay).await;
    let part = vec![b'x'; 8 * MIB];
    raw.send(&encode(OpCode::Binary, false, &part)).await;
    for _ in 0..2 {
        raw.send(&encode(OpCode::Continuation, false, &part)).await;
    }
    raw.send(&encode(OpCode::Continuation, true, &part)).await;
    assert_eq!(raw.next_json().await["code"], "unsupportedFrame");

    raw.send(&encode(OpCode::Binary, false, &part)).await;
    for _ in 0..3 {
        raw.send(&encode(OpCode::Continuation, false, &part)).await;
    }
    raw.send(&header(OpCode::Continuation, true, 1)).await;
    raw.expect_close_frame(1009).await;
    raw.expect_end().await;
}

/// TR-3: what the relay sends over 1 MiB comes in fragments of at most 1 MiB, and pongs between.
#[tokio::test]
async fn large_messages_leave_in_fragments() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let phone = desktop
        .device
        .account
        .new_phone()
        .targeting(&desktop.device);
    relay.enrol(&phone).await;
    let mut raw = relay.raw(&phone).await;
    raw.register(&phone).await;
    raw.next_json().await;
    raw.send_json(&relay_tests::blackbox::rpc_request("r", "m", json!(1)))
        .await;
    let request = desktop.next_request().await;
    let body = "é".repeat(5 * MIB);
    desktop.answer(&request, json!(body)).await;

    // Once the first fragment is here the message has begun; the ping is sent in its middle.
    let first = raw.next_frame_but_ping().await;
    assert_eq!((first.op, first.is_final), (OpCode::Text, false));
    raw.send(&encode(OpCode::Ping, true, b"between")).await;
    let mut text = first.payload;
    let (mut fragments, mut pong_after) = (1, None);
    loop {
        let frame = raw.next_frame_but_ping().await;
        if frame.op == OpCode::Pong {
            assert_eq!(frame.payload, b"between");
            pong_after = Some(fragments);
            continue;
        }
        assert_eq!(frame.op, OpCode::Continuation);
        assert!(frame.payload.len() <= MIB, "{}", frame.payload.len());
        text.extend(&frame.payload);
        fragments += 1;
        if frame.is_final {
            break;
        }
    }
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(&body));
    assert_eq!(fragments, text.len().div_ceil(MIB));
    assert!(
        pong_after.is_some_and(|after| after < fragments),
        "{pong_after:?} of {fragments}"
    );
}

/// RFC 6455, 5.5.1: the relay answers a close frame with the same code and ends TCP at once.
#[tokio::test]
async fn closes_are_answered() {
    let relay = Relay::start().await;
    for payload in [
        &b""[..],
        &1000_u16.to_be_bytes(),
        &1001_u16.to_be_bytes(),
        &4999_u16.to_be_bytes(),
        b"\x03\xe8bye",
    ] {
        let mut raw = registered_desktop(&relay).await;
        raw.send(&encode(OpCode::Close, true, payload)).await;
        let answer = raw.next_frame().await;
        assert_eq!(answer.op, OpCode::Close);
        assert_eq!(answer.payload.get(..2), payload.get(..2));
        raw.expect_end().await;
    }
}

/// TR-1: a peer that stops sending, mid-frame or between frames, has gone; its route goes too.
#[tokio::test]
async fn an_end_without_a_close_is_an_end() {
    let relay = Relay::start().await;
    let account = Account::new();
    let device = account.new_desktop();
    relay.enrol(&device).await;
    let mut phone = relay.phone(&device).await;
    for cut in [&b""[..], b"\x81", &header(OpCode::Text, true, 1_000)] {
        let mut raw = relay.raw(&device).await;
        raw.register(&device).await;
        assert_eq!(phone.next_status().await["status"], "online");
        raw.send(cut).await;
        raw.shut_down_sending().await;
        assert_eq!(phone.next_status().await["status"], "reconnecting");
        raw.drain().await;
    }
    let mut raw = relay.raw(&device).await;
    raw.register(&device).await;
    assert_eq!(phone.next_status().await["status"], "online");
    raw.reset();
    assert_eq!(phone.next_status().await["status"], "reconnecting");
}
