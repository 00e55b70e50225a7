//! The outside world of a simulated relay: ids in a fixed order, a wall clock that follows the
//! paused one, and faults that are noted instead of ending the test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use relay_actors::environment::{Environment, FatalFault};
use relay_model::ids::ResumeToken;
use relay_model::time::Timestamp;
use tokio::time::Instant;
use uuid::Uuid;

/// 2026-10-05T08:00:00Z, where every simulated run begins.
const BEGINNING: Timestamp = Timestamp::from_unix_micros(1_791_187_200_000_000);

/// Distinguishes the environments of one test, so that their ids differ.
static ENVIRONMENTS: AtomicU64 = AtomicU64::new(1);

/// See the module.
pub struct SimulatedEnvironment {
    beginning: Timestamp,
    started: Instant,
    number: u64,
    issued: AtomicU64,
    /// How far the wall clock was set back.
    set_back: Mutex<Duration>,
    faults: Mutex<Vec<FatalFault>>,
}

impl Default for SimulatedEnvironment {
    fn default() -> Self {
        Self::new()
    }
}

impl SimulatedEnvironment {
    /// An environment that begins now. The paused clock starts at a real moment, so the time of a
    /// second environment in the same test is counted from where the clock is.
    pub fn new() -> Self {
        thread_local! {
            static FIRST: Instant = Instant::now();
        }
        let passed = FIRST.with(|first| first.elapsed());
        Self {
            beginning: BEGINNING.plus(passed),
            started: Instant::now(),
            number: ENVIRONMENTS.fetch_add(1, Ordering::Relaxed),
            issued: AtomicU64::new(0),
            set_back: Mutex::default(),
            faults: Mutex::new(Vec::new()),
        }
    }

    /// The faults after which a real process would have ended.
    pub fn faults(&self) -> Vec<FatalFault> {
        self.faults.lock().expect("no panic holds it").clone()
    }

    /// Sets the wall clock back by `step`; timers go on as ever.
    pub fn set_back(&self, step: Duration) {
        *self.set_back.lock().expect("no panic holds it") += step;
    }

    fn next(&self) -> u64 {
        self.issued.fetch_add(1, Ordering::Relaxed)
    }
}

impl Environment for SimulatedEnvironment {
    fn now(&self) -> Timestamp {
        let set_back = *self.set_back.lock().expect("no panic holds it");
        self.beginning.plus(self.started.elapsed()).minus(set_back)
    }

    fn new_uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.number, self.next())
    }

    fn new_resume_token(&self) -> ResumeToken {
        let mut bytes = [0; ResumeToken::BYTES];
        bytes[..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.next().to_be_bytes());
        ResumeToken::from_bytes(bytes)
    }

    fn fatal(&self, fault: FatalFault) {
        if let Ok(mut faults) = self.faults.lock() {
            faults.push(fault);
        }
    }
}
