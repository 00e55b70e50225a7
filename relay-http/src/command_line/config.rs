//! `relay config`: checks, shows and explains the configuration (OP-2).

use clap::{Args, Subcommand};

use super::configuration_arguments::ConfigurationArguments;
use super::{CommandError, Surroundings};
use crate::configuration::{effective, reference};

const EXAMPLES: &str = "\
Examples:
  relay config check --config /etc/relay/relay.toml
  relay config print > relay.toml
  relay config reference | less";

const CHECK_EXAMPLES: &str = "\
Examples:
  relay config check --config /etc/relay/relay.toml
  relay config check --set limits.ping_interval=10s";

const PRINT_EXAMPLES: &str = "\
Examples:
  relay config print --config /etc/relay/relay.toml
  relay config print > relay.toml";

const REFERENCE_EXAMPLES: &str = "\
Examples:
  relay config reference | less
  relay config reference | grep origins";

/// Check, print or explain the configuration.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say whether the configuration can be used, and else everything that is wrong with it.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(ConfigurationArguments),
    /// Print every value in force and where it came from; secrets are masked.
    #[command(after_help = PRINT_EXAMPLES)]
    Print(ConfigurationArguments),
    /// Print every key with its default, what is allowed, and its meaning.
    #[command(after_help = REFERENCE_EXAMPLES)]
    Reference,
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
        match self.action {
            Action::Check(arguments) => {
                arguments.load(before, environment)?;
                writeln!(output, "the configuration can be used")?;
            }
            Action::Print(arguments) => {
                let configuration = arguments.load(before, environment)?;
                output.write_all(effective(&configuration).as_bytes())?;
            }
            Action::Reference => output.write_all(reference().as_bytes())?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind, Write};

    use super::super::tests::relay;
    use crate::exit::ExitStatus;

    /// OP-2: flags before and behind the command count; the later ones win.
    #[test]
    fn printed_values_are_those_in_force() {
        let ran = relay(
            &[
                "--listen",
                "127.0.0.1:1",
                "--set",
                "limits.rate_burst=7",
                "config",
                "print",
                "--listen",
                "127.0.0.1:2",
                "--set",
                "limits.rate_per_second=8",
            ],
            &[
                ("RELAY__LIMITS__PING_INTERVAL", "7s"),
                ("RELAY__AUTH__HS256_SECRET", &"x".repeat(40)),
            ],
        );
        assert_eq!(ran.status, ExitStatus::Done, "{}", ran.errors);
        for line in [
            "listen = \"127.0.0.1:2\"  # flag --listen",
            "rate_burst = 7  # flag --set limits.rate_burst",
            "rate_per_second = 8  # flag --set limits.rate_per_second",
            "ping_interval = \"7s\"  # environment variable RELAY__LIMITS__PING_INTERVAL",
            "hs256_secret = \"********\"  # environment variable RELAY__AUTH__HS256_SECRET",
        ] {
            assert!(
                ran.output.lines().any(|printed| printed == line),
                "{line}\n{}",
                ran.output
            );
        }
        assert!(!ran.output.contains("xxxx"), "{}", ran.output);
    }

    #[test]
    fn a_good_configuration_passes_the_check() {
        let ran = relay(&["config", "check", "--workers", "2"], &[]);
        assert_eq!(
            (ran.status, ran.output.as_str()),
            (ExitStatus::Done, "the configuration can be used\n")
        );
    }

    /// OP-1: a file that was named and is not there is bad usage.
    #[test]
    fn a_named_file_must_exist() {
        let ran = relay(&["config", "check", "--config", "/nowhere/relay.toml"], &[]);
        assert_eq!(ran.status, ExitStatus::Usage);
        assert!(ran.errors.contains("/nowhere/relay.toml"), "{}", ran.errors);
    }

    /// A reader that stops reading is no fault.
    #[test]
    fn a_closed_pipe_is_no_fault() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let arguments = ["relay", "config", "reference"].map(Into::into);
        let mut errors = Vec::new();
        let status = super::super::run(arguments, [], &mut Closed, &mut errors);
        assert_eq!((status, errors), (ExitStatus::Done, Vec::new()));
    }
}
