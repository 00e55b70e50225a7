//! The log of the process, on standard error (OP-5).

use std::io::{IsTerminal, stderr};

use crate::configuration::{LogFormat, LogLevel};

/// Starts logging. A second call in one process changes nothing.
pub(crate) fn start(format: LogFormat, level: &LogLevel) {
    let json = match format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !stderr().is_terminal(),
    };
    let log = tracing_subscriber::fmt()
        .with_writer(stderr)
        .with_env_filter(level.filter());
    // An error means that the process logs already.
    let _ = if json {
        log.json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .try_init()
    } else {
        log.with_ansi(stderr().is_terminal())
            .with_target(false)
            .try_init()
    };
}

/// Sends panics to the log too: their text on standard error would break JSON lines, and tell
/// nobody who reads only the log.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        let payload = panic.payload();
        let message = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("a value that is no text");
        tracing::error!(location, "panicked: {message}");
    }));
}
