//! The load of a busy morning: how many sockets a second a server connects, upgrades and registers.

use super::client::Endpoint;
use super::devices::Pair;
use super::error::LoadError;
use super::figures::{Figure, Measured};
use super::fleet;
use super::meter::Meter;
use super::process::Process;

/// Pairs opened at a time.
const AT_ONCE: usize = 64;

/// Sockets that connect and register, and stay until all have.
#[derive(Debug, Clone, Copy)]
pub struct ConnectLoad {
    /// How many, half of them desktops and half phones.
    pub sockets: usize,
}

impl ConnectLoad {
    /// Runs the load against a server.
    ///
    /// # Errors
    /// When a registration fails.
    pub async fn run(
        self,
        endpoint: &Endpoint,
        server: Process,
    ) -> Result<Vec<Measured>, LoadError> {
        let pairs = (0..self.sockets / 2).map(Pair);
        let meter = Meter::start(server)?;
        let (fleet, durations) = fleet::open(endpoint, pairs, AT_ONCE).await?;
        let stretch = meter.stop()?;
        let sockets = 2.0 * fleet.len() as f64;
        let mut figures = vec![
            Figure::ConnectionsPerSecond.of(sockets / stretch.seconds),
            Figure::ConnectMedian.of(durations.quantile(0.5)),
            Figure::ConnectTail.of(durations.quantile(0.99)),
            Figure::CpuPerConnection.of(stretch.server * 1e6 / sockets),
        ];
        figures.extend(stretch.surroundings());
        Ok(figures)
    }
}
