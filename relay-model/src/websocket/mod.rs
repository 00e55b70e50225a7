//! RFC 6455 framing: pure, strict, without I/O, clock or tasks, so that the same code serves sockets,
//! simulated runs and fuzzing.

#[cfg(test)]
mod client_frame;
pub mod close;
pub mod error;
pub mod handshake;
pub mod header;
pub mod mask;
mod message;
pub mod reader;
pub mod utf8;
pub mod writer;

/// The most payload bytes that a control frame may carry (RFC 6455, 5.5).
pub const MAX_CONTROL_PAYLOAD: usize = 125;
