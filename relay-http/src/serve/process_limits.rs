//! What the operating system allows the process: open files, and files of a size.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// SIGXFSZ: a file has reached the limit of its size (`ulimit -f`). Its number on Linux, but for MIPS,
/// and on the BSDs.
const FILE_TOO_LARGE: i32 = 25;

/// Every device is an open file; the soft limit of a shell, often 1,024, is no choice of anybody's.
pub(super) fn raise_file_limit() {
    match rlimit::increase_nofile_limit(rlimit::INFINITY) {
        Ok(limit) => tracing::debug!(limit, "open files"),
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
}

/// A file that may not grow fails the write that would make it, as a full disk does, instead of ending
/// the process. Whoever has a signal delivered no longer dies of it; nobody needs to wait for it.
pub(super) fn outlive_file_limits() -> io::Result<()> {
    signal(SignalKind::from_raw(FILE_TOO_LARGE)).map(drop)
}
