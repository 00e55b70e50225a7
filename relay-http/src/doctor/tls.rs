//! The certificate of the device listener, and how long it is good for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use relay_model::time::Timestamp;

use super::Finding;
use crate::configuration::Configuration;
use crate::tls::{Tls, TlsError};

const NAME: &str = "certificate";

/// Who renews certificates by a machine does so earlier than this before their end.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// The bit of a file's mode by which everybody may read it.
const READ_BY_ALL: u32 = 0o004;

/// Nothing if the listener speaks no TLS.
pub(super) fn look(configuration: &Configuration, now: Timestamp) -> Vec<Finding> {
    match Tls::of(configuration) {
        Ok(None) => Vec::new(),
        Ok(Some(tls)) => {
            let exposed = exposed(tls.key_file().path());
            [judge(tls.ends(), now)]
                .into_iter()
                .chain(exposed)
                .collect()
        }
        Err(TlsError::File(error)) => vec![Finding::fail(
            NAME,
            error.to_string(),
            "put the certificate and its key there; until then no relay starts, and one that runs goes \
             on with the certificate that it has",
        )],
        Err(error @ TlsError::Library(_)) => {
            let advice = "unset server.tls_cert and server.tls_key, and let a proxy speak TLS";
            vec![Finding::fail(NAME, error.to_string(), advice)]
        }
    }
}

/// A private key that is none.
fn exposed(key: &Path) -> Option<Finding> {
    let mode = fs::metadata(key).ok()?.permissions().mode();
    (mode & READ_BY_ALL != 0).then(|| {
        Finding::warn(
            "certificate key",
            format!("everybody on this machine can read {}", key.display()),
            "let only the relay's user read it (chmod o-r)",
        )
    })
}

fn judge(ends: Option<Timestamp>, now: Timestamp) -> Finding {
    const ADVICE: &str = "renew it, put the files in its place, and send the relay a SIGHUP";
    let Some(end) = ends else {
        return Finding::ok(NAME, "it and its key can be read");
    };
    if end <= now {
        Finding::fail(NAME, format!("it has ended at {end}"), ADVICE)
    } else if end <= now.plus(SOON) {
        Finding::warn(NAME, format!("it ends soon, at {end}"), ADVICE)
    } else {
        Finding::ok(NAME, format!("it is good until {end}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    /// Command line: a certificate that has ended is a failure, one that ends soon a warning.
    #[test]
    fn ends_are_judged() {
        let now = Timestamp::from_unix_micros(1_800_000_000_000_000);
        let judge = |ends| judge(ends, now).outcome;
        assert_eq!(judge(None), Outcome::Ok);
        assert_eq!(judge(Some(now)), Outcome::Fail);
        assert_eq!(judge(Some(now.plus(SOON))), Outcome::Warn);
        let later = now.plus(SOON + Duration::from_secs(1));
        assert_eq!(judge(Some(later)), Outcome::Ok);
    }
}
