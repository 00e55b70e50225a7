//! Many registered sockets at once: opened a bounded number at a time, so that a server is loaded
//! and not flooded.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{Client, Endpoint};
use super::devices::Pair;
use super::error::LoadError;
use super::histogram::Histogram;

/// Both ends of a pair, registered.
pub(super) struct Linked {
    pub(super) pair: Pair,
    pub(super) desktop: Client,
    pub(super) phone: Client,
}

/// Opens the desktop and the phone of every pair, at most `at_once` pairs at a time; the desktop
/// first, as a phone's registration reads its target. Also tells how long each registration took.
///
/// # Errors
/// The first registration that fails.
pub(super) async fn open(
    endpoint: &Endpoint,
    pairs: impl Iterator<Item = Pair>,
    at_once: usize,
) -> Result<(Vec<Linked>, Histogram), LoadError> {
    let endpoint = endpoint.clone();
    let opened = for_each(pairs, at_once, move |pair| {
        let endpoint = endpoint.clone();
        async move {
            let mut durations = Histogram::default();
            let started = Instant::now();
            let desktop = Client::open(&endpoint, pair.desktop()).await?;
            durations.record(started.elapsed());
            let started = Instant::now();
            let phone = Client::open(&endpoint, pair.phone()).await?;
            durations.record(started.elapsed());
            let linked = Linked {
                pair,
                desktop,
                phone,
            };
            Ok((linked, durations))
        }
    })
    .await?;
    let mut all = Histogram::default();
    let mut fleet = Vec::with_capacity(opened.len());
    for (linked, durations) in opened {
        all.add(&durations);
        fleet.push(linked);
    }
    fleet.sort_unstable_by_key(|linked| linked.pair.0);
    Ok((fleet, all))
}

/// Runs `work` on every item in tasks of their own, at most `at_once` at a time.
///
/// # Errors
/// The first error of any of them; the others are then abandoned.
pub(super) async fn for_each<T, F, R>(
    items: impl Iterator<Item = T>,
    at_once: usize,
    work: impl Fn(T) -> F,
) -> Result<Vec<R>, LoadError>
where
    F: Future<Output = Result<R, LoadError>> + Send + 'static,
    R: Send + 'static,
{
    let permits = Arc::new(Semaphore::new(at_once));
    let mut tasks = JoinSet::new();
    let mut done = Vec::new();
    for item in items {
        // The semaphore is never closed, so this only waits.
        let permit = Arc::clone(&permits).acquire_owned().await;
        let job = work(item);
        tasks.spawn(async move {
            let result = job.await;
            drop(permit);
            result
        });
        while let Some(finished) = tasks.try_join_next() {
            done.push(outcome(finished)?);
        }
    }
    while let Some(finished) = tasks.join_next().await {
        done.push(outcome(finished)?);
    }
    Ok(done)
}

/// A task's result; a panic of a task goes on here.
pub(super) fn outcome<R>(
    finished: Result<Result<R, LoadError>, tokio::task::JoinError>,
) -> Result<R, LoadError> {
    match finished {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(LoadError::Unexpected("a cancelled task".to_owned())),
    }
}
