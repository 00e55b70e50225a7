//! A push service in memory: notes what it is given and when, and answers what the test wants.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use relay_actors::push::{Attempt, Push, PushFuture, PushSender, PushServices};
use tokio::time::Instant;

/// The service; clones are the same one.
#[derive(Clone, Default)]
pub struct FakePush(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answers: VecDeque<Attempt>,
    delay: Duration,
    taken: Vec<(Instant, Push)>,
}

impl FakePush {
    /// Services of which both kinds of phones use this one.
    pub fn services(&self) -> PushServices {
        PushServices {
            apns: Some(Arc::new(self.clone())),
            fcm: Some(Arc::new(self.clone())),
        }
    }

    /// Answers the next push so; without anything to answer every push is delivered.
    pub fn answer(&self, attempt: Attempt) {
        self.lock().answers.push_back(attempt);
    }

    /// Makes every later push take so long.
    pub fn take(&self, delay: Duration) {
        self.lock().delay = delay;
    }

    /// What was sent since the last time of asking, with the time at which it was.
    pub fn taken(&self) -> Vec<(Instant, Push)> {
        std::mem::take(&mut self.lock().taken)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic holds it")
    }
}

impl PushSender for FakePush {
    fn send(&self, push: Push) -> PushFuture<Attempt> {
        let (delay, answer) = {
            let mut state = self.lock();
            state.taken.push((Instant::now(), push));
            (state.delay, state.answers.pop_front())
        };
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            answer.unwrap_or(Attempt::Delivered)
        })
    }

    fn check(&self) -> PushFuture<Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}
