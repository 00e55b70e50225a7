//! The memory of many sockets: what one costs when it has only registered, what it keeps after it has
//! carried a message of 64 KiB in each direction, and what after phones took a lease and got a snapshot
//! of that size.

use super::client::Endpoint;
use super::devices::Pair;
use super::error::LoadError;
use super::figures::{Figure, Measured};
use super::fleet;
use super::meter::Meter;
use super::process::Process;
use super::settle::resident_at_rest;

/// The message that every socket carries once.
const MESSAGE: usize = 64 * 1024;
/// Sockets opened, or messages sent, at a time.
const AT_ONCE: usize = 64;
/// Pairs that connect and leave before the count begins, so that what a server sets up once (tables,
/// statement caches, its allocator's arenas) is not put on the sockets' account.
const WARM_UP_PAIRS: usize = 64;
const WARM_UP_MESSAGE: usize = 256;
const WARM_UP_SNAPSHOT: usize = 512;

/// Sockets that only stay.
#[derive(Debug, Clone, Copy)]
pub struct IdleLoad {
    /// How many, half of them desktops and half phones.
    pub sockets: usize,
}

impl IdleLoad {
    /// The pairs that it uses, to be enrolled.
    pub fn pairs(self) -> usize {
        self.sockets / 2 + WARM_UP_PAIRS
    }

    /// Runs the load against a server.
    ///
    /// # Errors
    /// When a connection breaks or a message does not arrive intact.
    pub async fn run(
        self,
        endpoint: &Endpoint,
        server: Process,
    ) -> Result<Vec<Measured>, LoadError> {
        let counted = (0..self.sockets / 2).map(Pair);
        let warm_up = (self.sockets / 2..self.pairs()).map(Pair);
        exchange_and_close(endpoint, warm_up).await?;
        let before = resident_at_rest(server).await?;

        let meter = Meter::start(server)?;
        let (fleet, durations) = fleet::open(endpoint, counted, AT_ONCE).await?;
        let stretch = meter.stop()?;
        let idle = resident_at_rest(server).await?;

        let fleet = fleet::for_each(fleet.into_iter(), AT_ONCE, |mut linked| async move {
            let id = linked.request(MESSAGE, 1).await?;
            linked.answer(MESSAGE, id).await?;
            Ok(linked)
        })
        .await?;
        let used = resident_at_rest(server).await?;

        let fleet = fleet::for_each(fleet.into_iter(), AT_ONCE, |mut linked| async move {
            linked.snapshot(MESSAGE).await?;
            Ok(linked)
        })
        .await?;
        let looked = resident_at_rest(server).await?;

        let sockets = 2.0 * fleet.len() as f64;
        let kib_each = |after: u64| (after as f64 - before as f64) / 1024.0 / sockets;
        let mut figures = vec![
            Figure::IdleMemory.of(kib_each(idle)),
            Figure::UsedMemory.of(kib_each(used)),
            Figure::TimelineMemory.of(kib_each(looked)),
            Figure::ConnectionsPerSecond.of(sockets / stretch.seconds),
            Figure::ConnectMedian.of(durations.quantile(0.5)),
            Figure::ConnectTail.of(durations.quantile(0.99)),
            Figure::CpuPerConnection.of(stretch.server * 1e6 / sockets),
        ];
        figures.extend(stretch.surroundings());
        Ok(figures)
    }
}

async fn exchange_and_close(
    endpoint: &Endpoint,
    pairs: impl Iterator<Item = Pair>,
) -> Result<(), LoadError> {
    let (fleet, _) = fleet::open(endpoint, pairs, AT_ONCE).await?;
    fleet::for_each(fleet.into_iter(), AT_ONCE, |mut linked| async move {
        let id = linked.request(WARM_UP_MESSAGE, 1).await?;
        linked.answer(WARM_UP_MESSAGE, id).await?;
        linked.snapshot(WARM_UP_SNAPSHOT).await
    })
    .await?;
    Ok(())
}
