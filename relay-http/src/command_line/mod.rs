//! The `relay` command: reads its arguments and the environment, runs one command, and says how the
//! process ends (OP-1).

mod completions;
mod config;
mod configuration_arguments;
mod doctor;
mod drain;
mod key;
mod migrate;
mod operator_client;
mod serve;
mod status;
mod token;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};

use clap::{Parser, Subcommand};

use crate::authentication::MintError;
use crate::authentication::signing_secret::SigningSecretError;
use crate::configuration::ConfigurationError;
use crate::exit::ExitStatus;
use crate::serve::ServeError;

use configuration_arguments::ConfigurationArguments;
use key::KeyError;
use operator_client::OperatorCallError;

const EXAMPLES: &str = "\
Examples:
  relay                                           run with no configuration at all
  relay serve --listen 0.0.0.0:8787               run, reachable from outside
  relay serve --set presence.reconnect_grace=10s  run with a shorter grace
  relay token --account 7f1c2f5e-0c0a-4d3b-9a51-2b8f6f9d7e10 --ttl 1h
  relay key create --account 7f1c2f5e-0c0a-4d3b-9a51-2b8f6f9d7e10 --scopes rpc,read
  relay migrate --check                           what an update would change in the database
  relay status --watch                            what a running relay holds
  relay drain                                     let a running relay end without losing work
  relay doctor                                    what is wrong on this machine, and what to do
  relay config print                              every value in force and where it came from

Exit codes: 0 done, 64 bad usage or configuration, 69 a needed service cannot be reached,
70 internal fault.";

/// Connects phones with the desktops of their users: one WebSocket each, requests and answers
/// between them, and true presence.
#[derive(Debug, Parser)]
#[command(name = "relay", version, after_help = EXAMPLES)]
struct CommandLine {
    #[command(flatten)]
    configuration: ConfigurationArguments,
    /// What to do; without a command the relay runs.
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Arguments),
    Token(token::Arguments),
    Key(key::Arguments),
    Migrate(migrate::Arguments),
    Status(status::Arguments),
    Drain(drain::Arguments),
    Doctor(doctor::Arguments),
    Config(config::Arguments),
    Completions(completions::Arguments),
}

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    SigningSecret(#[from] SigningSecretError),
    #[error("the signing secret cannot be used: {0}")]
    UnusableSecret(String),
    #[error(
        "tokens come from the identity provider only (auth.jwks_file or auth.jwks_url); to make tokens \
         here too, set auth.hs256_secret or auth.secret_file"
    )]
    NoLocalSecret,
    #[error(transparent)]
    Mint(#[from] MintError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Migrate(#[from] migrate::MigrateError),
    #[error(transparent)]
    Operator(#[from] OperatorCallError),
    #[error(transparent)]
    Doctor(#[from] doctor::Unhealthy),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl CommandError {
    fn exit_status(&self) -> ExitStatus {
        match self {
            Self::Configuration(_)
            | Self::SigningSecret(_)
            | Self::UnusableSecret(_)
            | Self::NoLocalSecret => ExitStatus::Usage,
            Self::Serve(error) => error.exit_status(),
            Self::Key(error) => error.exit_status(),
            Self::Migrate(_) => ExitStatus::Unavailable,
            Self::Operator(error) => error.exit_status(),
            Self::Doctor(unhealthy) => unhealthy.exit_status(),
            // Whoever reads the output has seen enough, as `head` does.
            Self::Output(error) if error.kind() == ErrorKind::BrokenPipe => ExitStatus::Done,
            Self::Mint(_) | Self::Output(_) => ExitStatus::Internal,
        }
    }
}

/// The address of a relay that listens on `listen`, as seen from this machine; `None` if its port is not
/// known.
pub(crate) fn own_url(listen: std::net::SocketAddr) -> Option<reqwest::Url> {
    operator_client::own_url(listen).ok()
}

/// What a command gets of the process around it.
struct Surroundings<'a> {
    environment: Vec<(OsString, OsString)>,
    output: &'a mut dyn Write,
}

/// Runs the command that `arguments` name, the program's own name first.
pub fn run<'w>(
    arguments: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    output: &'w mut dyn Write,
    errors: &'w mut dyn Write,
) -> ExitStatus {
    let command_line = match CommandLine::try_parse_from(arguments) {
        Ok(command_line) => command_line,
        Err(refusal) => {
            // Help and version come as errors too; if they cannot be written, nobody reads them.
            let (to, status): (&mut dyn Write, _) = if refusal.use_stderr() {
                (errors, ExitStatus::Usage)
            } else {
                (output, ExitStatus::Done)
            };
            let _ = write!(to, "{}", refusal.render());
            return status;
        }
    };
    let surroundings = Surroundings {
        environment: environment.into_iter().collect(),
        output,
    };
    let CommandLine {
        configuration,
        command,
    } = command_line;
    let done = match command {
        None => serve::run(configuration, surroundings),
        Some(Command::Serve(arguments)) => arguments.run(configuration, surroundings),
        Some(Command::Token(arguments)) => arguments.run(configuration, surroundings),
        Some(Command::Key(arguments)) => arguments.run(configuration, surroundings),
        Some(Command::Migrate(arguments)) => arguments.run(configuration, surroundings),
        Some(Command::Status(arguments)) => arguments.run(configuration, surroundings),
        Some(Command::Drain(arguments)) => arguments.run(configuration, surroundings),
        Some(Command::Doctor(arguments)) => arguments.run(configuration, surroundings),
        Some(Command::Config(arguments)) => arguments.run(configuration, surroundings),
        Some(Command::Completions(arguments)) => arguments.run(surroundings),
    };
    match done {
        Ok(()) => ExitStatus::Done,
        Err(error) => {
            let status = error.exit_status();
            if status != ExitStatus::Done {
                // Without standard error there is only the exit code left to tell.
                let _ = writeln!(errors, "relay: {error}");
            }
            status
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// What a command wrote and how it ended.
    pub(super) struct Ran {
        pub(super) status: ExitStatus,
        pub(super) output: String,
        pub(super) errors: String,
    }

    pub(super) fn relay(arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
        let mut output = Vec::new();
        let mut errors = Vec::new();
        let arguments = ["relay"].iter().chain(arguments).map(OsString::from);
        let environment = environment
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let status = run(arguments, environment, &mut output, &mut errors);
        Ran {
            status,
            output: String::from_utf8(output).unwrap(),
            errors: String::from_utf8(errors).unwrap(),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        CommandLine::command().debug_assert();
    }

    /// OP-1: `--help` has examples; help and version are no errors.
    #[test]
    fn help_has_examples() {
        let help = relay(&["--help"], &[]);
        assert_eq!(help.status, ExitStatus::Done);
        assert!(
            help.output.contains("Examples:") && help.errors.is_empty(),
            "{}",
            help.output
        );
        assert_eq!(relay(&["--version"], &[]).output, "relay 0.1.0\n");
    }

    /// OP-1: the help of every command, and of every command of a command, has examples.
    #[test]
    fn every_command_has_examples() {
        fn check(command: &clap::Command) -> usize {
            let help = command.get_after_help().map(ToString::to_string);
            assert!(
                help.is_some_and(|help| help.contains("Examples:\n  relay ")),
                "{}",
                command.get_name()
            );
            1 + command.get_subcommands().map(check).sum::<usize>()
        }
        assert!(check(&CommandLine::command()) >= 9);
    }

    /// OP-1: bad usage ends with 64 and says what is allowed.
    #[test]
    fn bad_usage_ends_with_64() {
        for arguments in [
            &["fly"][..],
            &["--colour"],
            &["token"],
            &["token", "--account", "alice"],
            &["key"],
            &["key", "list"],
            &["config"],
            &["config", "frobnicate"],
            &["migrate", "--dry-run"],
            &["status", "--dry-run"],
            &["status", "--url"],
            &["doctor", "--fix"],
            &["completions"],
            &["completions", "tcsh"],
            &["serve", "--set", "limits.ping_interval"],
            &["serve", "--config"],
        ] {
            let ran = relay(arguments, &[]);
            assert_eq!(ran.status, ExitStatus::Usage, "{arguments:?}");
            assert!(
                ran.output.is_empty() && !ran.errors.is_empty(),
                "{arguments:?}"
            );
        }
    }

    /// OP-1: a bad configuration ends every command that reads it with 64, before anything is done.
    #[test]
    fn bad_configuration_ends_with_64() {
        let account = "7f1c2f5e-0c0a-4d3b-9a51-2b8f6f9d7e10";
        for arguments in [
            &[][..],
            &["serve"],
            &["token", "--account", account],
            &["key", "list", "--account", account],
            &["migrate"],
            &["migrate", "--check"],
            &["status"],
            &["doctor"],
            &["config", "check"],
            &["config", "print"],
        ] {
            let ran = relay(arguments, &[("RELAY__SERVER__WORKERS", "many")]);
            assert_eq!(ran.status, ExitStatus::Usage, "{arguments:?}");
            for part in [
                "server.workers",
                "many",
                "RELAY__SERVER__WORKERS",
                "auto, or 1 to 512",
            ] {
                assert!(ran.errors.contains(part), "{}", ran.errors);
            }
        }
    }
}
