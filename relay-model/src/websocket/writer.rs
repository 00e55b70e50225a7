//! A message on its way to the peer: which bytes come next, in fragments of a limited size, so that
//! control frames can pass between them (TR-3). Pure: the caller owns the socket.

use std::io::IoSlice;

use bytes::Bytes;

use super::header::{EncodedHeader, OpCode};
use crate::wire::OutgoingText;

/// The most slices that one message adds to a gathered write.
pub const SLICES_PER_MESSAGE: usize = 4;

/// One message being written.
#[derive(Debug)]
pub struct MessageWriter {
    opcode: OpCode,
    payload: OutgoingText,
    fragment_size: usize,
    header: EncodedHeader,
    /// Bytes of the current frame's header that were accepted.
    header_sent: usize,
    /// Payload bytes that were accepted.
    sent: usize,
    /// Where the current frame's payload ends.
    frame_end: usize,
    begun: bool,
}

impl MessageWriter {
    /// A text message, in fragments of at most `fragment_size` bytes.
    pub fn text(payload: OutgoingText, fragment_size: usize) -> Self {
        Self::new(OpCode::Text, payload, fragment_size)
    }

    /// A binary message, in fragments of at most `fragment_size` bytes.
    pub fn binary(payload: Bytes, fragment_size: usize) -> Self {
        Self::new(OpCode::Binary, OutgoingText::new(payload), fragment_size)
    }

    /// A control frame; `payload` must be at most 125 bytes, else it is cut.
    pub fn control(opcode: OpCode, payload: Bytes) -> Self {
        let payload = payload.slice(..payload.len().min(super::MAX_CONTROL_PAYLOAD));
        Self::new(
            opcode,
            OutgoingText::new(payload),
            super::MAX_CONTROL_PAYLOAD,
        )
    }

    fn new(opcode: OpCode, payload: OutgoingText, fragment_size: usize) -> Self {
        let fragment_size = fragment_size.max(1);
        let frame_end = payload.len().min(fragment_size);
        let header = EncodedHeader::new(frame_end == payload.len(), opcode, frame_end);
        Self {
            opcode,
            payload,
            fragment_size,
            header,
            header_sent: 0,
            sent: 0,
            frame_end,
            begun: false,
        }
    }

    /// What kind of message this is.
    pub fn opcode(&self) -> OpCode {
        self.opcode
    }

    /// Whether a byte of it was accepted: it must then be finished, or the connection given up.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether it stands between two frames, where control frames may pass.
    pub fn is_between_frames(&self) -> bool {
        self.header_sent == 0
    }

    /// Whether the current frame is its last.
    pub fn is_on_last_frame(&self) -> bool {
        self.frame_end == self.payload.len()
    }

    /// The bytes of its payload.
    pub fn payload_len(&self) -> usize {
        self.payload.len()
    }

    /// Writes what is left of the current frame into `slices` from `count` on, at most
    /// [`SLICES_PER_MESSAGE`] of them, and returns its length. There must be room.
    pub fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>], count: &mut usize) -> usize {
        let mut total = 0;
        let mut push = |bytes: &'a [u8]| {
            if !bytes.is_empty() {
                slices[*count] = IoSlice::new(bytes);
                *count += 1;
                total += bytes.len();
            }
        };
        push(&self.header.as_slice()[self.header_sent..]);
        let mut piece_start = 0;
        for piece in self.payload.pieces() {
            let piece_end = piece_start + piece.len();
            let from = self.sent.max(piece_start);
            let to = self.frame_end.min(piece_end);
            if from < to {
                push(&piece[from - piece_start..to - piece_start]);
            }
            piece_start = piece_end;
        }
        total
    }

    /// Takes note that the socket accepted `bytes` more bytes, of which this message uses at most
    /// what is left of its current frame; returns the rest. A finished frame makes way for the next.
    pub fn advance(&mut self, bytes: usize) -> usize {
        if bytes == 0 {
            return 0;
        }
        self.begun = true;
        let of_header = bytes.min(self.header.as_slice().len() - self.header_sent);
        self.header_sent += of_header;
        let of_payload = (bytes - of_header).min(self.frame_end - self.sent);
        self.sent += of_payload;
        if self.is_frame_done() && !self.is_on_last_frame() {
            self.begin_next_frame();
        }
        bytes - of_header - of_payload
    }

    /// Whether every byte was accepted.
    pub fn is_finished(&self) -> bool {
        self.is_on_last_frame() && self.is_frame_done()
    }

    fn is_frame_done(&self) -> bool {
        self.sent == self.frame_end && self.header_sent == self.header.as_slice().len()
    }

    fn begin_next_frame(&mut self) {
        self.frame_end = self.payload.len().min(self.sent + self.fragment_size);
        let length = self.frame_end - self.sent;
        self.header = EncodedHeader::new(self.is_on_last_frame(), OpCode::Continuation, length);
        self.header_sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write_all(mut writer: MessageWriter, step: usize) -> Vec<u8> {
        let mut written = Vec::new();
        while !writer.is_finished() {
            let mut slices = [IoSlice::new(&[]); SLICES_PER_MESSAGE];
            let mut count = 0;
            let total = writer.gather(&mut slices, &mut count);
            let bytes: Vec<u8> = slices[..count]
                .iter()
                .flat_map(|slice| slice.to_vec())
                .collect();
            assert_eq!(bytes.len(), total);
            let accepted = total.min(step);
            written.extend_from_slice(&bytes[..accepted]);
            assert_eq!(writer.advance(accepted), 0);
        }
        written
    }

    #[test]
    fn a_small_message_is_one_frame() {
        let writer = MessageWriter::text(OutgoingText::new("abc"), 16);
        assert_eq!(write_all(writer, usize::MAX), b"\x81\x03abc");
    }

    #[test]
    fn an_empty_message_is_one_empty_frame() {
        let writer = MessageWriter::text(OutgoingText::new(""), 16);
        assert!(!writer.is_finished());
        assert_eq!(write_all(writer, 1), b"\x81\x00");
    }

    /// TR-3: fragments of at most the given size, the last one final.
    #[test]
    fn a_large_message_goes_out_in_fragments() {
        let writer = MessageWriter::text(OutgoingText::new("abcdefg"), 3);
        assert_eq!(
            write_all(writer, usize::MAX),
            b"\x01\x03abc\x00\x03def\x80\x01g"
        );
    }

    #[test]
    fn control_payloads_are_cut_to_what_a_control_frame_may_hold() {
        let writer = MessageWriter::control(OpCode::Ping, Bytes::from(vec![b'x'; 200]));
        assert_eq!(write_all(writer, 7).len(), 2 + 125);
    }

    proptest! {
        /// TR-3: whatever the steps in which a socket takes it, the frames are the same.
        #[test]
        fn partial_writes_change_nothing(
            length in 0usize..5_000,
            fragment in 1usize..2_000,
            step in 1usize..3_000,
        ) {
            let text: String = ('a'..='z').cycle().take(length).collect();
            let whole = MessageWriter::text(OutgoingText::new(text.clone()), fragment);
            let parts = MessageWriter::text(OutgoingText::new(text), fragment);
            prop_assert_eq!(write_all(whole, usize::MAX), write_all(parts, step));
        }
    }
}
