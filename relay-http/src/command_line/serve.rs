//! `relay serve`, and `relay` alone: runs the relay.

use clap::Args;

use super::configuration_arguments::ConfigurationArguments;
use super::{CommandError, Surroundings};
use crate::configuration::Configuration;
use crate::{logging, serve};

const EXAMPLES: &str = "\
Examples:
  relay serve                                     listen on 127.0.0.1:8787, keep all in ./relay-data
  relay serve --listen [::]:8787 --workers 4
  relay serve --config /etc/relay/relay.toml --log-format json
  RELAY__LIMITS__PING_INTERVAL=10s relay serve

SIGTERM and SIGINT end it: every device is told to reconnect (1012). A second one ends it at once.
SIGHUP reads limits, the log level, TLS files and public keys again.";

/// Run the relay until a signal ends it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    configuration: ConfigurationArguments,
}

impl Arguments {
    pub(super) fn run(
        self,
        before: ConfigurationArguments,
        surroundings: Surroundings<'_>,
    ) -> Result<(), CommandError> {
        serve_with(self.configuration, before, surroundings)
    }
}

/// `relay` without a command.
pub(super) fn run(
    configuration: ConfigurationArguments,
    surroundings: Surroundings<'_>,
) -> Result<(), CommandError> {
    serve_with(
        configuration,
        ConfigurationArguments::default(),
        surroundings,
    )
}

fn serve_with(
    configuration: ConfigurationArguments,
    before: ConfigurationArguments,
    surroundings: Surroundings<'_>,
) -> Result<(), CommandError> {
    let sources = configuration.sources(before, surroundings.environment);
    let configuration = Configuration::load(sources.clone())?;
    logging::start(
        configuration.settings.log_format,
        &configuration.settings.log_level,
    );
    logging::log_panics();
    Ok(serve::serve(&configuration, sources)?)
}
