//! PresenceActor: the timers of all graces, in one place and with one timer of its own (PR-2, PR-7).
//! What a grace means is DirectoryActor's business.

mod graces;

use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, SpawnHandle};
use graces::{Graces, Pair};
use relay_model::ids::ConnectionGeneration;
use tokio::time::Instant;

use crate::directory::{DirectoryActor, GraceOver};
use crate::environment::{Environment, FatalGuard};
use crate::mailbox::post;

/// Runs the graces.
pub(crate) struct PresenceActor {
    directory: Addr<DirectoryActor>,
    graces: Graces,
    timer: Option<(Instant, SpawnHandle)>,
    _fatal: FatalGuard,
}

/// Starts a desktop's grace; from DirectoryActor, one a connection that ended.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct StartGrace {
    pub(crate) pair: Pair,
    pub(crate) generation: ConnectionGeneration,
    pub(crate) end: Instant,
}

/// The desktop is back; from DirectoryActor, one a registration within a grace.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CancelGrace(pub(crate) Pair);

/// Asks how many graces run.
#[derive(Message)]
#[rtype(result = "usize")]
pub(crate) struct CountGraces;

impl PresenceActor {
    pub(crate) fn new(directory: Addr<DirectoryActor>, environment: Arc<dyn Environment>) -> Self {
        Self {
            directory,
            graces: Graces::default(),
            timer: None,
            _fatal: FatalGuard::new("PresenceActor", environment),
        }
    }

    fn arm(&mut self, ctx: &mut Context<Self>) {
        let next = self.graces.next_end();
        if self.timer.map(|(end, _)| end) == next {
            return;
        }
        if let Some((_, timer)) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        self.timer = next.map(|end| {
            let wait = end.saturating_duration_since(Instant::now());
            (end, ctx.run_later(wait, |actor, ctx| actor.ring(ctx)))
        });
    }

    fn ring(&mut self, ctx: &mut Context<Self>) {
        self.timer = None;
        for (pair, generation) in self.graces.over(Instant::now()) {
            post(&self.directory, GraceOver { pair, generation });
        }
        self.arm(ctx);
    }
}

impl Actor for PresenceActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(0);
    }
}

impl Handler<StartGrace> for PresenceActor {
    type Result = ();

    fn handle(&mut self, grace: StartGrace, ctx: &mut Self::Context) {
        self.graces.start(grace.pair, grace.generation, grace.end);
        self.arm(ctx);
    }
}

impl Handler<CancelGrace> for PresenceActor {
    type Result = ();

    fn handle(&mut self, CancelGrace(pair): CancelGrace, ctx: &mut Self::Context) {
        self.graces.cancel(pair);
        self.arm(ctx);
    }
}

impl Handler<CountGraces> for PresenceActor {
    type Result = usize;

    fn handle(&mut self, _: CountGraces, _: &mut Self::Context) -> usize {
        self.graces.len()
    }
}
