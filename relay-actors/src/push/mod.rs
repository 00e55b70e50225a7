//! PushActor: wakes phones that are not connected, through the push services of their makers
//! (section 12). Never a failure of the relay: whatever goes wrong here is counted and logged.

mod answer;
pub mod apns;
mod backoff;
mod content;
mod counts;
pub mod fcm;
mod messages;
mod queue;
mod sender;
mod throttle;

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, ResponseFuture, SpawnHandle,
    WrapFuture,
};
use indexmap::IndexMap;
use relay_model::ids::{AccountId, ConnectionGeneration, DeviceId};
use relay_model::push::{PushOutcome, PushOutcomeWrite, PushTokenRow};
use relay_model::store::StoreError;
use relay_model::time::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use content::{Alert, DesktopOnline, PushContent};
pub use counts::{PushCounts, PushKind, PushService, PushState};
pub(crate) use messages::*;
use queue::Queue;
pub use sender::{Attempt, Push, PushCheck, PushFuture, PushSender, PushServices};
use throttle::{Pair, Throttle};

use crate::relay::{Core, store_is_gone};
use crate::store::{ReadPushTokens, RecordPushOutcomes, RemovePushRegistration, StoreActor};

/// Where a push goes.
#[derive(Debug, Clone)]
enum Target {
    /// To every phone of an account, whose tokens are to be read.
    Account(AccountId),
    /// To one phone.
    Phone(PushTokenRow),
}

/// A push that waits, or is under way.
#[derive(Debug, Clone)]
struct Item {
    account: AccountId,
    target: Target,
    content: Arc<PushContent>,
    /// Attempts that failed.
    failed: u32,
    /// When it is of no use any more, by the clock of the timers and by the wall clock.
    deadline: Instant,
    expires_at: Timestamp,
}

impl Item {
    fn kind(&self) -> PushKind {
        match *self.content {
            PushContent::DesktopOnline(_) => PushKind::DesktopOnline,
            PushContent::Alert(_) => PushKind::Alert,
        }
    }

    fn service(&self) -> PushService {
        match &self.target {
            Target::Account(_) => PushService::Unread,
            Target::Phone(row) => row.platform.into(),
        }
    }
}

/// Sends the pushes of a relay. Its mailbox holds what a desktop's registrations and events cause,
/// which their own limits bound; what it keeps has `push.queue` for a bound.
pub(crate) struct PushActor {
    core: Arc<Core>,
    store: Addr<StoreActor>,
    services: PushServices,
    throttle: Throttle,
    queue: Queue<Item>,
    in_flight: usize,
    counts: PushCounts,
    /// What became of pushes and is not stored yet, the last of each phone.
    outcomes: IndexMap<DeviceId, PushOutcomeWrite>,
    recording: bool,
    timer: Option<(Instant, SpawnHandle)>,
    /// Those who wait until nothing is left.
    finishing: Vec<oneshot::Sender<()>>,
    /// Why a service refuses the relay's credentials, as it was logged; by service.
    refusals: [Option<String>; PushService::ALL.len()],
}

impl PushActor {
    pub(crate) fn new(core: Arc<Core>, store: Addr<StoreActor>, services: PushServices) -> Self {
        let limits = core.limits();
        let throttle = Throttle::new(limits.desktop_online_pause, limits.desktop_online_lifetime);
        drop(limits);
        Self {
            core,
            store,
            services,
            throttle,
            queue: Queue::default(),
            in_flight: 0,
            counts: PushCounts::default(),
            outcomes: IndexMap::new(),
            recording: false,
            timer: None,
            finishing: Vec::new(),
            refusals: [const { None }; PushService::ALL.len()],
        }
    }

    /// Queues a push to every phone of an account.
    fn push_to_account(&mut self, account: AccountId, content: PushContent, lifetime: Duration) {
        let now = Instant::now();
        let item = Item {
            account,
            target: Target::Account(account),
            content: Arc::new(content),
            failed: 0,
            deadline: now + lifetime,
            expires_at: self.core.environment.now().plus(lifetime),
        };
        self.enqueue(item, now);
    }

    fn tell_online(&mut self, (account, desktop): Pair, generation: ConnectionGeneration) {
        let online = DesktopOnline {
            desktop,
            instance: self.core.instance,
            generation,
        };
        let lifetime = self.core.limits().desktop_online_lifetime;
        self.push_to_account(account, PushContent::DesktopOnline(online), lifetime);
    }

    fn enqueue(&mut self, item: Item, due: Instant) {
        let room = self.core.limits().push_queue.saturating_sub(self.in_flight);
        if let Some((_, dropped)) = self.queue.add(item.kind(), due, item, room) {
            tracing::warn!(
                kind = dropped.kind().as_str(),
                "the push queue is full (push.queue)"
            );
            self.settle(&dropped, PushOutcome::Dropped);
        }
    }

    /// Counts what became of a push and has it stored with its phone.
    fn settle(&mut self, item: &Item, outcome: PushOutcome) {
        self.counts.add(item.service(), item.kind(), outcome, 1);
        if let Target::Phone(row) = &item.target {
            let write = PushOutcomeWrite {
                registration: row.registration(),
                outcome,
                at: self.core.environment.now(),
            };
            self.outcomes.insert(row.device, write);
        }
    }

    /// Begins what is due, as far as there is room, and sees to it that the rest is begun in time.
    fn go_on(&mut self, ctx: &mut Context<Self>) {
        let now = Instant::now();
        for (pair, generation) in self.throttle.over(now) {
            self.tell_online(pair, generation);
        }
        while self.in_flight < self.core.limits().push_concurrency
            && let Some(item) = self.queue.take_due(now)
        {
            self.begin(item, now, ctx);
        }
        self.record_outcomes(ctx);
        self.arm(ctx);
        if self.is_idle() {
            for waiting in self.finishing.drain(..) {
                // Whoever waited may have given up.
                let _ = waiting.send(());
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.queue.len() == 0 && self.in_flight == 0 && self.outcomes.is_empty() && !self.recording
    }

    fn arm(&mut self, ctx: &mut Context<Self>) {
        // With no room the end of what is under way comes first.
        let has_room = self.in_flight < self.core.limits().push_concurrency;
        let due = self.queue.next_due().filter(|_| has_room);
        let next = due.into_iter().chain(self.throttle.next()).min();
        if self.timer.map(|(time, _)| time) == next {
            return;
        }
        if let Some((_, timer)) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        self.timer = next.map(|time| {
            let wait = time.saturating_duration_since(Instant::now());
            let ring = |actor: &mut Self, ctx: &mut Context<Self>| {
                actor.timer = None;
                actor.go_on(ctx);
            };
            (time, ctx.run_later(wait, ring))
        });
    }

    fn begin(&mut self, item: Item, now: Instant, ctx: &mut Context<Self>) {
        if item.deadline <= now {
            return self.settle(&item, PushOutcome::Expired);
        }
        if let PushContent::DesktopOnline(online) = &*item.content
            && !self
                .throttle
                .is_latest((item.account, online.desktop), online.generation)
        {
            // A later one is on its way, and must not be followed by this one.
            return self.settle(&item, PushOutcome::Dropped);
        }
        match item.target.clone() {
            Target::Account(account) => {
                self.in_flight += 1;
                let read = self.store.send(ReadPushTokens(account)).into_actor(self);
                ctx.spawn(read.map(move |read, actor, ctx| {
                    actor.in_flight -= 1;
                    actor.tokens_read(item, read.unwrap_or_else(store_is_gone));
                    actor.go_on(ctx);
                }));
            }
            Target::Phone(row) => {
                let Some(sender) = self.services.of(row.platform) else {
                    return;
                };
                self.in_flight += 1;
                let push = Push {
                    id: self.core.environment.new_uuid(),
                    token: row.token.clone(),
                    environment: row.environment,
                    content: Arc::clone(&item.content),
                    expires_at: item.expires_at,
                };
                let timeout = self.core.limits().push_timeout;
                let sending = tokio::time::timeout(timeout, sender.send(push));
                ctx.spawn(sending.into_actor(self).map(move |attempt, actor, ctx| {
                    actor.in_flight -= 1;
                    let attempt = attempt.unwrap_or_else(|_| Attempt::Failed {
                        retry_after: None,
                        reason: format!("no answer within {timeout:?} (push.timeout)"),
                    });
                    actor.attempted(item, &row, attempt, ctx);
                    actor.go_on(ctx);
                }));
            }
        }
    }

    fn tokens_read(&mut self, item: Item, read: Result<Vec<PushTokenRow>, StoreError>) {
        match read {
            Ok(rows) => {
                let now = Instant::now();
                for row in rows {
                    // A phone whose service is not configured gets nothing (PUSH-1).
                    if self.services.of(row.platform).is_some() {
                        let target = Target::Phone(row);
                        let item = Item {
                            target,
                            ..item.clone()
                        };
                        self.enqueue(item, now);
                    }
                }
            }
            Err(error) => self.retry(item, None, &error.to_string()),
        }
    }

    fn attempted(
        &mut self,
        item: Item,
        row: &PushTokenRow,
        attempt: Attempt,
        ctx: &mut Context<Self>,
    ) {
        let service = item.service();
        let (name, kind) = (service.as_str(), item.kind().as_str());
        if !matches!(attempt, Attempt::Refused(_) | Attempt::Failed { .. })
            && self.refusals[service as usize].take().is_some()
        {
            tracing::info!(
                service = name,
                "the push service takes the relay's credentials again"
            );
        }
        match attempt {
            Attempt::Delivered => self.settle(&item, PushOutcome::Delivered),
            Attempt::TokenGone { since } => {
                self.settle(&item, PushOutcome::TokenGone);
                // What the service says of the time before the phone registered is no news.
                if since.is_none_or(|since| since >= row.registered_at) {
                    self.remove_token(row, ctx);
                }
            }
            Attempt::Rejected(reason) => {
                tracing::warn!(service = name, kind, reason, device = %row.device, "a push was rejected");
                self.settle(&item, PushOutcome::Rejected);
            }
            Attempt::Refused(reason) => {
                self.settle(&item, PushOutcome::Refused);
                let logged = &mut self.refusals[service as usize];
                if logged.as_ref() != Some(&reason) {
                    tracing::error!(service = name, reason, "the push service refuses the relay");
                    *logged = Some(reason);
                }
            }
            Attempt::Failed {
                retry_after,
                reason,
            } => self.retry(item, retry_after, &reason),
        }
    }

    fn retry(&mut self, mut item: Item, retry_after: Option<Duration>, reason: &str) {
        item.failed = item.failed.saturating_add(1);
        // The last bits of a random UUID are random.
        let chance = self.core.environment.new_uuid().as_u128() as u32;
        let wait = backoff::wait(item.failed, chance, retry_after, &self.core.limits());
        let due = Instant::now() + wait;
        let (service, kind) = (item.service().as_str(), item.kind().as_str());
        if due < item.deadline {
            tracing::warn!(service, kind, reason, "a push failed and is tried again");
            self.settle(&item, PushOutcome::Retried);
            self.enqueue(item, due);
        } else {
            tracing::warn!(service, kind, reason, "a push failed, and its time is over");
            self.settle(&item, PushOutcome::Expired);
        }
    }

    fn remove_token(&mut self, row: &PushTokenRow, ctx: &mut Context<Self>) {
        self.in_flight += 1;
        let device = row.device;
        let removal = self.store.send(RemovePushRegistration(row.registration()));
        ctx.spawn(removal.into_actor(self).map(move |removed, actor, ctx| {
            actor.in_flight -= 1;
            match removed.unwrap_or_else(store_is_gone) {
                Ok(true) => tracing::info!(%device, "a push token is gone and was removed"),
                Ok(false) => {}
                // The next push to it ends alike, and tries again.
                Err(error) => tracing::warn!(%error, %device, "a push token could not be removed"),
            }
            actor.go_on(ctx);
        }));
    }

    /// Has stored what became of pushes, unless a call is under way: what comes meanwhile makes the
    /// next one.
    fn record_outcomes(&mut self, ctx: &mut Context<Self>) {
        if self.recording || self.outcomes.is_empty() {
            return;
        }
        self.recording = true;
        let writes = std::mem::take(&mut self.outcomes).into_values().collect();
        let record = self.store.send(RecordPushOutcomes(writes)).into_actor(self);
        ctx.spawn(record.map(|recorded, actor, ctx| {
            actor.recording = false;
            if let Err(error) = recorded.unwrap_or_else(store_is_gone) {
                tracing::warn!(%error, "what became of pushes could not be stored");
            }
            actor.go_on(ctx);
        }));
    }
}

impl Actor for PushActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(0);
    }
}

/// A relay that cannot push is worth more than none (PUSH-1), but somebody has to know.
impl Drop for PushActor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("PushActor panicked; nothing is pushed until the relay is restarted");
        }
    }
}

impl Handler<DesktopRegistered> for PushActor {
    type Result = ();

    fn handle(&mut self, registered: DesktopRegistered, ctx: &mut Self::Context) {
        if self.services.are_off() {
            return;
        }
        let DesktopRegistered { pair, generation } = registered;
        if self.throttle.admits(pair, generation, Instant::now()) {
            self.tell_online(pair, generation);
        }
        self.go_on(ctx);
    }
}

impl Handler<AlertRequested> for PushActor {
    type Result = ();

    fn handle(&mut self, requested: AlertRequested, ctx: &mut Self::Context) {
        if self.services.are_off() {
            return;
        }
        let AlertRequested { account, alert } = requested;
        let lifetime = self.core.limits().alert_lifetime;
        self.push_to_account(account, PushContent::Alert(alert), lifetime);
        self.go_on(ctx);
    }
}

impl Handler<ReadPushState> for PushActor {
    type Result = PushState;

    fn handle(&mut self, _: ReadPushState, _: &mut Self::Context) -> PushState {
        PushState {
            queued: self.queue.len(),
            in_flight: self.in_flight + usize::from(self.recording),
            desktops: self.throttle.len(),
            counts: self.counts,
        }
    }
}

impl Handler<FinishPushes> for PushActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: FinishPushes, ctx: &mut Self::Context) -> Self::Result {
        let dropped = self.throttle.drop_waiting();
        let (service, kind) = (PushService::Unread, PushKind::DesktopOnline);
        self.counts
            .add(service, kind, PushOutcome::Dropped, dropped);
        let (sender, finished) = oneshot::channel();
        self.finishing.push(sender);
        self.go_on(ctx);
        Box::pin(async {
            // An actor that is gone has nothing left either.
            let _ = finished.await;
        })
    }
}
