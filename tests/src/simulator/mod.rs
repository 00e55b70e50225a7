//! A deterministic simulation of the whole relay: the real actors on one thread and a paused clock,
//! real WebSockets over pipes in memory, about thirty phones and twenty desktops that misbehave in
//! every way that a network, an app or a database can, and an oracle that judges all that happened.
//!
//! One seed determines a run: who takes part, what each device does when, when the database is slow or
//! away, every id and every secret. A run of the same seed writes the same trace to the byte, so a
//! failure is replayed by its number: `simulate --seed N --trace`.
//!
//! A run lives through about ten minutes, one step after another. A step is one thing that a device
//! does (or several at one instant), after which the system comes to rest and is asked for its
//! state. Then either the relay is stopped under its devices, or all faults end, everything comes to
//! rest, everybody leaves, and nothing may be left.
//!
//! - [`cast`]: who takes part; `plan`: the odds; `world`, `actions`, `reactions`: what devices do;
//!   `timelines`: what they do about leases and snapshots; `removals`: what their users do with them
//! - `line`, `pipe`, `environment`, [`weather`]: the world around the relay
//! - [`frames`], [`timeline_frames`], [`trace`]: what is said and written down
//! - [`oracle`]: what must hold
//!
//! What devices do is kept apart from what is asked of the relay: the oracle sees the trace alone,
//! and its own tests show it traces that were tampered with.

mod actions;
pub mod cast;
pub mod dice;
mod environment;
pub mod frames;
mod line;
pub mod oracle;
mod pipe;
mod plan;
mod reactions;
mod removals;
pub mod timeline_frames;
mod timelines;
pub mod trace;
pub mod weather;
mod world;

use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use relay_model::limits::Limits;

use cast::Cast;
use oracle::Violation;
use trace::Entry;

use crate::paused::PausedSystem;

/// How many things happen of themselves in a run, unless somebody wants more or fewer: ten minutes.
pub const STEPS: usize = 300;

/// A run that is over.
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// Who took part.
    pub cast: Rc<Cast>,
    /// The limits that held.
    pub limits: Limits,
    /// What happened.
    pub trace: Vec<Entry>,
}

impl Run {
    /// What happened that must not.
    pub fn violations(&self) -> Vec<Violation> {
        oracle::judge(&self.cast, &self.limits, &self.trace)
    }

    /// The cast, what happened up to the first violation, and all violations.
    pub fn report(&self) -> String {
        let violations = self.violations();
        let shown = violations
            .first()
            .map_or(self.trace.len(), |first| first.entry + 1);
        let mut report = format!("seed {}\n{}", self.seed, self.cast);
        for entry in &self.trace[..shown] {
            report += &format!("{entry}\n");
        }
        for violation in &violations {
            report += &format!("VIOLATION {violation}\n");
        }
        report
    }
}

/// Runs a seed on a system of its own; so many things happen of themselves.
pub fn run(seed: u64, steps: usize) -> Run {
    PausedSystem::new().block_on(world::run(seed, steps))
}

/// A seed whose run broke something.
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What it broke first.
    pub violation: Violation,
    /// How many things it broke.
    pub count: usize,
}

/// Runs many seeds, on so many threads, and returns those that broke something, in their order.
pub fn run_all(seeds: Range<u64>, steps: usize, threads: usize) -> Vec<Failure> {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut failures = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return failures;
            }
            let violations = run(seed, steps).violations();
            let count = violations.len();
            failures.extend(violations.into_iter().next().map(|violation| Failure {
                seed,
                violation,
                count,
            }));
        }
    };
    let mut failures: Vec<Failure> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| worker.join();
        let results = workers.into_iter().map(join);
        results
            .flat_map(|result| match result {
                Ok(failures) => failures,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    failures.sort_by_key(|failure| failure.seed);
    failures
}
