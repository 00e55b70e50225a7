//! What the WebSocket reader promises for any bytes, checked against a plain second reading of the
//! same stream. The fuzz target and the replay of its seeds share it.

use relay_model::websocket::close::may_be_sent;
use relay_model::websocket::reader::{Incoming, ProtocolError, Reader};

/// Message limits in bytes, of which an input's first byte chooses one.
const LIMITS: [usize; 4] = [0, 16, 300, 1 << 20];
/// What a reader may hold beside twice what it received, in bytes.
const OVERHEAD: usize = 2 * 1024;

/// What reading a stream came to.
#[derive(Debug, PartialEq)]
struct Reading {
    incoming: Vec<Incoming>,
    error: Option<ProtocolError>,
    messages_begun: u64,
}

/// Checks the contract with `data`: a byte that chooses the reader, a byte that chooses the pieces, and
/// the peer's bytes.
pub(crate) fn check(data: &[u8]) {
    let [choice, seed, stream @ ..] = data else {
        return;
    };
    let limit = LIMITS[usize::from(choice & 3)];
    let keep_binary = choice & 4 != 0;
    let reader = || {
        let reader = Reader::new(limit);
        if keep_binary {
            reader.keeping_binary()
        } else {
            reader
        }
    };

    let whole = read(reader(), stream, |rest| rest);
    let single = read(reader(), stream, |_| 1);
    assert_eq!(single, whole, "the pieces may not matter");
    let mut state = u32::from(*seed);
    let mixed = read(reader(), stream, |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        1 + (state >> 24) as usize % 40
    });
    assert_eq!(mixed, whole, "the pieces may not matter");

    for incoming in &whole.incoming {
        match incoming {
            Incoming::Text(text) => {
                assert!(text.len() <= limit);
            }
            Incoming::Binary(payload) => {
                assert_eq!(payload.is_some(), keep_binary);
                assert!(
                    payload
                        .as_ref()
                        .is_none_or(|payload| payload.len() <= limit)
                );
            }
            Incoming::Ping(payload) => assert!(payload.len() <= 125),
            Incoming::Pong => {}
            Incoming::Close(frame) => assert!(
                (frame.as_ref())
                    .is_none_or(|frame| may_be_sent(frame.code) && frame.reason.len() <= 123)
            ),
        }
    }
    compare(&whole, &Plain::read(stream, limit, keep_binary));
}

/// Reads `stream` in pieces as `size` says, which is given the length of the rest.
fn read(mut reader: Reader, stream: &[u8], mut size: impl FnMut(usize) -> usize) -> Reading {
    let mut incoming = Vec::new();
    let mut error = None;
    let mut rest = stream;
    while !rest.is_empty() && error.is_none() {
        let (mut piece, after) = rest.split_at(size(rest.len()).min(rest.len()));
        rest = after;
        loop {
            match reader.next(&mut piece) {
                Ok(Some(whole)) => incoming.push(whole),
                Ok(None) => {
                    assert!(piece.is_empty(), "the input is to be used up");
                    break;
                }
                Err(first) => {
                    assert_eq!(reader.next(&mut &b"\x81\x80abcd"[..]), Err(first));
                    assert_eq!(reader.buffered(), 0);
                    error = Some(first);
                    break;
                }
            }
        }
        let received = stream.len() - rest.len();
        assert!(reader.buffered() <= 2 * received + OVERHEAD);
        assert!((reader.unfinished()).is_none_or(|unfinished| unfinished.received <= received));
    }
    Reading {
        incoming,
        error,
        messages_begun: reader.messages_begun(),
    }
}

/// The plain reading knows whole frames only, so a fault inside the last, cut frame is the reader's
/// alone to find.
fn compare(reading: &Reading, plain: &Plain) {
    assert_eq!(reading.incoming, plain.incoming);
    match plain.close_code {
        Some(code) => {
            let found = reading.error.map(|error| error.close_code().code());
            assert_eq!(found, Some(code), "{:?}", reading.error);
        }
        None => assert!(reading.error.is_none() || plain.is_cut),
    }
}

/// The same stream read from RFC 6455 as plainly as possible, all of it being there.
#[derive(Default)]
struct Plain {
    incoming: Vec<Incoming>,
    close_code: Option<u16>,
    /// Whether the stream ends inside a frame.
    is_cut: bool,
}

impl Plain {
    fn read(mut stream: &[u8], limit: usize, keep_binary: bool) -> Self {
        let mut plain = Self::default();
        // Opcode and payload of the message under way.
        let mut message: Option<(u8, Vec<u8>)> = None;
        while plain.close_code.is_none() && !stream.is_empty() {
            let Some((frame, rest)) = PlainFrame::split(stream) else {
                plain.is_cut = true;
                break;
            };
            stream = rest;
            if let Err(code) = plain.take(&frame, &mut message, limit, keep_binary) {
                plain.close_code = Some(code);
            }
            if matches!(plain.incoming.last(), Some(Incoming::Close(_))) {
                break;
            }
        }
        plain
    }

    fn take(
        &mut self,
        frame: &PlainFrame,
        message: &mut Option<(u8, Vec<u8>)>,
        limit: usize,
        keep_binary: bool,
    ) -> Result<(), u16> {
        let is_control = frame.opcode >= 8;
        let known = matches!(frame.opcode, 0..=2 | 8..=10);
        let shortest = match frame.payload.len() {
            0..=125 => 0,
            126..=65_535 => 2,
            _ => 8,
        };
        if frame.reserved != 0
            || !known
            || !frame.masked
            || frame.length_bytes != shortest
            || (is_control && (!frame.fin || frame.payload.len() > 125))
        {
            return Err(1002);
        }
        if is_control {
            let incoming = match frame.opcode {
                8 => Incoming::Close(plain_close(&frame.payload)?),
                9 => Incoming::Ping(frame.payload.clone().into()),
                _ => Incoming::Pong,
            };
            self.incoming.push(incoming);
            return Ok(());
        }
        if message.is_some() != (frame.opcode == 0) {
            return Err(1002);
        }
        let (opcode, mut payload) = message.take().unwrap_or((frame.opcode, Vec::new()));
        payload.extend(&frame.payload);
        if payload.len() > limit {
            return Err(1009);
        }
        if opcode == 1 {
            match str::from_utf8(&payload) {
                Ok(_) => {}
                Err(error) if !frame.fin && error.error_len().is_none() => {}
                Err(_) => return Err(1007),
            }
        }
        if !frame.fin {
            *message = Some((opcode, payload));
        } else if opcode == 1 {
            let text = String::from_utf8(payload).map_err(|_| 1007u16)?;
            self.incoming.push(Incoming::Text(text.into()));
        } else {
            let payload = keep_binary.then(|| payload.into());
            self.incoming.push(Incoming::Binary(payload));
        }
        Ok(())
    }
}

fn plain_close(payload: &[u8]) -> Result<Option<relay_model::websocket::reader::CloseFrame>, u16> {
    match payload {
        [] => Ok(None),
        [_] => Err(1002),
        [high, low, reason @ ..] => {
            let code = u16::from(*high) << 8 | u16::from(*low);
            let listed = [1000, 1001, 1002, 1003].contains(&code)
                || (1007..1015).contains(&code)
                || (3000..5000).contains(&code);
            if !listed {
                return Err(1002);
            }
            let reason = String::from_utf8(reason.to_vec()).map_err(|_| 1007u16)?;
            Ok(Some(relay_model::websocket::reader::CloseFrame {
                code,
                reason,
            }))
        }
    }
}

/// A frame as it stands, right or wrong.
struct PlainFrame {
    fin: bool,
    reserved: u8,
    opcode: u8,
    masked: bool,
    length_bytes: usize,
    payload: Vec<u8>,
}

impl PlainFrame {
    fn split(stream: &[u8]) -> Option<(Self, &[u8])> {
        let (&first, rest) = stream.split_first()?;
        let (&second, rest) = rest.split_first()?;
        let length_bytes = match second & 127 {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let (extended, rest) = rest.split_at_checked(length_bytes)?;
        let length = match extended {
            [] => u64::from(second & 127),
            bytes => (bytes.iter()).fold(0, |length, &byte| length << 8 | u64::from(byte)),
        };
        let masked = second & 128 != 0;
        let (key, rest) = rest.split_at_checked(if masked { 4 } else { 0 })?;
        let (payload, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        let key = if masked { key } else { &[0; 4] };
        let frame = Self {
            fin: first & 128 != 0,
            reserved: first & 0x70,
            opcode: first & 15,
            masked,
            length_bytes,
            payload: (payload.iter().zip(key.iter().cycle()))
                .map(|(byte, key)| byte ^ key)
                .collect(),
        };
        Some((frame, rest))
    }
}
