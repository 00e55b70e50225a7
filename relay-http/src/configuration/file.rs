//! The configuration file, read with the line of every key, so that a refusal points at it.

use std::io::ErrorKind;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::layers::{Entry, EntryValue, sorted};
use super::origin::Origin;
use super::problem::Problem;

/// Reads a TOML file. A missing file is an error only if it is `required`.
///
/// # Errors
/// When it cannot be read or is not TOML. The message has the position, and no line of the file,
/// which may hold a secret.
pub(super) fn read(path: &Path, required: bool) -> Result<Vec<Entry>, Problem> {
    let unreadable = |reason: String| Problem::UnreadableFile {
        path: path.to_owned(),
        reason,
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound && !required => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let table = DeTable::parse(&text).map_err(|error| {
        let place = error.span().map_or_else(String::new, |span| {
            format!("line {}: ", line_of(&text, span.start))
        });
        unreadable(format!("{place}{}", error.message()))
    })?;
    let mut file = Reading {
        path,
        text: &text,
        entries: Vec::new(),
    };
    file.flatten("", table.get_ref());
    Ok(sorted(file.entries))
}

/// A file on its way to a list of entries.
struct Reading<'f> {
    path: &'f Path,
    text: &'f str,
    entries: Vec<Entry>,
}

impl Reading<'_> {
    /// Makes one list of `section.key` out of nested tables. Deeper nesting gives longer keys, which
    /// are then unknown.
    fn flatten(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let key = match prefix {
                "" => name.get_ref().to_string(),
                section => format!("{section}.{}", name.get_ref()),
            };
            match value.get_ref() {
                DeValue::Table(inner) => self.flatten(&key, inner),
                scalar => self.entries.push(Entry {
                    key,
                    value: entry_value(scalar),
                    origin: Origin::File {
                        path: self.path.to_owned(),
                        line: line_of(self.text, name.span().start),
                    },
                }),
            }
        }
    }
}

fn entry_value(value: &DeValue<'_>) -> EntryValue {
    match value {
        DeValue::Array(items) => {
            EntryValue::List(items.iter().map(Spanned::get_ref).map(text_of).collect())
        }
        scalar => EntryValue::Text(text_of(scalar)),
    }
}

fn text_of(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => number.to_string(),
            Err(_) => number.as_str().to_owned(),
        },
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        // What stands in a list is one text; no key takes lists of these.
        DeValue::Array(_) | DeValue::Table(_) => String::new(),
    }
}

/// The line of a byte, counted from one.
fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().iter().take(byte);
    1 + before.filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn file_with(text: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("relay.toml");
        std::fs::write(&path, text).unwrap();
        (directory, path)
    }

    /// OP-1, OP-2: sections are tables; numbers and strings alike become text, with their line.
    #[test]
    fn files_are_flattened() {
        let (_directory, path) = file_with(
            "top = 1\n\n[limits]\nping_interval = \"5s\"\nrate_burst = 0x10\n\
             list = [1,\n  \"two\"]\n[a.b]\nc = true\nd = { e = 1_000 }\n",
        );
        let text = |text: &str| EntryValue::Text(text.to_owned());
        let list = EntryValue::List(vec!["1".to_owned(), "two".to_owned()]);
        let expected = [
            ("a.b.c", text("true"), 9),
            ("a.b.d.e", text("1000"), 10),
            ("limits.list", list, 6),
            ("limits.ping_interval", text("5s"), 4),
            ("limits.rate_burst", text("16"), 5),
            ("top", text("1"), 1),
        ];
        let expected = expected.map(|(key, value, line)| Entry {
            key: key.to_owned(),
            value,
            origin: Origin::File {
                path: path.clone(),
                line,
            },
        });
        assert_eq!(read(&path, true), Ok(Vec::from(expected)));
    }

    /// OP-1: a broken file is named with the position, and none of its lines is shown.
    #[test]
    fn broken_files_are_reported_without_their_text() {
        for broken in [
            "[auth]\nhs256_secret = \"hunter2\nx = 1\n",
            "[auth]\nhs256_secret = hunter2\n",
            "[auth]\nhunter2\n",
            "[auth]\nhs256_secret = 'hunter2' hunter2\n",
        ] {
            let (_directory, path) = file_with(broken);
            let error = read(&path, true).unwrap_err().to_string();
            assert!(
                error.contains("relay.toml: line 2: "),
                "{broken:?}: {error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_missing_file_counts_only_when_it_was_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none.toml");
        assert_eq!(read(&path, false), Ok(Vec::new()));
        assert!(matches!(
            read(&path, true),
            Err(Problem::UnreadableFile { .. })
        ));
    }
}
