//! On which worker thread a connection lives: all connections of an account on one, whichever thread
//! accepted them. A request then passes from socket to socket without waking another thread.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::sync::OnceLock;
use std::thread::{self, ThreadId};

use relay_actors::socket::transport::Transport;
use relay_model::ids::AccountId;
use tokio::io::DuplexStream;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// A stream that can go from one thread's event loop to another's.
pub trait Movable: Transport + Sized {
    /// Takes the stream from this thread's event loop.
    ///
    /// # Errors
    /// The event loop's; the stream is lost.
    fn detach(self) -> io::Result<Detached>;
}

/// A stream between two event loops; called on the new thread, it gives the stream to that one's.
pub type Detached = Box<dyn FnOnce() -> io::Result<Box<dyn Transport>> + Send>;

impl Movable for TcpStream {
    fn detach(self) -> io::Result<Detached> {
        let stream = self.into_std()?;
        Ok(Box::new(move || Ok(Box::new(TcpStream::from_std(stream)?))))
    }
}

impl Movable for DuplexStream {
    fn detach(self) -> io::Result<Detached> {
        Ok(Box::new(move || Ok(Box::new(self))))
    }
}

/// A connection that starts on the thread which runs this.
type Arrival = Box<dyn FnOnce() + Send>;

/// One thread that connections live on.
#[derive(Debug)]
struct Worker {
    thread: ThreadId,
    /// Unbounded: a thread is busy for microseconds with each, and they come at the rate of the accepts.
    arrivals: mpsc::UnboundedSender<Arrival>,
}

/// The workers of a server.
#[derive(Debug)]
pub(crate) struct Placement {
    workers: Box<[OnceLock<Worker>]>,
}

impl Placement {
    /// The place of so many workers, none of which is there yet.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: (0..workers.max(1)).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Has the current thread take the connections of a share of the accounts, until its runtime ends.
    /// One worker more than there are places takes none but those that it accepts itself.
    pub(crate) fn join(&self) {
        let (arrivals, mut arriving) = mpsc::unbounded_channel::<Arrival>();
        let mut worker = Worker {
            thread: thread::current().id(),
            arrivals,
        };
        for place in &self.workers {
            match place.set(worker) {
                Ok(()) => break,
                Err(other) => worker = other,
            }
        }
        actix_rt::spawn(async move {
            while let Some(arrival) = arriving.recv().await {
                arrival();
            }
        });
    }

    /// The thread that an account's connections live on, if it is another than the current one.
    pub(crate) fn elsewhere(&self, account: AccountId) -> Option<Elsewhere<'_>> {
        let mut hasher = DefaultHasher::new();
        account.hash(&mut hasher);
        let index = hasher.finish() % self.workers.len() as u64;
        // Not there yet: the server has just started.
        let worker = self.workers.get(index as usize)?.get()?;
        (worker.thread != thread::current().id()).then_some(Elsewhere(worker))
    }
}

/// Another thread.
#[derive(Debug)]
pub(crate) struct Elsewhere<'a>(&'a Worker);

impl Elsewhere<'_> {
    /// Has that thread run `arrival`, or this one if that has ended.
    pub(crate) fn run(&self, arrival: impl FnOnce() + Send + 'static) {
        if let Err(back) = self.0.arrivals.send(Box::new(arrival)) {
            (back.0)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use actix_rt::Arbiter;
    use uuid::Uuid;

    use super::*;

    fn account(number: u128) -> AccountId {
        AccountId::from_uuid(Uuid::from_u128(number))
    }

    /// Every thread takes some accounts, each account has one thread, and a thread that has ended is
    /// replaced by the one that accepted.
    #[actix_rt::test]
    async fn accounts_are_spread_over_the_workers() {
        let placement = Arc::new(Placement::new(3));
        assert!(placement.elsewhere(account(1)).is_none(), "nobody is there");
        let arbiters = [Arbiter::new(), Arbiter::new(), Arbiter::new()];
        let (joined, joins) = channel();
        for arbiter in &arbiters {
            let (placement, joined) = (Arc::clone(&placement), joined.clone());
            arbiter.spawn_fn(move || {
                placement.join();
                joined.send(()).unwrap();
            });
        }
        joins.iter().take(3).for_each(drop);

        let (sender, ran) = channel();
        let run = |number| {
            let sender = sender.clone();
            let elsewhere = placement.elsewhere(account(number)).unwrap();
            elsewhere.run(move || sender.send(thread::current().id()).unwrap());
            ran.recv().unwrap()
        };
        let threads: Vec<_> = (0..100).map(run).collect();
        let distinct: std::collections::HashSet<_> = threads.iter().collect();
        assert_eq!(distinct.len(), 3);
        assert!(!distinct.contains(&thread::current().id()));
        assert_eq!((0..100).map(run).collect::<Vec<_>>(), threads);

        for arbiter in arbiters {
            arbiter.stop();
            arbiter.join().unwrap();
        }
        assert_eq!(run(1), thread::current().id());
    }
}
