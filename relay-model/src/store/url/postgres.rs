//! `postgres://…`, checked before libpq reads it: what libpq says about a URL that it cannot read may
//! repeat a part of the password, and it says so at the first call only.

use std::borrow::Cow;
use std::fmt;

/// The address of a PostgreSQL server and database, as libpq reads it:
/// `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full`. Several hosts are separated by
/// commas; a host that begins with `%2F` is the folder of a socket. `Debug` masks the password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    user: Option<String>,
    password: Option<String>,
    hosts: String,
    database: String,
    parameters: Vec<(String, String)>,
}

/// What is wrong with a `postgres://` URL. Never repeats a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostgresUrlError {
    /// Bytes that have no place in a URL.
    #[error(
        "has a space, `#` or a control character; write it as %20, %23 and so on, also in the password"
    )]
    Character,
    /// A `%` without two hexadecimal digits, or `%00`.
    #[error("has a `%` without two hexadecimal digits behind it; write a `%` as %25")]
    Escape,
    /// Not a host name or address, or more of them than is clear.
    #[error(
        "has no host that can be read between `@` and `/`; if the password has one of \
         `@ / : ? # %`, write it as %40 %2F %3A %3F %23 %25"
    )]
    Host,
    /// Not a port.
    #[error(
        "has a port that is not a number from 1 to 65535; if the password has one of \
         `@ / : ? # %`, write it as %40 %2F %3A %3F %23 %25"
    )]
    Port,
    /// No database, or a `/` in its name.
    #[error("names no database; write its name behind the host: postgres://USER@HOST/DATABASE")]
    Database,
    /// A parameter that libpq does not know, or that the relay sets itself.
    #[error("has an unknown parameter, number {place} behind the `?`; allowed are {}", PARAMETERS.join(", "))]
    Parameter {
        /// Its place, from 1.
        place: usize,
    },
    /// A parameter twice, or without a value.
    #[error("has no single value for the parameter number {place} behind the `?`")]
    Value {
        /// Its place, from 1.
        place: usize,
    },
    /// Not a word for how TLS is used.
    #[error("has an unknown sslmode; allowed are {}", SSL_MODES.join(", "))]
    SslMode,
}

/// What may stand behind the `?`: parameters of libpq by which servers are reached. Timeouts are
/// the relay's own (`database.timeout`).
const PARAMETERS: [&str; 19] = [
    "application_name",
    "channel_binding",
    "gssencmode",
    "host",
    "hostaddr",
    "krbsrvname",
    "load_balance_hosts",
    "options",
    "passfile",
    "port",
    "require_auth",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslpassword",
    "sslrootcert",
    "target_session_attrs",
];

const SSL_MODES: [&str; 6] = [
    "disable",
    "allow",
    "prefer",
    "require",
    "verify-ca",
    "verify-full",
];

impl PostgresUrl {
    /// Reads what stands behind `postgres://`.
    pub(super) fn parse(rest: &str) -> Result<Self, PostgresUrlError> {
        use PostgresUrlError::{Character, Database, Escape};

        if rest.contains(|c: char| c.is_control() || c.is_whitespace() || c == '#') {
            return Err(Character);
        }
        if !escapes_are_whole(rest) {
            return Err(Escape);
        }
        let (address, query) = match rest.split_once('?') {
            Some((address, query)) => (address, query),
            None => (rest, ""),
        };
        let (authority, database) = address.split_once('/').ok_or_else(|| {
            // Without a database the likelier mistake is a `?` or nothing at all.
            match hosts_of(address).map(|(_, hosts)| check_hosts(hosts)) {
                Some(Err(error)) => error,
                _ => Database,
            }
        })?;
        let (credentials, hosts) = hosts_of(authority).ok_or(PostgresUrlError::Host)?;
        check_hosts(hosts)?;
        if database.is_empty() || database.contains(['/', '@']) {
            return Err(Database);
        }
        let (user, password) = match credentials.map(|text| (text, text.split_once(':'))) {
            None => (None, None),
            Some((user, None)) => (Some(user.to_owned()), None),
            Some((_, Some((user, password)))) => (Some(user.to_owned()), Some(password.to_owned())),
        };
        let url = Self {
            user,
            password,
            hosts: hosts.to_owned(),
            database: database.to_owned(),
            parameters: parameters(query)?,
        };
        if hosts.is_empty() && url.parameter("host").is_none() {
            return Err(PostgresUrlError::Host);
        }
        Ok(url)
    }

    /// The value of a parameter, as it stands in the URL.
    pub(in crate::store) fn parameter(&self, name: &str) -> Option<&str> {
        let mut named = self.parameters.iter().filter(|(known, _)| known == name);
        named.next().map(|(_, value)| value.as_str())
    }

    /// Whether the server's certificate is to be verified.
    pub(in crate::store) fn verifies(&self) -> bool {
        let mode = self.parameter("sslmode");
        matches!(mode, Some("verify-ca" | "verify-full"))
    }

    /// The URL for libpq, with these parameters in place of those of the same names. Their values
    /// are escaped here.
    pub(in crate::store) fn with_parameters(&self, settings: &[(&str, String)]) -> String {
        let mut url = String::from("postgres://");
        if let Some(user) = &self.user {
            url.push_str(user);
            if let Some(password) = &self.password {
                url.push(':');
                url.push_str(password);
            }
            url.push('@');
        }
        url.push_str(&self.hosts);
        url.push('/');
        url.push_str(&self.database);
        let kept = self.parameters.iter().filter_map(|(name, value)| {
            let replaced = settings.iter().any(|(set, _)| set == name);
            (!replaced).then_some((name.as_str(), Cow::Borrowed(value.as_str())))
        });
        let set = settings
            .iter()
            .map(|(name, value)| (*name, Cow::Owned(escaped(value))));
        for (place, (name, value)) in kept.chain(set).enumerate() {
            url.push(if place == 0 { '?' } else { '&' });
            url.push_str(name);
            url.push('=');
            url.push_str(&value);
        }
        url
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = &self.user {
            f.write_str(user)?;
            if self.password.is_some() {
                f.write_str(":********")?;
            }
            f.write_str("@")?;
        }
        write!(f, "{}/{}", self.hosts, self.database)?;
        for (place, (name, value)) in self.parameters.iter().enumerate() {
            let shown = if name == "sslpassword" {
                "********"
            } else {
                value
            };
            write!(f, "{}{name}={shown}", if place == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

/// User and password, if there are any, and the hosts; `None` if an `@` leaves that unclear.
fn hosts_of(authority: &str) -> Option<(Option<&str>, &str)> {
    let mut parts = authority.split('@');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(hosts), None, _) => Some((None, hosts)),
        (Some(credentials), Some(hosts), None) => Some((Some(credentials), hosts)),
        _ => None,
    }
}

/// Hosts that are there must be readable; that there is one at all is asked elsewhere.
fn check_hosts(hosts: &str) -> Result<(), PostgresUrlError> {
    if hosts.is_empty() {
        return Ok(());
    }
    for host in hosts.split(',') {
        let port = if let Some(bracketed) = host.strip_prefix('[') {
            let (address, behind) = bracketed.split_once(']').ok_or(PostgresUrlError::Host)?;
            let readable = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '%');
            if address.is_empty() || !address.chars().all(readable) {
                return Err(PostgresUrlError::Host);
            }
            match behind {
                "" => None,
                behind => Some(behind.strip_prefix(':').ok_or(PostgresUrlError::Host)?),
            }
        } else {
            let (name, port) = match host.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (host, None),
            };
            let readable = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '%');
            if name.is_empty() || !name.chars().all(readable) {
                return Err(PostgresUrlError::Host);
            }
            port
        };
        match port.map(str::parse::<u16>) {
            None | Some(Ok(1..)) => (),
            Some(_) => return Err(PostgresUrlError::Port),
        }
    }
    Ok(())
}

fn parameters(query: &str) -> Result<Vec<(String, String)>, PostgresUrlError> {
    let mut read: Vec<(String, String)> = Vec::new();
    if query.is_empty() {
        return Ok(read);
    }
    for (place, parameter) in (1..).zip(query.split('&')) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if !PARAMETERS.contains(&name) {
            return Err(PostgresUrlError::Parameter { place });
        }
        let twice = read.iter().any(|(known, _)| known == name);
        if twice || value.is_empty() || value.contains('=') {
            return Err(PostgresUrlError::Value { place });
        }
        if name == "sslmode" && !SSL_MODES.contains(&value) {
            return Err(PostgresUrlError::SslMode);
        }
        if name == "port" && !matches!(value.parse::<u16>(), Ok(1..)) {
            return Err(PostgresUrlError::Port);
        }
        read.push((name.to_owned(), value.to_owned()));
    }
    Ok(read)
}

fn escapes_are_whole(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|behind| match behind.as_bytes() {
            [b'0', b'0', ..] => false,
            [high, low, ..] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
            _ => false,
        })
}

fn escaped(value: &str) -> String {
    let mut escaped = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => {
                escaped.push(char::from(byte));
            }
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rest: &str) -> PostgresUrl {
        PostgresUrl::parse(rest).unwrap_or_else(|error| panic!("{rest}: {error}"))
    }

    /// What may be written, and what libpq is given of it.
    #[test]
    fn urls_are_read_and_passed_on() {
        for rest in [
            "relay@db/relay",
            "relay:p%40ss:w%2Ford@db.example.org:5433/relay?sslmode=verify-full",
            "relay@[::1]:5432/relay",
            "db1:1,db2/relay?target_session_attrs=read-write",
            "%2Frun%2Fpostgresql/relay",
            "/relay?host=%2Frun%2Fpostgresql&port=5433",
        ] {
            assert_eq!(
                parse(rest).with_parameters(&[]),
                format!("postgres://{rest}")
            );
        }
        let url = parse("db/relay?sslmode=prefer&sslrootcert=a");
        let settings = [
            ("sslrootcert", "/a b/c&d.crt".to_owned()),
            ("x", "1".to_owned()),
        ];
        assert_eq!(
            url.with_parameters(&settings),
            "postgres://db/relay?sslmode=prefer&sslrootcert=/a%20b/c%26d.crt&x=1"
        );
    }

    #[test]
    fn verification_is_a_matter_of_the_mode() {
        for (query, verifies) in [
            ("", false),
            ("?sslmode=require", false),
            ("?sslmode=verify-ca", true),
            ("?sslmode=verify-full", true),
        ] {
            assert_eq!(parse(&format!("db/relay{query}")).verifies(), verifies);
        }
    }

    /// OP-1: a mistake is named, and no part of a URL that may hold a password is repeated.
    #[test]
    fn mistakes_are_named_without_the_password() {
        use PostgresUrlError::{
            Character, Database, Escape, Host, Parameter, Port, SslMode, Value,
        };

        for (rest, error) in [
            ("", Database),
            ("hunter2@db", Database),
            ("u:hunter2@db/", Database),
            ("u:hunter2@db/a/b", Database),
            ("u:hunter2@/relay", Host),
            ("u:hunter2@db,/relay", Host),
            ("u:hunter2@db:port/relay", Port),
            ("u:hunter2@db:0/relay", Port),
            ("u:hunter2@db:65536/relay", Port),
            ("u:hunter2@[::1/relay", Host),
            // Passwords with characters that should have been escaped.
            ("u:hun@ter2@db/relay", Host),
            ("u:hun/ter2@db/relay", Port),
            ("u:2/hunter2@db/relay", Database),
            ("u:2?hunter2@db/relay", Database),
            ("u:hun?ter2@db/relay", Port),
            ("u:hun#ter2@db/relay", Character),
            ("u:hun ter2@db/relay", Character),
            ("u:hunter2%@db/relay", Escape),
            ("u:hunter2%zz@db/relay", Escape),
            ("u:hunter2%00@db/relay", Escape),
            ("u@db/relay?password=hunter2", Parameter { place: 1 }),
            (
                "u@db/relay?sslmode=require&hunter2=1",
                Parameter { place: 2 },
            ),
            ("u@db/relay?connect_timeout=1", Parameter { place: 1 }),
            (
                "u@db/relay?sslmode=require&sslmode=require",
                Value { place: 2 },
            ),
            ("u@db/relay?sslmode", Value { place: 1 }),
            ("u@db/relay?sslmode=hunter2", SslMode),
            ("u@db/relay?port=hunter2", Port),
        ] {
            let refused = PostgresUrl::parse(rest);
            assert_eq!(refused, Err(error), "{rest}");
            let shown = format!("{error} {error:?}");
            assert!(
                !shown.contains("hunter2") && !shown.contains("ter2"),
                "{shown}"
            );
        }
    }

    /// OP-2: what is printed of the configuration, and nothing that opens a door.
    #[test]
    fn passwords_are_masked() {
        for (rest, shown) in [
            (
                "relay:hunter2@db:1/relay?sslmode=require",
                "relay:********@db:1/relay?sslmode=require",
            ),
            ("relay:@db/relay", "relay:********@db/relay"),
            ("relay@db/relay", "relay@db/relay"),
            (
                "db/relay?sslpassword=hunter2",
                "db/relay?sslpassword=********",
            ),
        ] {
            assert_eq!(format!("{:?}", parse(rest)), format!("postgres://{shown}"));
        }
    }
}
