//! The layers under the flags: each becomes a list of keys with their text and origin, so that one
//! place judges them all alike.

use std::ffi::OsString;
use std::path::Path;

use config::{ConfigError, Environment, File, FileFormat, Map, Source, Value, ValueKind};

use super::origin::Origin;
use super::problem::Problem;

/// Environment variables of the configuration begin so; the rest is `SECTION__KEY`.
pub(super) const ENVIRONMENT_PREFIX: &str = "RELAY__";

/// One key as a layer gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// `section.key`, as written apart from the case of environment variables.
    pub key: String,
    /// Its value as text.
    pub value: EntryValue,
    /// Where it stands.
    pub origin: Origin,
}

/// The value of an [`Entry`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryValue {
    /// A string, number or boolean, as text.
    Text(String),
    /// A list, which no key takes.
    List,
}

/// Reads a TOML file. A missing file is an error only if it is `required`.
///
/// # Errors
/// When it cannot be read or is not TOML.
pub(super) fn read_file(path: &Path, required: bool) -> Result<Vec<Entry>, Problem> {
    let unreadable = |reason: String| Problem::UnreadableFile {
        path: path.to_owned(),
        reason,
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let table = File::from_str(&text, FileFormat::Toml)
        .collect()
        .map_err(|error| unreadable(without_source_lines(&error)))?;

    let mut entries = Vec::new();
    flatten(
        String::new(),
        table,
        &Origin::File(path.to_owned()),
        &mut entries,
    );
    Ok(sorted(entries))
}

/// Reads the variables that begin with [`ENVIRONMENT_PREFIX`]; empty ones count as not set.
///
/// # Errors
/// When one of them is not UTF-8.
pub(super) fn read_environment(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<Entry>, Problem> {
    let mut ours = Map::new();
    for (variable, value) in variables {
        // A name that is not UTF-8 cannot begin with our prefix and name one of our keys.
        let Ok(variable) = variable.into_string() else {
            continue;
        };
        if !variable.starts_with(ENVIRONMENT_PREFIX) {
            continue;
        }
        let Ok(value) = value.into_string() else {
            return Err(Problem::UnreadableVariable { variable });
        };
        ours.insert(variable, value);
    }
    let table = Environment::default()
        .separator("__")
        .prefix("RELAY")
        .ignore_empty(true)
        .source(Some(ours))
        .collect()
        .map_err(|error| Problem::UnreadableVariable {
            variable: error.to_string(),
        })?;

    let entries = table.into_iter().map(|(key, value)| {
        let variable = format!(
            "{ENVIRONMENT_PREFIX}{}",
            key.replace('.', "__").to_uppercase()
        );
        Entry {
            key,
            value: text_of(value.kind),
            origin: Origin::Environment(variable),
        }
    });
    Ok(sorted(entries.collect()))
}

/// Makes one list of `section.key` out of nested tables. Deeper nesting gives longer keys, which
/// are then unknown.
fn flatten(prefix: String, table: Map<String, Value>, origin: &Origin, into: &mut Vec<Entry>) {
    for (name, value) in table {
        let key = if prefix.is_empty() {
            name
        } else {
            format!("{prefix}.{name}")
        };
        match value.kind {
            ValueKind::Table(inner) => flatten(key, inner, origin, into),
            kind => into.push(Entry {
                key,
                value: text_of(kind),
                origin: origin.clone(),
            }),
        }
    }
}

fn text_of(kind: ValueKind) -> EntryValue {
    match kind {
        ValueKind::Array(_) => EntryValue::List,
        scalar => EntryValue::Text(scalar.to_string()),
    }
}

/// The map that the layers come in has no order of its own.
fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    entries
}

/// The parser's message with the position but without the lines of the file that it quotes, which
/// may hold a secret.
fn without_source_lines(error: &ConfigError) -> String {
    let message = match error {
        ConfigError::FileParse { cause, .. } => cause.to_string(),
        other => other.to_string(),
    };
    let kept: Vec<&str> = message
        .lines()
        .map(str::trim)
        .filter(|line| {
            !line.is_empty()
                && !line
                    .trim_start_matches(|c: char| c.is_ascii_digit())
                    .trim_start()
                    .starts_with('|')
        })
        .collect();
    kept.join(": ")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    fn file_with(text: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("relay.toml");
        std::fs::write(&path, text).unwrap();
        (directory, path)
    }

    fn keys_and_texts(entries: &[Entry]) -> Vec<(&str, &EntryValue)> {
        entries
            .iter()
            .map(|entry| (entry.key.as_str(), &entry.value))
            .collect()
    }

    /// OP-2: `RELAY__SECTION__KEY`, and nothing else of the environment.
    #[test]
    fn only_our_variables_are_read() {
        let entries = read_environment(variables(&[
            ("RELAY__LIMITS__PING_INTERVAL", "5s"),
            ("RELAY__SERVER__LISTEN", "127.0.0.1:1"),
            ("RELAY__AUTH__HS256_SECRET", ""),
            ("RELAY_LIMITS_PING_INTERVAL", "6s"),
            ("PATH", "/bin"),
        ]))
        .unwrap();
        assert_eq!(
            keys_and_texts(&entries),
            [
                ("limits.ping_interval", &EntryValue::Text("5s".to_owned())),
                ("server.listen", &EntryValue::Text("127.0.0.1:1".to_owned())),
            ]
        );
        assert_eq!(
            entries[0].origin.to_string(),
            "environment variable RELAY__LIMITS__PING_INTERVAL"
        );
    }

    /// OP-1: a variable of ours that is not text is named, a stranger's is not looked at.
    #[test]
    fn variables_that_are_not_text() {
        use std::os::unix::ffi::OsStringExt;
        let broken = || OsString::from_vec(vec![0xff]);
        assert_eq!(
            read_environment([("OTHER".into(), broken())]),
            Ok(Vec::new())
        );
        assert_eq!(read_environment([(broken(), broken())]), Ok(Vec::new()));
        let ours = read_environment([("RELAY__SERVER__LISTEN".into(), broken())]);
        assert_eq!(
            ours,
            Err(Problem::UnreadableVariable {
                variable: "RELAY__SERVER__LISTEN".to_owned()
            })
        );
    }

    /// OP-2: sections are tables; numbers and strings alike become text.
    #[test]
    fn files_are_flattened() {
        let (_directory, path) = file_with(
            "top = 1\n[limits]\nping_interval = \"5s\"\nrate_burst = 300\nlist = [1]\n[a.b]\nc = true\n",
        );
        let entries = read_file(&path, true).unwrap();
        assert_eq!(
            keys_and_texts(&entries),
            [
                ("a.b.c", &EntryValue::Text("true".to_owned())),
                ("limits.list", &EntryValue::List),
                ("limits.ping_interval", &EntryValue::Text("5s".to_owned())),
                ("limits.rate_burst", &EntryValue::Text("300".to_owned())),
                ("top", &EntryValue::Text("1".to_owned())),
            ]
        );
    }

    /// OP-1: a broken file is named with the position, and none of its lines is shown.
    #[test]
    fn broken_files_are_reported_without_their_text() {
        let (_directory, path) = file_with("[auth]\nhs256_secret = \"hunter2\nx = 1\n");
        let error = read_file(&path, true).unwrap_err().to_string();
        assert!(
            error.contains("relay.toml") && error.contains("line 2"),
            "{error}"
        );
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_missing_file_counts_only_when_it_was_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none.toml");
        assert_eq!(read_file(&path, false), Ok(Vec::new()));
        assert!(matches!(
            read_file(&path, true),
            Err(Problem::UnreadableFile { .. })
        ));
    }
}
