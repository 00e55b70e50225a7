//! The configuration on paper: every key with its default, range and meaning, and the values in
//! force with their origins.

use std::fmt::Write as _;

use super::{Configuration, Key, Settings};

const INTRODUCTION: &str = "\
# Configuration

Made by `relay config reference`; a test fails when this file is not current.

Values come, each winning over the one before, from the defaults, from a TOML file (`--config FILE`,
else `relay.toml` in the working directory if it is there), from environment variables and from
flags. `limits.ping_interval`, for example, is set by

- `[limits]` and `ping_interval = \"30s\"` in the file,
- `RELAY__LIMITS__PING_INTERVAL=30s` in the environment (an empty variable counts as not set),
- `--set limits.ping_interval=30s` on the command line.

Durations are written like `250ms`, `90s`, `15m`, `24h` or `7d`, sizes like `512B`, `64KiB` or `4MiB`. A key
that is not in this list, or a value outside its range, stops the relay with exit code 64 and a
message that names the key, where its value came from and what is allowed. `relay config check`
looks for both; `relay config print` shows the values in force and where each came from.

A change of the file takes effect on SIGHUP where *change* says `reload`, else with the next start
([OP-4](README.md#op-4-reload)).
";

/// Every key with its default, range and meaning, as Markdown.
pub fn reference() -> String {
    let defaults = Settings::default();
    let mut text = INTRODUCTION.to_owned();
    let mut section = "";
    for key in Key::all() {
        if key.section() != section {
            section = key.section();
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "\n## {section}\n\n| key | default | allowed | change | meaning |\n|---|---|---|---|---|\n"
            );
        }
        let default = match key.show(&defaults) {
            Some(value) => format!("`{value}`"),
            None => "not set".to_owned(),
        };
        let change = if key.needs_restart() {
            "restart"
        } else {
            "reload"
        };
        let _ = writeln!(
            text,
            "| `{}` | {default} | {} | {change} | {} |",
            key.path(),
            key.allowed(),
            key.meaning()
        );
    }
    text
}

/// The values in force as a TOML file, secrets masked, each with where it came from.
pub fn effective(configuration: &Configuration) -> String {
    let mut text = String::new();
    let mut section = "";
    for key in Key::all() {
        if key.section() != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            section = key.section();
            let _ = writeln!(text, "{gap}[{section}]");
        }
        let _ = match key.show(&configuration.settings) {
            Some(value) if key.is_bare_in_toml() => write!(text, "{} = {value}", key.name()),
            Some(value) => write!(text, "{} = {}", key.name(), quoted(&value)),
            None => write!(text, "# {} is not set", key.name()),
        };
        let _ = writeln!(text, "  # {}", configuration.origin(&key.path()));
    }
    text
}

/// A TOML basic string.
fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for character in value.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(text, "\\u{:04X}", u32::from(control));
            }
            plain => text.push(plain),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{FlagValue, Sources};

    fn with_flag(key: &str, value: &str) -> Configuration {
        let flag = FlagValue {
            flag: "--set".into(),
            key: key.into(),
            value: value.into(),
        };
        Configuration::load(Sources {
            flags: vec![flag],
            ..Sources::default()
        })
        .unwrap()
    }

    /// `docs/operations/configuration.md` is what `relay config reference` prints.
    #[test]
    fn the_document_is_current() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/operations/configuration.md"
        );
        let document = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            document == reference(),
            "run: cargo run -- config reference > docs/operations/configuration.md"
        );
    }

    /// OP-3: the reference names every key once, with its meaning.
    #[test]
    fn the_reference_names_every_key() {
        let text = reference();
        for key in Key::all() {
            assert_eq!(
                text.matches(&format!("| `{}` |", key.path())).count(),
                1,
                "{}",
                key.path()
            );
            assert!(text.contains(&key.meaning()), "{}", key.path());
        }
    }

    /// OP-2: what `relay config print` shows can be read back, apart from secrets.
    #[test]
    fn printed_values_can_be_read_back() {
        let configuration = with_flag("auth.secret_file", "a \"quoted\\path\"");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("relay.toml");
        std::fs::write(&file, effective(&configuration)).unwrap();
        let read = Configuration::load(Sources {
            file: Some(file),
            ..Sources::default()
        })
        .unwrap();
        assert_eq!(read.settings, configuration.settings);
    }

    /// OP-2: secrets are masked, and each value shows its origin.
    #[test]
    fn secrets_are_masked() {
        let secret = "0123456789abcdef0123456789abcdef";
        let text = effective(&with_flag("auth.hs256_secret", secret));
        assert!(!text.contains(secret), "{text}");
        assert!(
            text.contains("hs256_secret = \"********\"  # flag --set"),
            "{text}"
        );
        assert!(
            text.contains("ping_interval = \"30s\"  # default"),
            "{text}"
        );
        assert!(text.contains("rate_burst = 300  # default"), "{text}");
    }
}
