//! The signals that end the relay, by a drain or at once (DR-4).

use std::io;
use std::time::Duration;

use relay_actors::Relay;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// Signals that follow the first within this time are the same wish: some supervisors, `timeout`
/// among them, signal the process and then its whole group.
const ONE_WISH: Duration = Duration::from_millis(100);

/// Waits for the end of the drain that a signal or an operator asked for, and tells whether signals
/// cut it short (DR-4). After a third one there is no waiting at all.
pub(super) async fn drained(relay: &Relay, ends: &mut EndSignals) -> bool {
    let over = relay.drained();
    tokio::pin!(over);
    let mut again_from = None;
    let mut signals = 0;
    loop {
        let name = tokio::select! {
            biased;
            () = &mut over => return signals > 1,
            name = ends.next_after(again_from) => name,
        };
        signals += 1;
        again_from = Some(Instant::now() + ONE_WISH);
        match signals {
            1 => relay.drain(name),
            2 => {
                tracing::warn!(signal = name, "a second signal: ending at once");
                relay.hurry_drain();
            }
            _ => return true,
        }
    }
}

/// SIGTERM and SIGINT.
pub(super) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one that comes later than `moment`, if that is given.
    async fn next_after(&mut self, moment: Option<Instant>) -> &'static str {
        loop {
            let name = self.next().await;
            if moment.is_none_or(|moment| Instant::now() > moment) {
                return name;
            }
        }
    }

    /// Waits for one of them and tells its name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
