//! Bounds the calls to the database: so many run, so many more wait, none longer than its deadline,
//! and writers that wait for each other leave room for readers (REG-4).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use metrics::Histogram;
use relay_model::limits::Limits;
use relay_model::store::{StoreError, StoreFuture};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::PoolState;
use crate::metrics::{ByAccess, Metrics, Tally};

/// What a call does to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It changes nothing, and waits for nobody.
    Read,
    /// It may have to wait for other writers, of this process or another, without using its
    /// connection.
    Write,
}

impl ByAccess {
    fn of(&self, access: Access) -> &Histogram {
        match access {
            Access::Read => &self.read,
            Access::Write => &self.write,
        }
    }
}

/// Lets calls in. Clones count together.
#[derive(Clone)]
pub(super) struct Gate {
    /// As many as there are connections.
    running: Arc<Semaphore>,
    /// The writers among them, so that a lock that somebody holds cannot keep registrations out,
    /// which only read.
    writing: Arc<Semaphore>,
    present: Arc<AtomicUsize>,
    /// Those among them whose deadline has not come: somebody waits for them.
    awaited: Arc<AtomicUsize>,
    max_present: usize,
    connections: usize,
    timeout: Duration,
    metrics: Arc<Metrics>,
}

/// One of the calls that wait or run.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// Takes one, and tells how many there were before.
    fn take(places: &Arc<AtomicUsize>) -> (Self, usize) {
        let before = places.fetch_add(1, Ordering::AcqRel);
        (Self(Arc::clone(places)), before)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Gate {
    /// A gate with `database.pool`, `database.queue` and `database.timeout`.
    pub(super) fn new(limits: &Limits, metrics: Arc<Metrics>) -> Self {
        let connections = limits.database_pool;
        Self {
            running: Arc::new(Semaphore::new(connections)),
            writing: Arc::new(Semaphore::new((connections / 2).max(1))),
            present: Arc::default(),
            awaited: Arc::default(),
            max_present: limits.database_queue,
            connections,
            timeout: limits.database_timeout,
            metrics,
        }
    }

    /// Makes a call when there is room for it. One whose deadline comes first is never made; one that
    /// outlives its deadline keeps its place among those that run until it ends, since its thread is
    /// busy all the same.
    pub(super) async fn call<T: Send + 'static>(
        self,
        access: Access,
        begin: impl FnOnce() -> StoreFuture<T> + 'static,
    ) -> Result<T, StoreError> {
        let metrics = Arc::clone(&self.metrics);
        let outcome = self.call_uncounted(access, begin).await;
        match &outcome {
            Ok(_) => {}
            Err(StoreError::QueueFull) => {
                metrics.tallies.count(Tally::DatabaseQueueFull);
                metrics.tallies.count(Tally::StoreFull);
            }
            Err(StoreError::Unavailable(_)) => metrics.tallies.count(Tally::DatabaseUnavailable),
            Err(StoreError::NotWritable(_)) => metrics.tallies.count(Tally::DatabaseNotWritable),
            Err(StoreError::Failed(_)) => metrics.tallies.count(Tally::DatabaseFailed),
        }
        outcome
    }

    async fn call_uncounted<T: Send + 'static>(
        self,
        access: Access,
        begin: impl FnOnce() -> StoreFuture<T> + 'static,
    ) -> Result<T, StoreError> {
        let (place, before) = Place::take(&self.present);
        if before >= self.max_present {
            return Err(StoreError::QueueFull);
        }
        let _awaited = Place::take(&self.awaited);
        let came = Instant::now();
        let deadline = came + self.timeout;
        let permits = timeout_at(deadline, self.permits(access)).await;
        let begun = Instant::now();
        self.metrics
            .database_wait
            .of(access)
            .record(begun.duration_since(came));
        let permits = permits.map_err(|_| too_late())??;
        let call = actix_rt::spawn(async move {
            let _held = (place, permits);
            begin().await
        });
        let outcome = timeout_at(deadline, call).await;
        self.metrics
            .database_query
            .of(access)
            .record(begun.elapsed());
        match outcome {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(StoreError::Failed("the query panicked".to_owned())),
            Err(_) => Err(too_late()),
        }
    }

    /// How many calls wait or run.
    pub(super) fn present(&self) -> usize {
        self.present.load(Ordering::Acquire)
    }

    /// How many of them somebody waits for. A call that outlives its deadline is not one: its answer is of
    /// use to nobody.
    pub(super) fn awaited(&self) -> usize {
        self.awaited.load(Ordering::Acquire)
    }

    /// How many connections calls use.
    pub(super) fn pool(&self) -> PoolState {
        let idle = self.running.available_permits();
        let busy = self.connections.saturating_sub(idle);
        PoolState { busy, idle }
    }

    async fn permits(
        &self,
        access: Access,
    ) -> Result<(Option<OwnedSemaphorePermit>, OwnedSemaphorePermit), StoreError> {
        let acquire = async |semaphore: &Arc<Semaphore>| {
            let permit = Arc::clone(semaphore).acquire_owned().await;
            // The semaphores are never closed.
            permit.map_err(|_| StoreError::QueueFull)
        };
        let writing = match access {
            Access::Read => None,
            Access::Write => Some(acquire(&self.writing).await?),
        };
        Ok((writing, acquire(&self.running).await?))
    }
}

fn too_late() -> StoreError {
    StoreError::Unavailable("no answer in time".to_owned())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use actix::System;
    use tokio::task::yield_now;

    use super::*;

    fn gate(pool: usize) -> Gate {
        let limits = Limits {
            database_pool: pool,
            database_queue: 100,
            ..Limits::default()
        };
        Gate::new(&limits, Arc::default())
    }

    /// A call that ends when nobody asks any more, and never before.
    fn endless() -> StoreFuture<()> {
        Box::pin(pending())
    }

    fn on_paused_time(test: impl Future<Output = ()>) {
        let runtime = || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .expect("a runtime")
        };
        System::with_tokio_rt(runtime).block_on(test);
    }

    /// REG-4: however many writers wait for a lock, a reader is served at once.
    #[test]
    fn writers_leave_room_for_readers() {
        on_paused_time(async {
            let gate = gate(8);
            for _ in 0..50 {
                actix_rt::spawn(gate.clone().call(Access::Write, endless));
            }
            while gate.present.load(Ordering::Relaxed) < 50 {
                yield_now().await;
            }
            let begun = Instant::now();
            let read = gate.call(Access::Read, || Box::pin(async { Ok(7) })).await;
            assert_eq!((read, begun.elapsed()), (Ok(7), Duration::ZERO));
        });
    }

    /// EV-4: who was told that it came to nothing can rely on it, if it had to wait to begin.
    #[test]
    fn a_call_that_waited_too_long_is_never_made() {
        on_paused_time(async {
            let gate = gate(1);
            actix_rt::spawn(gate.clone().call(Access::Read, endless));
            yield_now().await;
            let late = gate.clone().call(Access::Write, || -> StoreFuture<()> {
                panic!("it was made after its caller was told that it was not")
            });
            assert_eq!(late.await, Err(too_late()));
            assert_eq!(gate.present.load(Ordering::Relaxed), 1);
        });
    }

    /// A call that runs too long is answered and still counted.
    #[test]
    fn a_call_that_runs_too_long_keeps_its_place() {
        on_paused_time(async {
            let gate = gate(2);
            for access in [Access::Write, Access::Read] {
                let outcome = gate.clone().call(access, endless).await;
                assert_eq!(outcome, Err(too_late()));
            }
            assert_eq!(gate.present.load(Ordering::Relaxed), 2);
            assert_eq!(gate.running.available_permits(), 0);
        });
    }

    #[test]
    fn the_queue_has_an_end() {
        on_paused_time(async {
            let gate = gate(1);
            for _ in 0..100 {
                actix_rt::spawn(gate.clone().call(Access::Read, endless));
            }
            while gate.present.load(Ordering::Relaxed) < 100 {
                yield_now().await;
            }
            let refused = gate.call(Access::Read, endless).await;
            assert_eq!(refused, Err(StoreError::QueueFull));
        });
    }
}
