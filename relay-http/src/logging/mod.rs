//! The log of the process, on standard error (OP-5).

mod repeat_filter;
mod repetition;

use std::io::{IsTerminal, stderr};
use std::sync::OnceLock;

use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry};

use crate::configuration::{LogFormat, LogLevel};
use repeat_filter::RepeatFilter;
pub(crate) use repeat_filter::STRANGERS;

/// What the log of this process holds back; there is one log.
static REPEATS: OnceLock<RepeatFilter> = OnceLock::new();

/// What decides which lines there are.
static LEVEL: OnceLock<Handle<EnvFilter, Registry>> = OnceLock::new();

/// Starts logging. A second call in one process changes nothing.
pub(crate) fn start(format: LogFormat, level: &LogLevel) {
    let json = match format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !stderr().is_terminal(),
    };
    let repeats = REPEATS.get_or_init(RepeatFilter::new).clone();
    // A line that cannot be written is lost. Complaining of it on the same full disk would panic.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(stderr)
        .log_internal_errors(false);
    let lines = if json {
        lines
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .with_filter(repeats)
            .boxed()
    } else {
        lines
            .with_ansi(stderr().is_terminal())
            .with_target(false)
            .with_filter(repeats)
            .boxed()
    };
    let (filter, handle) = reload::Layer::new(level.filter());
    let started = tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init();
    // An error means that the process logs already.
    if started.is_ok() {
        let _ = LEVEL.set(handle);
    }
}

/// Logs by `level` from the next line on (OP-4).
pub(crate) fn set_level(level: &LogLevel) {
    if let Some(handle) = LEVEL.get() {
        // An error means that the log is gone, and the process with it.
        let _ = handle.reload(level.filter());
    }
}

/// Tells, every now and then and for ever, how many lines were held back.
pub(crate) async fn report_held_back_lines() {
    loop {
        tokio::time::sleep(repetition::WINDOW).await;
        if let Some(repeats) = REPEATS.get() {
            repeats.report();
        }
    }
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
