//! A stretch of time under measurement: what the server, the load itself and everything else on the
//! machine spent in it.

use tokio::time::Instant;

use super::error::LoadError;
use super::figures::{Figure, Measured};
use super::process::{MachineTime, Process};

/// A stretch that has begun.
pub(super) struct Meter {
    server: Process,
    started: Instant,
    spent: Spent,
}

#[derive(Clone, Copy)]
struct Spent {
    server: f64,
    load: f64,
    machine: f64,
}

impl Spent {
    fn read(server: Process) -> Result<Self, LoadError> {
        Ok(Self {
            server: server.cpu()?.as_secs_f64(),
            load: Process::current().cpu()?.as_secs_f64(),
            machine: MachineTime::read()?.busy,
        })
    }
}

/// A stretch that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    /// How long it was, in seconds.
    pub(super) seconds: f64,
    /// CPU seconds of the server.
    pub(super) server: f64,
    /// CPUs kept busy by the load program, on average.
    load_cores: f64,
    /// CPUs kept busy by anything else, on average.
    other_cores: f64,
}

impl Meter {
    pub(super) fn start(server: Process) -> Result<Self, LoadError> {
        Ok(Self {
            server,
            spent: Spent::read(server)?,
            started: Instant::now(),
        })
    }

    pub(super) fn stop(self) -> Result<Stretch, LoadError> {
        let seconds = self.started.elapsed().as_secs_f64();
        let (before, after) = (self.spent, Spent::read(self.server)?);
        let server = after.server - before.server;
        let load = after.load - before.load;
        // Ticks are counted per process and per machine at different moments: small negatives occur.
        let other = (after.machine - before.machine - server - load).max(0.0);
        Ok(Stretch {
            seconds,
            server,
            load_cores: load / seconds,
            other_cores: other / seconds,
        })
    }
}

impl Stretch {
    /// The figures that say how far the others can be trusted.
    pub(super) fn surroundings(self) -> [Measured; 3] {
        [
            Figure::ServerCores.of(self.server / self.seconds),
            Figure::LoadCores.of(self.load_cores),
            Figure::OtherCores.of(self.other_cores),
        ]
    }
}
