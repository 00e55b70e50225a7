//! WebSocket frames by hand (RFC 6455, section 5.2), right ones and wrong ones.

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpCode {
    /// Goes on with a fragmented message.
    Continuation,
    /// Text.
    Text,
    /// Binary.
    Binary,
    /// Close.
    Close,
    /// Ping.
    Ping,
    /// Pong.
    Pong,
}

impl OpCode {
    const ALL: [(Self, u8); 6] = [
        (Self::Continuation, 0x0),
        (Self::Text, 0x1),
        (Self::Binary, 0x2),
        (Self::Close, 0x8),
        (Self::Ping, 0x9),
        (Self::Pong, 0xA),
    ];

    /// Its bits.
    pub fn bits(self) -> u8 {
        let found = Self::ALL.iter().find(|(code, _)| *code == self);
        found.expect("all are listed").1
    }

    fn from_bits(bits: u8) -> Self {
        let found = Self::ALL.iter().find(|(_, known)| *known == bits);
        found
            .unwrap_or_else(|| panic!("the relay sent the opcode {bits:#x}"))
            .0
    }
}

/// The bit of a message's last frame.
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
/// Without high bits, so that ASCII which a test writes behind a bare header stays ASCII.
const MASK: [u8; 4] = [0x37, 0x1A, 0x21, 0x3D];

/// A whole frame of a client: masked.
pub fn encode(op: OpCode, is_final: bool, payload: &[u8]) -> Vec<u8> {
    let mut frame = header(op, is_final, payload.len() as u64);
    let masked = payload.iter().zip(MASK.iter().cycle());
    frame.extend(masked.map(|(byte, mask)| byte ^ mask));
    frame
}

/// The header of a client's frame that announces `length` bytes.
pub fn header(op: OpCode, is_final: bool, length: u64) -> Vec<u8> {
    let mut header = vec![op.bits() | if is_final { FIN } else { 0 }];
    match length {
        0..126 => header.push(MASKED | length as u8),
        126..=0xFFFF => {
            header.push(MASKED | 126);
            header.extend((length as u16).to_be_bytes());
        }
        _ => {
            header.push(MASKED | 127);
            header.extend(length.to_be_bytes());
        }
    }
    header.extend(MASK);
    header
}

/// A frame of the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawFrame {
    /// What it is.
    pub op: OpCode,
    /// Whether it is the last one of its message.
    pub is_final: bool,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl RawFrame {
    /// Takes the first frame from `bytes`, if it is there in whole.
    ///
    /// # Panics
    /// When it breaks the rules for a server's frames.
    pub(super) fn take(bytes: &mut Vec<u8>) -> Option<Self> {
        let [first, second, ..] = bytes[..] else {
            return None;
        };
        assert_eq!(first & 0x70, 0, "reserved bits are not used");
        assert_eq!(second & MASKED, 0, "a server does not mask");
        let (length, start) = match second {
            126 => (u64::from(u16::from_be_bytes(array(bytes, 2)?)), 4),
            127 => (u64::from_be_bytes(array(bytes, 2)?), 10),
            length => (u64::from(length), 2),
        };
        let end = start + usize::try_from(length).expect("a length that fits");
        if bytes.len() < end {
            return None;
        }
        let payload = bytes[start..end].to_vec();
        bytes.drain(..end);
        Some(Self {
            op: OpCode::from_bits(first & 0x0F),
            is_final: first & FIN != 0,
            payload,
        })
    }

    /// The code of a close frame.
    pub fn close_code(&self) -> Option<u16> {
        let bytes = array(&self.payload, 0)?;
        (self.op == OpCode::Close).then(|| u16::from_be_bytes(bytes))
    }
}

fn array<const N: usize>(bytes: &[u8], start: usize) -> Option<[u8; N]> {
    bytes.get(start..start + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_in_the_shortest_form() {
        assert_eq!(header(OpCode::Text, true, 125)[..2], [0x81, 0x80 | 125]);
        assert_eq!(
            header(OpCode::Text, false, 126)[..4],
            [0x01, 0x80 | 126, 0, 126]
        );
        assert_eq!(header(OpCode::Ping, true, 65_536)[1], 0x80 | 127);
    }

    #[test]
    fn frames_are_taken_one_by_one() {
        let mut bytes = b"\x81\x02hi\x88\x02\x03\xe8\x81\x7e\x00".to_vec();
        let text = RawFrame::take(&mut bytes).unwrap();
        assert_eq!((text.op, &text.payload[..]), (OpCode::Text, &b"hi"[..]));
        let close = RawFrame::take(&mut bytes).unwrap();
        assert_eq!(close.close_code(), Some(1000));
        assert_eq!(RawFrame::take(&mut bytes), None);
        assert_eq!(bytes.len(), 3);
    }
}
