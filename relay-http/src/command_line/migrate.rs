//! `relay migrate`: brings the database to the form that this version needs, or says what that would
//! take.

use actix_rt::System;
use clap::Args;
use relay_model::store::{DieselStore, OpenError, StoreError};

use super::configuration_arguments::ConfigurationArguments;
use super::{CommandError, Surroundings};
use crate::configuration::{Configuration, Origin};

const EXAMPLES: &str = "\
Examples:
  relay migrate --check                     what is pending; ends with 69 if anything is
  relay migrate --config /etc/relay/relay.toml
  relay migrate && relay serve --set database.migrate_at_start=false

Several may run at once, also beside a relay: each step is applied once.";

/// Bring the database up to date.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Change nothing; print the pending steps, and end with 69 if there are any.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    configuration: ConfigurationArguments,
}

/// Why the database is not up to date.
#[derive(Debug, thiserror::Error)]
pub(super) enum MigrateError {
    /// The database file cannot be opened or made.
    #[error("{0} (database.url: {1})")]
    Open(OpenError, Origin),
    /// The database does not answer, or refused a step.
    #[error("the database cannot be brought up to date: {0} (database.url: {1})")]
    Store(StoreError, Origin),
    /// Only asked for, and found.
    #[error("{0} of the database's steps are pending; apply them with: relay migrate")]
    Pending(usize),
    /// Only asked for, and there is nothing that has steps.
    #[error(
        "{0} does not exist yet; `relay migrate` and `relay serve` make it (database.url: {1})"
    )]
    NoDatabase(String, Origin),
}

impl Arguments {
    pub(super) fn run(
        self,
        before: ConfigurationArguments,
        surroundings: Surroundings<'_>,
    ) -> Result<(), CommandError> {
        let configuration = self.configuration.load(before, surroundings.environment)?;
        let steps = System::new().block_on(steps(&configuration, self.check))?;
        for step in &steps {
            let word = if self.check { "pending" } else { "applied" };
            writeln!(surroundings.output, "{word} {step}")?;
        }
        match steps.len() {
            0 => writeln!(surroundings.output, "the database is up to date")?,
            pending if self.check => return Err(MigrateError::Pending(pending).into()),
            _ => (),
        }
        Ok(())
    }
}

/// The steps that are pending, applied unless only asked for.
async fn steps(configuration: &Configuration, check: bool) -> Result<Vec<String>, MigrateError> {
    let settings = &configuration.settings;
    let origin = || configuration.origin("database.url");
    // Opening makes a missing file, which is more than was asked for.
    let missing = settings.database.path().filter(|path| !path.exists());
    if let (true, Some(path)) = (check, missing) {
        let path = path.display().to_string();
        return Err(MigrateError::NoDatabase(path, origin()));
    }
    let store = DieselStore::open(&settings.database, &settings.limits)
        .map_err(|error| MigrateError::Open(error, origin()))?;
    let steps = if check {
        store.pending_migrations().await
    } else {
        store.migrate().await
    };
    steps.map_err(|error| MigrateError::Store(error, origin()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::relay;
    use crate::exit::ExitStatus;

    /// OP-1: `--check` changes nothing and ends with 69 while steps are pending; applying twice is
    /// applying once.
    #[test]
    fn steps_are_shown_and_applied() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data/relay.db");
        let url = format!("sqlite://{}", file.display());
        let migrate = |more: &[&str]| {
            let arguments = [&["migrate", "--database-url", &url], more].concat();
            relay(&arguments, &[])
        };

        let none = migrate(&["--check"]);
        assert_eq!(none.status, ExitStatus::Unavailable, "{}", none.errors);
        assert!(none.errors.contains("relay migrate"), "{}", none.errors);
        assert!(!file.exists() && none.output.is_empty());

        std::fs::create_dir(folder.path().join("data")).unwrap();
        std::fs::File::create(&file).unwrap();
        let pending = migrate(&["--check"]);
        assert_eq!(pending.status, ExitStatus::Unavailable);
        assert!(pending.output.starts_with("pending "), "{}", pending.output);
        assert_eq!(migrate(&["--check"]).output, pending.output);

        let applied = migrate(&[]);
        assert_eq!(applied.status, ExitStatus::Done, "{}", applied.errors);
        let lines = |text: &str| text.lines().count();
        assert_eq!(lines(&applied.output), lines(&pending.output));
        assert!(
            applied
                .output
                .lines()
                .all(|line| line.starts_with("applied "))
        );
        for arguments in [&[][..], &["--check"]] {
            let again = migrate(arguments);
            let said = (again.status, again.output.as_str());
            assert_eq!(said, (ExitStatus::Done, "the database is up to date\n"));
        }
    }

    /// OP-1: a database that cannot be used ends it with 69 and names the key.
    #[test]
    fn an_unusable_database_ends_with_69() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("relay.db");
        std::fs::write(&file, "this is no database. ".repeat(100)).unwrap();
        for path in [&*file, folder.path()] {
            let url = format!("sqlite://{}", path.display());
            for arguments in [&["migrate"][..], &["migrate", "--check"]] {
                let arguments = [arguments, &["--database-url", &url]].concat();
                let ran = relay(&arguments, &[]);
                assert_eq!(ran.status, ExitStatus::Unavailable, "{}", ran.errors);
                assert!(ran.errors.contains("database.url"), "{}", ran.errors);
            }
        }
    }
}
