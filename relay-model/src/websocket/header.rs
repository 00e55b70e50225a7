//! The head of a frame: read strictly from a client's bytes, written in its shortest form for a
//! server's frame.

use super::MAX_CONTROL_PAYLOAD;
use super::error::ProtocolError;

/// The longest head that a client can send: two bytes, a 64-bit length, the masking key.
pub const MAX_CLIENT_HEADER: usize = 14;
/// The longest head that a server can send: two bytes and a 64-bit length.
pub const MAX_SERVER_HEADER: usize = 10;

const FIN: u8 = 0b1000_0000;
const RESERVED: u8 = 0b0111_0000;
const MASKED: u8 = 0b1000_0000;
const LENGTH: u8 = 0b0111_1111;
/// Says that the length follows in two bytes.
const LENGTH_IS_U16: u8 = 126;
/// Says that the length follows in eight bytes.
const LENGTH_IS_U64: u8 = 127;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OpCode {
    /// A further fragment of the message under way.
    Continuation = 0x0,
    /// A text message, or its first fragment.
    Text = 0x1,
    /// A binary message, or its first fragment.
    Binary = 0x2,
    /// The end of the connection.
    Close = 0x8,
    /// Asks for a [`OpCode::Pong`] with the same payload.
    Ping = 0x9,
    /// Answers a [`OpCode::Ping`].
    Pong = 0xa,
}

impl OpCode {
    /// The opcode of four bits; `None` for the reserved ones.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0x0 => Some(Self::Continuation),
            0x1 => Some(Self::Text),
            0x2 => Some(Self::Binary),
            0x8 => Some(Self::Close),
            0x9 => Some(Self::Ping),
            0xa => Some(Self::Pong),
            _ => None,
        }
    }

    /// Whether frames of this kind may stand between the fragments of a message.
    pub const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// The head of a client's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Whether the frame is the last of its message.
    pub fin: bool,
    /// What the frame is.
    pub opcode: OpCode,
    /// The masking key.
    pub mask: [u8; 4],
    /// Bytes of payload that follow, as announced.
    pub length: u64,
}

impl FrameHeader {
    /// Reads the head at the front of `bytes` and says how long it is; `None` when bytes are missing.
    /// Every byte is judged as soon as it is there, front to back, so that the verdict does not depend
    /// on how many came at once.
    ///
    /// # Errors
    /// A [`ProtocolError`] for anything that a client may not send (TR-4). Whether a frame of this
    /// kind may come at this place, and may be this long, is for the caller to judge.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, ProtocolError> {
        let Some(&first) = bytes.first() else {
            return Ok(None);
        };
        if first & RESERVED != 0 {
            return Err(ProtocolError::ReservedBits);
        }
        let bits = first & !(FIN | RESERVED);
        let opcode = OpCode::from_bits(bits).ok_or(ProtocolError::ReservedOpCode(bits))?;
        let fin = first & FIN != 0;
        if opcode.is_control() && !fin {
            return Err(ProtocolError::FragmentedControl);
        }

        let Some(&second) = bytes.get(1) else {
            return Ok(None);
        };
        if second & MASKED == 0 {
            return Err(ProtocolError::Unmasked);
        }
        let short_length = second & LENGTH;
        if opcode.is_control() && usize::from(short_length) > MAX_CONTROL_PAYLOAD {
            return Err(ProtocolError::ControlTooLong);
        }

        let Some((length, key_start)) = parse_length(short_length, &bytes[2..])? else {
            return Ok(None);
        };
        let Some(&mask) = bytes[key_start..].first_chunk() else {
            return Ok(None);
        };
        let header = Self {
            fin,
            opcode,
            mask,
            length,
        };
        Ok(Some((header, key_start + mask.len())))
    }
}

/// The announced length and the place behind it in the frame; `extended` starts behind the first two
/// bytes.
#[inline]
fn parse_length(short_length: u8, extended: &[u8]) -> Result<Option<(u64, usize)>, ProtocolError> {
    match short_length {
        LENGTH_IS_U16 => {
            let Some(&bytes) = extended.first_chunk() else {
                return Ok(None);
            };
            let length = u16::from_be_bytes(bytes);
            if length < u16::from(LENGTH_IS_U16) {
                return Err(ProtocolError::LengthNotMinimal);
            }
            Ok(Some((u64::from(length), 4)))
        }
        LENGTH_IS_U64 => {
            let Some(&bytes) = extended.first_chunk() else {
                return Ok(None);
            };
            let length = u64::from_be_bytes(bytes);
            if length >> 63 != 0 {
                return Err(ProtocolError::LengthTopBit);
            }
            if length <= u64::from(u16::MAX) {
                return Err(ProtocolError::LengthNotMinimal);
            }
            Ok(Some((length, 10)))
        }
        short => Ok(Some((u64::from(short), 2))),
    }
}

/// The head of a server's frame, ready to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedHeader {
    bytes: [u8; MAX_SERVER_HEADER],
    length: u8,
}

impl EncodedHeader {
    /// The unmasked head of a frame with `payload` bytes.
    pub fn new(fin: bool, opcode: OpCode, payload: usize) -> Self {
        let mut bytes = [0; MAX_SERVER_HEADER];
        bytes[0] = if fin { FIN } else { 0 } | opcode as u8;
        let length = match (u8::try_from(payload), u16::try_from(payload)) {
            (Ok(short), _) if short < LENGTH_IS_U16 => {
                bytes[1] = short;
                2
            }
            (_, Ok(medium)) => {
                bytes[1] = LENGTH_IS_U16;
                bytes[2..4].copy_from_slice(&medium.to_be_bytes());
                4
            }
            _ => {
                bytes[1] = LENGTH_IS_U64;
                // Lossless: a payload in memory is shorter than 2^63.
                bytes[2..].copy_from_slice(&(payload as u64).to_be_bytes());
                10
            }
        };
        Self { bytes, length }
    }

    /// The bytes to write before the payload.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 4] = [1, 2, 3, 4];

    /// A head as a client writes it: `front` and the masking key.
    fn masked(front: &[u8]) -> Vec<u8> {
        [front, &KEY].concat()
    }

    fn parse(bytes: &[u8]) -> Result<Option<(FrameHeader, usize)>, ProtocolError> {
        let parsed = FrameHeader::parse(bytes);
        for cut in 0..bytes.len() {
            let early = FrameHeader::parse(&bytes[..cut]);
            assert!(
                early == Ok(None) || early == parsed,
                "cut at {cut}: {early:?}, whole: {parsed:?}"
            );
        }
        parsed
    }

    /// TR-4: each form of the length, at its edges, from whole and partial bytes.
    #[test]
    fn lengths_are_read_in_their_shortest_form() {
        for (front, length) in [
            (&[0x81, 0x80][..], 0),
            (&[0x81, 0x80 | 125], 125),
            (&[0x81, 0xfe, 0, 126], 126),
            (&[0x81, 0xfe, 0xff, 0xff], 65_535),
            (&[0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 0], 65_536),
            (
                &[0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                u64::MAX >> 1,
            ),
        ] {
            let header = FrameHeader {
                fin: true,
                opcode: OpCode::Text,
                mask: KEY,
                length,
            };
            let bytes = masked(front);
            assert_eq!(parse(&bytes), Ok(Some((header, bytes.len()))));
        }
    }

    /// TR-4: longer forms than needed, and the top bit, are violations.
    #[test]
    fn odd_lengths_are_refused() {
        for (front, error) in [
            (&[0x81, 0xfe, 0, 125][..], ProtocolError::LengthNotMinimal),
            (&[0x81, 0xfe, 0, 0], ProtocolError::LengthNotMinimal),
            (
                &[0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff],
                ProtocolError::LengthNotMinimal,
            ),
            (
                &[0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0],
                ProtocolError::LengthTopBit,
            ),
        ] {
            assert_eq!(parse(&masked(front)), Err(error), "{front:x?}");
        }
    }

    /// TR-4: each reserved bit, each reserved opcode.
    #[test]
    fn reserved_bits_and_opcodes_are_refused() {
        for bit in [0x40, 0x20, 0x10] {
            let bytes = masked(&[0x81 | bit, 0x80]);
            assert_eq!(parse(&bytes), Err(ProtocolError::ReservedBits));
        }
        for opcode in [0x3, 0x4, 0x5, 0x6, 0x7, 0xb, 0xc, 0xd, 0xe, 0xf] {
            let bytes = masked(&[0x80 | opcode, 0x80]);
            assert_eq!(parse(&bytes), Err(ProtocolError::ReservedOpCode(opcode)));
        }
        for opcode in [0x0, 0x1, 0x2, 0x8, 0x9, 0xa] {
            let (header, _) = parse(&masked(&[0x80 | opcode, 0x80])).unwrap().unwrap();
            assert_eq!(header.opcode as u8, opcode);
        }
    }

    /// TR-4: a client that does not mask.
    #[test]
    fn unmasked_frames_are_refused() {
        for front in [[0x81, 0x00], [0x89, 0x05], [0x82, 0x7e]] {
            assert_eq!(parse(&masked(&front)), Err(ProtocolError::Unmasked));
        }
    }

    /// TR-4: control frames are whole and short; data frames may be neither.
    #[test]
    fn control_frames_are_whole_and_short() {
        for opcode in [0x8, 0x9, 0xa] {
            let fragment = masked(&[opcode, 0x80]);
            assert_eq!(parse(&fragment), Err(ProtocolError::FragmentedControl));
            for length in [126, 127] {
                let long = masked(&[0x80 | opcode, 0x80 | length]);
                assert_eq!(parse(&long), Err(ProtocolError::ControlTooLong));
            }
            let longest = parse(&masked(&[0x80 | opcode, 0x80 | 125]))
                .unwrap()
                .unwrap();
            assert_eq!(longest.0.length, 125);
        }
        for opcode in [0x0, 0x1, 0x2] {
            let (header, _) = parse(&masked(&[opcode, 0x80])).unwrap().unwrap();
            assert!(!header.fin);
        }
    }

    /// TR-1: a server's head is unmasked and as short as its length allows.
    #[test]
    fn server_headers_take_the_shortest_form() {
        let encoded =
            |fin, opcode, payload| EncodedHeader::new(fin, opcode, payload).as_slice().to_vec();
        assert_eq!(encoded(true, OpCode::Text, 0), [0x81, 0]);
        assert_eq!(encoded(true, OpCode::Pong, 125), [0x8a, 125]);
        assert_eq!(encoded(false, OpCode::Text, 126), [0x01, 126, 0, 126]);
        assert_eq!(encoded(false, OpCode::Text, 255), [0x01, 126, 0, 255]);
        assert_eq!(
            encoded(false, OpCode::Continuation, 65_535),
            [0x00, 126, 0xff, 0xff]
        );
        assert_eq!(
            encoded(true, OpCode::Binary, 65_536),
            [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]
        );
    }
}
