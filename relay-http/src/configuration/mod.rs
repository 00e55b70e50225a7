//! The configuration (OP-2): defaults, then a file, then the environment, then flags. One table of
//! keys drives reading, checking and printing, and every value remembers where it came from.

#[cfg(test)]
mod bad_values;
mod consistency;
mod file;
mod jwks_url;
mod keys;
mod layers;
mod origin;
mod otlp_endpoint;
mod problem;
mod push;
mod reference;
mod secret;
mod telemetry;
mod units;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use relay_model::limits::Limits;
use relay_model::store::DatabaseUrl;

pub use jwks_url::{JwksUrl, JwksUrlError};
pub use keys::{Key, MIN_SECRET_BYTES};
pub use origin::Origin;
pub use otlp_endpoint::{OtlpEndpoint, OtlpEndpointError};
pub use problem::{Assignment, ConfigurationError, Problem};
pub use push::{ApnsKeys, FcmKeys, PushEndpoint, PushEndpointError, PushSettings};
pub use reference::{effective, reference};
pub use secret::Secret;
pub use telemetry::{LogFormat, LogLevel};
pub use units::parse_duration;

use crate::allowed_origins::AllowedOrigins;
use crate::authentication::ClaimRules;
use crate::client_address::Proxies;
use layers::{Entry, EntryValue};

/// The folder for everything that the relay keeps when nothing is configured.
const DATA_FOLDER: &str = "relay-data";

/// The values in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where devices and HTTP calls connect; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where operators connect, if not there.
    pub admin_listen: Option<SocketAddr>,
    /// The certificate of `listen`, if that speaks TLS.
    pub tls_cert: Option<PathBuf>,
    /// Its private key.
    pub tls_key: Option<PathBuf>,
    /// Worker threads; `None` takes one for each core.
    pub workers: Option<usize>,
    /// From which web pages browsers may come (TR-12).
    pub allowed_origins: AllowedOrigins,
    /// The proxies in front of the relay (TR-11).
    pub proxies: Proxies,
    /// Where devices are kept.
    pub database: DatabaseUrl,
    /// Whether the relay brings its database up to date when it starts.
    pub migrate_at_start: bool,
    /// The secret that user tokens are signed with, unless it is in `secret_file`.
    pub hs256_secret: Option<Secret>,
    /// The file of the signing secret if `hs256_secret` is not set.
    pub secret_file: PathBuf,
    /// A file of public keys that user tokens are signed with.
    pub jwks_file: Option<PathBuf>,
    /// Where public keys that user tokens are signed with are published.
    pub jwks_url: Option<JwksUrl>,
    /// The only `iss` that a user token may have.
    pub issuer: Option<String>,
    /// What the `aud` of a user token must contain.
    pub audience: Option<String>,
    /// How phones are woken.
    pub push: PushSettings,
    /// The form of the log.
    pub log_format: LogFormat,
    /// What is logged.
    pub log_level: LogLevel,
    /// Where traces are sent.
    pub otlp_endpoint: Option<OtlpEndpoint>,
    /// What operators show; without it there is no admin API.
    pub admin_token: Option<Secret>,
    /// The numbers of the protocol.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        let data = PathBuf::from(DATA_FOLDER);
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8787)),
            admin_listen: None,
            tls_cert: None,
            tls_key: None,
            workers: None,
            allowed_origins: AllowedOrigins::default(),
            proxies: Proxies::default(),
            database: DatabaseUrl::Sqlite(data.join("relay.db")),
            migrate_at_start: true,
            hs256_secret: None,
            secret_file: data.join("signing-secret"),
            jwks_file: None,
            jwks_url: None,
            issuer: None,
            audience: None,
            push: PushSettings::default(),
            log_format: LogFormat::Auto,
            log_level: LogLevel::default(),
            otlp_endpoint: None,
            admin_token: None,
            limits: Limits::default(),
        }
    }
}

impl Settings {
    /// What every user token must say.
    pub fn claim_rules(&self) -> ClaimRules {
        ClaimRules {
            leeway: self.limits.token_leeway,
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
        }
    }
}

/// A value given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlagValue {
    /// The flag as messages name it, such as `--listen`.
    pub flag: String,
    /// The key with its section.
    pub key: String,
    /// The value.
    pub value: String,
}

/// What the layers above the defaults are read from, once or again. The process environment is passed
/// in, so that tests need not touch it.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A file that must exist.
    pub file: Option<PathBuf>,
    /// A file that is read if it exists and `file` is not given.
    pub fallback_file: Option<PathBuf>,
    /// The environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The flags, in the order in which they were given; later ones win.
    pub flags: Vec<FlagValue>,
}

/// The settings with the origin of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The values in force.
    pub settings: Settings,
    /// Where those that are not defaults came from, by `section.name`.
    origins: BTreeMap<String, Origin>,
}

impl Configuration {
    /// Reads every layer.
    ///
    /// # Errors
    /// When anything in any layer is wrong, overridden or not; all problems are reported at once.
    pub fn load(sources: Sources) -> Result<Self, ConfigurationError> {
        let mut problems = Vec::new();
        let mut entries = Vec::new();
        let mut collect = |read: Result<Vec<Entry>, Problem>| match read {
            Ok(layer) => entries.extend(layer),
            Err(problem) => problems.push(problem),
        };
        match (&sources.file, &sources.fallback_file) {
            (Some(path), _) => collect(file::read(path, true)),
            (None, Some(path)) => collect(file::read(path, false)),
            (None, None) => (),
        }
        collect(layers::read_environment(sources.environment));
        entries.extend(sources.flags.into_iter().map(|flag| Entry {
            key: flag.key,
            value: EntryValue::Text(flag.value),
            origin: Origin::Flag(flag.flag),
        }));

        let mut configuration = Self::default();
        for entry in entries {
            if let Err(problem) = configuration.apply(entry) {
                problems.push(problem);
            }
        }
        problems.extend(consistency::contradictions(&configuration));
        if problems.is_empty() {
            Ok(configuration)
        } else {
            Err(ConfigurationError { problems })
        }
    }

    /// Where the value of `section.name` came from.
    pub fn origin(&self, path: &str) -> Origin {
        self.origins.get(path).cloned().unwrap_or(Origin::Default)
    }

    /// The shared secret that user tokens may be signed with; `None` if only public keys are
    /// configured: a secret that nobody asked for would be one more way in.
    pub fn signing_secret(&self) -> Option<SigningSecretSource<'_>> {
        let settings = &self.settings;
        if let Some(secret) = &settings.hs256_secret {
            return Some(SigningSecretSource::Configured(secret));
        }
        let public_keys = settings.jwks_file.is_some() || settings.jwks_url.is_some();
        if public_keys && self.origin("auth.secret_file") == Origin::Default {
            return None;
        }
        Some(SigningSecretSource::File(&settings.secret_file))
    }

    fn apply(&mut self, entry: Entry) -> Result<(), Problem> {
        let Entry {
            key: path,
            value,
            origin,
        } = entry;
        let Some(key) = Key::find(&path) else {
            let nearest = keys::nearest(&path);
            return Err(Problem::UnknownKey {
                key: path,
                origin,
                nearest,
            });
        };
        let (shown, set) = match value {
            EntryValue::Text(text) => {
                let set = key.set(&mut self.settings, &text);
                ((!key.is_secret()).then(|| text.into()), set)
            }
            EntryValue::List(texts) if key.takes_list() => {
                let text = texts.join(", ");
                let set = key.set(&mut self.settings, &text);
                (Some(text.into()), set)
            }
            EntryValue::List(_) => (None, Err("a list".to_owned())),
        };
        match set {
            Ok(()) => {
                self.origins.insert(path, origin);
                Ok(())
            }
            Err(reason) => Err(Problem::BadValue {
                key: path.into(),
                value: shown,
                origin,
                reason: reason.into(),
                allowed: key.allowed().into(),
            }),
        }
    }
}

/// Where the shared secret of user tokens is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SigningSecretSource<'a> {
    /// In the configuration.
    Configured(&'a Secret),
    /// In a file, which `relay serve` makes.
    File(&'a Path),
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn flag(key: &str, value: &str) -> FlagValue {
        FlagValue {
            flag: format!("--set {key}"),
            key: key.to_owned(),
            value: value.to_owned(),
        }
    }

    fn with_flags(flags: &[(&str, &str)]) -> Result<Configuration, ConfigurationError> {
        let flags = flags.iter().map(|(key, value)| flag(key, value)).collect();
        Configuration::load(Sources {
            flags,
            ..Sources::default()
        })
    }

    fn messages(result: Result<Configuration, ConfigurationError>) -> Vec<String> {
        result
            .unwrap_err()
            .problems
            .iter()
            .map(Problem::to_string)
            .collect()
    }

    /// OP-2: defaults < file < environment < flags, and each value knows where it came from.
    #[test]
    fn each_layer_wins_over_the_one_below() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("relay.toml");
        std::fs::write(
            &file,
            "[limits]\nping_interval = \"1s\"\nclient_timeout = \"11s\"\nclose_timeout = \"1s\"\n",
        )
        .unwrap();
        let environment = vec![
            ("RELAY__LIMITS__CLIENT_TIMEOUT".into(), "12s".into()),
            ("RELAY__LIMITS__CLOSE_TIMEOUT".into(), "2s".into()),
        ];
        let flags = vec![flag("limits.close_timeout", "3s")];
        let read = Configuration::load(Sources {
            fallback_file: Some(file.clone()),
            environment,
            flags,
            ..Sources::default()
        })
        .unwrap();

        let limits = &read.settings.limits;
        assert_eq!(limits.ping_interval, Duration::from_secs(1));
        assert_eq!(limits.client_timeout, Duration::from_secs(12));
        assert_eq!(limits.close_timeout, Duration::from_secs(3));
        assert_eq!(limits.reconnect_grace, Limits::default().reconnect_grace);
        assert_eq!(
            read.origin("limits.ping_interval"),
            Origin::File {
                path: file,
                line: 2
            }
        );
        let variable = "RELAY__LIMITS__CLIENT_TIMEOUT".to_owned();
        assert_eq!(
            read.origin("limits.client_timeout"),
            Origin::Environment(variable)
        );
        let flag = "--set limits.close_timeout".to_owned();
        assert_eq!(read.origin("limits.close_timeout"), Origin::Flag(flag));
        assert_eq!(read.origin("presence.reconnect_grace"), Origin::Default);
    }

    /// OP-2: with nothing configured the relay listens on loopback and keeps an SQLite file.
    #[test]
    fn nothing_configured() {
        let read = Configuration::load(Sources::default()).unwrap();
        assert_eq!(read.settings.listen.to_string(), "127.0.0.1:8787");
        assert_eq!(
            format!("{:?}", read.settings.database),
            "sqlite://relay-data/relay.db"
        );
        assert_eq!(read, Configuration::default());
    }

    /// OP-2: the last of several flags of one key wins.
    #[test]
    fn later_flags_win() {
        let read = with_flags(&[("server.workers", "2"), ("server.workers", "3")]).unwrap();
        assert_eq!(read.settings.workers, Some(3));
    }

    /// OP-1, OP-2: an unknown key is an error that names it, its origin and the nearest known one.
    #[test]
    fn unknown_keys_are_refused() {
        assert_eq!(
            messages(with_flags(&[("limits.ping_intervall", "5s")])),
            [
                "limits.ping_intervall (flag --set limits.ping_intervall): unknown key; \
              did you mean limits.ping_interval?"
            ]
        );
    }

    /// OP-1: a bad value is named with its origin and what is allowed.
    #[test]
    fn values_out_of_range_are_refused() {
        assert_eq!(
            messages(with_flags(&[("limits.ping_interval", "2h")])),
            [
                "limits.ping_interval = \"2h\" (flag --set limits.ping_interval): outside the range; \
              allowed: 50ms to 10m"
            ]
        );
        for (key, bad) in [
            ("server.listen", "localhost"),
            ("server.workers", "0"),
            ("server.workers", "513"),
            ("limits.ping_interval", "30"),
            ("limits.max_message", "64MiB"),
            ("limits.rate_burst", "0"),
            ("rpc.records_per_pair", "ten"),
            ("auth.secret_file", ""),
            ("telemetry.log_format", "xml"),
            ("telemetry.log_level", "verbose"),
        ] {
            let message = messages(with_flags(&[(key, bad)])).join("\n");
            assert!(
                message.starts_with(&format!("{key} = {bad:?}")),
                "{message}"
            );
            assert!(message.contains("allowed: "), "{message}");
        }
    }

    /// OP-1: every problem of every layer is reported, also one that a higher layer overrides.
    #[test]
    fn all_problems_are_reported_at_once() {
        let environment = vec![("RELAY__LIMITS__PING_INTERVAL".into(), "fast".into())];
        let flags = vec![flag("limits.ping_interval", "5s"), flag("nonsense", "1")];
        let result = Configuration::load(Sources {
            environment,
            flags,
            ..Sources::default()
        });
        assert_eq!(messages(result).len(), 2);
    }

    /// OP-1: a secret is not repeated when it is refused, and a database URL, which may hold a
    /// password, neither.
    #[test]
    fn refused_secrets_are_not_shown() {
        for (key, value) in [
            ("auth.hs256_secret", "hunter2"),
            ("admin.token", "hunter2"),
            ("database.url", "mysql://relay:hunter2@db/relay"),
        ] {
            let error = with_flags(&[(key, value)]).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(key) && !shown.contains("hunter2"), "{shown}");
        }
    }

    /// Values that are each in range but make no sense together.
    #[test]
    fn contradictions_are_refused() {
        let message = messages(with_flags(&[
            ("presence.instance_lease", "5s"),
            ("presence.instance_renewal", "5s"),
        ]));
        assert_eq!(
            message,
            [
                "presence.instance_lease = 5s (flag --set presence.instance_lease) must be longer than \
              presence.instance_renewal = 5s (flag --set presence.instance_renewal)"
            ]
        );
        for flags in [
            [
                ("limits.client_timeout", "1s"),
                ("limits.ping_interval", "2s"),
            ],
            [("session.lifetime", "1s"), ("session.touch_interval", "1s")],
            [
                ("limits.max_message", "64KiB"),
                ("limits.max_message_unregistered", "65KiB"),
            ],
            [
                ("rpc.records_per_pair", "10"),
                ("rpc.records_per_phone", "11"),
            ],
            [("database.queue", "16"), ("database.pool", "17")],
            [
                ("auth.jwks_min_interval", "2s"),
                ("auth.jwks_refresh_interval", "1s"),
            ],
            [
                ("auth.jwks_file", "keys.json"),
                ("auth.jwks_url", "https://login.example/keys"),
            ],
            [
                ("server.proxy_protocol", "true"),
                ("server.trusted_proxies", "none"),
            ],
            [
                ("server.listen", "127.0.0.1:8787"),
                ("server.admin_listen", "127.0.0.1:8787"),
            ],
            [
                ("server.listen", "127.0.0.1:8787"),
                ("server.tls_cert", "cert.pem"),
            ],
            [
                ("server.listen", "127.0.0.1:8787"),
                ("server.tls_key", "key.pem"),
            ],
        ] {
            assert_eq!(messages(with_flags(&flags)).len(), 1, "{flags:?}");
        }
    }

    /// PUSH-1, OP-1: a key of Apple's comes with its id, its team and an app, in files and variables too.
    #[test]
    fn apns_is_configured_as_a_whole() {
        let whole = [
            ("push.apns.key_file", "k.p8"),
            ("push.apns.key_id", "ABC123DEFG"),
            ("push.apns.team_id", "DEF123GHIJ"),
            ("push.apns.topic", "app.example"),
        ];
        assert!(with_flags(&whole).is_ok());
        for missing in 0..whole.len() {
            let mut flags = whole.to_vec();
            let (key, _) = flags.remove(missing);
            let message = messages(with_flags(&flags)).join("\n");
            assert!(message.contains(key), "{message}");
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("relay.toml");
        let text =
            "[push]\nqueue = 9\n[push.apns]\nkey_file = \"k.p8\"\nteam_id = \"T\"\ntopic = \"a\"\n";
        std::fs::write(&file, text).unwrap();
        let read = Configuration::load(Sources {
            file: Some(file),
            environment: vec![("RELAY__PUSH__APNS__KEY_ID".into(), "K".into())],
            ..Sources::default()
        });
        let settings = read.unwrap().settings;
        assert_eq!(settings.limits.push_queue, 9);
        assert_eq!(settings.push.apns.key_id.as_deref(), Some("K"));
        assert_eq!(settings.push.apns.topic.as_deref(), Some("a"));
    }

    /// HTTP-4, OP-2: with public keys alone there is no shared secret, unless one is asked for.
    #[test]
    fn public_keys_replace_the_default_secret() {
        let file = |read: &Configuration| match read.signing_secret() {
            Some(SigningSecretSource::File(path)) => Some(path.to_owned()),
            _ => None,
        };
        let default = Configuration::default();
        assert_eq!(file(&default), Some(default.settings.secret_file.clone()));
        let jwks = ("auth.jwks_url", "https://login.example/keys");
        assert_eq!(with_flags(&[jwks]).unwrap().signing_secret(), None);
        assert_eq!(
            with_flags(&[("auth.jwks_file", "k")])
                .unwrap()
                .signing_secret(),
            None
        );
        let both = with_flags(&[jwks, ("auth.secret_file", "s")]).unwrap();
        assert_eq!(file(&both), Some(PathBuf::from("s")));
        let secret = ("auth.hs256_secret", "0123456789abcdef0123456789abcdef");
        assert!(matches!(
            with_flags(&[jwks, secret]).unwrap().signing_secret(),
            Some(SigningSecretSource::Configured(_))
        ));
    }

    /// OP-2: every limit can be set, by its section and name, to both ends of its range.
    #[test]
    fn every_limit_can_be_set() {
        for key in Key::all() {
            if let (Key::Limit(_), Some((low, high))) = (key, key.allowed().split_once(" to ")) {
                for end in [low, high] {
                    let mut settings = Settings::default();
                    assert_eq!(
                        key.set(&mut settings, end),
                        Ok(()),
                        "{} = {end}",
                        key.path()
                    );
                    assert_eq!(key.show(&settings).as_deref(), Some(end), "{}", key.path());
                }
            }
        }
    }
}
