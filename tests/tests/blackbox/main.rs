//! Tests of the built binary, from outside: HTTP, WebSockets and signals, nothing of its insides.

mod closing;
mod command_line;
mod error_codes;
mod events;
mod foreign_devices;
mod framing;
mod half_open;
mod handshake;
mod http;
mod json_extremes;
mod liveness;
mod messages;
mod presence;
mod refusals;
mod registration;
mod replacement;
mod requests;
mod responses;
mod restart;
mod rpc_bounds;
mod rpc_errors;
mod sessions;
mod signals;
mod targets;
mod upgrade;
mod verbatim;
