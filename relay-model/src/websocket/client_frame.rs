//! Frames as a client writes them, for the tests of the reading side.

use super::header::OpCode;

/// A frame that begins or continues a message, or a control frame, masked with `key`.
pub(super) fn client_frame(fin: bool, opcode: OpCode, payload: &[u8], key: [u8; 4]) -> Vec<u8> {
    let mut frame = client_header(fin, opcode, payload.len() as u64, key);
    frame.extend((payload.iter().enumerate()).map(|(index, byte)| byte ^ key[index % 4]));
    frame
}

/// The head of such a frame with whatever length it should announce.
pub(super) fn client_header(fin: bool, opcode: OpCode, length: u64, key: [u8; 4]) -> Vec<u8> {
    let mut header = vec![u8::from(fin) << 7 | opcode as u8];
    match length {
        0..126 => header.push(0x80 | length as u8),
        126..0x1_0000 => {
            header.push(0x80 | 126);
            header.extend((length as u16).to_be_bytes());
        }
        _ => {
            header.push(0x80 | 127);
            header.extend(length.to_be_bytes());
        }
    }
    header.extend(key);
    header
}
