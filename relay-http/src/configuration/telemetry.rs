//! The forms that the log can take (OP-5), as the configuration names them.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    Auto,
    /// One readable line for each event.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Auto, Self::Text, Self::Json]
            .into_iter()
            .find(|format| format.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// What is logged: a level, and levels of single modules, as in `info,relay_actors=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLevel(String);

impl LogLevel {
    /// Reads it. A word that is no level is refused, although a filter would take it for a module:
    /// `verbose` would else silence everything.
    pub fn parse(text: &str) -> Option<Self> {
        let levels_are_known = text.split(',').all(|part| {
            let (module, level) = part.split_once('=').unwrap_or(("", part));
            let named = module.is_empty() != part.contains('=');
            named && level.trim().parse::<LevelFilter>().is_ok() && !level.trim().is_empty()
        });
        (levels_are_known && EnvFilter::builder().parse(text).is_ok())
            .then(|| Self(text.to_owned()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As a filter of the log.
    pub fn filter(&self) -> EnvFilter {
        // The server's own start and stop lines repeat ours. Its HTTP part has an error for each
        // malformed request: that is its sender's fault, was answered, and would let anybody fill
        // the log.
        EnvFilter::builder().parse_lossy(format!("actix_server=warn,actix_http=off,{}", self.0))
    }
}

impl Default for LogLevel {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read() {
        for text in [
            "info",
            "off",
            "warn,relay_actors=debug",
            "relay_http::serve=trace",
        ] {
            assert_eq!(
                LogLevel::parse(text).as_ref().map(LogLevel::as_str),
                Some(text)
            );
        }
        for text in [
            "",
            "verbose",
            "info,",
            "info,relay_actors",
            "=debug",
            "relay=",
            "relay=loud",
        ] {
            assert_eq!(LogLevel::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn formats_are_read() {
        assert_eq!(LogFormat::parse("json"), Some(LogFormat::Json));
        assert_eq!(LogFormat::parse("JSON"), None);
    }
}
