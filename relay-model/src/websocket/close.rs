//! The payload of a close frame: a code that may stand on the wire and a short reason (TR-4).

use bytes::Bytes;

use super::MAX_CONTROL_PAYLOAD;
use super::error::ProtocolError;

/// The longest reason in bytes: a control frame's payload less the code.
pub const MAX_CLOSE_REASON: usize = MAX_CONTROL_PAYLOAD - size_of::<u16>();

/// Why a peer closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseFrame {
    /// The close code, one of those that may stand on the wire.
    pub code: u16,
    /// The reason, for logs; at most [`MAX_CLOSE_REASON`] bytes.
    pub reason: String,
}

impl CloseFrame {
    /// Reads the unmasked payload of a close frame; `None` when it is empty, which means no code.
    ///
    /// # Errors
    /// For half a code, a code that may not be sent (1002 both), or a reason that is not UTF-8 (1007).
    pub fn parse(payload: &[u8]) -> Result<Option<Self>, ProtocolError> {
        if payload.is_empty() {
            return Ok(None);
        }
        let Some((&code, reason)) = payload.split_first_chunk() else {
            return Err(ProtocolError::ClosePayloadTooShort);
        };
        let code = u16::from_be_bytes(code);
        if !may_be_sent(code) {
            return Err(ProtocolError::CloseCodeInvalid(code));
        }
        let reason = str::from_utf8(reason).map_err(|_| ProtocolError::CloseReasonInvalidUtf8)?;
        Ok(Some(Self {
            code,
            reason: reason.to_owned(),
        }))
    }
}

/// Whether a close frame may carry `code`: the registered codes less those that only report something
/// locally (1004 to 1006, 1015), and the ranges for libraries and applications.
pub const fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// The payload of a close frame; a reason over [`MAX_CLOSE_REASON`] is cut at a character.
pub fn encode(code: u16, reason: &str) -> Bytes {
    let mut end = reason.len().min(MAX_CLOSE_REASON);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let mut payload = Vec::with_capacity(size_of::<u16>() + end);
    payload.extend_from_slice(&code.to_be_bytes());
    payload.extend_from_slice(&reason.as_bytes()[..end]);
    Bytes::from(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::codes::CloseCode;

    /// TR-4: the codes that a peer may send, at each edge; all others are violations.
    #[test]
    fn codes_are_taken_or_refused_at_each_edge() {
        for code in [
            1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999,
            4000, 4999,
        ] {
            let frame = CloseFrame {
                code,
                reason: String::new(),
            };
            assert_eq!(CloseFrame::parse(&code.to_be_bytes()), Ok(Some(frame)));
        }
        for code in [
            0,
            999,
            1004,
            1005,
            1006,
            1015,
            1016,
            1100,
            2000,
            2999,
            5000,
            u16::MAX,
        ] {
            let error = CloseFrame::parse(&code.to_be_bytes()).unwrap_err();
            assert_eq!(error, ProtocolError::CloseCodeInvalid(code));
            assert_eq!(error.close_code(), CloseCode::ProtocolError);
        }
    }

    /// TR-4: the shapes of the payload.
    #[test]
    fn payloads_are_none_or_a_code_and_a_reason() {
        assert_eq!(CloseFrame::parse(b""), Ok(None));
        let half = CloseFrame::parse(b"\x03").unwrap_err();
        assert_eq!(half.close_code(), CloseCode::ProtocolError);
        let broken = CloseFrame::parse(b"\x03\xe8ab\xff").unwrap_err();
        assert_eq!(broken.close_code(), CloseCode::InvalidUtf8);
        // The code is judged before the reason.
        let both = CloseFrame::parse(b"\x03\xed\xff").unwrap_err();
        assert_eq!(both.close_code(), CloseCode::ProtocolError);
    }

    /// Every code that the relay sends may stand on the wire and comes back as it was.
    #[test]
    fn what_is_encoded_is_parsed() {
        for code in CloseCode::ALL {
            let frame = CloseFrame::parse(&encode(code.code(), code.meaning())).unwrap();
            let expected = CloseFrame {
                code: code.code(),
                reason: code.meaning().to_owned(),
            };
            assert_eq!(frame, Some(expected));
        }
    }

    /// TR-4: the relay's own close fits a control frame and stays UTF-8.
    #[test]
    fn long_reasons_are_cut_at_a_character() {
        let exact = encode(1000, &"x".repeat(123));
        assert_eq!(exact.len(), 125);
        assert_eq!(encode(1000, &"x".repeat(124)), exact);
        // The character at 122 would end at 125.
        let cut = encode(1000, &format!("{}\u{20ac}", "x".repeat(122)));
        assert_eq!(cut.len(), 2 + 122);
        assert!(CloseFrame::parse(&cut).is_ok());
    }
}
