//! Just enough RFC 6455 for a client that costs almost nothing: frames leave with the zero mask
//! key, so that masking is no work here while the server still has to unmask them, and messages
//! that arrive whole are handed on where they lie.

/// Opcodes of RFC 6455 section 5.2.
const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;

/// Appends one final text frame.
pub fn append_text(out: &mut Vec<u8>, payload: &[u8]) {
    append(out, TEXT, payload);
}

/// Appends the answer to a ping.
pub fn append_pong(out: &mut Vec<u8>, payload: &[u8]) {
    append(out, PONG, payload);
}

fn append(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    out.push(FINAL | opcode);
    match payload.len() {
        length @ 0..126 => out.push(MASKED | length as u8),
        length @ 126..0x1_0000 => {
            out.push(MASKED | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(MASKED | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
}

/// What a server sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A complete message.
    Text(&'a [u8]),
    /// A ping, to be answered with this payload.
    Ping(&'a [u8]),
    /// The payload of a close frame.
    Close(&'a [u8]),
    /// A frame that no server of this protocol sends; the byte is the frame's first.
    Foreign(u8),
}

/// Puts the bytes of one connection together to messages. Holds memory only for what is unfinished.
#[derive(Debug, Default)]
pub struct Incoming {
    /// The beginning of a frame whose end has not arrived.
    unfinished: Vec<u8>,
    /// Fragments of a message whose last one has not arrived.
    fragments: Option<Vec<u8>>,
}

impl Incoming {
    /// Takes the next bytes and calls `on_received` for everything that they complete.
    ///
    /// # Errors
    /// Those of `on_received`; the connection is then of no use any more.
    pub fn push<E>(
        &mut self,
        bytes: &[u8],
        mut on_received: impl FnMut(Received<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.unfinished.is_empty() {
            let used = self.take_frames(bytes, &mut on_received)?;
            self.unfinished.extend_from_slice(&bytes[used..]);
        } else {
            let mut joined = std::mem::take(&mut self.unfinished);
            joined.extend_from_slice(bytes);
            let used = self.take_frames(&joined, &mut on_received)?;
            if used < joined.len() {
                joined.drain(..used);
                self.unfinished = joined;
            }
        }
        Ok(())
    }

    /// Hands on the complete frames at the start of `bytes`; returns how many bytes they took.
    fn take_frames<E>(
        &mut self,
        bytes: &[u8],
        on_received: &mut impl FnMut(Received<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut used = 0;
        while let Some((header, length)) = measure(&bytes[used..]) {
            let first = bytes[used];
            let payload = &bytes[used + header..used + header + length];
            used += header + length;
            let last = first & FINAL != 0;
            match (first & !FINAL, self.fragments.take()) {
                (TEXT, None) if last => on_received(Received::Text(payload))?,
                (TEXT, None) => self.fragments = Some(payload.to_vec()),
                (CONTINUATION, Some(mut message)) => {
                    message.extend_from_slice(payload);
                    if last {
                        on_received(Received::Text(&message))?;
                    } else {
                        self.fragments = Some(message);
                    }
                }
                (opcode @ (PING | PONG | CLOSE), fragments) => {
                    self.fragments = fragments;
                    match opcode {
                        PING => on_received(Received::Ping(payload))?,
                        CLOSE => on_received(Received::Close(payload))?,
                        _ => {}
                    }
                }
                _ => on_received(Received::Foreign(first))?,
            }
        }
        Ok(used)
    }
}

/// The header's length and the payload's, once all of the frame is in `bytes`. Servers do not mask.
fn measure(bytes: &[u8]) -> Option<(usize, usize)> {
    let (header, length) = match *bytes.get(1)? {
        126 => (
            4,
            u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?) as usize,
        ),
        127 => {
            let length = u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?);
            (10, usize::try_from(length).ok()?)
        }
        length => (2, usize::from(length)),
    };
    (bytes.len() - header >= length).then_some((header, length))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// The frame as a server sends it: the same without mask bit and key.
    fn from_server(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut masked = Vec::new();
        append(&mut masked, first & !FINAL, payload);
        let header = masked.len() - payload.len() - 4;
        let mut frame = masked[..header].to_vec();
        frame[0] = first;
        frame[1] &= !MASKED;
        frame.extend_from_slice(payload);
        frame
    }

    fn collect(incoming: &mut Incoming, bytes: &[u8]) -> Vec<String> {
        let mut seen = Vec::new();
        let Ok(()) = incoming.push(bytes, |received| {
            seen.push(match received {
                Received::Text(text) => format!("text {}", text.len()),
                other => format!("{other:?}"),
            });
            Ok::<_, Infallible>(())
        });
        seen
    }

    /// Every way to write a length (RFC 6455 5.2), cut at every byte, yields the same messages.
    #[test]
    fn messages_arrive_however_the_bytes_are_cut() {
        for length in [0, 1, 125, 126, 300, 0xFFFF, 0x1_0000] {
            let mut bytes = from_server(FINAL | TEXT, &vec![b'x'; length]);
            bytes.extend(from_server(FINAL | TEXT, b"next"));
            let expected = vec![format!("text {length}"), "text 4".to_owned()];
            let cuts: Vec<usize> = (0..bytes.len().min(20)).chain([bytes.len() - 5]).collect();
            for cut in cuts {
                let mut incoming = Incoming::default();
                let mut seen = collect(&mut incoming, &bytes[..cut]);
                seen.extend(collect(&mut incoming, &bytes[cut..]));
                assert_eq!(seen, expected, "length {length} cut at {cut}");
                assert!(incoming.unfinished.is_empty());
            }
        }
    }

    /// TR-3: a message in fragments with a ping between them is one message.
    #[test]
    fn fragments_are_joined_around_control_frames() {
        let mut incoming = Incoming::default();
        let mut bytes = from_server(TEXT, b"abc");
        bytes.extend(from_server(FINAL | PING, b"p"));
        bytes.extend(from_server(CONTINUATION, b"de"));
        bytes.extend(from_server(FINAL | CONTINUATION, b"f"));
        let seen = collect(&mut incoming, &bytes);
        assert_eq!(seen, ["Ping([112])", "text 6"]);
        assert!(incoming.fragments.is_none());
    }

    #[test]
    fn frames_out_of_place_are_reported() {
        let mut incoming = Incoming::default();
        let seen = collect(&mut incoming, &from_server(FINAL | CONTINUATION, b"x"));
        assert_eq!(seen, ["Foreign(128)"]);
        let seen = collect(&mut incoming, &from_server(FINAL | 0x2, b"x"));
        assert_eq!(seen, ["Foreign(130)"]);
    }
}
