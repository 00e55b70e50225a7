//! DrainActor: ends the relay in one direction, so that a deploy loses nothing that is nearly done
//! and sends its devices to the next process (section 10). It waits, and has the others do the rest:
//! the directory is the gate, and closes.

mod messages;
mod phase;
mod spread;
mod work;

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, ResponseFuture, SpawnHandle,
    WrapFuture,
};
use futures_util::FutureExt;
use relay_model::limits::HURRIED_RELEASE_TIMEOUT;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(crate) use messages::*;
pub use messages::{DrainState, DrainWork};
pub use phase::{DrainPhase, DrainSignal};
use spread::Spread;
use work::Workers;

use crate::directory::{
    AwaitEmpty, BeginClosing, CloseNext, CountSockets, DirectoryActor, ShutGate,
};
use crate::environment::FatalGuard;
use crate::mailbox::post;
use crate::push::{FinishPushes, PushActor};
use crate::relay::{Core, store_is_gone};
use crate::sessions::{ForgetSessions, SessionActor};
use crate::store::{MarkDraining, ReleaseInstance, StoreActor};

/// The drain of a process. Its mailbox needs no bound: it is told a handful of things in its life.
pub(crate) struct DrainActor {
    core: Arc<Core>,
    sessions: Addr<SessionActor>,
    workers: Workers,
    begun: Option<Instant>,
    /// Until when work is waited for.
    deadline: Option<Instant>,
    /// Every wait is over (DR-4).
    hurried: bool,
    work: Option<DrainWork>,
    /// Sockets that were to be closed, and how many were told so far.
    closes: Option<(Spread, usize)>,
    /// What goes on: a wait, or a question to others.
    step: Option<SpawnHandle>,
    waiting: Vec<oneshot::Sender<()>>,
    _fatal: FatalGuard,
}

impl DrainActor {
    pub(crate) fn new(
        core: Arc<Core>,
        directory: Addr<DirectoryActor>,
        sessions: Addr<SessionActor>,
        store: Addr<StoreActor>,
        push: Addr<PushActor>,
    ) -> Self {
        let fatal = FatalGuard::new("DrainActor", Arc::clone(&core.environment));
        Self {
            core,
            sessions,
            workers: Workers {
                directory,
                store,
                push,
            },
            begun: None,
            deadline: None,
            hurried: false,
            work: None,
            closes: None,
            step: None,
            waiting: Vec::new(),
            _fatal: fatal,
        }
    }

    fn phase(&self) -> DrainPhase {
        self.core.drain.phase()
    }

    /// Goes on after `wait`, or at once when that is cut short.
    fn later(
        &mut self,
        wait: Duration,
        ctx: &mut Context<Self>,
        next: fn(&mut Self, &mut Context<Self>),
    ) {
        self.step = Some(ctx.run_later(wait, next));
    }

    fn begin(&mut self, cause: &'static str, ctx: &mut Context<Self>) {
        if !self.core.drain.advance(DrainPhase::Announced) {
            return;
        }
        self.begun = Some(Instant::now());
        let lead = self.core.limits().readiness_lead;
        tracing::info!(cause, ?lead, "going: not ready any more");
        if lead.is_zero() {
            self.shut(ctx);
        } else {
            self.later(lead, ctx, Self::shut);
        }
    }

    /// From here on nobody registers (DR-1).
    fn shut(&mut self, ctx: &mut Context<Self>) {
        if !self.core.drain.advance(DrainPhase::Draining) {
            return;
        }
        let timeout = self.core.limits().drain_timeout;
        self.deadline = Some(Instant::now() + timeout);
        post(&self.workers.directory, ShutGate);
        post(&self.workers.store, MarkDraining);
        tracing::info!(
            ?timeout,
            "draining: registrations are refused, work in progress is waited for; a second signal ends the wait"
        );
        self.look(ctx);
    }

    /// Looks what there is still to wait for, until there is nothing or the time is over (DR-2).
    fn look(&mut self, ctx: &mut Context<Self>) {
        let now = Instant::now();
        let deadline = self.deadline.unwrap_or(now);
        if self.hurried || now >= deadline {
            return self.close(ctx);
        }
        let limits = self.core.limits();
        let (interval, patience) = (limits.drain_look_interval, limits.drain_stall_tolerance);
        let measured = tokio::time::timeout_at(deadline, self.workers.clone().measure(patience));
        let measured = measured.into_actor(self).map(move |work, actor, ctx| {
            match work {
                Ok(Ok(work)) => {
                    actor.work = Some(work);
                    if work.is_done() {
                        return actor.close(ctx);
                    }
                }
                Ok(Err(_)) | Err(_) => return actor.close(ctx),
            }
            // Asking everybody must stay a small part of what the relay does.
            let pause = interval.max(now.elapsed() * 10);
            let left = deadline.saturating_duration_since(Instant::now());
            actor.later(pause.min(left), ctx, Self::look);
        });
        self.step = Some(ctx.spawn(measured));
    }

    /// Clears memory and begins to close the sockets (DR-3).
    fn close(&mut self, ctx: &mut Context<Self>) {
        if !self.core.drain.advance(DrainPhase::Closing) {
            return;
        }
        let unfinished = self.work.filter(|work| !work.is_done());
        let waited = self.begun.map(|begun| begun.elapsed());
        tracing::info!(
            ?waited,
            hurried = self.hurried,
            ?unfinished,
            "closing every device socket with 1012"
        );
        post(&self.sessions, ForgetSessions);
        let closing = self.workers.directory.send(BeginClosing);
        self.step = Some(ctx.spawn(closing.into_actor(self).map(|total, actor, ctx| {
            let total = total.unwrap_or_default();
            let span = actor.core.limits().close_spread;
            actor.closes = Some((Spread::new(total, Instant::now(), span), 0));
            actor.close_some(ctx);
        })));
    }

    fn close_some(&mut self, ctx: &mut Context<Self>) {
        let Some((spread, told)) = &mut self.closes else {
            return;
        };
        let now = Instant::now();
        let due = if self.hurried {
            usize::MAX
        } else {
            spread.due(now)
        };
        let more = due.saturating_sub(*told);
        *told = told.saturating_add(more);
        let next = spread.next(*told);
        if more > 0 {
            post(&self.workers.directory, CloseNext(more));
        }
        match next {
            Some(next) => self.later(next.saturating_duration_since(now), ctx, Self::close_some),
            None => self.await_closes(ctx),
        }
    }

    /// Waits for the last socket. One whose peer does not read is dropped by its own deadlines, and
    /// none holds the exit longer than `drain.stop_timeout`.
    fn await_closes(&mut self, ctx: &mut Context<Self>) {
        if self.hurried {
            return self.release(ctx);
        }
        let timeout = self.core.limits().stop_timeout;
        let empty = self.workers.directory.send(AwaitEmpty);
        let closed = async move {
            let Ok(empty) = empty.await else { return true };
            let notified = tokio::time::timeout(timeout, empty.notified()).await;
            notified.is_ok()
        };
        self.step = Some(
            ctx.spawn(closed.into_actor(self).map(move |closed, actor, ctx| {
                if !closed {
                    tracing::warn!(?timeout, "sockets did not close in time and are dropped");
                }
                actor.finish_pushes(ctx);
            })),
        );
    }

    /// Lets pushes that were accepted come to their end, and what became of them to the database.
    fn finish_pushes(&mut self, ctx: &mut Context<Self>) {
        let timeout = self.core.limits().stop_timeout;
        let finished = tokio::time::timeout(timeout, self.workers.push.send(FinishPushes));
        self.step = Some(
            ctx.spawn(finished.into_actor(self).map(move |finished, actor, ctx| {
                if finished.is_err() {
                    tracing::warn!(?timeout, "pushes did not end in time and are dropped");
                }
                actor.release(ctx);
            })),
        );
    }

    /// Stores what was accepted, and gives up this instance's rows.
    fn release(&mut self, ctx: &mut Context<Self>) {
        let released = self.workers.store.send(ReleaseInstance);
        let hurried = self.hurried;
        let released = async move {
            let released = released.map(|sent| sent.unwrap_or_else(store_is_gone));
            if !hurried {
                return released.await.map_err(|error| error.to_string());
            }
            match tokio::time::timeout(HURRIED_RELEASE_TIMEOUT, released).await {
                Ok(released) => released.map_err(|error| error.to_string()),
                Err(_) => Err("the drain was cut short".to_owned()),
            }
        };
        self.step = Some(
            ctx.spawn(released.into_actor(self).map(|released, actor, _| {
                if let Err(error) = released {
                    tracing::warn!(error, "this instance's rows could not be released; another instance will correct them");
                }
                actor.finish();
            })),
        );
    }

    fn finish(&mut self) {
        self.step = None;
        self.core.drain.advance(DrainPhase::Drained);
        let took = self.begun.map(|begun| begun.elapsed());
        tracing::info!(?took, "drained");
        for waiting in self.waiting.drain(..) {
            // Whoever asked may have gone.
            _ = waiting.send(());
        }
    }
}

impl Actor for DrainActor {
    type Context = Context<Self>;
}

impl Handler<BeginDrain> for DrainActor {
    type Result = ();

    fn handle(&mut self, BeginDrain { cause }: BeginDrain, ctx: &mut Self::Context) {
        self.begin(cause, ctx);
    }
}

impl Handler<HurryDrain> for DrainActor {
    type Result = ();

    fn handle(&mut self, _: HurryDrain, ctx: &mut Self::Context) {
        if std::mem::replace(&mut self.hurried, true) {
            return;
        }
        tracing::warn!(phase = %self.phase(), "the drain is cut short");
        if let Some(step) = self.step.take() {
            ctx.cancel_future(step);
        }
        match self.phase() {
            DrainPhase::Running => {
                self.begin("hurry", ctx);
                self.shut(ctx);
            }
            DrainPhase::Announced => self.shut(ctx),
            DrainPhase::Draining => self.close(ctx),
            // Whether the sockets were counted, are being closed or were all told.
            DrainPhase::Closing => {
                post(&self.workers.directory, CloseNext(usize::MAX));
                self.release(ctx);
            }
            DrainPhase::Drained => {}
        }
    }
}

impl Handler<AwaitDrained> for DrainActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: AwaitDrained, _: &mut Self::Context) -> Self::Result {
        if self.phase() == DrainPhase::Drained {
            return Box::pin(std::future::ready(()));
        }
        let (told, drained) = oneshot::channel();
        self.waiting.push(told);
        Box::pin(drained.map(|_| ()))
    }
}

impl Handler<ReadDrainState> for DrainActor {
    type Result = ResponseFuture<DrainState>;

    fn handle(&mut self, _: ReadDrainState, _: &mut Self::Context) -> Self::Result {
        let phase = self.phase();
        let mut state = DrainState {
            phase,
            running_for: self.begun.map(|begun| begun.elapsed()).unwrap_or_default(),
            waits_until: self.deadline.filter(|_| phase == DrainPhase::Draining),
            work: self.work,
            sockets_left: None,
        };
        let directory = self.workers.directory.clone();
        Box::pin(async move {
            if phase >= DrainPhase::Closing {
                let left = directory.send(CountSockets).await;
                state.sockets_left = left.ok();
            }
            state
        })
    }
}
