//! The relay as its door sees it: starts the actors that there is one of, takes over upgraded
//! connections, and answers the device API.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::{Actor, Addr, Context, MailboxError};
use arc_swap::Guard;
use bytes::Bytes;
use relay_model::credentials::Credentials;
use relay_model::ids::{AccountId, DeviceId, RelayInstanceId};
use relay_model::limits::Limits;
use relay_model::store::{
    DeviceFilter, DeviceRow, DeviceStatus, DeviceStore, DeviceType, Elsewhere, Holder,
    OfflineReason, StoreError,
};
use relay_model::time::Timestamp;
use tokio::time::Instant;

use crate::credentials::{CountKeySockets, CredentialsActor, TokenVerifier};
use crate::directory::{
    CountCloses, DirectoryActor, DirectoryState, FindPair, FindRoute, LiveDevice,
    ReadDirectoryState, ReadLiveDevices, RegistrationSequence,
};
use crate::drain::{
    AwaitDrained, BeginDrain, DrainActor, DrainSignal, DrainState, HurryDrain, ReadDrainState,
};
use crate::environment::Environment;
use crate::live_limits::LiveLimits;
use crate::mailbox::post;
use crate::metrics::{Metrics, Tallies, Tally};
use crate::outcomes::OutcomesActor;
use crate::presence::{CountGraces, PresenceActor};
use crate::push::{FinishPushes, PushActor, PushServices, PushState, ReadPushState};
use crate::registry::timeline_numbers::TimelineNumbers;
use crate::registry::{PairState, ReadPairState};
use crate::sessions::{CountSessions, SessionActor};
use crate::socket::ceilings::Ceilings;
use crate::socket::messages::ReadSocketState;
use crate::socket::transport::Transport;
use crate::socket::{SocketActor, SocketState};
use crate::store::{
    CheckDatabase, ListDevices, ReadProtocolFloor, ReadStoreState, StoreActor, StoreState,
};
use crate::traces::TraceSink;

/// What the door learned about a connection from its upgrade request (TR-2).
#[derive(Debug, Clone)]
pub struct ConnectionOrigin {
    /// The account of its credentials.
    pub account: AccountId,
    /// What they allow, and until when.
    pub credentials: Credentials,
    /// `X-Client-Type`; `None` if missing or odd, which is refused at `register`.
    pub client_type: Option<DeviceType>,
    /// `X-Device-ID` as sent.
    pub device_header: Option<String>,
    /// `X-Target-Desktop-Device-ID` as sent.
    pub target_header: Option<String>,
    /// The client's address, for logs: the TCP peer's, or the one that a trusted proxy named (TR-11),
    /// then with port 0 if it named none.
    pub peer: Option<SocketAddr>,
}

/// Where a relay tells what it does; by default nowhere.
#[derive(Default)]
pub struct Telemetry {
    /// Its figures (OP-6).
    pub metrics: Arc<Metrics>,
    /// Who keeps the traces of its requests (OP-7).
    pub traces: Option<Arc<dyn TraceSink>>,
}

/// What every actor of a relay shares; nothing in it changes but counters, the limits and the drain's
/// phase.
pub(crate) struct Core {
    /// See [`Core::limits`].
    limits: LiveLimits,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) instance: RelayInstanceId,
    /// When the relay started, by the wall clock and by the clock of its timers.
    pub(crate) started_at: Timestamp,
    pub(crate) started: Instant,
    pub(crate) ceilings: Ceilings,
    pub(crate) metrics: Arc<Metrics>,
    /// Who keeps traces; without it none are made.
    pub(crate) traces: Option<Arc<dyn TraceSink>>,
    pub(crate) timeline_numbers: Arc<TimelineNumbers>,
    /// How far the drain has come; DrainActor moves it.
    pub(crate) drain: DrainSignal,
    registrations: AtomicU64,
}

impl Core {
    /// The limits in force; not to be held across an await.
    pub(crate) fn limits(&self) -> Guard<Arc<Limits>> {
        self.limits.load()
    }

    /// What is counted with every frame.
    pub(crate) fn tallies(&self) -> &Tallies {
        &self.metrics.tallies
    }

    /// The rank of a registration that was just read.
    pub(crate) fn next_registration(&self) -> RegistrationSequence {
        RegistrationSequence(self.registrations.fetch_add(1, Ordering::Relaxed))
    }
}

/// A running relay. Cheap to clone; every clone is the same relay.
#[derive(Clone)]
pub struct Relay(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    directory: Addr<DirectoryActor>,
    sessions: Addr<SessionActor>,
    store: Addr<StoreActor>,
    presence: Addr<PresenceActor>,
    credentials: Addr<CredentialsActor>,
    drain: Addr<DrainActor>,
    outcomes: Addr<OutcomesActor>,
    push: Addr<PushActor>,
    tokens: Arc<dyn TokenVerifier>,
}

/// What a relay holds at a moment: how many of everything. After all devices have left and all
/// timers have passed, everything but the sessions is zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayState {
    /// Sockets, accounts, devices, routes and pairs.
    pub directory: DirectoryState,
    /// Graces that run.
    pub graces: usize,
    /// Sessions, expired ones included until they are swept.
    pub sessions: usize,
    /// Sockets that came in by an API key.
    pub key_sockets: usize,
    /// What waits for the database.
    pub store: StoreState,
    /// What is pushed, and what became of all that was.
    pub push: PushState,
    /// Bytes that wait to be written, in whole blocks: small backlogs are not counted.
    pub outbound_bytes: u64,
    /// Bytes of unfinished messages.
    pub unfinished_bytes: u64,
    /// Requests without a final answer, of all pairs.
    pub pending_requests: u64,
    /// Leases of phones, of all pairs.
    pub leases: u64,
    /// Messages of all sockets on their way to, or in, registries and the directory.
    pub under_way: u64,
}

impl Relay {
    /// Starts the actors of a relay on the current arbiter. `tokens` checks what sockets show with
    /// `auth.renew`, `push` are the services through which phones are woken.
    pub fn start(
        limits: Arc<Limits>,
        environment: Arc<dyn Environment>,
        store: Arc<dyn DeviceStore>,
        tokens: Arc<dyn TokenVerifier>,
        push: PushServices,
    ) -> Self {
        Self::start_observed(
            limits,
            environment,
            store,
            tokens,
            push,
            Telemetry::default(),
        )
    }

    /// The same, with figures that somebody reads and traces that somebody keeps.
    pub fn start_observed(
        limits: Arc<Limits>,
        environment: Arc<dyn Environment>,
        store: Arc<dyn DeviceStore>,
        tokens: Arc<dyn TokenVerifier>,
        push: PushServices,
        telemetry: Telemetry,
    ) -> Self {
        let Telemetry { metrics, traces } = telemetry;
        let core = Arc::new(Core {
            instance: RelayInstanceId::from_uuid(environment.new_uuid()),
            started_at: environment.now(),
            started: Instant::now(),
            ceilings: Ceilings::counting(&limits, Arc::clone(&metrics.tallies)),
            metrics,
            traces,
            timeline_numbers: Arc::default(),
            drain: DrainSignal::default(),
            limits: limits.into(),
            environment,
            registrations: AtomicU64::new(0),
        });
        let outcomes = OutcomesActor::new(Arc::clone(&core.environment)).start();
        let sessions = SessionActor::new(Arc::clone(&core)).start();
        // The directory knows the store and presence, and they know it: its address is there before it
        // starts, so that they can be started with it.
        let directory = Context::<DirectoryActor>::new();
        let address = actix::AsyncContext::address(&directory);
        let store = StoreActor::new(Arc::clone(&core), store, address.clone()).start();
        let credentials = CredentialsActor::new(Arc::clone(&core), store.clone()).start();
        let push = PushActor::new(Arc::clone(&core), store.clone(), push).start();
        let environment = Arc::clone(&core.environment);
        let presence = PresenceActor::new(address, environment).start();
        let directory = directory.run(DirectoryActor::new(
            Arc::clone(&core),
            sessions.clone(),
            store.clone(),
            presence.clone(),
            push.clone(),
        ));
        let drain = DrainActor::new(
            Arc::clone(&core),
            directory.clone(),
            sessions.clone(),
            store.clone(),
            push.clone(),
        )
        .start();
        Self(Arc::new(Inner {
            core,
            directory,
            sessions,
            store,
            presence,
            credentials,
            drain,
            outcomes,
            push,
            tokens,
        }))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    pub(crate) fn directory(&self) -> &Addr<DirectoryActor> {
        &self.0.directory
    }

    pub(crate) fn sessions(&self) -> &Addr<SessionActor> {
        &self.0.sessions
    }

    pub(crate) fn store(&self) -> &Addr<StoreActor> {
        &self.0.store
    }

    pub(crate) fn presence(&self) -> &Addr<PresenceActor> {
        &self.0.presence
    }

    pub(crate) fn credentials(&self) -> &Addr<CredentialsActor> {
        &self.0.credentials
    }

    pub(crate) fn outcomes(&self) -> &Addr<OutcomesActor> {
        &self.0.outcomes
    }

    pub(crate) fn tokens(&self) -> &dyn TokenVerifier {
        &*self.0.tokens
    }

    /// This run of the relay (SES-5).
    pub fn instance(&self) -> RelayInstanceId {
        self.0.core.instance
    }

    /// The limits in force.
    pub fn limits(&self) -> Arc<Limits> {
        self.0.core.limits.load_full()
    }

    /// The limits in force, for those who ask for them again each time.
    pub fn live_limits(&self) -> LiveLimits {
        self.0.core.limits.clone()
    }

    /// Puts other limits in force (OP-4). What is open keeps those that it was opened under: a
    /// connection, and what is made once a process (ceilings, queues, intervals).
    pub fn set_limits(&self, limits: Arc<Limits>) {
        self.0.core.limits.store(limits);
    }

    /// Takes over an upgraded connection; must be called on the arbiter that is to run it. `early`
    /// are bytes that came right behind the upgrade request.
    pub fn accept(&self, origin: ConnectionOrigin, transport: Box<dyn Transport>, early: Bytes) {
        SocketActor::open(self.clone(), origin, transport, early);
    }

    /// The account's devices, with the presence that holds now rather than the one that was stored
    /// last (PR-6, PR-8).
    ///
    /// # Errors
    /// When the database did not answer, in time.
    pub async fn devices(
        &self,
        account: AccountId,
        filter: DeviceFilter,
    ) -> Result<Vec<DeviceRow>, StoreError> {
        let list = ListDevices { account, filter };
        let mut devices = self
            .store()
            .send(list)
            .await
            .unwrap_or_else(store_is_gone)?;
        self.show_live_presence(account, &mut devices).await?;
        Ok(devices)
    }

    /// Puts the presence that holds now into rows of an account.
    pub(crate) async fn show_live_presence(
        &self,
        account: AccountId,
        devices: &mut [DeviceRow],
    ) -> Result<(), StoreError> {
        let live = self.live_devices(account).await;
        let live = live.or_else(directory_is_gone)?;
        for device in devices {
            self.show_presence(&live, device);
        }
        Ok(())
    }

    /// Puts the presence that holds now into a row; `live` is what the directory knows of its account.
    pub(crate) fn show_presence(&self, live: &[LiveDevice], device: &mut DeviceRow) {
        match live.iter().find(|live| live.device == device.id) {
            Some(live) => {
                device.status = live.status;
                device.offline_reason = live.reason;
            }
            None if self.is_expected_back(device) => {
                device.status = DeviceStatus::Reconnecting;
                device.offline_reason = None;
            }
            // Just hidden: that it is gone is on its way to the row (PR-4).
            None if is_hidden(device) && device.status != DeviceStatus::Offline => {
                device.status = DeviceStatus::Offline;
                device.offline_reason = Some(OfflineReason::Hidden);
            }
            None => {}
        }
    }

    /// The account's devices that have a route or are within a grace, as this relay knows them,
    /// without the database.
    ///
    /// # Errors
    /// When the directory is gone.
    pub async fn live_devices(&self, account: AccountId) -> Result<Vec<LiveDevice>, MailboxError> {
        self.directory().send(ReadLiveDevices(account)).await
    }

    /// Whether a desktop that this relay does not know may still come over from another instance, so
    /// that it must not be shown as offline yet (PR-8, DR-5).
    fn is_expected_back(&self, device: &DeviceRow) -> bool {
        let core = &self.0.core;
        device.device_type == DeviceType::Desktop
            && device.relay_eligible
            && core.expected_until(device.elsewhere).is_some()
    }

    /// The protocol floor (REG-9).
    ///
    /// # Errors
    /// When the database did not answer, in time.
    pub async fn protocol_floor(&self) -> Result<u32, StoreError> {
        self.store()
            .send(ReadProtocolFloor)
            .await
            .unwrap_or_else(store_is_gone)
    }

    /// Whether the database answers (OP-8).
    ///
    /// # Errors
    /// When it does not, in time.
    pub async fn check_database(&self) -> Result<(), StoreError> {
        self.store()
            .send(CheckDatabase)
            .await
            .unwrap_or_else(store_is_gone)
    }

    /// Begins to drain, for `cause`; asking again changes nothing (DR-1).
    pub fn drain(&self, cause: &'static str) {
        post(&self.0.drain, BeginDrain { cause });
    }

    /// Ends every wait of the drain at once, and begins it if need be (DR-4).
    pub fn hurry_drain(&self) {
        post(&self.0.drain, HurryDrain);
    }

    /// Returns once the relay is drained: everything is closed and stored then.
    pub async fn drained(&self) {
        // It ends with the process only.
        _ = self.0.drain.send(AwaitDrained).await;
    }

    /// How far the drain has come.
    ///
    /// # Errors
    /// When DrainActor is gone.
    pub async fn drain_state(&self) -> Result<DrainState, MailboxError> {
        self.0.drain.send(ReadDrainState).await
    }

    /// The drain's phase, for those who look often.
    pub fn drain_signal(&self) -> DrainSignal {
        self.0.core.drain.clone()
    }

    /// What is pushed at the moment, and what became of all that was. A relay without it pushes
    /// nothing any more, and goes on (PUSH-1).
    pub async fn push_state(&self) -> PushState {
        let state = self.0.push.send(ReadPushState).await;
        state.unwrap_or_default()
    }

    /// Waits until all pushes that were accepted are over, and what became of them is stored (DR-3). A
    /// `desktop_online` that its pause holds back is dropped. A push that waits for another attempt
    /// takes its time: whoever has less gives up waiting.
    pub async fn finish_pushes(&self) {
        // An actor that is gone has nothing left.
        let _ = self.0.push.send(FinishPushes).await;
    }

    /// What the relay holds.
    ///
    /// # Errors
    /// When one of its actors is gone.
    pub async fn state(&self) -> Result<RelayState, MailboxError> {
        Ok(RelayState {
            directory: self.directory().send(ReadDirectoryState).await?,
            graces: self.presence().send(CountGraces).await?,
            sessions: self.sessions().send(CountSessions).await?,
            key_sockets: self.credentials().send(CountKeySockets).await?,
            store: self.store().send(ReadStoreState).await?,
            push: self.push_state().await,
            outbound_bytes: self.core().ceilings.outbound.held(),
            unfinished_bytes: self.core().ceilings.unfinished.held(),
            pending_requests: self.core().tallies().read(Tally::RpcPending),
            leases: self.core().tallies().read(Tally::TimelineLeases),
            under_way: self.core().tallies().read(Tally::UnderWay),
        })
    }

    /// How many connections ended since the process started, by the reason in the log (OP-5).
    ///
    /// # Errors
    /// When the directory is gone.
    pub async fn closes(&self) -> Result<BTreeMap<&'static str, u64>, MailboxError> {
        self.directory().send(CountCloses).await
    }

    /// What the connection of a device holds; `None` if the device has no route.
    ///
    /// # Errors
    /// When the directory or the socket is gone.
    pub async fn socket_state(
        &self,
        account: AccountId,
        device: DeviceId,
    ) -> Result<Option<SocketState>, MailboxError> {
        let route = FindRoute { account, device };
        match self.directory().send(route).await? {
            Some(socket) => socket.address().send(ReadSocketState).await.map(Some),
            None => Ok(None),
        }
    }

    /// What the pair of a desktop holds; `None` if it has no registry.
    ///
    /// # Errors
    /// When the directory or the registry is gone.
    pub async fn pair_state(
        &self,
        account: AccountId,
        desktop: DeviceId,
    ) -> Result<Option<PairState>, MailboxError> {
        match self.directory().send(FindPair { account, desktop }).await? {
            Some(registry) => registry.send(ReadPairState).await.map(Some),
            None => Ok(None),
        }
    }
}

impl Core {
    /// Until when a desktop that another instance held may come over without having been offline;
    /// `None` if it is not waited for. After a start every such desktop is (PR-8); later those whose
    /// relay drains, stopped or was lost a short time ago, since they come to this one (DR-5).
    pub(crate) fn expected_until(&self, elsewhere: Option<Elsewhere>) -> Option<Instant> {
        let Elsewhere { seen, holder } = elsewhere?;
        let (now, limits) = (Instant::now(), self.limits());
        let remembered = self.started_at.minus(limits.reconnect_grace);
        let after_start = (seen >= remembered).then(|| self.started + limits.startup_grace);
        let after_leaving = match holder {
            Holder::Live => None,
            // It is let go at the end of that drain, which is taken to last as long as one of this relay.
            Holder::Draining => {
                let drain = limits.drain_timeout + limits.close_spread;
                Some(now + drain + limits.startup_grace)
            }
            Holder::Gone => {
                let gone_for = self.environment.now().since(seen);
                Some(now + limits.startup_grace.saturating_sub(gone_for))
            }
        };
        after_start.max(after_leaving).filter(|until| *until > now)
    }
}

fn is_hidden(device: &DeviceRow) -> bool {
    device.device_type == DeviceType::Desktop && !device.relay_eligible
}

pub(crate) fn directory_is_gone<T>(_: MailboxError) -> Result<T, StoreError> {
    Err(StoreError::Unavailable("the directory is gone".to_owned()))
}

pub(crate) fn store_is_gone<T>(_: MailboxError) -> Result<T, StoreError> {
    Err(StoreError::Unavailable("the store is gone".to_owned()))
}
