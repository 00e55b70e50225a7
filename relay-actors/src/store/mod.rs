//! StoreActor: stands in front of the database. It bounds what runs and what waits, gives every call
//! a deadline, batches presence and heartbeats, and keeps this instance's lease (PR-6).

mod api_keys;
mod gate;
mod messages;
mod operators;
mod presence_batch;
mod presence_stamps;
mod push_tokens;

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, ResponseActFuture, ResponseFuture,
    WrapFuture,
};
use indexmap::IndexMap;
use relay_model::ids::DeviceId;
use relay_model::store::{
    Asker, ChangedDevice, DeviceRow, DeviceStore, ForgottenDevice, HeartbeatWrite, PresenceWrite,
    RegistrationFacts, RegistrationOutcome, StoreError, StoreFuture,
};
use relay_model::time::Timestamp;
use tokio::time::Instant;

pub(crate) use api_keys::*;
use gate::{Access, Gate};
pub use messages::StoreState;
pub(crate) use messages::*;
use presence_batch::PresenceBatch;
use presence_stamps::PresenceStamps;
pub(crate) use push_tokens::*;

use crate::directory::{DirectoryActor, RestoreRows};
use crate::environment::FatalGuard;
use crate::mailbox::post;
use crate::relay::Core;

/// How long a batch that could not be stored waits for the next try.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The only actor that touches the database.
pub(crate) struct StoreActor {
    core: Arc<Core>,
    store: Arc<dyn DeviceStore>,
    gate: Gate,
    directory: Addr<DirectoryActor>,
    stamps: PresenceStamps,
    presence: PresenceBatch,
    heartbeats: IndexMap<DeviceId, HeartbeatWrite>,
    /// A batch of presence changes is being stored, or waits for its time.
    writing_presence: bool,
    /// The last batch could not be stored and is tried again.
    presence_stuck: bool,
    next_presence_batch: Instant,
    /// The end of the last lease that is known to be stored.
    lease_until: Option<Timestamp>,
    released: bool,
    /// This instance drains: it owns nothing any more, so it would take its own devices for lost.
    draining: bool,
    _fatal: FatalGuard,
}

impl StoreActor {
    pub(crate) fn new(
        core: Arc<Core>,
        store: Arc<dyn DeviceStore>,
        directory: Addr<DirectoryActor>,
    ) -> Self {
        let gate = Gate::new(&core.limits(), Arc::clone(&core.metrics));
        let fatal = FatalGuard::new("StoreActor", Arc::clone(&core.environment));
        Self {
            core,
            store,
            gate,
            directory,
            stamps: PresenceStamps::default(),
            presence: PresenceBatch::default(),
            heartbeats: IndexMap::new(),
            writing_presence: false,
            presence_stuck: false,
            next_presence_batch: Instant::now(),
            lease_until: None,
            released: false,
            draining: false,
            _fatal: fatal,
        }
    }

    fn asker(&self) -> Asker {
        Asker {
            instance: self.core.instance,
            now: self.core.environment.now(),
        }
    }

    fn read<T: Send + 'static>(
        &self,
        begin: impl FnOnce(&dyn DeviceStore) -> StoreFuture<T> + 'static,
    ) -> ResponseFuture<Result<T, StoreError>> {
        self.call(Access::Read, begin)
    }

    fn write<T: Send + 'static>(
        &self,
        begin: impl FnOnce(&dyn DeviceStore) -> StoreFuture<T> + 'static,
    ) -> ResponseFuture<Result<T, StoreError>> {
        self.call(Access::Write, begin)
    }

    fn call<T: Send + 'static>(
        &self,
        access: Access,
        begin: impl FnOnce(&dyn DeviceStore) -> StoreFuture<T> + 'static,
    ) -> ResponseFuture<Result<T, StoreError>> {
        let store = Arc::clone(&self.store);
        Box::pin(self.gate.clone().call(access, move || begin(&*store)))
    }

    /// Starts a write whose failure only a log line tells.
    fn write_quietly(
        &self,
        what: &'static str,
        begin: impl FnOnce(&dyn DeviceStore) -> StoreFuture<()> + 'static,
    ) {
        let call = self.write(begin);
        actix_rt::spawn(async move {
            if let Err(error) = call.await {
                tracing::warn!(%error, "could not {what}");
            }
        });
    }

    /// Renews the lease. If the one before has ended meanwhile, other relays may have taken this one for
    /// lost; what they marked is then put right. Until that is done, the lease counts as ended.
    fn renew(&self) -> ResponseActFuture<Self, Result<(), StoreError>> {
        let (instance, now) = (self.core.instance, self.core.environment.now());
        let lease_until = now.plus(self.core.limits().instance_lease);
        let has_lapsed = self.lease_until.is_some_and(|end| end < now);
        let renewal = self.write(move |store| store.renew_instance(instance, now, lease_until));
        let lost = has_lapsed.then(|| self.read(move |store| store.marked_lost(instance)));
        let renewed = async move {
            renewal.await?;
            match lost {
                Some(lost) => lost.await,
                None => Ok(Vec::new()),
            }
        };
        Box::pin(renewed.into_actor(self).map(move |lost, actor, _| {
            let devices = lost?;
            actor.lease_until = Some(lease_until);
            if !devices.is_empty() {
                let rows = devices.len();
                tracing::warn!(
                    rows,
                    "this instance was taken for lost; its rows are put right"
                );
                post(&actor.directory, RestoreRows(devices));
            }
            Ok(())
        }))
    }

    fn renew_lease(&self, ctx: &mut Context<Self>) {
        if self.released {
            return;
        }
        ctx.spawn(self.renew().map(|renewed, _, _| {
            if let Err(error) = renewed {
                tracing::warn!(%error, "could not renew this instance's lease");
            }
        }));
        if self.draining {
            // Once more each time: the database may have been away when the drain began.
            self.mark_draining();
        }
    }

    fn mark_draining(&self) {
        let (instance, now) = (self.core.instance, self.core.environment.now());
        let lease_until = now.plus(self.core.limits().instance_lease);
        self.write_quietly("mark this instance as draining", move |store| {
            store.mark_draining(instance, now, lease_until)
        });
    }

    /// Corrects the rows of lost instances; behind a renewal, so that an instance whose own lease
    /// lapsed while the database was away does not count itself among them.
    fn sweep(&self, ctx: &mut Context<Self>) {
        if self.released || self.draining {
            return;
        }
        let now = self.core.environment.now();
        let swept = self.renew().then(move |renewed, actor, _| {
            let sweep = actor.write(move |store| store.sweep_lost(now));
            async move {
                renewed?;
                sweep.await
            }
            .into_actor(actor)
        });
        ctx.spawn(swept.map(|swept, _, _| match swept {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "corrected the rows of lost instances"),
            Err(error) => {
                tracing::warn!(%error, "could not correct the rows of lost instances")
            }
        }));
    }

    /// Drops the presence history that is too old to keep (PR-6).
    fn purge_history(&self) {
        if self.released {
            return;
        }
        let now = self.core.environment.now();
        let before = now.minus(self.core.limits().history_retention);
        let purge = self.write(move |store| store.purge_presence_history(before));
        actix_rt::spawn(async move {
            match purge.await {
                Ok(0) => {}
                Ok(changes) => tracing::debug!(changes, "dropped old presence history"),
                Err(error) => tracing::warn!(%error, "could not drop old presence history"),
            }
        });
    }

    fn write_heartbeats(&mut self) {
        if !self.heartbeats.is_empty() {
            let heartbeats = std::mem::take(&mut self.heartbeats).into_values().collect();
            self.write_quietly("store heartbeats", move |store| {
                store.write_heartbeats(heartbeats)
            });
        }
    }

    /// Has written what waits, unless a batch is under way: what comes meanwhile makes the next one.
    fn write_presence(&mut self, ctx: &mut Context<Self>) {
        if self.writing_presence || self.presence.is_empty() {
            return;
        }
        self.writing_presence = true;
        let pause = self
            .next_presence_batch
            .saturating_duration_since(Instant::now());
        if pause.is_zero() {
            self.write_presence_batch(ctx);
        } else {
            ctx.run_later(pause, Self::write_presence_batch);
        }
    }

    fn write_presence_batch(&mut self, ctx: &mut Context<Self>) {
        self.next_presence_batch = Instant::now() + self.core.limits().presence_write_interval;
        let writes = self.presence.take();
        let batch = writes.clone();
        let call = self.write(move |store| store.write_presence(batch));
        ctx.spawn(call.into_actor(self).map(move |result, actor, ctx| {
            actor.writing_presence = false;
            actor.presence_stuck = false;
            match result {
                Ok(()) => actor.write_presence(ctx),
                Err(StoreError::Failed(error)) => {
                    tracing::error!(%error, writes = writes.len(), "presence could not be stored");
                    actor.write_presence(ctx);
                }
                Err(error) => {
                    tracing::warn!(%error, "presence waits for the database");
                    actor.presence_stuck = true;
                    actor.presence.put_back(writes);
                    ctx.run_later(RETRY_PAUSE, Self::write_presence);
                }
            }
        }));
    }
}

impl Actor for StoreActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(0);
        let limits = &self.core.limits();
        self.sweep(ctx);
        self.purge_history();
        ctx.run_interval(limits.instance_renewal, |actor, ctx| actor.renew_lease(ctx));
        ctx.run_interval(limits.presence_sweep_interval, |actor, ctx| {
            actor.sweep(ctx)
        });
        ctx.run_interval(limits.history_purge_interval, |actor, _| {
            actor.purge_history()
        });
        ctx.run_interval(limits.heartbeat_interval, |actor, _| {
            actor.write_heartbeats()
        });
    }
}

impl Handler<ReadRegistrationFacts> for StoreActor {
    type Result = ResponseFuture<Result<RegistrationFacts, StoreError>>;

    fn handle(&mut self, read: ReadRegistrationFacts, _: &mut Self::Context) -> Self::Result {
        let ReadRegistrationFacts {
            account,
            device,
            target,
        } = read;
        let asker = self.asker();
        self.read(move |store| store.registration_facts(asker, account, device, target))
    }
}

impl Handler<RegisterDesktop> for StoreActor {
    type Result = ResponseFuture<Result<RegistrationOutcome, StoreError>>;

    fn handle(&mut self, register: RegisterDesktop, _: &mut Self::Context) -> Self::Result {
        let RegisterDesktop {
            account,
            device,
            registration,
        } = register;
        let now = self.core.environment.now();
        self.write(move |store| store.register_desktop(account, device, registration, now))
    }
}

impl Handler<RegisterPhone> for StoreActor {
    type Result = ResponseFuture<Result<RegistrationOutcome, StoreError>>;

    fn handle(&mut self, register: RegisterPhone, _: &mut Self::Context) -> Self::Result {
        let RegisterPhone {
            account,
            device,
            registration,
        } = register;
        let now = self.core.environment.now();
        self.write(move |store| store.register_phone(account, device, registration, now))
    }
}

impl Handler<ChangeDevice> for StoreActor {
    type Result = ResponseFuture<Result<Option<ChangedDevice>, StoreError>>;

    fn handle(&mut self, change: ChangeDevice, _: &mut Self::Context) -> Self::Result {
        let ChangeDevice {
            account,
            device,
            change,
        } = change;
        let now = self.core.environment.now();
        self.write(move |store| store.change_device(account, device, change, now))
    }
}

impl Handler<ForgetDevice> for StoreActor {
    type Result = ResponseFuture<Result<Option<ForgottenDevice>, StoreError>>;

    fn handle(&mut self, forget: ForgetDevice, _: &mut Self::Context) -> Self::Result {
        let ForgetDevice { account, device } = forget;
        let now = self.stamps.stamp(self.core.environment.now());
        self.write(move |store| store.forget_device(account, device, now))
    }
}

impl Handler<ListDevices> for StoreActor {
    type Result = ResponseFuture<Result<Vec<DeviceRow>, StoreError>>;

    fn handle(&mut self, list: ListDevices, _: &mut Self::Context) -> Self::Result {
        let ListDevices { account, filter } = list;
        let asker = self.asker();
        self.read(move |store| store.devices(asker, account, filter))
    }
}

impl Handler<ReadProtocolFloor> for StoreActor {
    type Result = ResponseFuture<Result<u32, StoreError>>;

    fn handle(&mut self, _: ReadProtocolFloor, _: &mut Self::Context) -> Self::Result {
        self.read(|store| store.protocol_floor())
    }
}

impl Handler<CheckDatabase> for StoreActor {
    type Result = ResponseFuture<Result<(), StoreError>>;

    fn handle(&mut self, _: CheckDatabase, _: &mut Self::Context) -> Self::Result {
        self.read(|store| store.check())
    }
}

impl Handler<RecordPresence> for StoreActor {
    type Result = ();

    fn handle(&mut self, RecordPresence(write): RecordPresence, ctx: &mut Self::Context) {
        let at = self.stamps.stamp(write.at);
        self.presence.add(PresenceWrite { at, ..write });
        self.write_presence(ctx);
    }
}

impl Handler<ReadStoreState> for StoreActor {
    type Result = StoreState;

    fn handle(&mut self, _: ReadStoreState, _: &mut Self::Context) -> StoreState {
        StoreState {
            calls: self.gate.present(),
            awaited: self.gate.awaited(),
            presence: self.presence.len(),
            presence_stuck: self.presence_stuck,
            heartbeats: self.heartbeats.len(),
        }
    }
}

impl Handler<ReadPool> for StoreActor {
    type Result = PoolState;

    fn handle(&mut self, _: ReadPool, _: &mut Self::Context) -> PoolState {
        self.gate.pool()
    }
}

impl Handler<RecordHeartbeat> for StoreActor {
    type Result = ();

    fn handle(&mut self, RecordHeartbeat(write): RecordHeartbeat, _: &mut Self::Context) {
        self.heartbeats.insert(write.device, write);
    }
}

impl Handler<MarkDraining> for StoreActor {
    type Result = ();

    fn handle(&mut self, _: MarkDraining, _: &mut Self::Context) {
        self.draining = true;
        self.mark_draining();
    }
}

impl Handler<ReleaseInstance> for StoreActor {
    type Result = ResponseActFuture<Self, Result<(), StoreError>>;

    fn handle(&mut self, _: ReleaseInstance, _: &mut Self::Context) -> Self::Result {
        self.released = true;
        self.write_heartbeats();
        let waiting = self.presence.take();
        let (instance, now) = (self.core.instance, self.core.environment.now());
        let flush = self.write(move |store| store.write_presence(waiting));
        let release = self.write(move |store| store.release_instance(instance, now));
        Box::pin(
            async move {
                flush.await?;
                release.await
            }
            .into_actor(self),
        )
    }
}
