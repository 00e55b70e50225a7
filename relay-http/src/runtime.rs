//! The runtime that the relay's own actors run on, and how the process leaves it.

use std::io;
use std::mem::forget;

use actix_rt::System;
use tokio::runtime::Builder;

/// Runs `work`, and what it spawns on this thread, until `work` is over. The process is to end then:
/// what was spawned stays as it is, and nobody runs it any more.
///
/// # Errors
/// When the operating system gives no runtime.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let system = System::with_tokio_rt(|| runtime);
    let outcome = system.block_on(work);
    // Whoever drops a runtime waits for its blocking threads, and one of them may be in a call that a
    // database never answers. What had to be written has been, or its time is up.
    forget(system);
    // A thread of the door's workers may be busy with its own end when this one is gone. Were it then
    // the last that knows of the system, the destructors of its locals would wake the system's task,
    // when tokio's locals are gone already: that aborts the process. So one that knows of it stays.
    forget(System::current());
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};
    use std::thread;

    use actix_rt::Arbiter;

    use super::*;

    /// Holds up the thread that drops it until it is let go.
    struct HoldsUp {
        begins: Sender<()>,
        let_go: Receiver<()>,
    }

    impl Drop for HoldsUp {
        fn drop(&mut self) {
            let _ = self.begins.send(());
            // Nothing is sent: the other end goes.
            let _ = self.let_go.recv();
        }
    }

    /// DR-4: the end waits for no blocking call.
    #[test]
    fn a_blocking_call_is_not_waited_for() {
        let (lets_go, let_go) = mpsc::channel::<()>();
        let ended = run(async move {
            tokio::task::spawn_blocking(move || let_go.recv());
            "over"
        });
        assert_eq!(ended.unwrap(), "over");
        drop(lets_go);
    }

    /// DR-4: a thread that is still busy with its own end when the first one is gone does not abort the
    /// process.
    #[test]
    fn a_thread_may_end_last() {
        let (lets_go, let_go) = mpsc::channel();
        let (begins, begun) = mpsc::channel();
        let first = thread::spawn(move || {
            run(async move {
                let worker = Arbiter::new();
                let holds_up = HoldsUp { begins, let_go };
                worker.spawn(async move {
                    let _holds_up = holds_up;
                    std::future::pending::<()>().await;
                });
                worker.stop();
                // Before it drops its tasks it tells the system that it ends; the system hears that.
                while begun.try_recv().is_err() {
                    tokio::task::yield_now().await;
                }
                tokio::task::yield_now().await;
                worker
            })
        });
        let worker = first.join().unwrap().unwrap();
        drop(lets_go);
        worker.join().unwrap();
    }
}
