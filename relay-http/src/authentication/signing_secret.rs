//! The signing secret of a relay that was given none: made once, kept in a file that only its owner
//! can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::configuration::{MIN_SECRET_BYTES, Secret};

/// Random bytes in a made secret.
const RANDOM_BYTES: usize = 32;

/// Why there is no signing secret.
#[derive(Debug, thiserror::Error)]
pub enum SigningSecretError {
    /// Nobody made it yet.
    #[error(
        "there is no signing secret at {}: start `relay serve` in this folder first, or set \
         auth.hs256_secret or auth.secret_file",
        .0.display()
    )]
    Missing(PathBuf),
    /// Others can read it.
    #[error("{} can be read by other users; run: chmod 600 {}", .0.display(), .0.display())]
    Exposed(PathBuf),
    /// Its content is no secret.
    #[error(
        "{} holds no secret of at least {MIN_SECRET_BYTES} bytes; restore it, or delete it so that \
         the next start makes another (all tokens end then)",
        .0.display()
    )]
    Damaged(PathBuf),
    /// The file system refused.
    #[error("{}: {source}; set auth.secret_file to a path that can be used", .path.display())]
    Io {
        /// The file or its folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The operating system has no random numbers.
    #[error("the operating system gave no random numbers: {0}")]
    NoRandomness(getrandom::Error),
}

/// Reads the secret.
///
/// # Errors
/// When there is none, or it cannot be used.
pub fn load(path: &Path) -> Result<Secret, SigningSecretError> {
    let io_error = |source| SigningSecretError::Io {
        path: path.to_owned(),
        source,
    };
    let text = match fs::read_to_string(path) {
        Ok(text) => Zeroizing::new(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(SigningSecretError::Missing(path.to_owned()));
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(SigningSecretError::Damaged(path.to_owned()));
        }
        Err(error) => return Err(io_error(error)),
    };
    if is_exposed(path).map_err(io_error)? {
        return Err(SigningSecretError::Exposed(path.to_owned()));
    }
    let text = text.trim();
    if text.len() < MIN_SECRET_BYTES {
        return Err(SigningSecretError::Damaged(path.to_owned()));
    }
    Ok(Secret::new(text.to_owned()))
}

/// Reads the secret, or makes it if there is none; true if it was made.
///
/// # Errors
/// When it can neither be read nor made.
pub fn load_or_create(path: &Path) -> Result<(Secret, bool), SigningSecretError> {
    match load(path) {
        Err(SigningSecretError::Missing(_)) => {
            let created = create(path)?;
            Ok((load(path)?, created))
        }
        other => other.map(|secret| (secret, false)),
    }
}

/// Makes the file whole or not at all; false if another process was faster.
fn create(path: &Path) -> Result<bool, SigningSecretError> {
    let mut random = Zeroizing::new([0; RANDOM_BYTES]);
    getrandom::fill(random.as_mut()).map_err(SigningSecretError::NoRandomness)?;
    let text = Zeroizing::new(STANDARD.encode(random.as_ref()));

    let io_error = |source| SigningSecretError::Io {
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder).map_err(io_error)?;
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let written = write_private(&draft, text.as_bytes())
        // Unlike a rename, a link never replaces a secret that another process made meanwhile.
        .and_then(|()| fs::hard_link(&draft, path));
    let removed = fs::remove_file(&draft);
    match written {
        Ok(()) => removed.map(|()| true).map_err(io_error),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(io_error(error)),
    }
}

fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)?;
    file.write_all(b"\n")?;
    file.sync_all()
}

fn is_exposed(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data").join("signing-secret");
        (folder, path)
    }

    /// A secret is made once and stays.
    #[test]
    fn the_secret_survives_a_restart() {
        let (_folder, path) = scratch();
        assert!(matches!(load(&path), Err(SigningSecretError::Missing(_))));
        let (made, first) = load_or_create(&path).unwrap();
        let (read, again) = load_or_create(&path).unwrap();
        assert!(first && !again && made == read);
        let bytes = STANDARD.decode(made.expose()).unwrap();
        assert_eq!(bytes.len(), RANDOM_BYTES);
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    /// Two relays that start at once end up with the same secret.
    #[test]
    fn a_secret_is_never_replaced() {
        let (_folder, path) = scratch();
        let (made, _) = load_or_create(&path).unwrap();
        assert!(!create(&path).unwrap());
        assert!(load(&path).unwrap() == made);
    }

    #[test]
    fn only_the_owner_can_read_it() {
        let (_folder, path) = scratch();
        load_or_create(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = load(&path).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }

    /// A damaged secret is reported, not replaced: that would end every token without a word.
    #[test]
    fn a_damaged_secret_is_not_replaced() {
        for content in [&b""[..], b"short", b"\xff\xff"] {
            let (_folder, path) = scratch();
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write_private(&path, content).unwrap();
            let error = load_or_create(&path).unwrap_err();
            assert!(matches!(error, SigningSecretError::Damaged(_)), "{error}");
        }
    }
}
