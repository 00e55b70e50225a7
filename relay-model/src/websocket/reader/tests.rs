//! The reader's rules one by one, each from a stream given at once and byte by byte where it matters.

use super::*;
use crate::websocket::MAX_CONTROL_PAYLOAD;
use crate::websocket::client_frame::{client_frame, client_header};
use crate::wire::codes::CloseCode;

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
const LIMIT: usize = 1 << 20;

fn text(payload: &str) -> Vec<u8> {
    client_frame(true, OpCode::Text, payload.as_bytes(), KEY)
}

fn fragment(fin: bool, opcode: OpCode, payload: &[u8]) -> Vec<u8> {
    client_frame(fin, opcode, payload, KEY)
}

/// Everything in `stream`, which is to be without fault and is given at once.
fn read_all(reader: &mut Reader, stream: &[u8]) -> Vec<Incoming> {
    let mut input = stream;
    let mut read = Vec::new();
    while let Some(incoming) = reader.next(&mut input).unwrap() {
        read.push(incoming);
    }
    assert!(input.is_empty());
    read
}

/// The error that `frames` end in, with what was read before; the same byte by byte.
fn refusal(limit: usize, frames: &[Vec<u8>]) -> (Vec<Incoming>, ProtocolError) {
    let stream = frames.concat();
    let attempt = |step: usize| {
        let mut reader = Reader::new(limit);
        let mut read = Vec::new();
        for mut piece in stream.chunks(step) {
            loop {
                match reader.next(&mut piece) {
                    Ok(Some(incoming)) => read.push(incoming),
                    Ok(None) => break,
                    Err(error) => return (read, Some(error)),
                }
            }
        }
        (read, None)
    };
    let (read, error) = attempt(stream.len());
    assert_eq!(attempt(1), (read.clone(), error));
    (read, error.expect("the stream is to be refused"))
}

/// An idle reader is a cache line and a bit, and what it returns is no larger than a frame's own
/// bookkeeping.
#[test]
fn an_idle_reader_is_small() {
    assert!(size_of::<Reader>() <= 80, "{}", size_of::<Reader>());
    assert!(size_of::<Incoming>() <= 40, "{}", size_of::<Incoming>());
    assert_eq!(Reader::new(LIMIT).buffered(), 0);
}

/// RFC 6455, 5.7: the RFC's own masked examples.
#[test]
fn the_examples_of_the_rfc_are_read() {
    let stream = [
        0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58, //
        0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
    ];
    let read = read_all(&mut Reader::new(LIMIT), &stream);
    assert_eq!(read, [Incoming::Text("Hello".into()), Incoming::Pong]);
}

/// TR-3: fragments make one message; control frames between them come out at once.
#[test]
fn control_frames_pass_between_fragments() {
    let mut reader = Reader::new(LIMIT);
    let stream = [
        fragment(false, OpCode::Text, b"one "),
        fragment(true, OpCode::Ping, b"?"),
        fragment(false, OpCode::Continuation, b""),
        fragment(true, OpCode::Pong, b"!"),
        fragment(true, OpCode::Continuation, b"two"),
    ];
    let read = read_all(&mut reader, &stream[..2].concat());
    assert_eq!(read, [Incoming::Ping("?".into())]);
    assert_eq!(reader.unfinished(), Some(Unfinished { received: 4 }));
    let read = read_all(&mut reader, &stream[2..].concat());
    assert_eq!(read, [Incoming::Pong, Incoming::Text("one two".into())]);
    assert_eq!(reader.unfinished(), None);
    assert_eq!(reader.buffered(), 0);
}

/// TR-4: the order of fragments.
#[test]
fn fragments_out_of_order_are_refused() {
    let lone = fragment(true, OpCode::Continuation, b"x");
    assert_eq!(
        refusal(LIMIT, std::slice::from_ref(&lone)),
        (vec![], ProtocolError::UnexpectedContinuation)
    );
    assert_eq!(
        refusal(LIMIT, &[text("done"), lone]),
        (
            vec![Incoming::Text("done".into())],
            ProtocolError::UnexpectedContinuation
        )
    );
    for opcode in [OpCode::Text, OpCode::Binary] {
        let frames = [
            fragment(false, OpCode::Text, b"x"),
            fragment(true, opcode, b"y"),
        ];
        assert_eq!(
            refusal(LIMIT, &frames),
            (vec![], ProtocolError::UnfinishedMessage)
        );
    }
}

/// TR-4: faults of the head reach the caller with 1002.
#[test]
fn faulty_heads_are_protocol_errors() {
    for (front, error) in [
        (&[0xc1, 0x80][..], ProtocolError::ReservedBits),
        (&[0x83, 0x80], ProtocolError::ReservedOpCode(3)),
        (&[0x81, 0x00], ProtocolError::Unmasked),
        (&[0x09, 0x80], ProtocolError::FragmentedControl),
        (&[0x89, 0xfe, 0, 126], ProtocolError::ControlTooLong),
        (&[0x81, 0xfe, 0, 125], ProtocolError::LengthNotMinimal),
        (
            &[0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0],
            ProtocolError::LengthTopBit,
        ),
    ] {
        let (read, refused) = refusal(LIMIT, &[text("first"), [front, &KEY].concat()]);
        assert_eq!(read, [Incoming::Text("first".into())]);
        assert_eq!(refused, error);
        assert_eq!(refused.close_code(), CloseCode::ProtocolError);
    }
}

/// TR-3: the limit itself passes, one byte more is refused at the head alone, text or binary.
#[test]
fn the_limit_is_decided_from_the_head() {
    for opcode in [OpCode::Text, OpCode::Binary] {
        let mut reader = Reader::new(1_000);
        assert_eq!(
            read_all(&mut reader, &fragment(true, opcode, &[b'a'; 1_000])).len(),
            1
        );
        for length in [1_001, 65_536, u64::MAX >> 1] {
            let (_, error) = refusal(1_000, &[client_header(true, opcode, length, KEY)]);
            assert_eq!(error, ProtocolError::TooLarge { limit: 1_000 });
            assert_eq!(error.close_code(), CloseCode::TooLarge);
        }
    }
}

/// TR-3: fragments count together; the head that crosses the limit is refused.
#[test]
fn the_limit_holds_for_the_sum_of_fragments() {
    for opcode in [OpCode::Text, OpCode::Binary] {
        let begun = [
            fragment(false, opcode, &[b'a'; 600]),
            fragment(false, OpCode::Continuation, &[b'a'; 400]),
        ];
        let last = fragment(true, OpCode::Continuation, b"");
        let mut reader = Reader::new(1_000);
        let fits = [&begun[..], &[last]].concat().concat();
        assert_eq!(read_all(&mut reader, &fits).len(), 1);

        let over = client_header(true, OpCode::Continuation, 1, KEY);
        let (_, error) = refusal(1_000, &[&begun[..], &[over]].concat());
        assert_eq!(error, ProtocolError::TooLarge { limit: 1_000 });
    }
}

/// TR-3: a new limit is for the next head, not for the frame under way.
#[test]
fn a_new_limit_takes_effect_at_the_next_head() {
    let mut reader = Reader::new(10);
    let frame = fragment(false, OpCode::Text, &[b'a'; 10]);
    let (front, back) = frame.split_at(9);
    assert_eq!(read_all(&mut reader, front), []);
    reader.set_max_message(5);
    assert_eq!(read_all(&mut reader, back), []);
    let mut next = &fragment(true, OpCode::Continuation, b"")[..];
    assert_eq!(
        reader.next(&mut next),
        Err(ProtocolError::TooLarge { limit: 5 })
    );

    let mut reader = Reader::new(5);
    assert_eq!(read_all(&mut reader, &text("12345")).len(), 1);
    reader.set_max_message(6);
    assert_eq!(read_all(&mut reader, &text("123456")).len(), 1);
}

/// TR-3: an announced GiB holds no more than its head and what came of it.
#[test]
fn memory_follows_what_was_received() {
    for opcode in [OpCode::Text, OpCode::Binary] {
        let mut reader = Reader::new(2 << 30).keeping_binary();
        read_all(&mut reader, &client_header(true, opcode, 1 << 30, [0; 4]));
        assert!(reader.buffered() < 128, "{}", reader.buffered());
        read_all(&mut reader, b"a");
        assert!(reader.buffered() < 2_048, "{}", reader.buffered());
        read_all(&mut reader, &[b'a'; 100_000]);
        assert!(reader.buffered() < 201_000, "{}", reader.buffered());
    }
}

/// TR-4: binary payload is counted and dropped, also where it is no UTF-8 or comes in fragments.
#[test]
fn binary_payload_is_not_kept() {
    let mut reader = Reader::new(LIMIT);
    let stream = [
        fragment(true, OpCode::Binary, &[0xff; 300]),
        fragment(false, OpCode::Binary, &[0xff; 70_000]),
    ]
    .concat();
    assert_eq!(read_all(&mut reader, &stream), [Incoming::Binary(None)]);
    assert!(reader.buffered() < 128);
    assert_eq!(reader.unfinished(), None, "binary is no sign of life");
    let last = fragment(true, OpCode::Continuation, &[0xff; 3]);
    assert_eq!(read_all(&mut reader, &last), [Incoming::Binary(None)]);
    assert_eq!(reader.messages_begun(), 2);
}

/// TR-4: binary payload on demand, whole and in pieces.
#[test]
fn binary_payload_is_kept_on_demand() {
    let payload: Vec<u8> = (0..=255).cycle().take(3_000).collect();
    let frame = fragment(true, OpCode::Binary, &payload);
    let expected = Incoming::Binary(Some(payload.into()));
    let mut reader = Reader::new(LIMIT).keeping_binary();
    assert_eq!(
        read_all(&mut reader, &frame),
        std::slice::from_ref(&expected)
    );
    let (front, back) = frame.split_at(1_001);
    assert_eq!(read_all(&mut reader, front), []);
    assert_eq!(read_all(&mut reader, back), [expected]);
}

/// TR-4: text that is no UTF-8: 1007, in one frame and over fragments.
#[test]
fn text_has_to_be_utf8() {
    for frames in [
        vec![fragment(true, OpCode::Text, b"ab\xff")],
        vec![fragment(true, OpCode::Text, b"ab\xe2\x82")],
        vec![
            fragment(false, OpCode::Text, b"ab\xe2\x82"),
            fragment(true, OpCode::Continuation, b""),
        ],
        vec![
            fragment(false, OpCode::Text, b"ab\xe2\x82"),
            fragment(true, OpCode::Continuation, b"c"),
        ],
    ] {
        let (_, error) = refusal(LIMIT, &frames);
        assert_eq!(error, ProtocolError::InvalidUtf8);
        assert_eq!(error.close_code(), CloseCode::InvalidUtf8);
    }
}

/// TR-4: a character may lie across fragments, frames and reads.
#[test]
fn characters_may_be_split() {
    let payload = "a\u{20ac}\u{1f600}";
    let bytes = payload.as_bytes();
    for cut in 0..=bytes.len() {
        let stream = [
            fragment(false, OpCode::Text, &bytes[..cut]),
            fragment(true, OpCode::Ping, b""),
            fragment(true, OpCode::Continuation, &bytes[cut..]),
        ]
        .concat();
        let read = read_all(&mut Reader::new(LIMIT), &stream);
        let expected = Incoming::Text(payload.into());
        assert_eq!(read, [Incoming::Ping(Bytes::new()), expected]);
    }
}

/// TR-4: bad text fails before its frame or its message has ended.
#[test]
fn bad_text_fails_at_once() {
    let mut reader = Reader::new(LIMIT);
    let frame = fragment(true, OpCode::Text, &[&b"ab\xc0"[..], &[b'c'; 500]].concat());
    let mut front = &frame[..8 + 3];
    assert_eq!(reader.next(&mut front), Err(ProtocolError::InvalidUtf8));

    let frames = [
        fragment(false, OpCode::Text, b"\xed\xa0"),
        fragment(true, OpCode::Ping, b"not reached"),
    ];
    assert_eq!(
        refusal(LIMIT, &frames),
        (vec![], ProtocolError::InvalidUtf8)
    );
}

/// TR-4: a close is parsed, whole or in pieces, and nothing after it is read.
#[test]
fn nothing_follows_a_close() {
    let frame = fragment(true, OpCode::Close, b"\x03\xe8bye");
    let expected = Incoming::Close(Some(CloseFrame {
        code: 1000,
        reason: "bye".to_owned(),
    }));
    for cut in 0..frame.len() {
        let mut reader = Reader::new(LIMIT);
        let begun = fragment(false, OpCode::Text, b"never finished");
        read_all(&mut reader, &begun);
        assert_eq!(read_all(&mut reader, &frame[..cut]), []);
        let rest = [&frame[cut..], b"\xff\xff\xff"].concat();
        assert_eq!(
            read_all(&mut reader, &rest),
            std::slice::from_ref(&expected)
        );
        assert_eq!(read_all(&mut reader, &text("late")), []);
        assert_eq!(reader.buffered(), 0);
        assert_eq!(reader.unfinished(), None);
    }
    let empty = fragment(true, OpCode::Close, b"");
    assert_eq!(
        read_all(&mut Reader::new(LIMIT), &empty),
        [Incoming::Close(None)]
    );
}

/// TR-4: bad close payloads.
#[test]
fn bad_closes_are_refused() {
    for (payload, error) in [
        (&b"\x03"[..], ProtocolError::ClosePayloadTooShort),
        (b"\x03\xed", ProtocolError::CloseCodeInvalid(1005)),
        (b"\x03\xe8\xff", ProtocolError::CloseReasonInvalidUtf8),
    ] {
        let frame = fragment(true, OpCode::Close, payload);
        assert_eq!(refusal(LIMIT, &[frame]), (vec![], error));
    }
}

/// TR-3: the limit is for messages; control frames have their own.
#[test]
fn control_frames_pass_a_small_limit() {
    let payload = [b'p'; MAX_CONTROL_PAYLOAD];
    let ping = fragment(true, OpCode::Ping, &payload);
    let read = read_all(&mut Reader::new(0), &ping);
    assert_eq!(read, [Incoming::Ping(Bytes::copy_from_slice(&payload))]);
}

/// TR-6: a message is counted at its first head, before its payload.
#[test]
fn messages_are_counted_at_their_first_head() {
    let mut reader = Reader::new(LIMIT);
    let header = client_header(false, OpCode::Text, 3, [0; 4]);
    let (front, back) = header.split_at(header.len() - 1);
    read_all(&mut reader, front);
    assert_eq!(reader.messages_begun(), 0);
    read_all(&mut reader, back);
    assert_eq!(reader.messages_begun(), 1);
    assert_eq!(reader.unfinished(), Some(Unfinished { received: 0 }));
    read_all(&mut reader, b"ab");
    assert_eq!(reader.unfinished(), Some(Unfinished { received: 2 }));
    let rest = [b"c".to_vec(), fragment(true, OpCode::Continuation, b"d")].concat();
    assert_eq!(
        read_all(&mut reader, &rest),
        [Incoming::Text("abcd".into())]
    );
    read_all(&mut reader, &fragment(true, OpCode::Ping, b""));
    assert_eq!(reader.messages_begun(), 1);
}

/// The contract: an error stays, and takes no more input.
#[test]
fn errors_stay() {
    let mut reader = Reader::new(LIMIT);
    read_all(
        &mut reader,
        &fragment(false, OpCode::Text, b"kept until then"),
    );
    let mut bad = &[0x81, 0x00][..];
    let error = reader.next(&mut bad).unwrap_err();
    assert_eq!(reader.buffered(), 0);
    let good = text("good");
    let mut input = &good[..];
    assert_eq!(reader.next(&mut input), Err(error));
    assert_eq!(input.len(), good.len());
}

/// TR-3: a message has a buffer of its own and of its size, however it came: nothing is allocated
/// to share it, and it keeps no read block alive.
#[test]
fn messages_own_exactly_their_bytes() {
    let payload = "x".repeat(5_000);
    let frame = text(&payload);
    for step in [1, 1_999, frame.len()] {
        let mut reader = Reader::new(LIMIT);
        let mut read = (frame.chunks(step)).flat_map(|piece| read_all(&mut reader, piece));
        let Some(Incoming::Text(text)) = read.next() else {
            panic!("a text was sent");
        };
        assert!(!frame.as_ptr_range().contains(&text.as_ptr()));
        let own = text
            .into_bytes()
            .try_into_mut()
            .expect("nobody else holds it");
        assert_eq!((own.len(), own.capacity()), (payload.len(), payload.len()));
    }
}

/// TR-3: a reader that discards gives back what it held, keeps nothing of what comes, in one piece or in
/// many, and finds the close behind it.
#[test]
fn a_discarding_reader_holds_nothing() {
    let long = "x".repeat(100_000);
    let stream = [
        text(&long),
        fragment(false, OpCode::Text, long.as_bytes()),
        fragment(true, OpCode::Continuation, long.as_bytes()),
        text("short"),
        client_frame(true, OpCode::Close, &1000_u16.to_be_bytes(), KEY),
    ]
    .concat();
    let (begun, rest) = stream.split_at(50_000);
    for step in [1, 1_000, stream.len()] {
        let mut reader = Reader::new(LIMIT);
        assert_eq!(read_all(&mut reader, begun), []);
        assert!(reader.buffered() > begun.len() / 2);
        reader.discard();
        let held = reader.buffered();
        assert!(held < 1_000, "{held}");
        let mut read = Vec::new();
        for piece in rest.chunks(step) {
            read.extend(read_all(&mut reader, piece));
            assert!(reader.buffered() <= held);
        }
        assert_eq!(read[..3], vec![Incoming::Binary(None); 3]);
        assert!(matches!(read[3..], [Incoming::Close(Some(_))]));
    }
}
