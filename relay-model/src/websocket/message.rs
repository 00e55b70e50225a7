//! A message of which some frame or part of a frame is still to come: it holds what was received,
//! never what was announced (TR-3), and judges text as it grows (TR-4).

use super::error::ProtocolError;
use super::header::OpCode;
use super::mask::append_unmasked;
use super::reader::Incoming;
use super::utf8::Utf8Progress;

/// The first capacity of a buffer, in bytes: below it growth would cost more than it saves.
const FIRST_CAPACITY: usize = 1024;

/// A message under way.
#[derive(Debug)]
pub(super) struct UnfinishedMessage {
    kind: Kind,
    /// Payload bytes over all frames so far, kept or not.
    received: usize,
    buffer: Vec<u8>,
}

/// What a frame's head says about the length of its whole message.
#[derive(Debug, Clone, Copy)]
pub(super) enum MessageLength {
    /// This many payload bytes: it is the last frame.
    Known(usize),
    /// The limit's worth at most: more frames follow.
    AtMost(usize),
}

#[derive(Debug)]
enum Kind {
    Text(Utf8Progress),
    Binary,
    /// What nobody wants: counted, not kept.
    Discarded,
}

impl UnfinishedMessage {
    /// A message that begins with a frame of `opcode`.
    pub(super) fn new(opcode: OpCode, keep_binary: bool) -> Self {
        let kind = match opcode {
            OpCode::Text => Kind::Text(Utf8Progress::default()),
            _ if keep_binary => Kind::Binary,
            _ => Kind::Discarded,
        };
        Self {
            kind,
            received: 0,
            buffer: Vec::new(),
        }
    }

    /// Gives back its bytes, and keeps none that come.
    pub(super) fn discard(&mut self) {
        self.kind = Kind::Discarded;
        self.buffer = Vec::new();
    }

    /// Payload bytes received over all frames.
    pub(super) fn received(&self) -> usize {
        self.received
    }

    /// Whether it is a text message.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Text(_))
    }

    /// Heap bytes held, itself included.
    pub(super) fn held(&self) -> usize {
        size_of::<Self>() + self.buffer.capacity()
    }

    /// Takes the next payload bytes, masked with `key`; `length` is that of the whole message.
    ///
    /// # Errors
    /// For text that is not UTF-8 and cannot become it.
    pub(super) fn append(
        &mut self,
        masked: &[u8],
        key: [u8; 4],
        length: MessageLength,
    ) -> Result<(), ProtocolError> {
        self.received += masked.len();
        if matches!(self.kind, Kind::Discarded) {
            return Ok(());
        }
        let before = self.buffer.len();
        make_room(&mut self.buffer, masked.len(), length);
        let ascii = append_unmasked(&mut self.buffer, masked, key);
        if let Kind::Text(progress) = &mut self.kind {
            progress
                .advance(&self.buffer, before, ascii)
                .map_err(|_| ProtocolError::InvalidUtf8)?;
        }
        Ok(())
    }

    /// The message, its last frame having ended.
    ///
    /// # Errors
    /// For text that ends inside a character.
    pub(super) fn finish(self) -> Result<Incoming, ProtocolError> {
        // Boxing gives back what the buffer has to spare, and needs no further allocation to share.
        match self.kind {
            Kind::Text(_) => {
                let text = String::from_utf8(self.buffer);
                let text = text.map_err(|_| ProtocolError::InvalidUtf8)?;
                Ok(Incoming::Text(text.into_boxed_str().into()))
            }
            Kind::Binary => Ok(Incoming::Binary(Some(
                self.buffer.into_boxed_slice().into(),
            ))),
            Kind::Discarded => Ok(Incoming::Binary(None)),
        }
    }
}

/// Makes room for `more` bytes. A buffer takes its final size, where that is known, once half of it is
/// there. Until then it grows by half, and by a quarter where the end is not in sight. So it is never
/// over twice what was received, and while its bytes move to a larger place both together stay below
/// nine quarters of the message.
fn make_room(buffer: &mut Vec<u8>, more: usize, length: MessageLength) {
    let needed = buffer.len() + more;
    if needed <= buffer.capacity() {
        return;
    }
    let capacity = match length {
        MessageLength::Known(length) if length / 2 <= needed => length,
        MessageLength::Known(length) => (needed + needed / 2).max(FIRST_CAPACITY).min(length),
        MessageLength::AtMost(limit) => (needed + needed / 4).max(FIRST_CAPACITY).min(limit),
    };
    // `needed` wins over a limit that was lowered meanwhile.
    buffer.reserve_exact(capacity.max(needed) - buffer.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 32 << 20;

    /// The capacities that a message of `length` goes through when it arrives in `step`s, of which the
    /// last is the message itself.
    fn capacities(length: usize, step: usize, announced: MessageLength) -> Vec<usize> {
        let mut message = UnfinishedMessage::new(OpCode::Text, false);
        let mut seen = vec![];
        let block = vec![b'a'; step];
        while message.received() < length {
            let take = step.min(length - message.received());
            message.append(&block[..take], [0; 4], announced).unwrap();
            let capacity = message.buffer.capacity();
            assert!(capacity <= 2 * message.received().max(FIRST_CAPACITY));
            if seen.last() != Some(&capacity) {
                seen.push(capacity);
            }
        }
        if seen.last() != Some(&length) {
            seen.push(length);
        }
        seen
    }

    /// TR-3: memory follows what was received, and two buffers stay well below 2.5 times the message.
    #[test]
    fn growth_follows_what_was_received() {
        for length in [100_000, 1 << 20, (17 << 20) + 1, 31 << 20, LIMIT] {
            for step in [1_000, 65_536, 131_072] {
                let known = capacities(length, step, MessageLength::Known(length));
                let unknown = capacities(length, step, MessageLength::AtMost(LIMIT));
                for (capacities, quarters) in [(known, 8), (unknown, 9)] {
                    let both = capacities.windows(2).map(|pair| pair[0] + pair[1]).max();
                    let allowed = length * quarters / 4 + step;
                    assert!(
                        both.is_none_or(|both| both <= allowed),
                        "{length} {step} {both:?}"
                    );
                }
            }
        }
    }

    /// TR-3: of a message of known length the buffer ends exact, so that nothing moves at its end.
    #[test]
    fn a_known_length_ends_exact() {
        for length in [1, 500, 3_000_001] {
            let mut message = UnfinishedMessage::new(OpCode::Text, false);
            for block in vec![b'a'; length].chunks(70_000) {
                message
                    .append(block, [0; 4], MessageLength::Known(length))
                    .unwrap();
            }
            assert_eq!(message.buffer.capacity(), length);
        }
    }
}
