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
    let with_first_byte = |first: u8| [&[first], &ping[1..]].concat();
    // Each reserved bit, alone and on every kind of frame, and each reserved opcode.
    for bit in [0x10, 0x20, 0x40, 0x70] {
        for op in [OpCode::Text, OpCode::Binary, OpCode::Ping, OpCode::Pong] {
            violates(&relay, &with_first_byte(0x80 | bit | op.bits()), 1002).await;
        }
    }
    for opcode in (0x3..=0x7).chain(0xB..=0xF) {
        for fin in [0x00, 0x80] {
            violates(&relay, &with_first_byte(fin | opcode), 1002).await;
        }
    }
    // A client that does not mask, for each kind of frame.
    for first in [0x81, 0x82, 0x88, 0x89, 0x8A] {
        let unmasked = [&[first, 2][..], b"{}", &ping].concat();
        violates(&relay, &unmasked, 1002).await;
    }
    let mut overlong_length = vec![0x81, 0x80 | 126, 0, 5, 0, 0, 0, 0];
    overlong_length.extend(b"12345");
    let negative_length = [vec![0x81, 0xFF, 0x80], vec![0; 11]].concat();
    let text_in_text = [
        encode(OpCode::Text, false, b"{"),
        encode(OpCode::Text, true, b"}"),
    ]
    .concat();
    for bytes in [
        overlong_length,
        negative_length,
        text_in_text,
        encode(OpCode::Continuation, true, b"x"),
        encode(OpCode::Ping, false, b"x"),
        encode(OpCode::Ping, true, &[b'x'; 126]),
        encode(OpCode::Pong, false, b"x"),
        encode(OpCode::Pong, true, &[b'x'; 126]),
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

/// TR-3: one byte makes the difference, in one frame with all its bytes too.
#[tokio::test]
async fn one_byte_too_many_closes() {
    let relay = Relay::start().await;
    let mut raw = registered_desktop(&relay).await;
    raw.send_text(&" ".repeat(32 * MIB)).await;
    assert_eq!(raw.next_json().await["code"], "invalidJson");
    for frames in [
        encode(OpCode::Text, true, &vec![b' '; 32 * MIB + 1]),
        [
            encode(OpCode::Text, false, &vec![b' '; 32 * MIB]),
            encode(OpCode::Continuation, true, b" "),
        ]
        .concat(),
    ] {
        let mut raw = registered_desktop(&relay).await;
        // The relay need not read what it has refused.
        raw.try_send(&frames).await;
        raw.expect_close_frame(1009).await;
        raw.drain().await;
    }
    // Before registration `register` itself may be too large.
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    for (size, fits) in [(64 * KIB, true), (64 * KIB + 1, false)] {
        let register = json!({ "type": "register", "payload": device.registration() }).to_string();
        let space = " ".repeat(size - register.len());
        let mut raw = relay.raw(&device).await;
        raw.send_text(&format!("{register}{space}")).await;
        if fits {
            assert_eq!(raw.next_json().await["type"], "registered");
        } else {
            raw.expect_close_frame(1009).await;
            raw.expect_end().await;
        }
    }
}

/// TR-6: while the relay cannot write, the last of many pings is the one that it answers.
#[tokio::test]
async fn only_the_last_of_many_pings_is_answered() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut raw = relay.raw(&device).await;
    raw.register(&device).await;
    let mut phone = relay.phone(&device).await;
    phone.request("r", "m", json!("x".repeat(3 * MIB))).await;
    // The first fragment has begun and cannot end before it is read: no pong can pass it.
    relay
        .eventually("the first fragment", async || raw.has_answer())
        .await;
    for number in 0..5_000 {
        let ping = encode(OpCode::Ping, true, format!("{number}").as_bytes());
        raw.send(&ping).await;
    }
    raw.send_json(&json!({ "type": "event", "payload": { "eventType": "mark" } }))
        .await;
    phone.next_event("mark").await;
    let mut pongs = Vec::new();
    loop {
        let frame = raw.next_frame_but_ping().await;
        match frame.op {
            OpCode::Pong => pongs.push(String::from_utf8(frame.payload).unwrap()),
            _ if frame.is_final => break,
            _ => {}
        }
    }
    assert_eq!(pongs, ["4999"]);
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
