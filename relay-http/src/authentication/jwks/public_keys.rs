//! The keys in force, and the task that reads them: the time and the waiting around
//! [`Reloads`](super::reloads::Reloads).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use relay_model::limits::Limits;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::key_set::{KeySet, KeySetError};
use super::reloads::{Outlook, Pace, Reloads};
use super::source::{FileSource, KeySource, Reading, SourceError, UrlSource};
use crate::configuration::JwksUrl;

/// Why there can be no public keys.
#[derive(Debug, thiserror::Error)]
pub enum PublicKeysError {
    /// The file cannot be read, or holds no key that can be used.
    #[error("auth.jwks_file {}: {reason}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No TLS.
    #[error(
        "auth.jwks_url cannot be read: {0}; the system's root certificates are needed, or SSL_CERT_FILE"
    )]
    Tls(String),
}

/// The keys that were read last, for everybody who checks tokens. Cheap to clone; when the last
/// clone goes, the reading ends.
#[derive(Clone)]
pub struct PublicKeys {
    published: watch::Receiver<Published>,
    wanted: Arc<Notify>,
    ordered: Arc<Notify>,
    pace: Pace,
}

/// What one look at the keys showed.
pub(in crate::authentication) struct Sighting {
    /// The keys; `None` if none were ever read.
    pub(in crate::authentication) keys: Option<Arc<KeySet>>,
    reloads: Reloads,
}

#[derive(Clone, Default)]
struct Published {
    keys: Option<Arc<KeySet>>,
    reloads: Reloads,
}

impl PublicKeys {
    /// Keys of a file, which is read at once and must be good then. Needs a tokio runtime, as
    /// [`from_url`](Self::from_url) does.
    ///
    /// # Errors
    /// When it is not good: it is most likely a mistake, and somebody is watching.
    pub fn from_file(path: &Path, limits: &Limits) -> Result<Self, PublicKeysError> {
        let error = |reason: String| PublicKeysError::File {
            path: path.to_owned(),
            reason,
        };
        let mut source = FileSource::new(path, limits.jwks_bytes);
        let text = match source
            .read_now()
            .map_err(|cause| error(cause.to_string()))?
        {
            Reading::Text(text) => text,
            Reading::Unchanged => Vec::new(),
        };
        let keys =
            KeySet::parse(&text, limits.jwks_keys).map_err(|cause| error(cause.to_string()))?;
        let from = path.display().to_string();
        log_keys(&from, &keys);
        let first = Published {
            keys: Some(Arc::new(keys)),
            reloads: Reloads::after_first(Instant::now()),
        };
        // A look at a file costs nothing, so it is not left for longer.
        let pace = Pace {
            min_interval: limits.jwks_min_interval,
            refresh_interval: limits.jwks_min_interval,
        };
        Ok(Self::start(source, from, first, pace, limits))
    }

    /// Keys of a URL, which is read in the background: the relay starts although it is away.
    ///
    /// # Errors
    /// When there can be no TLS.
    pub fn from_url(url: &JwksUrl, limits: &Limits) -> Result<Self, PublicKeysError> {
        let source = UrlSource::new(url, limits)
            .map_err(|error| PublicKeysError::Tls(SourceError::from(error).to_string()))?;
        let pace = Pace {
            min_interval: limits.jwks_min_interval,
            refresh_interval: limits.jwks_refresh_interval,
        };
        let first = Published::default();
        Ok(Self::start(source, url.to_string(), first, pace, limits))
    }

    /// Reads the keys of a URL once and says how many can be used.
    ///
    /// # Errors
    /// With what is wrong with them.
    pub async fn probe_url(url: &JwksUrl, limits: &Limits) -> Result<usize, String> {
        let read = async {
            let mut source = UrlSource::new(url, limits).map_err(SourceError::from)?;
            source.read().await
        };
        let text = match read.await.map_err(|error| error.to_string())? {
            Reading::Text(text) => text,
            Reading::Unchanged => Vec::new(),
        };
        let keys = KeySet::parse(&text, limits.jwks_keys).map_err(|error| error.to_string())?;
        Ok(keys.len())
    }

    fn start(
        source: impl KeySource,
        from: String,
        first: Published,
        pace: Pace,
        limits: &Limits,
    ) -> Self {
        let (publisher, published) = watch::channel(first);
        let wanted = Arc::new(Notify::new());
        let ordered = Arc::new(Notify::new());
        let reader = Reader {
            source,
            from,
            publisher,
            wanted: Arc::clone(&wanted),
            ordered: Arc::clone(&ordered),
            pace,
            limits: limits.clone(),
        };
        tokio::spawn(reader.run());
        Self {
            published,
            wanted,
            ordered,
            pace,
        }
    }

    /// Has the keys read again at once, however short a time ago that was: an operator asks (OP-4). Keys
    /// that cannot be used are refused with a log line, and those in force stay.
    pub(crate) fn reload(&self) {
        self.ordered.notify_one();
    }

    /// Looks at the keys; waits for nobody.
    pub(in crate::authentication) fn look(&self) -> Sighting {
        let published = self.published.borrow();
        Sighting {
            keys: published.keys.clone(),
            reloads: published.reloads,
        }
    }

    /// After a look that did not show the key of a token: waits for the next reading, if one runs or
    /// may begin, and looks again. `None` if the keys cannot have changed.
    pub(in crate::authentication) async fn look_again(
        &self,
        before: &Sighting,
    ) -> Option<Sighting> {
        let Outlook::NewsAfter(ended) = before.reloads.outlook(self.pace, Instant::now()) else {
            return None;
        };
        self.wanted.notify_one();
        let mut published = self.published.clone();
        // An error says that nobody reads any more: the process is stopping.
        let news = published.wait_for(|published| published.reloads.ended() > ended);
        drop(news.await.ok()?);
        Some(self.look())
    }
}

/// Reads the keys, now and then, until nobody needs them.
struct Reader<S> {
    source: S,
    /// Its name in the log.
    from: String,
    publisher: watch::Sender<Published>,
    /// Tokens with unknown keys ask.
    wanted: Arc<Notify>,
    /// An operator asks.
    ordered: Arc<Notify>,
    pace: Pace,
    limits: Limits,
}

impl<S: KeySource> Reader<S> {
    async fn run(mut self) {
        loop {
            let reloads = self.publisher.borrow().reloads;
            let due = reloads.due(self.pace).unwrap_or_else(Instant::now);
            let mut is_ordered = false;
            tokio::select! {
                () = self.publisher.closed() => return,
                () = self.ordered.notified() => {
                    self.source.reject();
                    is_ordered = true;
                }
                () = self.wanted.notified() => {
                    // Asked for before the reading that has just ended.
                    if !reloads.may_begin(self.pace, Instant::now()) {
                        continue;
                    }
                }
                () = sleep_until(due) => (),
            }
            self.publisher
                .send_modify(|published| published.reloads.begin(Instant::now()));
            let read = self.read().await;
            self.publish(read, is_ordered);
        }
    }

    /// A set with other keys, or `None` if they are the same.
    async fn read(&mut self) -> Result<Option<KeySet>, ReadError> {
        let deadline = self.limits.jwks_timeout;
        let reading = timeout(deadline, self.source.read()).await;
        let text = match reading.map_err(|_| ReadError::Slow(deadline))?? {
            Reading::Text(text) => text,
            Reading::Unchanged => return Ok(None),
        };
        let keys =
            KeySet::parse(&text, self.limits.jwks_keys).inspect_err(|_| self.source.reject())?;
        let published = self.publisher.borrow();
        let known = published.keys.as_ref();
        Ok((!known.is_some_and(|known| known.is_same(&keys))).then_some(keys))
    }

    fn publish(&self, read: Result<Option<KeySet>, ReadError>, is_ordered: bool) {
        let succeeded = read.is_ok();
        let mut failures = 0;
        let (keys, error) = match read {
            Ok(keys) => (keys.map(Arc::new), None),
            Err(error) => (None, Some(error)),
        };
        if let Some(keys) = &keys {
            log_keys(&self.from, keys);
        }
        let mut has_keys = false;
        self.publisher.send_modify(|published| {
            failures = published.reloads.end(succeeded);
            if keys.is_some() {
                published.keys = keys;
            }
            has_keys = published.keys.is_some();
        });
        match error {
            // The first of a row, then ever fewer; whoever orders a reading learns what came of it.
            Some(error) if is_ordered || (failures + 1).is_power_of_two() => tracing::warn!(
                from = self.from,
                %error,
                failures = failures + 1,
                "cannot read the public keys of user tokens; {}",
                if has_keys { "those that were read last stay" } else { "such tokens get 503" }
            ),
            Some(error) => tracing::debug!(from = self.from, %error, "cannot read the public keys"),
            None if failures > 0 => {
                tracing::info!(
                    from = self.from,
                    failures,
                    "the public keys can be read again"
                );
            }
            None => (),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    KeySet(#[from] KeySetError),
    #[error("it did not come within {} s (auth.jwks_timeout)", .0.as_secs_f64())]
    Slow(std::time::Duration),
}

fn log_keys(from: &str, keys: &KeySet) {
    match keys.skipped() {
        None => tracing::info!(
            from,
            keys = keys.len(),
            "read the public keys of user tokens"
        ),
        Some(skipped) => tracing::warn!(
            from,
            keys = keys.len(),
            skipped,
            "read the public keys of user tokens; some cannot be used"
        ),
    }
}

#[cfg(test)]
mod tests;
