//! What the device relay is made of: identifiers, the numbers of the protocol, the frames on the
//! wire, WebSocket framing and the device store. Nothing here knows an actor, a socket or HTTP.

pub mod credentials;
pub mod ids;
pub mod limits;
pub mod push;
pub mod store;
pub mod time;
pub mod timeline;
pub mod websocket;
pub mod wire;
