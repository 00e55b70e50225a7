//! The outside world of a simulated relay: ids, secrets and a wall clock that the seed determines.

use std::sync::Mutex;
use std::time::Duration;

use relay_actors::environment::{Environment, FatalFault};
use relay_model::ids::ResumeToken;
use relay_model::time::Timestamp;
use tokio::time::Instant;
use uuid::Uuid;

use super::dice::Dice;

/// 2026-10-05T08:00:00Z, where every run begins.
const BEGINNING: Timestamp = Timestamp::from_unix_micros(1_791_187_200_000_000);

/// See the module.
pub struct SeededEnvironment {
    started: Instant,
    dice: Mutex<Dice>,
    faults: Mutex<Vec<FatalFault>>,
}

impl SeededEnvironment {
    /// An environment that begins now, on the runtime's paused clock.
    pub fn new(dice: Dice) -> Self {
        Self {
            started: Instant::now(),
            dice: Mutex::new(dice),
            faults: Mutex::default(),
        }
    }

    /// The time since the run began.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// When the run began, on the clock of its timers.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// How far into the run a stored time lies.
    pub fn since_beginning(at: Timestamp) -> Duration {
        let micros = at.unix_micros() - BEGINNING.unix_micros();
        Duration::from_micros(micros.max(0) as u64)
    }

    /// The faults after which a real process would have ended.
    pub fn faults(&self) -> Vec<FatalFault> {
        self.faults.lock().expect("no panic holds it").clone()
    }

    fn draw(&self) -> u64 {
        self.dice.lock().expect("no panic holds it").next()
    }
}

impl Environment for SeededEnvironment {
    fn now(&self) -> Timestamp {
        BEGINNING.plus(self.elapsed())
    }

    fn new_uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.draw(), self.draw())
    }

    fn new_resume_token(&self) -> ResumeToken {
        let mut bytes = [0; ResumeToken::BYTES];
        for part in bytes.chunks_mut(8) {
            let drawn = self.draw().to_be_bytes();
            part.copy_from_slice(&drawn[..part.len()]);
        }
        ResumeToken::from_bytes(bytes)
    }

    fn fatal(&self, fault: FatalFault) {
        if let Ok(mut faults) = self.faults.lock() {
            faults.push(fault);
        }
    }
}
