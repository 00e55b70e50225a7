//! The `relay` binary: hands the process to [`relay_http::command_line`].

use std::io::{stderr, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Not locked: the log writes to standard error from every thread.
    relay_http::command_line::run(
        std::env::args_os(),
        std::env::vars_os(),
        &mut stdout(),
        &mut stderr(),
    )
    .into()
}
