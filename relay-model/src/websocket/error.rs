//! What a peer can do wrong on the wire, each with the close code that answers it (TR-3, TR-4).

use super::MAX_CONTROL_PAYLOAD;
use crate::wire::codes::CloseCode;

/// A breach of RFC 6455 or of the message limit. The connection cannot be read any further: close it
/// with [`ProtocolError::close_code`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A reserved bit is set although no extension was negotiated.
    #[error("a reserved bit is set; do not use extensions that were not negotiated")]
    ReservedBits,
    /// The opcode is none of those that the RFC defines.
    #[error("opcode {0:#x} is reserved")]
    ReservedOpCode(u8),
    /// A client's frame is not masked.
    #[error("the frame is not masked; clients have to mask every frame")]
    Unmasked,
    /// A control frame is one fragment of several.
    #[error("a control frame may not be fragmented")]
    FragmentedControl,
    /// A control frame announces more than it may carry.
    #[error("a control frame may carry {MAX_CONTROL_PAYLOAD} bytes at most")]
    ControlTooLong,
    /// A length is written in more bytes than it needs.
    #[error("the payload length is not in its shortest form")]
    LengthNotMinimal,
    /// A 64-bit length has its top bit set.
    #[error("the top bit of a 64-bit payload length must be zero")]
    LengthTopBit,
    /// A continuation frame without a message to continue.
    #[error("a continuation frame came without an unfinished message")]
    UnexpectedContinuation,
    /// A new message before the former one was finished.
    #[error("a new message began before the former was finished; use continuation frames")]
    UnfinishedMessage,
    /// A message exceeds the limit, alone or as the sum of its fragments (TR-3).
    #[error("the message exceeds {limit} bytes")]
    TooLarge {
        /// The most payload bytes that a message may have.
        limit: usize,
    },
    /// A text message is not UTF-8 (TR-4).
    #[error("the text message is not UTF-8")]
    InvalidUtf8,
    /// A close payload of one byte, which is half a code.
    #[error("a close payload of one byte holds no code")]
    ClosePayloadTooShort,
    /// A close code that may not stand on the wire.
    #[error("close code {0} may not be sent")]
    CloseCodeInvalid(u16),
    /// The reason of a close is not UTF-8.
    #[error("the reason of the close is not UTF-8")]
    CloseReasonInvalidUtf8,
}

impl ProtocolError {
    /// The code to close the connection with: 1009 over the limit, 1007 for bad UTF-8, else 1002.
    pub const fn close_code(&self) -> CloseCode {
        match self {
            Self::TooLarge { .. } => CloseCode::TooLarge,
            Self::InvalidUtf8 | Self::CloseReasonInvalidUtf8 => CloseCode::InvalidUtf8,
            Self::ReservedBits
            | Self::ReservedOpCode(_)
            | Self::Unmasked
            | Self::FragmentedControl
            | Self::ControlTooLong
            | Self::LengthNotMinimal
            | Self::LengthTopBit
            | Self::UnexpectedContinuation
            | Self::UnfinishedMessage
            | Self::ClosePayloadTooShort
            | Self::CloseCodeInvalid(_) => CloseCode::ProtocolError,
        }
    }
}
