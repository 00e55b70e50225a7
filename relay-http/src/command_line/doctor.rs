//! `relay doctor`: looks at what a relay of this configuration needs, and says what to do.

use actix_rt::System;
use clap::Args;
use serde_json::json;

use super::configuration_arguments::ConfigurationArguments;
use super::{CommandError, Surroundings};
use crate::doctor::{Finding, Outcome, examine};
use crate::exit::ExitStatus;

const EXAMPLES: &str = "\
Examples:
  relay doctor                                 with ./relay.toml and the environment
  relay doctor --config /etc/relay/relay.toml
  relay doctor --json | jq '.findings[] | select(.outcome != \"ok\")'

Run it as the relay's user, with the relay's configuration. It changes nothing. Ends with 0 if nothing
fails, with 69 if a service cannot be used, else with 64.";

/// Check everything that a relay needs, and say what to do.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    configuration: ConfigurationArguments,
}

/// Something that a relay needs is missing.
#[derive(Debug, thiserror::Error)]
#[error("{failed} of {all} checks failed; each says what to do")]
pub(super) struct Unhealthy {
    failed: usize,
    all: usize,
    status: ExitStatus,
}

impl Unhealthy {
    pub(super) const fn exit_status(&self) -> ExitStatus {
        self.status
    }
}

impl Arguments {
    pub(super) fn run(
        self,
        before: ConfigurationArguments,
        surroundings: Surroundings<'_>,
    ) -> Result<(), CommandError> {
        let configuration = self.configuration.load(before, surroundings.environment)?;
        let findings = System::new().block_on(examine(&configuration));
        let unhealthy = unhealthy(&findings);
        let text = if self.json {
            let healthy = unhealthy.is_none();
            format!("{}\n", json!({ "healthy": healthy, "findings": findings }))
        } else {
            table(&findings)
        };
        surroundings.output.write_all(text.as_bytes())?;
        unhealthy.map_or(Ok(()), |unhealthy| Err(unhealthy.into()))
    }
}

fn table(findings: &[Finding]) -> String {
    let lines = findings.iter().map(|finding| {
        let outcome = finding.outcome.as_str();
        let advice = finding.what_to_do.as_ref();
        let advice = advice.map(|advice| format!("{:22} → {advice}\n", ""));
        format!(
            "{outcome:<5} {:<16} {}\n{}",
            finding.name,
            finding.detail,
            advice.unwrap_or_default()
        )
    });
    lines.collect()
}

fn unhealthy(findings: &[Finding]) -> Option<Unhealthy> {
    let failed = findings
        .iter()
        .filter(|finding| finding.outcome == Outcome::Fail);
    let statuses: Vec<ExitStatus> = failed.map(|finding| finding.status).collect();
    let status = if statuses.contains(&ExitStatus::Unavailable) {
        ExitStatus::Unavailable
    } else {
        *statuses.first()?
    };
    Some(Unhealthy {
        failed: statuses.len(),
        all: findings.len(),
        status,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::tests::relay;
    use crate::exit::ExitStatus;

    /// Command line: on an empty folder nothing fails, and nothing is made.
    #[test]
    fn a_first_look_makes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data/relay.db");
        let url = format!("sqlite://{}", file.display());
        let secret = format!(
            "auth.secret_file={}",
            folder.path().join("secret").display()
        );
        let arguments = [
            "--database-url",
            &url,
            "--listen",
            "127.0.0.1:0",
            "--set",
            &secret,
        ];
        let ran = relay(&[&["doctor"][..], &arguments].concat(), &[]);
        assert_eq!(ran.status, ExitStatus::Done, "{}{}", ran.output, ran.errors);
        for part in [
            "ok    clock",
            "ok    database",
            "warn  operator token",
            "→ set admin.token",
        ] {
            assert!(ran.output.contains(part), "{part}: {}", ran.output);
        }
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());

        let ran = relay(&[&["doctor", "--json"][..], &arguments].concat(), &[]);
        let told: Value = serde_json::from_str(&ran.output).unwrap();
        assert_eq!(told["healthy"], true);
        assert!(told["findings"].as_array().unwrap().len() >= 6, "{told}");
    }

    /// OP-1: a database that cannot be used ends it with 69, anything else that fails with 64.
    #[test]
    fn failures_have_their_exit_codes() {
        let folder = tempfile::tempdir().unwrap();
        let broken = folder.path().join("broken.db");
        std::fs::write(&broken, "this is no database. ".repeat(100)).unwrap();
        let url = format!("sqlite://{}", broken.display());
        let missing = format!("sqlite://{}", folder.path().join("relay.db").display());
        let secret = format!(
            "auth.secret_file={}",
            folder.path().join("secret").display()
        );
        let listen = "127.0.0.1:0";
        for (database, listen, status, part) in [
            (&url, listen, ExitStatus::Unavailable, "database.url"),
            (&missing, "192.0.2.1:1", ExitStatus::Usage, "server.listen"),
            (
                &url,
                "192.0.2.1:1",
                ExitStatus::Unavailable,
                "server.listen",
            ),
        ] {
            let ran = relay(
                &[
                    "doctor",
                    "--database-url",
                    database,
                    "--listen",
                    listen,
                    "--set",
                    &secret,
                ],
                &[],
            );
            assert_eq!(ran.status, status, "{}{}", ran.output, ran.errors);
            assert!(ran.output.contains(part), "{part}: {}", ran.output);
            assert!(ran.errors.contains("checks failed"), "{}", ran.errors);
        }
    }
}
