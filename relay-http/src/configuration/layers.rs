//! The layers under the flags, of which the environment is read here: each becomes a list of keys
//! with their text and origin, so that one place judges them all alike.

use std::ffi::OsString;

use config::{Environment, Map, Source, ValueKind};

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
    /// A list of such, which few keys take.
    List(Vec<String>),
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

/// The environment has no lists, tables or typed values: every variable is text.
fn text_of(kind: ValueKind) -> EntryValue {
    EntryValue::Text(kind.to_string())
}

/// The map that the layers come in has no order of its own.
pub(super) fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
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
}
