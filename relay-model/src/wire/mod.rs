//! What stands in a frame: one file for what clients send, one for what the relay sends, and the
//! codes of both.

pub mod codes;
mod envelope;
pub mod inbound;
mod message;
pub mod outbound;
pub mod timeline;
pub mod traceparent;

pub use message::OutgoingText;
