//! When keys are read, on a paused clock and from a source that the test plays.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use jsonwebtoken::Algorithm;
use serde_json::Value;

use super::*;
use crate::authentication::test_keys::{TestKey, jwks};

const MIN: Duration = Duration::from_secs(10);
const REFRESH: Duration = Duration::from_secs(300);
const TIMEOUT: Duration = Duration::from_secs(5);

/// What the source does when it is read, and how often it was.
#[derive(Clone)]
struct Stage(Arc<StageState>);

struct StageState {
    act: Mutex<Act>,
    reads: AtomicUsize,
    rejected: AtomicUsize,
}

#[derive(Clone)]
enum Act {
    Answer(Vec<u8>),
    Unchanged,
    Fail,
    Hang,
    Slow(Duration, Vec<u8>),
}

impl Stage {
    fn new(act: Act) -> Self {
        Self(Arc::new(StageState {
            act: Mutex::new(act),
            reads: AtomicUsize::new(0),
            rejected: AtomicUsize::new(0),
        }))
    }

    fn set(&self, act: Act) {
        *self.0.act.lock().unwrap() = act;
    }

    fn reads(&self) -> usize {
        self.0.reads.load(Ordering::Relaxed)
    }

    fn start(&self) -> PublicKeys {
        let limits = Limits {
            jwks_timeout: TIMEOUT,
            ..Limits::default()
        };
        let pace = Pace {
            min_interval: MIN,
            refresh_interval: REFRESH,
        };
        let from = "the stage".to_owned();
        PublicKeys::start(self.clone(), from, Published::default(), pace, &limits)
    }
}

impl KeySource for Stage {
    async fn read(&mut self) -> Result<Reading, SourceError> {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
        let act = self.0.act.lock().unwrap().clone();
        match act {
            Act::Answer(text) => Ok(Reading::Text(text)),
            Act::Unchanged => Ok(Reading::Unchanged),
            Act::Fail => Err(SourceError::Http("refused".to_owned())),
            Act::Hang => std::future::pending().await,
            Act::Slow(pause, text) => {
                tokio::time::sleep(pause).await;
                Ok(Reading::Text(text))
            }
        }
    }

    fn reject(&mut self) {
        self.0.rejected.fetch_add(1, Ordering::Relaxed);
    }
}

fn set_of(ids: &[&str]) -> Vec<u8> {
    let keys: Vec<Value> = ids.iter().map(|id| TestKey::p256().jwk(id)).collect();
    jwks(&keys)
}

fn knows(sighting: &Sighting, id: &str) -> bool {
    let keys = sighting.keys.as_ref();
    keys.is_some_and(|keys| keys.find(Algorithm::ES256, Some(id)).is_ok())
}

/// What a token with this key would find, as [`UserTokens`](crate::authentication::UserTokens) looks.
async fn finds(keys: &PublicKeys, id: &str) -> bool {
    let before = keys.look();
    if knows(&before, id) {
        return true;
    }
    match keys.look_again(&before).await {
        Some(after) => knows(&after, id),
        None => false,
    }
}

async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// HTTP-4: the first tokens wait for the first reading, all for the same one.
#[tokio::test(start_paused = true)]
async fn the_first_reading_serves_all() {
    let stage = Stage::new(Act::Slow(Duration::from_secs(3), set_of(&["a"])));
    let keys = stage.start();
    let waiting = (0..100).map(|_| finds(&keys, "a"));
    let found = futures_util::future::join_all(waiting).await;
    assert!(found.into_iter().all(|found| found));
    assert_eq!(stage.reads(), 1);
    // Whoever comes later does not wait at all.
    assert_eq!(finds(&keys, "a").now_or_never(), Some(true));
}

/// HTTP-4: a new key is found at once; one that was taken away goes with the same reading.
#[tokio::test(start_paused = true)]
async fn rotation_shows_at_once() {
    let stage = Stage::new(Act::Answer(set_of(&["old"])));
    let keys = stage.start();
    assert!(finds(&keys, "old").await);
    stage.set(Act::Answer(set_of(&["new"])));
    pass(MIN).await;
    assert!(finds(&keys, "new").await);
    assert!(!knows(&keys.look(), "old"));
    assert_eq!(stage.reads(), 2);
}

/// OP-4: an operator has the keys read at once, also within the shortest interval; bad ones change
/// nothing, and tokens still wait for the interval.
#[tokio::test(start_paused = true)]
async fn an_operator_does_not_wait() {
    let stage = Stage::new(Act::Answer(set_of(&["old"])));
    let keys = stage.start();
    assert!(finds(&keys, "old").await);
    for (act, known) in [
        (Act::Answer(set_of(&["new"])), "new"),
        (Act::Answer(b"{".to_vec()), "new"),
        (Act::Answer(set_of(&["newer"])), "newer"),
    ] {
        stage.set(act);
        let reads = stage.reads();
        keys.reload();
        pass(Duration::from_millis(1)).await;
        assert_eq!(stage.reads(), reads + 1);
        assert!(knows(&keys.look(), known), "{known}");
    }
    assert!(!finds(&keys, "old").await);
    assert_eq!(stage.reads(), 4);
    // One for each order, and one for the set that could not be used.
    assert_eq!(stage.0.rejected.load(Ordering::Relaxed), 4);
}

/// HTTP-4: without any new key, one that was taken away goes with the next refresh.
#[tokio::test(start_paused = true)]
async fn removed_keys_go_with_the_refresh() {
    let stage = Stage::new(Act::Answer(set_of(&["old", "kept"])));
    let keys = stage.start();
    assert!(finds(&keys, "old").await);
    stage.set(Act::Answer(set_of(&["kept"])));
    pass(REFRESH - Duration::from_millis(1)).await;
    assert!(knows(&keys.look(), "old"));
    pass(Duration::from_millis(2)).await;
    assert!(!knows(&keys.look(), "old") && knows(&keys.look(), "kept"));
    assert_eq!(stage.reads(), 2);
}

/// HTTP-4: a thousand unknown keys make one reading an interval, and known keys never wait.
#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_keys_makes_one_reading_an_interval() {
    let stage = Stage::new(Act::Slow(Duration::from_secs(1), set_of(&["known"])));
    let keys = stage.start();
    assert!(finds(&keys, "known").await);
    let began = Instant::now();
    for round in 0..10 {
        let flood = (0..1_000).map(|number| {
            let keys = &keys;
            async move { finds(keys, &format!("{round}-{number}")).await }
        });
        let mut flood = Box::pin(futures_util::future::join_all(flood));
        let under_way = (&mut flood).now_or_never();
        assert_eq!(finds(&keys, "known").now_or_never(), Some(true));
        let found = match under_way {
            Some(found) => found,
            None => flood.await,
        };
        assert!(!found.contains(&true));
        pass(Duration::from_secs(4)).await;
    }
    let intervals = (Instant::now() - began).as_secs() / MIN.as_secs();
    let reads = stage.reads() as u64;
    assert!(
        (2..=intervals + 2).contains(&reads),
        "{reads} in {intervals}"
    );
}

/// HTTP-4: whatever happens to the source, the last good keys stay, and it is asked again.
#[tokio::test(start_paused = true)]
async fn the_last_good_keys_stay() {
    let stage = Stage::new(Act::Answer(set_of(&["a"])));
    let keys = stage.start();
    assert!(finds(&keys, "a").await);
    for act in [
        Act::Fail,
        Act::Hang,
        Act::Slow(TIMEOUT + MIN, set_of(&["b"])),
        Act::Answer(b"<html>busy</html>".to_vec()),
        Act::Answer(set_of(&[])),
        Act::Unchanged,
    ] {
        stage.set(act);
        pass(MIN).await;
        let reads = stage.reads();
        assert!(!finds(&keys, "b").await);
        assert_eq!(stage.reads(), reads + 1);
        assert_eq!(finds(&keys, "a").now_or_never(), Some(true));
    }
    assert_eq!(stage.0.rejected.load(Ordering::Relaxed), 2);
    stage.set(Act::Answer(set_of(&["b"])));
    pass(MIN).await;
    assert!(finds(&keys, "b").await);
}

/// HTTP-4: a source that is away at the start is asked again by itself and by tokens.
#[tokio::test(start_paused = true)]
async fn a_source_that_is_away_at_the_start_is_asked_again() {
    let stage = Stage::new(Act::Fail);
    let keys = stage.start();
    assert!(!finds(&keys, "a").await);
    assert!(keys.look().keys.is_none());
    // Too soon: no waiting.
    assert_eq!(finds(&keys, "a").now_or_never(), Some(false));
    stage.set(Act::Answer(set_of(&["a"])));
    pass(MIN + Duration::from_millis(1)).await;
    assert!(knows(&keys.look(), "a"));
    assert_eq!(stage.reads(), 2);
}

/// HTTP-4: a token waits for a slow source no longer than `auth.jwks_timeout`.
#[tokio::test(start_paused = true)]
async fn waiting_ends() {
    let stage = Stage::new(Act::Hang);
    let keys = stage.start();
    let began = Instant::now();
    assert!(!finds(&keys, "a").await);
    let waited = Instant::now() - began;
    assert!(waited >= TIMEOUT && waited < TIMEOUT + Duration::from_millis(100));
}

/// The reading ends with its last reader.
#[tokio::test(start_paused = true)]
async fn nobody_reads_for_nobody() {
    let stage = Stage::new(Act::Answer(set_of(&["a"])));
    let keys = stage.start();
    assert!(finds(&keys, "a").await);
    drop(keys);
    pass(REFRESH * 10).await;
    assert_eq!(stage.reads(), 1);
    assert_eq!(Arc::strong_count(&stage.0), 1);
}

/// HTTP-4: a file must be good when the relay starts; later a bad one changes nothing.
#[tokio::test(start_paused = true)]
async fn files_are_good_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let limits = Limits::default();
    for text in [None, Some(&b"{"[..]), Some(b"{\"keys\":[]}")] {
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let error = PublicKeys::from_file(&path, &limits).err().unwrap();
        assert!(error.to_string().contains("keys.json"), "{error}");
    }
    std::fs::write(&path, set_of(&["a"])).unwrap();
    let keys = PublicKeys::from_file(&path, &limits).unwrap();
    assert_eq!(finds(&keys, "a").now_or_never(), Some(true));
}
