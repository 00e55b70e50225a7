//! The reading side of a connection: takes bytes as they come and returns whole messages and control
//! frames. It keeps memory only for what is unfinished, and judges a frame by its head before any
//! payload is kept (TR-3, TR-4).

use bytes::Bytes;

pub use super::close::CloseFrame;
pub use super::error::ProtocolError;
use super::header::{FrameHeader, MAX_CLIENT_HEADER, OpCode};
use super::mask::{append_unmasked, key_after};
use super::message::UnfinishedMessage;
use super::utf8;

/// The payload of a ping: at most [`super::MAX_CONTROL_PAYLOAD`] bytes.
pub type ControlPayload = Bytes;

/// One whole thing that a peer sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A text message: valid UTF-8 in a buffer of its own and of exactly its size.
    Text(Bytes),
    /// A binary message; its payload only from a reader that is [`Reader::keeping_binary`].
    Binary(Option<Bytes>),
    /// A ping, to be answered with its payload.
    Ping(ControlPayload),
    /// A pong; its payload is not kept.
    Pong,
    /// The peer's close; `None` when it gave no code. Nothing follows it.
    Close(Option<CloseFrame>),
}

/// How far an unfinished text message has come (TR-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfinished {
    /// Payload bytes received so far, over all fragments.
    pub received: usize,
}

/// Reads the frames of one client.
#[derive(Debug)]
pub struct Reader {
    max_message: usize,
    messages_begun: u64,
    position: Position,
    /// From the first frame's head to the last frame's end, unless both came in one piece.
    message: Option<Box<UnfinishedMessage>>,
    /// The payload so far of a control frame that came in pieces.
    control: Vec<u8>,
    keep_binary: bool,
}

/// Where in the byte stream the reader stands.
#[derive(Debug)]
enum Position {
    Header(PartialHeader),
    Payload(CurrentFrame),
    /// Behind a close frame: what follows is not read (RFC 6455, 1.4).
    Closed,
    Failed(ProtocolError),
}

/// The bytes of a head that is not whole yet.
#[derive(Debug, Default)]
struct PartialHeader {
    bytes: [u8; MAX_CLIENT_HEADER],
    filled: u8,
}

/// A frame of which payload is to come.
#[derive(Debug, Clone, Copy)]
struct CurrentFrame {
    remaining: usize,
    /// The key as it applies to the next byte.
    key: [u8; 4],
    opcode: OpCode,
    fin: bool,
}

impl Reader {
    /// A reader that takes messages of at most `max_message` payload bytes (TR-3) and discards the
    /// payload of binary ones.
    pub fn new(max_message: usize) -> Self {
        Self {
            max_message,
            messages_begun: 0,
            position: Position::Header(PartialHeader::default()),
            message: None,
            control: Vec::new(),
            keep_binary: false,
        }
    }

    /// The same reader, but returning the payload of binary messages.
    #[must_use]
    pub fn keeping_binary(mut self) -> Self {
        self.keep_binary = true;
        self
    }

    /// Changes the limit to `bytes`, from the next frame's head on; a message under way whose next
    /// fragment makes it longer than that is refused (TR-3).
    pub fn set_max_message(&mut self, bytes: usize) {
        self.max_message = bytes;
    }

    /// Text and binary messages whose first head was read: what the rate limit charges for (TR-6).
    pub fn messages_begun(&self) -> u64 {
        self.messages_begun
    }

    /// The text message under way, if there is one; its progress is a sign of life (TR-5).
    pub fn unfinished(&self) -> Option<Unfinished> {
        let message = self
            .message
            .as_deref()
            .filter(|message| message.is_text())?;
        Some(Unfinished {
            received: message.received(),
        })
    }

    /// Heap bytes held: none between messages, and never more than twice what was received of the
    /// unfinished one, plus about a KiB.
    pub fn buffered(&self) -> usize {
        let message = self.message.as_deref().map_or(0, UnfinishedMessage::held);
        message + self.control.capacity()
    }

    /// Takes bytes from the front of `input` and returns the next whole thing, or `None` when `input`
    /// is used up. After a [`Incoming::Close`] everything else is taken and dropped.
    ///
    /// # Errors
    /// When the peer broke the protocol or the limit: close with [`ProtocolError::close_code`]. The
    /// reader then holds nothing, and every further call returns the same error.
    #[inline]
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Incoming>, ProtocolError> {
        let result = self.read(input);
        match &result {
            Ok(Some(Incoming::Close(_))) => self.end(Position::Closed),
            Err(error) => self.end(Position::Failed(*error)),
            Ok(_) => {}
        }
        result
    }

    fn read(&mut self, input: &mut &[u8]) -> Result<Option<Incoming>, ProtocolError> {
        loop {
            match &mut self.position {
                Position::Header(partial) => {
                    let Some(header) = partial.take(input)? else {
                        return Ok(None);
                    };
                    let length = self.admit(&header)?;
                    if let Some((payload, rest)) = input.split_at_checked(length)
                        && let Some(incoming) = self.read_whole(&header, payload)?
                    {
                        *input = rest;
                        self.position = Position::Header(PartialHeader::default());
                        return Ok(Some(incoming));
                    }
                    self.begin(&header, length);
                }
                Position::Payload(frame) => {
                    let here = frame.remaining.min(input.len());
                    let (masked, rest) = input.split_at(here);
                    *input = rest;
                    let now = *frame;
                    frame.remaining -= here;
                    frame.key = key_after(frame.key, here);
                    let is_done = frame.remaining == 0;
                    self.append(now, masked)?;
                    if !is_done {
                        return Ok(None);
                    }
                    self.position = Position::Header(PartialHeader::default());
                    if let Some(incoming) = self.finish(now)? {
                        return Ok(Some(incoming));
                    }
                }
                Position::Closed => {
                    *input = &[];
                    return Ok(None);
                }
                Position::Failed(error) => return Err(*error),
            }
        }
    }

    /// Judges whether a frame may come here and be this long, before any of its payload is kept, and
    /// returns its length.
    #[inline]
    fn admit(&mut self, header: &FrameHeader) -> Result<usize, ProtocolError> {
        let limit = self.max_message;
        let too_large = ProtocolError::TooLarge { limit };
        let length = usize::try_from(header.length).map_err(|_| too_large)?;
        if header.opcode.is_control() {
            return Ok(length);
        }
        let received = match (&self.message, header.opcode) {
            (Some(message), OpCode::Continuation) => message.received(),
            (Some(_), _) => return Err(ProtocolError::UnfinishedMessage),
            (None, OpCode::Continuation) => return Err(ProtocolError::UnexpectedContinuation),
            (None, _) => 0,
        };
        if received > limit || length > limit - received {
            return Err(too_large);
        }
        if header.opcode != OpCode::Continuation {
            self.messages_begun += 1;
        }
        Ok(length)
    }

    /// The straight way for what came in one piece, head and payload: one allocation of exactly its
    /// size. `None` for fragments.
    #[inline]
    fn read_whole(
        &self,
        header: &FrameHeader,
        masked: &[u8],
    ) -> Result<Option<Incoming>, ProtocolError> {
        let unmask = || {
            let mut payload = Vec::with_capacity(masked.len());
            let ascii = append_unmasked(&mut payload, masked, header.mask);
            (payload, ascii)
        };
        let incoming = match header.opcode {
            OpCode::Text if header.fin => {
                let (text, ascii) = unmask();
                utf8::check(&text, ascii).map_err(|_| ProtocolError::InvalidUtf8)?;
                Incoming::Text(text.into())
            }
            OpCode::Binary if header.fin => {
                Incoming::Binary(self.keep_binary.then(|| unmask().0.into()))
            }
            OpCode::Ping => Incoming::Ping(unmask().0.into()),
            OpCode::Pong => Incoming::Pong,
            OpCode::Close => Incoming::Close(CloseFrame::parse(&unmask().0)?),
            OpCode::Text | OpCode::Binary | OpCode::Continuation => return Ok(None),
        };
        Ok(Some(incoming))
    }

    /// Begins a frame that is a fragment or did not come in one piece.
    fn begin(&mut self, header: &FrameHeader, length: usize) {
        if matches!(header.opcode, OpCode::Text | OpCode::Binary) {
            let message = UnfinishedMessage::new(header.opcode, self.keep_binary);
            self.message = Some(Box::new(message));
        }
        self.position = Position::Payload(CurrentFrame {
            remaining: length,
            key: header.mask,
            opcode: header.opcode,
            fin: header.fin,
        });
    }

    /// Keeps what came of `frame`, whose key and remaining length are those before `masked`.
    fn append(&mut self, frame: CurrentFrame, masked: &[u8]) -> Result<(), ProtocolError> {
        match frame.opcode {
            OpCode::Text | OpCode::Binary | OpCode::Continuation => {
                if let Some(message) = &mut self.message {
                    let length = (frame.fin).then(|| message.received() + frame.remaining);
                    message.append(masked, frame.key, length)?;
                }
            }
            OpCode::Ping | OpCode::Close => {
                self.control.reserve_exact(frame.remaining);
                append_unmasked(&mut self.control, masked, frame.key);
            }
            OpCode::Pong => {}
        }
        Ok(())
    }

    /// What is whole at the end of `frame`, if anything.
    fn finish(&mut self, frame: CurrentFrame) -> Result<Option<Incoming>, ProtocolError> {
        let incoming = match frame.opcode {
            OpCode::Text | OpCode::Binary | OpCode::Continuation => {
                return match self.message.take_if(|_| frame.fin) {
                    Some(message) => message.finish().map(Some),
                    None => Ok(None),
                };
            }
            OpCode::Ping => Incoming::Ping(std::mem::take(&mut self.control).into()),
            OpCode::Pong => Incoming::Pong,
            OpCode::Close => {
                Incoming::Close(CloseFrame::parse(&std::mem::take(&mut self.control))?)
            }
        };
        Ok(Some(incoming))
    }

    /// Gives back all memory, and reads no further.
    #[cold]
    fn end(&mut self, position: Position) {
        self.position = position;
        self.message = None;
        self.control = Vec::new();
    }
}

impl PartialHeader {
    /// Takes the bytes of one head from `input`, or all of them if it is not whole even then.
    #[inline]
    fn take(&mut self, input: &mut &[u8]) -> Result<Option<FrameHeader>, ProtocolError> {
        if self.filled == 0
            && let Some((header, length)) = FrameHeader::parse(input)?
        {
            *input = &input[length..];
            return Ok(Some(header));
        }
        self.take_in_pieces(input)
    }

    fn take_in_pieces(&mut self, input: &mut &[u8]) -> Result<Option<FrameHeader>, ProtocolError> {
        let filled = usize::from(self.filled);
        let room = &mut self.bytes[filled..];
        let copied = room.len().min(input.len());
        room[..copied].copy_from_slice(&input[..copied]);
        match FrameHeader::parse(&self.bytes[..filled + copied])? {
            Some((header, length)) => {
                // A head that was whole before would have been taken before.
                *input = &input[length - filled..];
                Ok(Some(header))
            }
            None => {
                // At most 13: the longest head is whole with 14.
                self.filled = (filled + copied) as u8;
                *input = &input[copied..];
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(read_all(&mut reader, &frame), [expected.clone()]);
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
        let payload = "a\u{20ac}\u{1f600}".as_bytes();
        for cut in 0..=payload.len() {
            let stream = [
                fragment(false, OpCode::Text, &payload[..cut]),
                fragment(true, OpCode::Ping, b""),
                fragment(true, OpCode::Continuation, &payload[cut..]),
            ]
            .concat();
            let read = read_all(&mut Reader::new(LIMIT), &stream);
            let expected = Incoming::Text(Bytes::copy_from_slice(payload));
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
            assert_eq!(read_all(&mut reader, &rest), [expected.clone()]);
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
            let own = text.try_into_mut().expect("nobody else holds it");
            assert_eq!((own.len(), own.capacity()), (payload.len(), payload.len()));
        }
    }
}
