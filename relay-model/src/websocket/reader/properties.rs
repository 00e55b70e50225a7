//! Properties of the reader: whatever a client sends and however it is cut, the result is what was
//! sent, and memory follows what was received.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{CloseFrame, Incoming, OpCode, ProtocolError, Reader};
use crate::websocket::client_frame::client_frame;
use crate::websocket::{MAX_CONTROL_PAYLOAD, close};

const LIMIT: usize = 1 << 20;
/// What a reader may hold beside twice what it received, in bytes: its first buffer and its own state.
const OVERHEAD: usize = 2 * 1024;

/// A message or control frame, and how its client writes it.
#[derive(Debug, Clone)]
struct Sent {
    incoming: Incoming,
    /// Where the message is cut into fragments.
    cuts: Vec<Index>,
    /// Control frames between those fragments.
    between: Vec<Incoming>,
    keys: [[u8; 4]; 2],
}

fn control() -> impl Strategy<Value = Incoming> {
    prop_oneof![
        vec(any::<u8>(), 0..=MAX_CONTROL_PAYLOAD)
            .prop_map(|payload| Incoming::Ping(payload.into())),
        Just(Incoming::Pong),
    ]
}

fn message() -> impl Strategy<Value = Incoming> {
    let text = prop_oneof![
        "[ -~]{0,300}",
        "\\PC{0,60}",
        // Lengths on both sides of each form of the header.
        prop_oneof![124usize..128, 65_534usize..65_538].prop_map(text_of),
    ];
    prop_oneof![
        4 => text.prop_map(|text: String| Incoming::Text(text.into())),
        1 => vec(any::<u8>(), 0..2_000).prop_map(|payload| Incoming::Binary(Some(payload.into()))),
    ]
}

/// A text of `length` bytes with characters of one to four.
fn text_of(length: usize) -> String {
    let mut text = "aä€😀".repeat(length / 10);
    while text.len() < length {
        text.push('z');
    }
    text
}

fn sent() -> impl Strategy<Value = Sent> {
    (
        prop_oneof![4 => message(), 1 => control()],
        vec(any::<Index>(), 0..5),
        vec(control(), 0..3),
        any::<[[u8; 4]; 2]>(),
    )
        .prop_map(|(incoming, cuts, between, keys)| Sent {
            incoming,
            cuts,
            between,
            keys,
        })
}

impl Sent {
    /// Appends its frames to `stream`, and to `expected` what they are to give.
    fn write(&self, stream: &mut Vec<u8>, expected: &mut Vec<Incoming>) {
        let (first, payload) = match &self.incoming {
            Incoming::Text(payload) => (OpCode::Text, payload.as_bytes()),
            Incoming::Binary(Some(payload)) => (OpCode::Binary, payload),
            control => {
                write_control(control, self.keys[0], stream);
                expected.push(control.clone());
                return;
            }
        };
        let mut ends: Vec<usize> = (self.cuts.iter())
            .map(|cut| cut.index(payload.len() + 1))
            .collect();
        ends.push(payload.len());
        ends.sort_unstable();
        let mut start = 0;
        for (index, &end) in ends.iter().enumerate() {
            let opcode = if index == 0 {
                first
            } else {
                OpCode::Continuation
            };
            let fin = index == ends.len() - 1;
            let key = self.keys[index % 2];
            stream.extend(client_frame(fin, opcode, &payload[start..end], key));
            start = end;
            if let Some(control) = self.between.get(index).filter(|_| !fin) {
                write_control(control, key, stream);
                expected.push(control.clone());
            }
        }
        expected.push(self.incoming.clone());
    }
}

fn write_control(control: &Incoming, key: [u8; 4], stream: &mut Vec<u8>) {
    let frame = match control {
        Incoming::Ping(payload) => client_frame(true, OpCode::Ping, payload, key),
        Incoming::Close(None) => client_frame(true, OpCode::Close, b"", key),
        Incoming::Close(Some(frame)) => {
            let payload = close::encode(frame.code, &frame.reason);
            client_frame(true, OpCode::Close, &payload, key)
        }
        _ => client_frame(true, OpCode::Pong, b"not kept", key),
    };
    stream.extend(frame);
}

/// Reads `stream` in pieces of `sizes` in turn, or at once when there are none, and checks after each
/// what the reader holds.
fn read(
    mut reader: Reader,
    stream: &[u8],
    sizes: &[usize],
) -> (Vec<Incoming>, Option<ProtocolError>, u64) {
    let mut read = Vec::new();
    let mut rest = stream;
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = sizes.next().copied().unwrap_or(rest.len()).min(rest.len());
        let (mut piece, after) = rest.split_at(size);
        rest = after;
        loop {
            match reader.next(&mut piece) {
                Ok(Some(incoming)) => read.push(incoming),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.next(&mut &b"\x81\x80abcd"[..]), Err(error));
                    assert_eq!(reader.buffered(), 0);
                    return (read, Some(error), reader.messages_begun());
                }
            }
        }
        assert!(piece.is_empty(), "None means that the input is used up");
        let received = stream.len() - rest.len();
        assert!(reader.buffered() <= 2 * received + OVERHEAD);
    }
    (read, None, reader.messages_begun())
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![1usize..4, 1usize..200, 1usize..70_000], 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// TR-3, TR-4: messages in any fragments, masks and pieces come out as they went in, control
    /// frames between fragments at once.
    #[test]
    fn what_is_sent_is_read(
        sent in vec(sent(), 0..8),
        close in proptest::option::of((prop_oneof![1000u16..=1003, 1007u16..=1014, 3000u16..=4999], "\\PC{0,20}")),
        sizes in sizes(),
    ) {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for sent in &sent {
            sent.write(&mut stream, &mut expected);
        }
        let close = Incoming::Close(close.map(|(code, reason)| CloseFrame { code, reason }));
        write_control(&close, [7; 4], &mut stream);
        expected.push(close);
        stream.extend(b"what follows a close is not read");

        let begun = (expected.iter())
            .filter(|incoming| matches!(incoming, Incoming::Text(_) | Incoming::Binary(_)))
            .count() as u64;
        for sizes in [&sizes[..], &[], &[1]] {
            let (read, error, messages) = read(Reader::new(LIMIT).keeping_binary(), &stream, sizes);
            prop_assert_eq!(error, None);
            prop_assert_eq!(messages, begun);
            prop_assert_eq!(&read, &expected);
        }

        // TR-4: the same without the payload of binary messages.
        for incoming in &mut expected {
            if let Incoming::Binary(payload) = incoming {
                *payload = None;
            }
        }
        let (read, ..) = read(Reader::new(LIMIT), &stream, &sizes);
        prop_assert_eq!(read, expected);
    }

    /// TR-3: the limit is met by the sum of the fragments, at the head that crosses it, whatever the
    /// pieces.
    #[test]
    fn the_limit_holds_for_any_fragments(
        lengths in vec(0usize..300, 1..6),
        limit in 0usize..900,
        text: bool,
        sizes in sizes(),
    ) {
        let opcode = if text { OpCode::Text } else { OpCode::Binary };
        let mut stream = Vec::new();
        for (index, &length) in lengths.iter().enumerate() {
            let opcode = if index == 0 { opcode } else { OpCode::Continuation };
            let fin = index == lengths.len() - 1;
            stream.extend(client_frame(fin, opcode, &vec![b'a'; length], [1, 2, 3, 4]));
        }
        let total: usize = lengths.iter().sum();
        let (read, error, _) = read(Reader::new(limit), &stream, &sizes);
        if total <= limit {
            let whole = if text {
                Incoming::Text("a".repeat(total).into())
            } else {
                Incoming::Binary(None)
            };
            prop_assert_eq!((read, error), (vec![whole], None));
        } else {
            prop_assert_eq!((read, error), (vec![], Some(ProtocolError::TooLarge { limit })));
        }
    }

    /// TR-4: damaged streams end in the same result however they are cut, and never in a panic or in
    /// more memory than was received.
    #[test]
    fn damage_is_judged_alike_in_any_pieces(
        sent in vec(sent(), 1..4),
        damage in vec((any::<Index>(), any::<u8>()), 1..4),
        sizes in sizes(),
    ) {
        let mut stream = Vec::new();
        for sent in &sent {
            sent.write(&mut stream, &mut Vec::new());
        }
        for (place, byte) in damage {
            let place = place.index(stream.len());
            stream[place] = byte;
        }
        let whole = read(Reader::new(LIMIT), &stream, &[]);
        prop_assert_eq!(&read(Reader::new(LIMIT), &stream, &sizes), &whole);
        prop_assert_eq!(&read(Reader::new(LIMIT), &stream, &[1]), &whole);
    }

    /// TR-4: so do random bytes.
    #[test]
    fn random_bytes_are_judged_alike_in_any_pieces(
        stream in vec(prop_oneof![Just(0x81u8), Just(0x80), any::<u8>()], 0..400),
        sizes in sizes(),
    ) {
        let whole = read(Reader::new(LIMIT), &stream, &[]);
        prop_assert_eq!(&read(Reader::new(LIMIT), &stream, &sizes), &whole);
        prop_assert_eq!(&read(Reader::new(LIMIT), &stream, &[1]), &whole);
    }
}
