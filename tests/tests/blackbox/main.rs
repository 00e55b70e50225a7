//! Tests of the built binary, from outside: HTTP, WebSockets and signals, nothing of its insides.

mod api_keys;
mod command_line;
mod description;
mod events;
mod framing;
mod half_open;
mod http;
mod liveness;
mod messages;
mod origins;
mod presence;
mod public_key_outages;
mod public_keys;
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
