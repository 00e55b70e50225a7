//! The flags that set configuration values: the topmost layer (OP-2).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::configuration::{Configuration, ConfigurationError, FlagValue, Sources};

/// Where the configuration is looked for when no flag names a file.
const DEFAULT_FILE: &str = "relay.toml";

/// Configuration; flags win over the environment, which wins over the file.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub(super) struct ConfigurationArguments {
    /// Read this file instead of ./relay.toml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to listen on (server.listen).
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Where devices are kept (database.url).
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Threads that serve connections (server.workers).
    #[arg(long, value_name = "NUMBER")]
    workers: Option<String>,
    /// Form of the log: auto, text or json (telemetry.log_format).
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// What is logged, such as info or info,relay_actors=debug (telemetry.log_level).
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Set any key; may be given several times. `relay config reference` lists them.
    #[arg(long, value_name = "SECTION.KEY=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

fn assignment(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text
        .split_once('=')
        .ok_or("write it as section.key=value, as in limits.ping_interval=30s")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

impl ConfigurationArguments {
    /// Reads every layer. `before` are the flags that stood before the command; those of the command
    /// win over them.
    pub(super) fn load(
        self,
        before: Self,
        environment: Vec<(OsString, OsString)>,
    ) -> Result<Configuration, ConfigurationError> {
        Configuration::load(self.sources(before, environment))
    }

    /// Where every layer is read from.
    pub(super) fn sources(self, before: Self, environment: Vec<(OsString, OsString)>) -> Sources {
        let file = self.config.clone().or_else(|| before.config.clone());
        let mut flags = before.into_flags();
        flags.extend(self.into_flags());
        Sources {
            file,
            fallback_file: Some(PathBuf::from(DEFAULT_FILE)),
            environment,
            flags,
        }
    }

    fn into_flags(self) -> Vec<FlagValue> {
        let named = [
            ("--listen", "server.listen", self.listen),
            ("--database-url", "database.url", self.database_url),
            ("--workers", "server.workers", self.workers),
            ("--log-format", "telemetry.log_format", self.log_format),
            ("--log-level", "telemetry.log_level", self.log_level),
        ];
        let named = named.into_iter().filter_map(|(flag, key, value)| {
            Some(FlagValue {
                flag: flag.to_owned(),
                key: key.to_owned(),
                value: value?,
            })
        });
        let set = self.set.into_iter().map(|(key, value)| FlagValue {
            flag: format!("--set {key}"),
            key,
            value,
        });
        named.chain(set).collect()
    }
}
