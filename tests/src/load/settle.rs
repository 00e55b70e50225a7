//! Memory at rest: a server frees and its allocator returns memory a little after the last byte, so
//! readings are taken until they stand still.

use std::time::Duration;

use tokio::time::sleep;

use super::error::LoadError;
use super::process::Process;

const BETWEEN_READINGS: Duration = Duration::from_millis(250);
/// So many readings in a row must agree.
const STEADY: usize = 4;
/// Readings agree when they differ by no more than this, in bytes.
const AGREE: u64 = 64 * 1024;
/// After so many readings the last one counts, steady or not.
const LAST_READING: usize = 60;

/// The server's resident memory in bytes once it no longer changes, or after 15 s.
pub(super) async fn resident_at_rest(server: Process) -> Result<u64, LoadError> {
    let mut reference = server.resident()?;
    let mut steady = 0;
    for _ in 0..LAST_READING {
        sleep(BETWEEN_READINGS).await;
        let reading = server.resident()?;
        if reading.abs_diff(reference) <= AGREE {
            steady += 1;
            if steady == STEADY {
                break;
            }
        } else {
            reference = reading;
            steady = 0;
        }
    }
    server.resident()
}
