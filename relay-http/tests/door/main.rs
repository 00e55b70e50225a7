//! The door of the relay from outside: upgrades over a pipe in memory, the server over real sockets,
//! the device API over a real relay, and the built binary as a process.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on panics, in helpers too, which clippy takes for production code"
)]

mod connect_limit;
mod device_api;
mod process;
mod server;
mod support;
mod upgrade;
