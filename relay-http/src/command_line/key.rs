//! `relay key`: makes, lists and ends API keys in the configured database, whether or not a relay
//! runs on it.

use std::fmt::Write as _;
use std::future::Future;
use std::time::Duration;

use actix_rt::System;
use clap::{Args, Subcommand};
use relay_actors::environment::Environment;
use relay_model::credentials::Scopes;
use relay_model::ids::{AccountId, ApiKeyId};
use relay_model::limits::NAME_CHARACTERS;
use relay_model::store::{
    ApiKeyRow, DatabaseUrl, DeviceStore, DieselStore, NewApiKey, OpenError, StoreError,
};
use relay_model::time::Timestamp;

use super::configuration_arguments::ConfigurationArguments;
use super::{CommandError, Surroundings};
use crate::authentication::{ApiKey, live_keys};
use crate::configuration::{Configuration, Origin, parse_duration};
use crate::exit::ExitStatus;
use crate::system_environment::SystemEnvironment;

/// The longest lifetime of a key that has one: ten years. Whoever needs more leaves it out.
const MAX_LIFETIME: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

const EXAMPLES: &str = "\
Examples:
  relay key create --account 7f1c2f5e-0c0a-4d3b-9a51-2b8f6f9d7e10 --scopes read
  KEY=$(relay key create --account \"$ACCOUNT\" --scopes rpc,read,write --name ci --ttl 90d)
  relay key list --account \"$ACCOUNT\"
  relay key revoke --account \"$ACCOUNT\" 0d9a7f1e-52a4-4f0e-8a53-9f3f4f6f2b11

Works on the database of database.url, which `relay serve` must have made. A running relay closes the
sockets of a revoked key within seconds.";

/// Make, list and end API keys.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a key and print it. It is not shown again.
    #[command(after_help = EXAMPLES)]
    Create {
        /// The account that the key speaks for, a UUID.
        #[arg(long, value_name = "UUID")]
        account: AccountId,
        /// What it may do: rpc, read and write, with commas between.
        #[arg(long, value_name = "SCOPES")]
        scopes: Scopes,
        /// What it is for.
        #[arg(long, value_parser = name)]
        name: Option<String>,
        /// How long it is valid; without it, until it is revoked.
        #[arg(long, value_name = "DURATION", value_parser = lifetime)]
        ttl: Option<Duration>,
        #[command(flatten)]
        configuration: ConfigurationArguments,
    },
    /// Print the account's keys, ended ones too, without their secrets.
    #[command(after_help = EXAMPLES)]
    List {
        /// Whose keys, a UUID.
        #[arg(long, value_name = "UUID")]
        account: AccountId,
        #[command(flatten)]
        configuration: ConfigurationArguments,
    },
    /// End a key for good.
    #[command(after_help = EXAMPLES)]
    Revoke {
        /// Whose key, a UUID.
        #[arg(long, value_name = "UUID")]
        account: AccountId,
        /// The key's id, a UUID, as `relay key list` prints it.
        #[arg(value_name = "ID")]
        id: ApiKeyId,
        #[command(flatten)]
        configuration: ConfigurationArguments,
    },
}

/// Why nothing was done about a key.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error("{0} (database.url: {1})")]
    Open(OpenError, Origin),
    #[error("{0} (database.url: {1})")]
    Store(StoreError, Origin),
    #[error(
        "there is no database at {0} (database.url: {1}): start `relay serve` with this configuration \
         first, or set database.url to the one that it uses"
    )]
    NoDatabase(String, Origin),
    #[error(
        "the database is older than this program (database.url: {0}): start `relay serve`, which \
         brings it up to date"
    )]
    Outdated(Origin),
    #[error("the account has {0} API keys already (auth.api_keys); revoke one first")]
    TooMany(usize),
    #[error("the account has no API key with this id; `relay key list` prints those that it has")]
    NoSuchKey,
    #[error("the operating system gave no random numbers: {0}")]
    NoRandomness(getrandom::Error),
}

impl KeyError {
    pub(super) const fn exit_status(&self) -> ExitStatus {
        match self {
            Self::Open(..) | Self::Store(..) | Self::Outdated(_) => ExitStatus::Unavailable,
            Self::NoDatabase(..) | Self::TooMany(_) | Self::NoSuchKey => ExitStatus::Usage,
            Self::NoRandomness(_) => ExitStatus::Internal,
        }
    }
}

fn name(text: &str) -> Result<String, String> {
    let trimmed = text.trim();
    if (1..=NAME_CHARACTERS).contains(&trimmed.chars().count()) {
        Ok(trimmed.to_owned())
    } else {
        Err(format!("allowed are 1 to {NAME_CHARACTERS} characters"))
    }
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = parse_duration(text).map_err(|error| error.to_string())?;
    if (Duration::from_secs(1)..=MAX_LIFETIME).contains(&lifetime) {
        Ok(lifetime)
    } else {
        Err("allowed are 1s to 3650d".to_owned())
    }
}

impl Arguments {
    pub(super) fn run(
        self,
        before: ConfigurationArguments,
        surroundings: Surroundings<'_>,
    ) -> Result<(), CommandError> {
        let Surroundings {
            environment,
            output,
        } = surroundings;
        let now = SystemEnvironment.now();
        let text = match self.command {
            Command::Create {
                account,
                scopes,
                name,
                ttl,
                configuration,
            } => {
                let database = Database::of(configuration.load(before, environment)?)?;
                let expires_at = ttl.map(|ttl| now.plus(ttl));
                let key = database.create(account, name, scopes, expires_at, now)?;
                format!("{}\n", *key)
            }
            Command::List {
                account,
                configuration,
            } => {
                let database = Database::of(configuration.load(before, environment)?)?;
                table(&database.list(account)?, now)
            }
            Command::Revoke {
                account,
                id,
                configuration,
            } => {
                let database = Database::of(configuration.load(before, environment)?)?;
                database.revoke(account, id, now)?;
                format!("revoked {id}\n")
            }
        };
        output.write_all(text.as_bytes())?;
        Ok(())
    }
}

/// The configured database, from a command that runs no relay.
struct Database {
    store: DieselStore,
    configuration: Configuration,
}

impl Database {
    /// Opens one that a relay has made: making another one here, in the wrong folder, would give
    /// keys that no relay accepts.
    fn of(configuration: Configuration) -> Result<Self, KeyError> {
        let origin = configuration.origin("database.url");
        let url = &configuration.settings.database;
        if let DatabaseUrl::Sqlite(path) = url
            && !path.exists()
        {
            return Err(KeyError::NoDatabase(format!("{url:?}"), origin));
        }
        let store = DieselStore::open(url, &configuration.settings.limits)
            .map_err(|error| KeyError::Open(error, origin.clone()))?;
        let database = Self {
            store,
            configuration,
        };
        if !database.ask(|store| store.pending_migrations())?.is_empty() {
            return Err(KeyError::Outdated(origin));
        }
        Ok(database)
    }

    /// Asks the database and waits for its answer.
    fn ask<T, F>(&self, question: impl FnOnce(&DieselStore) -> F) -> Result<T, KeyError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        System::new()
            .block_on(question(&self.store))
            .map_err(|error| KeyError::Store(error, self.configuration.origin("database.url")))
    }

    fn create(
        &self,
        account: AccountId,
        name: Option<String>,
        scopes: Scopes,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<zeroize::Zeroizing<String>, KeyError> {
        let limit = self.configuration.settings.limits.api_keys;
        if live_keys(&self.list(account)?, now) >= limit {
            return Err(KeyError::TooMany(limit));
        }
        let id = ApiKeyId::from_uuid(SystemEnvironment.new_uuid());
        let key = ApiKey::generate(id).map_err(KeyError::NoRandomness)?;
        let row = NewApiKey {
            id,
            account,
            name,
            scopes,
            secret_hash: key.hash(),
            created_at: now,
            expires_at,
        };
        self.ask(|store| store.create_api_key(row))?;
        Ok(key.reveal())
    }

    fn list(&self, account: AccountId) -> Result<Vec<ApiKeyRow>, KeyError> {
        self.ask(|store| store.api_keys(account))
    }

    fn revoke(&self, account: AccountId, id: ApiKeyId, now: Timestamp) -> Result<(), KeyError> {
        if self.ask(|store| store.revoke_api_key(account, id, now))? {
            Ok(())
        } else {
            Err(KeyError::NoSuchKey)
        }
    }
}

/// The keys as columns; nothing at all if there are none, so that scripts can count lines.
fn table(keys: &[ApiKeyRow], now: Timestamp) -> String {
    let mut text = String::new();
    for key in keys {
        let state = if key.revoked_at.is_some() {
            "revoked"
        } else if key.expires_at.is_some_and(|end| end <= now) {
            "expired"
        } else {
            "live"
        };
        let end = key
            .expires_at
            .map_or_else(|| "never".to_owned(), |end| end.to_string());
        let name: String = key.name.as_deref().unwrap_or("-").escape_debug().collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{}  {state:<7}  {:<14}  {}  {end:<27}  {name}",
            key.id,
            key.scopes.to_string(),
            key.created_at,
        );
    }
    if !text.is_empty() {
        let heads = format!(
            "{:<36}  {:<7}  {:<14}  {:<27}  {:<27}  NAME\n",
            "ID", "STATE", "SCOPES", "CREATED", "EXPIRES"
        );
        text.insert_str(0, &heads);
    }
    text
}
