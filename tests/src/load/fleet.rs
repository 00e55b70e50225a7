//! Many registered sockets at once: opened a bounded number at a time, so that a server is loaded
//! and not flooded.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{Client, Endpoint};
use super::devices::{Device, Pair};
use super::error::LoadError;
use super::histogram::Histogram;

/// Both ends of a pair, registered.
pub(super) struct Linked {
    pub(super) pair: Pair,
    pub(super) desktop: Client,
    pub(super) phone: Client,
}

/// Opens the desktops of all pairs, then the phones in another order, at most `at_once` sockets at a
/// time. Also tells how long each registration took.
///
/// A server may hand sockets to its threads in turn. Opened pair by pair, the two ends of every pair
/// would then meet on one thread, or on two, by the luck of their number, and a figure would depend on
/// it; in another order half of the pairs do either, as in life.
///
/// # Errors
/// The first registration that fails.
pub(super) async fn open(
    endpoint: &Endpoint,
    pairs: impl Iterator<Item = Pair>,
    at_once: usize,
) -> Result<(Vec<Linked>, Histogram), LoadError> {
    let mut pairs: Vec<Pair> = pairs.collect();
    let desktops = pairs.iter().map(|pair| pair.desktop());
    let (desktops, mut durations) = open_devices(endpoint, desktops, at_once).await?;
    pairs.sort_by_key(|pair| scattered(pair.0 as u64));
    let phones = pairs.iter().map(|pair| pair.phone());
    let (phones, of_phones) = open_devices(endpoint, phones, at_once).await?;
    durations.add(&of_phones);
    let fleet = desktops
        .into_iter()
        .zip(phones)
        .map(|((number, desktop), (_, phone))| Linked {
            pair: Pair(number),
            desktop,
            phone,
        });
    Ok((fleet.collect(), durations))
}

/// Opens devices in this order; returns them in the order of their pairs' numbers.
async fn open_devices(
    endpoint: &Endpoint,
    devices: impl Iterator<Item = Device>,
    at_once: usize,
) -> Result<(BTreeMap<usize, Client>, Histogram), LoadError> {
    let endpoint = endpoint.clone();
    let opened = for_each(devices, at_once, move |device| {
        let endpoint = endpoint.clone();
        async move {
            let started = Instant::now();
            let client = Client::open(&endpoint, device).await?;
            Ok((device.pair.0, client, started.elapsed()))
        }
    })
    .await?;
    let mut durations = Histogram::default();
    let mut clients = BTreeMap::new();
    for (number, client, duration) in opened {
        durations.record(duration);
        clients.insert(number, client);
    }
    Ok((clients, durations))
}

/// A number that looks random and is always the same for the same `number` (the finalizer of
/// SplitMix64, a bijection).
fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
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

/// Why a task ended that should not have.
pub(super) fn failure<R>(
    finished: Result<Result<R, LoadError>, tokio::task::JoinError>,
) -> LoadError {
    match outcome(finished) {
        Err(error) => error,
        Ok(_) => LoadError::Unexpected("the end of a task in the middle of the run".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever share of the phones a server puts on its second thread, it is half of each kind.
    #[test]
    fn the_order_of_phones_has_nothing_to_do_with_that_of_desktops() {
        let mut numbers: Vec<u64> = (0..100).collect();
        numbers.sort_by_key(|number| scattered(*number));
        let meet = numbers
            .iter()
            .enumerate()
            .filter(|(place, number)| *place as u64 % 2 == **number % 2)
            .count();
        assert!((40..=60).contains(&meet), "{meet} of 100 meet");
    }
}
