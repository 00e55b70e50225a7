//! The reading side of a connection: takes bytes as they come and returns whole messages and control
//! frames. It keeps memory only for what is unfinished, and judges a frame by its head before any
//! payload is kept (TR-3, TR-4).

use bytes::Bytes;
use bytestring::ByteString;

pub use super::close::CloseFrame;
pub use super::error::ProtocolError;
use super::header::{FrameHeader, MAX_CLIENT_HEADER, OpCode};
use super::mask::{append_unmasked, key_after};
use super::message::{MessageLength, UnfinishedMessage};

/// The payload of a ping: at most [`super::MAX_CONTROL_PAYLOAD`] bytes.
pub type ControlPayload = Bytes;

/// One whole thing that a peer sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A text message, in a buffer of its own and of exactly its size.
    Text(ByteString),
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
    /// No message is kept any more.
    discarding: bool,
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
            discarding: false,
        }
    }

    /// The same reader, but returning the payload of binary messages.
    #[must_use]
    pub fn keeping_binary(mut self) -> Self {
        self.keep_binary = true;
        self
    }

    /// Gives back what it holds of a message under way and keeps none from here on, for a connection
    /// that only waits for the peer's close: messages are returned as binary ones without payload.
    pub fn discard(&mut self) {
        self.discarding = true;
        if let Some(message) = &mut self.message {
            message.discard();
        }
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
            append_unmasked(&mut payload, masked, header.mask);
            payload
        };
        let incoming = match header.opcode {
            OpCode::Text | OpCode::Binary if header.fin && self.discarding => {
                Incoming::Binary(None)
            }
            OpCode::Text if header.fin => {
                let text = String::from_utf8(unmask());
                Incoming::Text(text.map_err(|_| ProtocolError::InvalidUtf8)?.into())
            }
            OpCode::Binary if header.fin => {
                Incoming::Binary(self.keep_binary.then(|| unmask().into()))
            }
            OpCode::Ping => Incoming::Ping(unmask().into()),
            OpCode::Pong => Incoming::Pong,
            OpCode::Close => Incoming::Close(CloseFrame::parse(&unmask())?),
            OpCode::Text | OpCode::Binary | OpCode::Continuation => return Ok(None),
        };
        Ok(Some(incoming))
    }

    /// Begins a frame that is a fragment or did not come in one piece.
    fn begin(&mut self, header: &FrameHeader, length: usize) {
        if matches!(header.opcode, OpCode::Text | OpCode::Binary) {
            let mut message = UnfinishedMessage::new(header.opcode, self.keep_binary);
            if self.discarding {
                message.discard();
            }
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
                    let length = if frame.fin {
                        MessageLength::Known(message.received() + frame.remaining)
                    } else {
                        MessageLength::AtMost(self.max_message)
                    };
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
mod properties;
#[cfg(test)]
mod tests;
