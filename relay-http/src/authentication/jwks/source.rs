//! Where public keys come from: a file of the operator's, or an identity provider's URL. Neither is
//! trusted to be there, to be quick, or to be small.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use relay_model::limits::Limits;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};

use crate::configuration::JwksUrl;

/// What a reading brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The source says that nothing has changed.
    Unchanged,
    /// The whole text.
    Text(Vec<u8>),
}

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub(in crate::authentication) enum SourceError {
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("it is larger than {0} bytes (auth.jwks_bytes)")]
    TooLarge(usize),
    #[error("{0}")]
    Http(String),
    #[error("it was answered with {0} and not with 200{redirect}", redirect = if .0.is_redirection() { "; redirects are not followed" } else { "" })]
    Status(StatusCode),
    #[error("the process is stopping")]
    Stopping,
}

/// Something that can be read again and again.
pub(super) trait KeySource: Send + 'static {
    /// Reads it once. Whoever calls sets the deadline.
    fn read(&mut self) -> impl Future<Output = Result<Reading, SourceError>> + Send;

    /// Has the next reading bring the text although it may look unchanged: that of the last one could not
    /// be used, or somebody says that it is another.
    fn reject(&mut self) {}
}

/// A file, read again only when it looks changed.
pub(in crate::authentication) struct FileSource {
    path: PathBuf,
    most_bytes: usize,
    seen: Option<FileMark>,
}

/// What tells two versions of a file apart without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileMark {
    modified: SystemTime,
    size: u64,
    inode: u64,
}

impl FileSource {
    pub(in crate::authentication) fn new(path: &Path, most_bytes: usize) -> Self {
        Self {
            path: path.to_owned(),
            most_bytes,
            seen: None,
        }
    }

    /// Reads it on this thread.
    pub(super) fn read_now(&mut self) -> Result<Reading, SourceError> {
        let (mark, reading) = read_file(&self.path, self.most_bytes, self.seen)?;
        self.seen = Some(mark);
        Ok(reading)
    }
}

impl KeySource for FileSource {
    async fn read(&mut self) -> Result<Reading, SourceError> {
        let (path, most_bytes, seen) = (self.path.clone(), self.most_bytes, self.seen);
        let read = move || read_file(&path, most_bytes, seen);
        let read = tokio::task::spawn_blocking(read).await;
        let (mark, reading) = read.map_err(|_| SourceError::Stopping)??;
        self.seen = Some(mark);
        Ok(reading)
    }

    fn reject(&mut self) {
        self.seen = None;
    }
}

fn read_file(
    path: &Path,
    most_bytes: usize,
    seen: Option<FileMark>,
) -> Result<(FileMark, Reading), SourceError> {
    let file = std::fs::File::open(path)?;
    let metadata = file.metadata()?;
    let mark = FileMark {
        modified: metadata.modified()?,
        size: metadata.len(),
        inode: metadata.ino(),
    };
    if seen == Some(mark) {
        return Ok((mark, Reading::Unchanged));
    }
    let mut text = Vec::new();
    file.take(most_bytes as u64 + 1).read_to_end(&mut text)?;
    if text.len() > most_bytes {
        return Err(SourceError::TooLarge(most_bytes));
    }
    Ok((mark, Reading::Text(text)))
}

/// An identity provider's URL.
pub(in crate::authentication) struct UrlSource {
    client: Client,
    url: JwksUrl,
    most_bytes: usize,
}

impl UrlSource {
    /// # Errors
    /// When there is no TLS to be had, as on a machine without root certificates.
    pub(in crate::authentication) fn new(
        url: &JwksUrl,
        limits: &Limits,
    ) -> Result<Self, reqwest::Error> {
        let mut client = Client::builder()
            .user_agent(concat!("relay/", env!("CARGO_PKG_VERSION")))
            // A redirect would hand the choice of the keys to another server.
            .redirect(Policy::none())
            // Longer than one reading may take there is nothing to wait for.
            .timeout(limits.jwks_timeout)
            .pool_idle_timeout(Duration::from_secs(1));
        client = if url.is_plain() {
            client.no_proxy()
        } else {
            client.https_only(true)
        };
        Ok(Self {
            client: client.build()?,
            url: url.clone(),
            most_bytes: limits.jwks_bytes,
        })
    }
}

impl KeySource for UrlSource {
    async fn read(&mut self) -> Result<Reading, SourceError> {
        let request = self.client.get(self.url.as_url().clone());
        let request = request.header("Accept", "application/jwk-set+json, application/json");
        let mut response = request.send().await?;
        if response.status() != StatusCode::OK {
            return Err(SourceError::Status(response.status()));
        }
        let too_large = SourceError::TooLarge(self.most_bytes);
        let announced = response.content_length();
        if announced.is_some_and(|length| length > self.most_bytes as u64) {
            return Err(too_large);
        }
        let mut text = BytesMut::new();
        while let Some(chunk) = response.chunk().await? {
            if text.len() + chunk.len() > self.most_bytes {
                return Err(too_large);
            }
            text.extend_from_slice(&chunk);
        }
        Ok(Reading::Text(text.into()))
    }
}

impl From<reqwest::Error> for SourceError {
    /// With every cause, which the library's own text leaves out.
    fn from(error: reqwest::Error) -> Self {
        // The log line names the URL already.
        let error = error.without_url();
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        Self::Http(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(reading: Result<Reading, SourceError>) -> String {
        match reading.unwrap() {
            Reading::Text(text) => String::from_utf8(text).unwrap(),
            Reading::Unchanged => "unchanged".to_owned(),
        }
    }

    /// HTTP-4: a file is read again when it has changed, and only then.
    #[tokio::test]
    async fn files_are_read_when_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let mut source = FileSource::new(&path, 10);
        assert!(source.read().await.is_err());
        std::fs::write(&path, "one").unwrap();
        assert_eq!(text(source.read().await), "one");
        assert_eq!(text(source.read().await), "unchanged");
        source.reject();
        assert_eq!(text(source.read().await), "one");
        std::fs::write(&path, "three").unwrap();
        assert_eq!(text(source.read().await), "three");
        // Same size, later.
        std::fs::write(&path, "seven").unwrap();
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(later).unwrap();
        assert_eq!(text(source.read().await), "seven");
        std::fs::write(&path, "eleven bytes").unwrap();
        let refused = source.read().await.unwrap_err().to_string();
        assert!(refused.contains("10 bytes"), "{refused}");
        std::fs::write(&path, "ten bytes!").unwrap();
        assert_eq!(text(source.read_now()), "ten bytes!");
        assert_eq!(text(source.read().await), "unchanged");
    }
}
