//! One desktop and many phones that look at the same session: how fast a snapshot is with all of
//! them. The next is published when all have the former, so that none is passed over.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::client::{Client, Endpoint};
use super::crowd::{Crowd, Looker};
use super::devices::Pair;
use super::error::LoadError;
use super::figures::{Figure, Measured};
use super::fleet::failure;
use super::histogram::Histogram;
use super::meter::Meter;
use super::process::Process;
use super::timeline::{Heard, Inspector, Interest, Snapshots, Version};

/// The longest that a snapshot may be on its way to the last phone.
const ROUND_LIMIT: Duration = Duration::from_secs(10);

/// Snapshots to all phones of a desktop.
#[derive(Debug, Clone, Copy)]
pub struct FanoutLoad {
    /// Phones with a lease.
    pub phones: usize,
    /// Bytes of every snapshot, envelope included.
    pub size: usize,
    /// Load before the measurement begins.
    pub warm_up: Duration,
    /// Length of the measurement.
    pub measured: Duration,
}

impl FanoutLoad {
    /// Runs the load against a server.
    ///
    /// # Errors
    /// When a connection breaks, or a phone gets a snapshot altered, out of turn or not at all.
    pub async fn run(
        self,
        endpoint: &Endpoint,
        server: Process,
    ) -> Result<Vec<Measured>, LoadError> {
        let crowd = Crowd::open(endpoint, Pair(0), self.phones).await?;
        let snapshots = Snapshots::new(self.size, crowd.generation);
        let (arrived, arrivals) = mpsc::channel(self.phones);
        let mut phones = JoinSet::new();
        for phone in crowd.phones {
            phones.spawn(watch(phone, snapshots.inspector(), arrived.clone()));
        }
        let mut publisher = Publisher {
            desktop: crowd.desktop,
            interest: crowd.interest,
            snapshots,
            phones: self.phones,
            arrivals,
            published: 0,
        };
        let measurement = async {
            publisher.publish_for(self.warm_up).await?;
            let meter = Meter::start(server)?;
            let durations = publisher.publish_for(self.measured).await?;
            Ok::<_, LoadError>((durations, meter.stop()?))
        };
        // A phone never ends by itself: one that does has failed.
        let (durations, stretch) = tokio::select! {
            biased;
            Some(failed) = phones.join_next() => return Err(failure(failed)),
            measured = measurement => measured?,
        };
        let snapshots = durations.count() as f64;
        let mut figures = vec![
            Figure::SnapshotsPerSecond.of(snapshots / stretch.seconds),
            Figure::FanoutMedian.of(durations.quantile(0.5)),
            Figure::FanoutTail.of(durations.quantile(0.99)),
            Figure::CpuPerDelivery.of(stretch.server * 1e6 / (snapshots * self.phones as f64)),
        ];
        figures.extend(stretch.surroundings());
        Ok(figures)
    }
}

/// A snapshot at one phone.
struct Arrival {
    number: u64,
    at: Instant,
}

/// The desktop.
struct Publisher {
    desktop: Client,
    interest: Interest,
    snapshots: Snapshots,
    phones: usize,
    arrivals: mpsc::Receiver<Arrival>,
    published: u64,
}

impl Publisher {
    /// Publishes one snapshot after the other for so long, and at least one; tells how long each was
    /// on its way to the last phone.
    async fn publish_for(&mut self, time: Duration) -> Result<Histogram, LoadError> {
        let started = Instant::now();
        let mut durations = Histogram::default();
        while durations.count() == 0 || started.elapsed() < time {
            let duration =
                timeout(ROUND_LIMIT, self.publish())
                    .await
                    .unwrap_or(Err(LoadError::TimedOut {
                        what: "the arrival of a snapshot at every phone",
                        limit: ROUND_LIMIT,
                    }))?;
            durations.record(duration);
        }
        Ok(durations)
    }

    async fn publish(&mut self) -> Result<Duration, LoadError> {
        self.published += 1;
        let version = Version {
            thread: 0,
            number: self.published,
        };
        let published = Instant::now();
        self.desktop.send(self.snapshots.frame(version)).await?;
        let mut last = published;
        let mut missing = self.phones;
        while missing > 0 {
            tokio::select! {
                Some(Arrival { number, at }) = self.arrivals.recv() => {
                    if number != self.published {
                        return Err(out_of_order(number, self.published));
                    }
                    last = last.max(at);
                    missing -= 1;
                }
                read = self.desktop.read(|message| self.interest.hear(message)) => read?,
            }
        }
        Ok(last - published)
    }
}

fn out_of_order(got: u64, last: u64) -> LoadError {
    LoadError::OutOfOrder {
        what: "snapshot",
        got,
        last,
    }
}

/// A phone: each snapshot follows the one before it, for the next is published when all have it.
async fn watch(
    mut phone: Looker,
    mut snapshots: Inspector,
    arrived: mpsc::Sender<Arrival>,
) -> Result<Infallible, LoadError> {
    let mut last = 0;
    loop {
        let before = last;
        let mut at = None;
        phone
            .read(|message| match snapshots.inspect(message)? {
                Heard::Snapshot(version) => {
                    let expected = Version {
                        thread: 0,
                        number: last + 1,
                    };
                    if version != expected {
                        return Err(out_of_order(version.number, last));
                    }
                    last = version.number;
                    at = Some(Instant::now());
                    Ok(())
                }
                Heard::Other(event) if event.is_presence() => Ok(()),
                Heard::Other(_) => Err(LoadError::unexpected(message)),
            })
            .await?;
        if let Some(at) = at {
            for number in before + 1..=last {
                // Without a receiver the run is over, and so is this task.
                let _ = arrived.send(Arrival { number, at }).await;
            }
        }
    }
}
