//! The machine itself: its clock, its limit of open files, its disk.

use std::path::Path;

use relay_actors::environment::Environment;
use relay_model::limits::{Limits, MIB, OPEN_FILES_PER_DATABASE_CONNECTION, OPEN_FILES_RESERVED};
use relay_model::store::DatabaseUrl;
use relay_model::time::Timestamp;

use super::Finding;
use crate::system_environment::SystemEnvironment;

/// No clock that is right shows less: 2026-01-01.
const EARLIEST: Timestamp = Timestamp::from_unix_micros(1_767_225_600_000_000);
/// No relay of this version runs later: 2100-01-01.
const LATEST: Timestamp = Timestamp::from_unix_micros(4_102_444_800_000_000);

/// Below this a relay is for tests only.
const FEW_FILES: u64 = 4_096;

/// Free space below which a database should not have to work.
const LITTLE_SPACE: u64 = 512 * MIB as u64;
/// Free space with which a database stops working soon.
const NO_SPACE: u64 = 16 * MIB as u64;

pub(super) fn clock() -> Finding {
    clock_shows(SystemEnvironment.now())
}

fn clock_shows(now: Timestamp) -> Finding {
    const NAME: &str = "clock";
    if (EARLIEST..LATEST).contains(&now) {
        return Finding::ok(NAME, now.to_string());
    }
    Finding::fail(
        NAME,
        format!("{now} cannot be right"),
        "set the clock (timedatectl set-ntp true): tokens are judged by it",
    )
}

pub(super) fn open_files(limits: &Limits) -> Finding {
    const NAME: &str = "open files";
    match rlimit::Resource::NOFILE.get() {
        Ok((_, hard)) => files(hard, limits),
        Err(error) => Finding::warn(
            NAME,
            format!("the limit is not known: {error}"),
            "see `ulimit -Hn`",
        ),
    }
}

/// What `hard` open files are good for; `relay serve` raises its soft limit to that by itself.
fn files(hard: u64, limits: &Limits) -> Finding {
    const NAME: &str = "open files";
    let own = OPEN_FILES_RESERVED + OPEN_FILES_PER_DATABASE_CONNECTION * limits.database_pool;
    let devices = hard.saturating_sub(own as u64);
    let detail = format!("{hard}, enough for {devices} devices");
    let advice = "raise the hard limit (LimitNOFILE=1048576 in the unit, or limits.conf)";
    match devices {
        0 => Finding::fail(NAME, detail, advice),
        _ if hard < FEW_FILES => Finding::warn(NAME, detail, advice),
        _ => Finding::ok(NAME, detail),
    }
}

/// The space where an SQLite file is, or will be.
pub(super) fn disk_space(database: &DatabaseUrl) -> Option<Finding> {
    const NAME: &str = "disk space";
    let file = database.path()?;
    let folder = nearest_folder(file);
    Some(match rustix::fs::statvfs(folder) {
        Ok(disk) => space(folder, disk.f_bavail.saturating_mul(disk.f_frsize)),
        Err(error) => Finding::warn(
            NAME,
            format!("{}: {error}", folder.display()),
            "see that the folder of database.url can be read",
        ),
    })
}

fn space(folder: &Path, free: u64) -> Finding {
    const NAME: &str = "disk space";
    let folder = folder.display();
    let detail = format!("{} MiB are free in {folder}", free / MIB as u64);
    let advice = format!("make room on the disk of {folder}: a full disk stops every registration");
    match free {
        0..NO_SPACE => Finding::fail(NAME, detail, advice),
        NO_SPACE..LITTLE_SPACE => Finding::warn(NAME, detail, advice),
        _ => Finding::ok(NAME, detail),
    }
}

/// The folder of a file, or the nearest one above it that exists.
pub(super) fn nearest_folder(file: &Path) -> &Path {
    let mut above = file.ancestors().skip(1);
    above
        .find(|folder| folder.is_dir())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    /// Command line: a clock that was never set is noticed.
    #[test]
    fn clocks_are_judged() {
        for (micros, outcome) in [
            (0, Outcome::Fail),
            (1_791_187_200_000_000, Outcome::Ok),
            (i64::MAX, Outcome::Fail),
        ] {
            let now = Timestamp::from_unix_micros(micros);
            assert_eq!(clock_shows(now).outcome, outcome, "{now}");
        }
    }

    /// Command line: few files are told, too few are a failure.
    #[test]
    fn limits_of_files_are_judged() {
        let limits = Limits::default();
        for (hard, outcome) in [
            (10, Outcome::Fail),
            (1_024, Outcome::Warn),
            (65_536, Outcome::Ok),
            (u64::MAX, Outcome::Ok),
        ] {
            assert_eq!(files(hard, &limits).outcome, outcome, "{hard}");
        }
    }

    /// Command line: a disk that is filling up is told before it is full.
    #[test]
    fn disks_are_judged() {
        for (free, outcome) in [
            (0, Outcome::Fail),
            (NO_SPACE, Outcome::Warn),
            (LITTLE_SPACE, Outcome::Ok),
        ] {
            let finding = space(Path::new("/data"), free);
            assert_eq!(finding.outcome, outcome, "{free}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("not/there/yet.db");
        assert_eq!(nearest_folder(&file), folder.path());
        assert_eq!(nearest_folder(Path::new("relay.db")), Path::new("."));
        assert!(disk_space(&DatabaseUrl::Sqlite(file)).is_some());
    }
}
