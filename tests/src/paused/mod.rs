//! A whole relay on a paused clock: the real actors over pipes in memory, a store in memory, and
//! devices that speak through a WebSocket library that is not ours. A day passes in a millisecond.

mod device;
mod environment;
mod push;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use relay_actors::environment::Environment;
use relay_actors::push::PushServices;
use relay_actors::{ConnectionOrigin, Relay, RelayState, Telemetry};
use relay_model::credentials::Credentials;
use relay_model::ids::{AccountId, DeviceId};
use relay_model::limits::Limits;
use relay_model::store::{
    Asker, DesktopRegistration, DeviceRow, DeviceStore, DeviceType, PhoneRegistration,
    RegistrationOutcome,
};
use relay_model::time::Timestamp;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use uuid::Uuid;

pub use device::{Device, Received};
pub use environment::SimulatedEnvironment;
pub use push::FakePush;
pub use tokens::token;

use crate::memory_store::MemoryStore;
pub(crate) use tokens::SimulatedTokens;

/// The bytes that a pipe between relay and device holds: small, so that a device that does not read
/// is felt at once.
const PIPE: usize = 16 * 1024;

/// The actix system of a paused test: `#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]`.
pub struct PausedSystem;

impl PausedSystem {
    /// A system whose clock jumps to the next timer whenever nothing else is to be done.
    #[expect(
        clippy::new_ret_no_self,
        reason = "the form that the test attribute asks for"
    )]
    pub fn new() -> actix_rt::SystemRunner {
        actix_rt::System::with_tokio_rt(|| {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .expect("a runtime")
        })
    }
}

/// A relay with its surroundings.
pub struct Run {
    /// The relay.
    pub relay: Relay,
    /// Its store.
    pub store: MemoryStore,
    /// Its outside world.
    pub environment: Arc<SimulatedEnvironment>,
}

impl Run {
    /// A relay with the default limits.
    pub fn start() -> Self {
        Self::with_limits(|_| ())
    }

    /// A relay with changed limits.
    pub fn with_limits(change: impl FnOnce(&mut Limits)) -> Self {
        Self::on_store(MemoryStore::new(), change)
    }

    /// A relay on a store that another relay may use too.
    pub fn on_store(store: MemoryStore, change: impl FnOnce(&mut Limits)) -> Self {
        Self::observed(store, change, Telemetry::default())
    }

    /// The same, with somebody who hears what the relay does.
    pub fn observed(
        store: MemoryStore,
        change: impl FnOnce(&mut Limits),
        telemetry: Telemetry,
    ) -> Self {
        Self::full(store, change, PushServices::default(), telemetry)
    }

    /// A relay that wakes phones through these services.
    pub fn with_push(
        store: MemoryStore,
        push: PushServices,
        change: impl FnOnce(&mut Limits),
    ) -> Self {
        Self::full(store, change, push, Telemetry::default())
    }

    fn full(
        store: MemoryStore,
        change: impl FnOnce(&mut Limits),
        push: PushServices,
        telemetry: Telemetry,
    ) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        let environment = Arc::new(SimulatedEnvironment::new());
        let relay = Relay::start_observed(
            Arc::new(limits),
            environment.clone(),
            Arc::new(store.clone()),
            Arc::new(SimulatedTokens(environment.clone())),
            push,
            telemetry,
        );
        Self {
            relay,
            store,
            environment,
        }
    }

    /// A new account.
    pub fn account(&self) -> AccountId {
        AccountId::from_uuid(self.new_uuid())
    }

    fn new_uuid(&self) -> Uuid {
        relay_actors::environment::Environment::new_uuid(&*self.environment)
    }

    /// A desktop's row, as HTTP registration makes it.
    pub async fn desktop_row(&self, account: AccountId) -> DeviceId {
        let id = DeviceId::from_uuid(self.new_uuid());
        let row = DesktopRegistration {
            device_name: "desk".to_owned(),
            platform: "linux".to_owned(),
            platform_version: None,
            app_version: "1".to_owned(),
            capabilities: None,
            relay_eligible: None,
            rejoin: false,
        };
        let outcome = self
            .relay
            .register_desktop(account, id, row)
            .await
            .expect("a row");
        assert!(matches!(outcome, RegistrationOutcome::Registered(_)));
        id
    }

    /// A phone's row, as HTTP registration makes it.
    pub async fn phone_row(&self, account: AccountId) -> DeviceId {
        let id = DeviceId::from_uuid(self.new_uuid());
        let row = PhoneRegistration {
            device_name: "phone".to_owned(),
            platform: "ios".to_owned(),
            app_version: "1".to_owned(),
            capabilities: None,
            rejoin: false,
            push_token: None,
        };
        let outcome = self
            .relay
            .register_phone(account, id, row)
            .await
            .expect("a row");
        assert!(matches!(outcome, RegistrationOutcome::Registered(_)));
        id
    }

    /// An upgraded connection of a device that has not registered.
    pub async fn connect(
        &self,
        account: AccountId,
        device_type: DeviceType,
        device: DeviceId,
        target: Option<DeviceId>,
    ) -> Device {
        let credentials = Credentials::UserToken {
            expires_at: Timestamp::from_unix_micros(i64::MAX),
        };
        self.connect_with(credentials, account, device_type, device, target)
            .await
    }

    /// An upgraded connection that came in with `credentials`.
    pub async fn connect_with(
        &self,
        credentials: Credentials,
        account: AccountId,
        device_type: DeviceType,
        device: DeviceId,
        target: Option<DeviceId>,
    ) -> Device {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let origin = ConnectionOrigin {
            account,
            credentials,
            client_type: Some(device_type),
            device_header: None,
            target_header: target.map(|target| target.to_string()),
            peer: None,
        };
        self.relay.accept(origin, Box::new(theirs), Bytes::new());
        let socket = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
        Device::new(device, account, socket)
    }

    /// A desktop with a row, connected and registered.
    pub async fn desktop(&self, account: AccountId) -> Device {
        let id = self.desktop_row(account).await;
        self.desktop_again(account, id).await
    }

    /// Another connection of a desktop, registered.
    pub async fn desktop_again(&self, account: AccountId, id: DeviceId) -> Device {
        let mut desktop = self.connect(account, DeviceType::Desktop, id, None).await;
        desktop.register().await;
        desktop
    }

    /// A phone with a row, connected, registered for a target, its status read.
    pub async fn phone(&self, account: AccountId, target: DeviceId) -> Device {
        let id = self.phone_row(account).await;
        self.phone_again(account, id, target).await
    }

    /// Another connection of a phone, registered for a target, its status read.
    pub async fn phone_again(&self, account: AccountId, id: DeviceId, target: DeviceId) -> Device {
        let mut phone = self
            .connect(account, DeviceType::Mobile, id, Some(target))
            .await;
        phone.register().await;
        phone.next_status().await;
        phone
    }

    /// What the relay holds.
    pub async fn state(&self) -> RelayState {
        self.relay.state().await.expect("the relay lives")
    }

    /// Drains the relay, to the end.
    pub async fn drain(&self) {
        self.relay.drain("test");
        self.relay.drained().await;
    }

    /// A device's row as this relay reads it: one that a lost relay left online is offline.
    pub async fn read_row(&self, account: AccountId, id: DeviceId) -> DeviceRow {
        let asker = Asker {
            instance: self.relay.instance(),
            now: self.environment.now(),
        };
        let rows = self
            .device_store()
            .devices(asker, account, Default::default());
        let rows = rows.await.expect("the store answers");
        rows.into_iter().find(|row| row.id == id).expect("a row")
    }

    /// The store as a trait object.
    pub fn device_store(&self) -> &dyn DeviceStore {
        &self.store
    }
}

/// Lets the simulated time pass.
pub async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}
