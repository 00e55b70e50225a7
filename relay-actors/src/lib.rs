//! Who does what in the device relay.

pub mod environment;
mod relay;
pub mod socket;

pub use relay::{ConnectionOrigin, Relay};
