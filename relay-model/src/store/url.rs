//! `database.url`, read once: its scheme alone chooses the backend, so that a mistyped server
//! address can never create a file of that name.

mod postgres;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use postgres::{PostgresUrl, PostgresUrlError};

/// Where the database is.
///
/// `sqlite://relay-data/relay.db` is relative to the working directory, `sqlite:///var/lib/relay.db`
/// is absolute; the path is taken as it stands, without escapes.
#[derive(Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// A file on this machine.
    Sqlite(PathBuf),
    /// A PostgreSQL server.
    Postgres(PostgresUrl),
}

/// A `database.url` that names no database. It never repeats the URL, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseUrlError {
    /// Not a scheme that the relay knows.
    #[error(
        "database.url has {}; allowed are sqlite://PATH and postgres://USER@HOST/DATABASE",
        Scheme(.scheme)
    )]
    UnknownScheme {
        /// The scheme, if the URL has one.
        scheme: Option<String>,
    },
    /// A PostgreSQL URL with a mistake.
    #[error("database.url {0}")]
    Postgres(#[from] PostgresUrlError),
    /// Nothing behind `sqlite://`.
    #[error(
        "database.url has no path; write it as sqlite://relay-data/relay.db or sqlite:///var/lib/relay/relay.db"
    )]
    NoPath,
    /// A `?` or `#` in the path, or a NUL.
    #[error(
        "database.url has `{0}` in its path; options are not supported, and such a file name is not either"
    )]
    UnsupportedCharacter(char),
    /// `sqlite::memory:` and its kin.
    #[error(
        "database.url asks for a database in memory, which every connection would have for itself; name a file"
    )]
    InMemory,
}

struct Scheme<'a>(&'a Option<String>);

impl fmt::Display for Scheme<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(scheme) => write!(f, "the unknown scheme `{scheme}`"),
            None => f.write_str("no scheme"),
        }
    }
}

impl DatabaseUrl {
    /// The file, if the database is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseUrlError;

    fn from_str(url: &str) -> Result<Self, DatabaseUrlError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(match url {
                "sqlite::memory:" | ":memory:" => DatabaseUrlError::InMemory,
                _ => DatabaseUrlError::UnknownScheme { scheme: None },
            });
        };
        match scheme.to_ascii_lowercase().as_str() {
            "sqlite" => sqlite(rest),
            "postgres" | "postgresql" => Ok(DatabaseUrl::Postgres(PostgresUrl::parse(rest)?)),
            other => Err(DatabaseUrlError::UnknownScheme {
                scheme: is_scheme(other).then(|| other.to_owned()),
            }),
        }
    }
}

fn sqlite(path: &str) -> Result<DatabaseUrl, DatabaseUrlError> {
    if path.contains(":memory:") {
        return Err(DatabaseUrlError::InMemory);
    }
    if path.is_empty() {
        return Err(DatabaseUrlError::NoPath);
    }
    // SQLite reads options behind a `?` in some spellings only; one meaning for all is none.
    if let Some(character) = path.chars().find(|c| matches!(c, '?' | '#' | '\0')) {
        return Err(DatabaseUrlError::UnsupportedCharacter(character));
    }
    Ok(DatabaseUrl::Sqlite(PathBuf::from(path)))
}

/// A password may stand before a `://` in a mangled URL; what looks like a scheme is shown, other
/// text is not.
fn is_scheme(text: &str) -> bool {
    (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_paths_are_relative_or_absolute() {
        for (url, path) in [
            ("sqlite://relay-data/relay.db", "relay-data/relay.db"),
            ("sqlite:///var/lib/relay.db", "/var/lib/relay.db"),
            ("SQLite://a b%20c", "a b%20c"),
        ] {
            let read: DatabaseUrl = url.parse().unwrap();
            assert_eq!(read.path(), Some(Path::new(path)));
        }
    }

    /// OP-1: a refused URL says what is allowed.
    #[test]
    fn other_urls_are_refused() {
        use DatabaseUrlError::{InMemory, NoPath, UnknownScheme, UnsupportedCharacter};

        let mysql = Some("mysql".to_owned());
        for (url, error) in [
            ("", UnknownScheme { scheme: None }),
            ("relay.db", UnknownScheme { scheme: None }),
            ("mysql://db/relay", UnknownScheme { scheme: mysql }),
            ("sqlite://", NoPath),
            ("sqlite::memory:", InMemory),
            ("sqlite://:memory:", InMemory),
            ("sqlite://a.db?mode=ro", UnsupportedCharacter('?')),
            ("sqlite://a\0b", UnsupportedCharacter('\0')),
        ] {
            assert_eq!(url.parse::<DatabaseUrl>(), Err(error), "{url:?}");
        }
        let shown = "relay.db".parse::<DatabaseUrl>().unwrap_err().to_string();
        assert!(shown.contains("sqlite://"), "{shown}");
        assert!(shown.contains("postgres://"), "{shown}");
    }

    /// Both spellings of the scheme are one; what is printed has no password.
    #[test]
    fn postgres_urls_are_known_by_their_scheme() {
        for scheme in ["postgres", "postgresql", "PostgreSQL"] {
            let url = format!("{scheme}://relay:hunter2@db:5432/relay");
            let read: DatabaseUrl = url.parse().unwrap();
            assert_eq!(read.path(), None);
            assert_eq!(
                format!("{read:?}"),
                "postgres://relay:********@db:5432/relay"
            );
        }
    }

    /// No refusal repeats a password, wherever it stands.
    #[test]
    fn passwords_are_not_repeated() {
        for url in [
            "postgres://relay:hunter2@db",
            "postgres://relay:hunter2/relay",
            "host=db password=hunter2",
            "mysql://relay:hunter2@db/relay",
            "relay:hunter2://db",
            "hunter2@db://x",
        ] {
            let error = url.parse::<DatabaseUrl>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{url}");
        }
    }
}
