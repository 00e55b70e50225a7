//! What a configuration that was read again changes, and what it would change after a restart: pure.

use relay_model::limits::LIMIT_KEYS;

use crate::configuration::{Key, Settings};

/// The way from the settings in force to others.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Changes {
    /// What is to be in force: of the settings that were read, those that a running relay can take.
    pub(super) settings: Settings,
    /// What becomes different, each with its value before.
    pub(super) changed: Vec<String>,
    /// The keys of what was read and has to wait for the next start.
    pub(super) needs_restart: Vec<String>,
}

impl Changes {
    pub(super) fn between(running: &Settings, read: &Settings) -> Self {
        let mut settings = running.clone();
        settings.log_level = read.log_level.clone();
        for limit in LIMIT_KEYS.iter().filter(|limit| !limit.needs_restart) {
            limit.copy(&read.limits, &mut settings.limits);
        }
        let keys = Key::all();
        let changed = keys.iter().filter(|key| key.differs(running, &settings));
        let waiting = keys.iter().filter(|key| key.differs(&settings, read));
        Self {
            changed: changed
                .map(|key| described(*key, running, &settings))
                .collect(),
            needs_restart: waiting.map(|key| key.path()).collect(),
            settings,
        }
    }
}

fn described(key: Key, before: &Settings, after: &Settings) -> String {
    let shown = |settings| key.show(settings).unwrap_or_else(|| "not set".to_owned());
    format!("{} = {} (was {})", key.path(), shown(after), shown(before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use relay_model::limits::{LimitKey, LimitRange, LimitValue};

    fn with(values: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (path, value) in values {
            Key::find(path).unwrap().set(&mut settings, value).unwrap();
        }
        settings
    }

    /// A value that is not the default.
    fn other(limit: &LimitKey) -> LimitValue {
        let ends = match limit.range() {
            LimitRange::Duration(range) => [*range.start(), *range.end()].map(LimitValue::Duration),
            LimitRange::Bytes(range) => [*range.start(), *range.end()].map(LimitValue::Bytes),
            LimitRange::Count(range) => [*range.start(), *range.end()].map(LimitValue::Count),
        };
        let other = ends.into_iter().find(|value| *value != limit.default);
        other.unwrap()
    }

    /// OP-4: nothing changes by what was there before.
    #[test]
    fn the_same_changes_nothing() {
        let same = with(&[("limits.http_body", "1KiB")]);
        let changes = Changes::between(&same, &same);
        assert_eq!(changes.settings, same);
        assert!(changes.changed.is_empty() && changes.needs_restart.is_empty());
    }

    /// OP-4: limits and the log level change; what changes is told with its value before.
    #[test]
    fn limits_and_the_log_level_change() {
        let read = with(&[
            ("limits.http_body", "1KiB"),
            ("telemetry.log_level", "warn"),
        ]);
        let changes = Changes::between(&Settings::default(), &read);
        assert_eq!(changes.settings, read);
        assert_eq!(
            changes.changed,
            [
                "telemetry.log_level = warn (was info)",
                "limits.http_body = 1KiB (was 256KiB)"
            ]
        );
        assert!(changes.needs_restart.is_empty());
        let back = Changes::between(&changes.settings, &Settings::default());
        assert_eq!(back.settings, Settings::default(), "a line that is gone");
    }

    /// OP-4: each limit changes, or keeps the value of the start and is named.
    #[test]
    fn every_limit_is_reloaded_or_named() {
        for limit in LIMIT_KEYS {
            let running = Settings::default();
            let mut read = Settings::default();
            limit.set(&mut read.limits, other(limit)).unwrap();
            let changes = Changes::between(&running, &read);
            let path = format!("{}.{}", limit.section, limit.name);
            if limit.needs_restart {
                assert_eq!(changes.settings, running, "{path}");
                assert_eq!(changes.needs_restart, [path]);
            } else {
                assert_eq!(changes.settings, read, "{path}");
                assert_eq!(changes.changed.len(), 1, "{path}");
            }
        }
    }

    /// OP-4: other settings wait for a restart and are named, secrets without their value.
    #[test]
    fn settings_wait_for_a_restart() {
        let secret = "0123456789abcdef0123456789abcdef";
        let read = with(&[
            ("server.listen", "127.0.0.1:1"),
            ("database.url", "postgres://relay:hunter2@db/relay"),
            ("admin.token", secret),
            ("limits.outbound_total", "64MiB"),
        ]);
        let changes = Changes::between(&Settings::default(), &read);
        assert_eq!(changes.settings, Settings::default());
        assert!(changes.changed.is_empty());
        assert_eq!(
            changes.needs_restart,
            [
                "server.listen",
                "database.url",
                "admin.token",
                "limits.outbound_total"
            ]
        );
    }
}
