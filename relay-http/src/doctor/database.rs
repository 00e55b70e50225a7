//! The database: that it answers, is in the form that this version needs, takes writes, and has the same
//! idea of the time.

use std::time::Duration;

use relay_actors::environment::Environment;
use relay_model::store::{DieselStore, StoreError};
use relay_model::time::Timestamp;

use super::Finding;
use super::machine::nearest_folder;
use crate::configuration::Configuration;
use crate::system_environment::SystemEnvironment;

const NAME: &str = "database";

/// Clocks that differ by more are worth a word: presence is ordered by them.
const CLOCKS_DIFFER: Duration = Duration::from_secs(2);

pub(super) async fn look(configuration: &Configuration) -> Vec<Finding> {
    let settings = &configuration.settings;
    let url = format!("{:?}", settings.database);
    let origin = configuration.origin("database.url");
    // Opening makes a missing file, which is more than a look.
    if let Some(path) = settings.database.path().filter(|path| !path.exists()) {
        return vec![missing(path, &url)];
    }
    let store = match DieselStore::open(&settings.database, &settings.limits) {
        Ok(store) => store,
        Err(error) => {
            let advice = format!("mend database.url ({origin}), or what it names");
            return vec![Finding::unavailable(NAME, error.to_string(), advice)];
        }
    };
    let pending = match store.pending_migrations().await {
        Ok(pending) => pending,
        Err(error) => {
            let advice = format!(
                "see that the server runs and that database.url ({origin}) names it and its user"
            );
            let detail = format!("{url}: {error}");
            return vec![Finding::unavailable(NAME, detail, advice)];
        }
    };
    let mut findings = Vec::new();
    if pending.is_empty() {
        findings.push(writable(&url, store.probe_write().await));
    } else {
        findings.push(behind(&url, &pending, settings.migrate_at_start));
    }
    findings.extend(clock(store.clock().await));
    findings
}

fn missing(path: &std::path::Path, url: &str) -> Finding {
    let folder = nearest_folder(path);
    match rustix::fs::access(folder, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Finding::ok(
            NAME,
            format!("{url} does not exist yet; `relay serve` makes it"),
        ),
        Err(error) => Finding::fail(
            NAME,
            format!(
                "{url} does not exist, and {} takes no files: {error}",
                folder.display()
            ),
            "give the relay's user the right to write there, or set database.url",
        ),
    }
}

fn behind(url: &str, pending: &[String], migrate_at_start: bool) -> Finding {
    let detail = format!("{url} is behind this version by: {}", pending.join(", "));
    if migrate_at_start {
        let advice =
            "nothing: the next `relay serve` brings it up to date (or `relay migrate` now)";
        Finding::warn(NAME, detail, advice)
    } else {
        let advice = "run `relay migrate`: database.migrate_at_start is false";
        Finding::unavailable(NAME, detail, advice)
    }
}

fn writable(url: &str, probed: Result<(), StoreError>) -> Finding {
    match probed {
        Ok(()) => Finding::ok(
            NAME,
            format!("{url} answers, is up to date and takes writes"),
        ),
        Err(error) => Finding::unavailable(
            NAME,
            format!("{url} takes no writes: {error}"),
            "see that it is not read-only, that its disk has room, and that its user may write",
        ),
    }
}

/// What the clock of the database's server says, if it has one of its own.
fn clock(read: Result<Option<Timestamp>, StoreError>) -> Option<Finding> {
    const NAME: &str = "database clock";
    match read {
        Ok(None) => None,
        Ok(Some(theirs)) => Some(clocks(SystemEnvironment.now(), theirs)),
        Err(error) => Some(Finding::warn(
            NAME,
            format!("cannot be read: {error}"),
            "see that the database answers",
        )),
    }
}

fn clocks(ours: Timestamp, theirs: Timestamp) -> Finding {
    const NAME: &str = "database clock";
    let apart = ours.since(theirs).max(theirs.since(ours));
    let detail = format!("differs from ours by {:.3} s", apart.as_secs_f64());
    if apart <= CLOCKS_DIFFER {
        return Finding::ok(NAME, detail);
    }
    Finding::warn(
        NAME,
        detail,
        "set the clocks of both machines (timedatectl set-ntp true): relays that share a database \
         must agree on the time",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    /// Command line: clocks that differ are noticed, whichever is ahead.
    #[test]
    fn clocks_are_compared() {
        let ours = Timestamp::from_unix_micros(1_791_187_200_000_000);
        let near = Duration::from_millis(1_900);
        let far = Duration::from_secs(3);
        for (theirs, outcome) in [
            (ours.plus(near), Outcome::Ok),
            (ours.minus(near), Outcome::Ok),
            (ours.plus(far), Outcome::Warn),
            (ours.minus(far), Outcome::Warn),
        ] {
            assert_eq!(clocks(ours, theirs).outcome, outcome, "{theirs}");
        }
    }

    /// Command line: what is pending is a failure only if nobody will apply it.
    #[test]
    fn pending_steps_are_told() {
        let pending = ["2026_step".to_owned()];
        assert_eq!(behind("sqlite://a", &pending, true).outcome, Outcome::Warn);
        let failed = behind("sqlite://a", &pending, false);
        assert_eq!(failed.outcome, Outcome::Fail);
        assert!(failed.detail.contains("2026_step"));
    }
}
