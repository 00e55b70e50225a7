//! `relay completions`: what a shell needs to complete the command's words (OP-1).

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use super::{CommandError, CommandLine, Surroundings};

const EXAMPLES: &str = "\
Examples:
  relay completions bash > /etc/bash_completion.d/relay
  relay completions zsh > \"${fpath[1]}/_relay\"
  relay completions fish > ~/.config/fish/completions/relay.fish";

/// Print completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The shell.
    shell: Shell,
}

impl Arguments {
    pub(super) fn run(self, surroundings: Surroundings<'_>) -> Result<(), CommandError> {
        // Not written to the output at once: the generator takes a closed pipe for a fault.
        let mut script = Vec::new();
        generate(
            self.shell,
            &mut CommandLine::command(),
            "relay",
            &mut script,
        );
        surroundings.output.write_all(&script)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::relay;
    use crate::exit::ExitStatus;

    /// OP-1: completions know the commands and flags.
    #[test]
    fn completions_know_the_commands() {
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let ran = relay(&["completions", shell], &[]);
            assert_eq!(ran.status, ExitStatus::Done, "{shell}: {}", ran.errors);
            for word in ["migrate", "completions", "check", "database-url"] {
                assert!(ran.output.contains(word), "{shell}: {word}");
            }
        }
        assert_eq!(
            relay(&["completions", "tcsh"], &[]).status,
            ExitStatus::Usage
        );
    }
}
