//! SocketActor.
pub mod transport;
