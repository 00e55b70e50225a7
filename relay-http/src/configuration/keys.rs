//! Every key of the configuration in one table: its name, what it may be, its default, its meaning
//! and how it is read and shown. Checking, printing and the reference all walk this table (OP-3).

use std::path::{Path, PathBuf};

use relay_model::limits::{LIMIT_KEYS, LimitError, LimitKey, LimitRange, LimitValue, MAX_WORKERS};

use super::Settings;
use super::jwks_url::JwksUrlError;
use super::otlp_endpoint::OtlpEndpointError;
use super::push::PUSH_KEYS;
use super::secret::Secret;
use super::telemetry::{LogFormat, LogLevel};
use super::units::{format_duration, format_size, parse_count, parse_duration, parse_size};
use crate::allowed_origins::AllowedOriginsError;
use crate::client_address::TrustedProxiesError;

/// The shortest HS256 secret, in bytes: the size of the hash (RFC 7518, section 3.2). An operator
/// token may not be shorter either.
pub const MIN_SECRET_BYTES: usize = 32;

/// The settings that a running relay reads again (OP-4).
const RELOADED_SETTINGS: &[(&str, &str)] = &[("telemetry", "log_level")];

/// What a key of yes or no takes.
const TRUE_OR_FALSE: &str = "true or false";

/// What a key of a file takes.
const A_PATH: &str = "a path";

/// A key that is not a protocol limit.
pub struct SettingKey {
    pub(super) section: &'static str,
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) allowed: &'static str,
    pub(super) secret: bool,
    pub(super) set: fn(&mut Settings, &str) -> Result<(), String>,
    pub(super) show: fn(&Settings) -> Option<String>,
}

/// A key of the configuration.
#[derive(Clone, Copy)]
pub enum Key {
    /// How this process runs.
    Setting(&'static SettingKey),
    /// A number of the protocol.
    Limit(&'static LimitKey),
}

const SETTING_KEYS: &[SettingKey] = &[
    SettingKey {
        section: "server",
        name: "listen",
        meaning: "Address and port of devices and HTTP calls; port 0 takes a free one, which the log names.",
        allowed: "an address and a port, such as 127.0.0.1:8787, 0.0.0.0:8787 or [::]:8787",
        secret: false,
        set: |settings, text| {
            settings.listen = text
                .parse()
                .map_err(|_| "not an address with a port".to_owned())?;
            Ok(())
        },
        show: |settings| Some(settings.listen.to_string()),
    },
    SettingKey {
        section: "server",
        name: "admin_listen",
        meaning: "A second address for operators: the admin API and the metrics are served there and not on server.listen then, the health calls on both. Not set: all on server.listen.",
        allowed: "an address and a port, such as 127.0.0.1:8788",
        secret: false,
        set: |settings, text| {
            let address = text
                .parse()
                .map_err(|_| "not an address with a port".to_owned())?;
            settings.admin_listen = Some(address);
            Ok(())
        },
        show: |settings| settings.admin_listen.as_ref().map(ToString::to_string),
    },
    SettingKey {
        section: "server",
        name: "tls_cert",
        meaning: "File with the certificate of this server and behind it those of the authorities between (PEM). With server.tls_key, server.listen speaks https and wss; not set: http and ws. Both files are read again on SIGHUP (OP-4).",
        allowed: A_PATH,
        secret: false,
        set: |settings, text| {
            settings.tls_cert = Some(PathBuf::from(not_empty(text)?));
            Ok(())
        },
        show: |settings| shown_path(settings.tls_cert.as_deref()),
    },
    SettingKey {
        section: "server",
        name: "tls_key",
        meaning: "File with the private key of that certificate (PEM: PKCS #8, PKCS #1 or SEC 1), without a passphrase.",
        allowed: A_PATH,
        secret: false,
        set: |settings, text| {
            settings.tls_key = Some(PathBuf::from(not_empty(text)?));
            Ok(())
        },
        show: |settings| shown_path(settings.tls_key.as_deref()),
    },
    SettingKey {
        section: "server",
        name: "workers",
        meaning: "Threads that serve connections; auto takes one for each core.",
        allowed: "auto, or 1 to 512",
        secret: false,
        set: |settings, text| {
            settings.workers = match text {
                "auto" => None,
                number => match parse_count(number).map_err(|error| error.to_string())? {
                    count @ 1..=MAX_WORKERS => Some(count),
                    _ => return Err("outside the range".to_owned()),
                },
            };
            Ok(())
        },
        show: |settings| {
            Some(
                settings
                    .workers
                    .map_or_else(|| "auto".to_owned(), |count| count.to_string()),
            )
        },
    },
    SettingKey {
        section: "server",
        name: "allowed_origins",
        meaning: "Web pages that may use the relay, by what browsers send as `Origin` (TR-12); same-host stands for the host that a request names in `Host`.",
        allowed: "same-host and origins such as https://app.example or http://localhost:3000, separated by commas",
        secret: false,
        set: |settings, text| {
            settings.allowed_origins = text
                .parse()
                .map_err(|error: AllowedOriginsError| error.to_string())?;
            Ok(())
        },
        show: |settings| Some(settings.allowed_origins.to_string()),
    },
    SettingKey {
        section: "server",
        name: "trusted_proxies",
        meaning: "Proxies that may name their clients in `X-Forwarded-For` or by the PROXY protocol (TR-11); what anybody else says there is not believed.",
        allowed: "none, or addresses and networks such as 127.0.0.1, 10.0.0.0/8 or 2001:db8::/32, separated by commas",
        secret: false,
        set: |settings, text| {
            settings.proxies.trusted = text
                .parse()
                .map_err(|error: TrustedProxiesError| error.to_string())?;
            Ok(())
        },
        show: |settings| Some(settings.proxies.trusted.to_string()),
    },
    SettingKey {
        section: "server",
        name: "proxy_protocol",
        meaning: "Whether every connection begins with a PROXY protocol header of version 2 (TR-11); connections without one, and those that do not come from server.trusted_proxies, are dropped then.",
        allowed: TRUE_OR_FALSE,
        secret: false,
        set: |settings, text| {
            settings.proxies.proxy_protocol = truth(text)?;
            Ok(())
        },
        show: |settings| Some(settings.proxies.proxy_protocol.to_string()),
    },
    SettingKey {
        section: "database",
        name: "url",
        meaning: "Where devices are kept. A path without a leading slash is relative to the working directory.",
        allowed: "sqlite://PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=MODE",
        // A URL of a database server can carry a password.
        secret: true,
        set: |settings, text| {
            settings.database = text
                .parse()
                .map_err(|error: relay_model::store::DatabaseUrlError| error.to_string())?;
            Ok(())
        },
        show: |settings| Some(format!("{:?}", settings.database)),
    },
    SettingKey {
        section: "database",
        name: "migrate_at_start",
        meaning: "Whether `relay serve` brings the database up to date itself; if not, it starts only after `relay migrate` did.",
        allowed: TRUE_OR_FALSE,
        secret: false,
        set: |settings, text| {
            settings.migrate_at_start = truth(text)?;
            Ok(())
        },
        show: |settings| Some(settings.migrate_at_start.to_string()),
    },
    SettingKey {
        section: "auth",
        name: "hs256_secret",
        meaning: "Secret that user tokens are signed with (HTTP-4). Without it the one in auth.secret_file is used.",
        allowed: "at least 32 bytes of text",
        secret: true,
        set: |settings, text| {
            if text.len() < MIN_SECRET_BYTES {
                return Err("too short".to_owned());
            }
            settings.hs256_secret = Some(Secret::new(text.to_owned()));
            Ok(())
        },
        show: |settings| {
            settings
                .hs256_secret
                .as_ref()
                .map(|_| "********".to_owned())
        },
    },
    SettingKey {
        section: "auth",
        name: "secret_file",
        meaning: "File of the signing secret when auth.hs256_secret is not set; `relay serve` makes it on its first start.",
        allowed: "a path; its folder is made if needed",
        secret: false,
        set: |settings, text| {
            settings.secret_file = PathBuf::from(not_empty(text)?);
            Ok(())
        },
        show: |settings| Some(settings.secret_file.display().to_string()),
    },
    SettingKey {
        section: "auth",
        name: "jwks_file",
        meaning: "File with the public keys (a JWK Set) that user tokens are signed with (HTTP-4); it is read again when it changes. Without auth.hs256_secret or auth.secret_file no other tokens are accepted then.",
        allowed: A_PATH,
        secret: false,
        set: |settings, text| {
            settings.jwks_file = Some(PathBuf::from(not_empty(text)?));
            Ok(())
        },
        show: |settings| shown_path(settings.jwks_file.as_deref()),
    },
    SettingKey {
        section: "auth",
        name: "jwks_url",
        meaning: "Where an identity provider publishes its public keys (a JWK Set), instead of auth.jwks_file (HTTP-4).",
        allowed: "an https URL without user and password; http only to this machine",
        // A refused one may hold a password.
        secret: true,
        set: |settings, text| {
            let url: Result<_, JwksUrlError> = text.parse();
            settings.jwks_url = Some(url.map_err(|error| error.to_string())?);
            Ok(())
        },
        show: |settings| settings.jwks_url.as_ref().map(ToString::to_string),
    },
    SettingKey {
        section: "auth",
        name: "issuer",
        meaning: "The `iss` that every user token must have (HTTP-4); `relay token` writes it. Not set: not checked.",
        allowed: "text, compared as it stands",
        secret: false,
        set: |settings, text| {
            settings.issuer = Some(not_empty(text)?.to_owned());
            Ok(())
        },
        show: |settings| settings.issuer.clone(),
    },
    SettingKey {
        section: "auth",
        name: "audience",
        meaning: "What the `aud` of every user token must be or contain (HTTP-4); `relay token` writes it. Not set: not checked.",
        allowed: "text, compared as it stands",
        secret: false,
        set: |settings, text| {
            settings.audience = Some(not_empty(text)?.to_owned());
            Ok(())
        },
        show: |settings| settings.audience.clone(),
    },
    SettingKey {
        section: "telemetry",
        name: "log_format",
        meaning: "Form of the log on standard error; auto writes text on a terminal, else JSON lines (OP-5).",
        allowed: "auto, text or json",
        secret: false,
        set: |settings, text| {
            settings.log_format =
                LogFormat::parse(text).ok_or_else(|| "not a log format".to_owned())?;
            Ok(())
        },
        show: |settings| Some(settings.log_format.name().to_owned()),
    },
    SettingKey {
        section: "telemetry",
        name: "log_level",
        meaning: "Least severity that is logged, for all or for single modules.",
        allowed: "error, warn, info, debug, trace or off, also by module: info,relay_actors=debug",
        secret: false,
        set: |settings, text| {
            settings.log_level =
                LogLevel::parse(text).ok_or_else(|| "not a log level".to_owned())?;
            Ok(())
        },
        show: |settings| Some(settings.log_level.as_str().to_owned()),
    },
    SettingKey {
        section: "telemetry",
        name: "otlp_endpoint",
        meaning: "OpenTelemetry collector that the traces of requests are sent to, as OTLP over HTTP (OP-7); without a path, /v1/traces is added. Not set: no traces.",
        allowed: "an http or https URL without user and password",
        // A refused one may hold a password.
        secret: true,
        set: |settings, text| {
            let endpoint: Result<_, OtlpEndpointError> = text.parse();
            settings.otlp_endpoint = Some(endpoint.map_err(|error| error.to_string())?);
            Ok(())
        },
        show: |settings| settings.otlp_endpoint.as_ref().map(ToString::to_string),
    },
    SettingKey {
        section: "admin",
        name: "token",
        meaning: "The operator token: who has it may use the admin API, `relay status` and `relay drain`. Not set: there is no admin API.",
        allowed: "at least 32 visible ASCII characters without blanks, such as those of `openssl rand -hex 32`",
        secret: true,
        set: |settings, text| {
            if text.len() < MIN_SECRET_BYTES {
                return Err("too short".to_owned());
            }
            // Anything else could not be sent in a header as it stands here.
            if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err("not visible ASCII".to_owned());
            }
            settings.admin_token = Some(Secret::new(text.to_owned()));
            Ok(())
        },
        show: |settings| settings.admin_token.as_ref().map(|_| "********".to_owned()),
    },
];

fn truth(text: &str) -> Result<bool, String> {
    text.parse()
        .map_err(|_| "neither true nor false".to_owned())
}

fn shown_path(path: Option<&Path>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

pub(super) fn not_empty(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        Err("empty".to_owned())
    } else {
        Ok(text)
    }
}

impl Key {
    /// Every key, sections together, in the order of the reference.
    pub fn all() -> Vec<Self> {
        let settings = SETTING_KEYS.iter().chain(PUSH_KEYS).map(Self::Setting);
        let mut keys: Vec<Self> = settings.chain(LIMIT_KEYS.iter().map(Self::Limit)).collect();
        let mut sections: Vec<&str> = Vec::new();
        for key in &keys {
            if !sections.contains(&key.section()) {
                sections.push(key.section());
            }
        }
        // The sort is stable, so keys of a section keep the order of their tables.
        keys.sort_by_key(|key| {
            sections
                .iter()
                .position(|section| *section == key.section())
        });
        keys
    }

    /// The key with this `section.name`.
    pub fn find(path: &str) -> Option<Self> {
        Self::all().into_iter().find(|key| key.path() == path)
    }

    /// Its section.
    pub fn section(self) -> &'static str {
        match self {
            Self::Setting(key) => key.section,
            Self::Limit(key) => key.section,
        }
    }

    /// Its name in the section.
    pub fn name(self) -> &'static str {
        match self {
            Self::Setting(key) => key.name,
            Self::Limit(key) => key.name,
        }
    }

    /// `section.name`.
    pub fn path(self) -> String {
        format!("{}.{}", self.section(), self.name())
    }

    /// What it means, in a sentence or two.
    pub fn meaning(self) -> String {
        match self {
            Self::Setting(key) => key.meaning.to_owned(),
            Self::Limit(key) => key.meaning.trim().to_owned(),
        }
    }

    /// What it may be set to.
    pub fn allowed(self) -> String {
        match self {
            Self::Setting(key) => key.allowed.to_owned(),
            Self::Limit(key) => match key.range() {
                LimitRange::Duration(range) => {
                    format!(
                        "{} to {}",
                        format_duration(*range.start()),
                        format_duration(*range.end())
                    )
                }
                LimitRange::Bytes(range) => {
                    format!(
                        "{} to {}",
                        format_size(*range.start()),
                        format_size(*range.end())
                    )
                }
                LimitRange::Count(range) => format!("{} to {}", range.start(), range.end()),
            },
        }
    }

    /// Whether its value must not be repeated.
    pub fn is_secret(self) -> bool {
        matches!(self, Self::Setting(SettingKey { secret: true, .. }))
    }

    /// Whether a running relay keeps the value that it was started with (OP-4).
    pub fn needs_restart(self) -> bool {
        match self {
            Self::Limit(key) => key.needs_restart,
            Self::Setting(key) => !RELOADED_SETTINGS.contains(&(key.section, key.name)),
        }
    }

    /// Whether it has another value in `other` than in `settings`; also of a secret, of which nothing
    /// can be shown.
    pub fn differs(self, settings: &Settings, other: &Settings) -> bool {
        let secret = match self.path().as_str() {
            "auth.hs256_secret" => settings.hs256_secret != other.hs256_secret,
            "admin.token" => settings.admin_token != other.admin_token,
            "database.url" => settings.database != other.database,
            _ => false,
        };
        secret || self.show(settings) != self.show(other)
    }

    /// Its value as it would be written, secrets masked; `None` if it is not set.
    pub fn show(self, settings: &Settings) -> Option<String> {
        match self {
            Self::Setting(key) => (key.show)(settings),
            Self::Limit(key) => Some(match key.get(&settings.limits) {
                LimitValue::Duration(duration) => format_duration(duration),
                LimitValue::Bytes(bytes) => format_size(bytes),
                LimitValue::Count(count) => count.to_string(),
            }),
        }
    }

    /// Sets it from text.
    ///
    /// # Errors
    /// With what is wrong with the text; `settings` is then unchanged.
    pub fn set(self, settings: &mut Settings, text: &str) -> Result<(), String> {
        match self {
            Self::Setting(key) => (key.set)(settings, text),
            Self::Limit(key) => {
                let value = match key.range() {
                    LimitRange::Duration(_) => parse_duration(text).map(LimitValue::Duration),
                    LimitRange::Bytes(_) => parse_size(text).map(LimitValue::Bytes),
                    LimitRange::Count(_) => parse_count(text).map(LimitValue::Count),
                };
                let value = value.map_err(|error| error.to_string())?;
                key.set(&mut settings.limits, value)
                    .map_err(|error| match error {
                        LimitError::OutOfRange { .. } => "outside the range".to_owned(),
                        LimitError::WrongKind { .. } => "of the wrong kind".to_owned(),
                    })
            }
        }
    }

    /// Whether TOML writes its value without quotes.
    pub fn is_bare_in_toml(self) -> bool {
        match self {
            Self::Limit(key) => matches!(key.range(), LimitRange::Count(_)),
            Self::Setting(key) => key.allowed == TRUE_OR_FALSE,
        }
    }

    /// Whether a file may give it as a list of strings; elsewhere their commas part them.
    pub fn takes_list(self) -> bool {
        self.section() == "server" && ["allowed_origins", "trusted_proxies"].contains(&self.name())
    }
}

/// The known key that looks most like `path`, if one is close enough to be meant.
pub(super) fn nearest(path: &str) -> Option<String> {
    // Below this likeness a suggestion is more confusing than none.
    const LIKENESS: f64 = 0.75;
    let path = path.to_ascii_lowercase();
    let name = path.rsplit('.').next().unwrap_or(&path);
    Key::all()
        .into_iter()
        .map(|key| {
            // A right name in a wrong section, or without one, is likely too.
            let whole = strsim::normalized_damerau_levenshtein(&path, &key.path());
            let alone = strsim::normalized_damerau_levenshtein(name, key.name());
            (whole.max(0.95 * alone), key)
        })
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, key)| key.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-2: what is printed can be written back, for every key that is set by default.
    #[test]
    fn shown_values_can_be_set() {
        let defaults = Settings::default();
        for key in Key::all() {
            if let Some(shown) = key.show(&defaults) {
                let mut settings = Settings::default();
                assert_eq!(key.set(&mut settings, &shown), Ok(()), "{}", key.path());
                assert_eq!(settings, defaults, "{}", key.path());
            }
        }
    }

    /// OP-4: every change is noticed, of secrets too.
    #[test]
    fn changes_are_noticed() {
        let before = Settings::default();
        for (path, one, other) in [
            (
                "auth.hs256_secret",
                "0123456789abcdef0123456789abcdef",
                "0123456789abcdef0123456789abcdeX",
            ),
            (
                "admin.token",
                "0123456789abcdef0123456789abcdef",
                "0123456789abcdef0123456789abcdeX",
            ),
            (
                "database.url",
                "postgres://relay:one@db/relay",
                "postgres://relay:two@db/relay",
            ),
            (
                "auth.jwks_url",
                "https://login.example/one",
                "https://login.example/two",
            ),
            (
                "telemetry.otlp_endpoint",
                "https://traces.example/one",
                "https://traces.example/two",
            ),
            ("limits.http_body", "2KiB", "3KiB"),
        ] {
            let key = Key::find(path).unwrap();
            let set = |text| {
                let mut settings = before.clone();
                key.set(&mut settings, text).unwrap();
                settings
            };
            assert!(key.differs(&set(one), &set(other)), "{path}");
            assert!(key.differs(&before, &set(other)), "{path}");
            assert!(!key.differs(&set(one), &set(one)), "{path}");
        }
    }

    /// OP-3: no key is there twice, and a section's keys stand together.
    #[test]
    fn keys_are_unique_and_grouped() {
        let keys = Key::all();
        let mut paths: Vec<_> = keys.iter().map(|key| key.path()).collect();
        let mut sections: Vec<_> = keys.iter().map(|key| key.section()).collect();
        sections.dedup();
        let grouped = sections.len();
        sections.sort_unstable();
        sections.dedup();
        assert_eq!(sections.len(), grouped, "a section is split");
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), keys.len());
    }

    /// OP-1: the ranges that are written out are those that are checked.
    #[test]
    fn written_ranges_are_the_checked_ones() {
        let allowed = |path| Key::find(path).unwrap().allowed();
        assert!(allowed("server.workers").ends_with(&format!("1 to {MAX_WORKERS}")));
        assert!(allowed("auth.hs256_secret").contains(&format!("{MIN_SECRET_BYTES} bytes")));
        assert!(allowed("admin.token").contains(&format!("{MIN_SECRET_BYTES} visible")));
    }

    /// OP-2: the nearest known name.
    #[test]
    fn misspelled_keys_find_their_neighbour() {
        for (wrong, right) in [
            ("limits.ping_intervall", "limits.ping_interval"),
            ("limits.pingInterval", "limits.ping_interval"),
            ("limit.ping_interval", "limits.ping_interval"),
            ("listen", "server.listen"),
            ("server.reconnect_grace", "presence.reconnect_grace"),
            ("auth.hs256-secret", "auth.hs256_secret"),
        ] {
            assert_eq!(nearest(wrong).as_deref(), Some(right), "{wrong}");
        }
        assert_eq!(nearest("colour.of_the_bikeshed"), None);
    }
}
