//! Holds back warnings that repeat, and refusals of strangers at the door, which anybody can cause in
//! any number, and tells how many (OP-5).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

use super::repetition::Repetition;

/// The target of lines that strangers can cause in any number, whatever their level.
pub(crate) const STRANGERS: &str = "relay::door";

/// The place in the code that writes a line: the name that tracing gives it.
type Place = &'static str;

/// What a filter and its reports share. Not an actor's state: lines come from every thread, before
/// and after there are actors.
#[derive(Clone)]
pub(super) struct RepeatFilter(Arc<Mutex<Repetition<Place>>>);

impl RepeatFilter {
    #[expect(
        clippy::disallowed_methods,
        reason = "the log runs on the real clock, also without a runtime"
    )]
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Repetition::new(Instant::now()))))
    }

    /// Writes one line for each place whose lines were held back since the last call.
    #[expect(
        clippy::disallowed_methods,
        reason = "the log runs on the real clock, also without a runtime"
    )]
    pub(super) fn report(&self) {
        let held_back = self.repetition().held_back(Instant::now());
        for (at, count) in held_back {
            tracing::info!(at, count, "lines like those before were held back");
        }
    }

    fn repetition(&self) -> MutexGuard<'_, Repetition<Place>> {
        // Counts are never half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn may_flood(metadata: &Metadata<'_>) -> bool {
    *metadata.level() == Level::WARN || metadata.target() == STRANGERS
}

impl<S: Subscriber> Filter<S> for RepeatFilter {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if !may_flood(metadata) {
            return true;
        }
        self.repetition().admit(metadata.name())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use tracing_subscriber::layer::{Layer, SubscriberExt};

    use super::*;

    /// A log that can be read.
    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(lines: impl FnOnce()) -> String {
        let page = Page::default();
        let writer = page.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_filter(RepeatFilter::new());
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, lines);
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// OP-5: warnings and strangers' lines are held back by the place that writes them; what the
    /// relay does for its devices is told each time, and errors are too.
    #[test]
    fn floods_are_held_back() {
        let log = written(|| {
            for number in 0..30 {
                tracing::warn!(number, "one warning");
                tracing::warn!(number, "another warning");
                tracing::info!(target: STRANGERS, number, "a stranger");
                tracing::info!(number, "a device");
                tracing::error!(number, "an error");
            }
        });
        for (line, shown) in [
            ("one warning", 10),
            ("another warning", 10),
            ("a stranger", 10),
            ("a device", 30),
            ("an error", 30),
        ] {
            assert_eq!(log.matches(line).count(), shown, "{line}");
        }
    }
}
