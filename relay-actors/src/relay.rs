//! The relay as its door sees it.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use relay_model::ids::{AccountId, DeviceId, RelayInstanceId};
use relay_model::limits::Limits;
use relay_model::store::{
    DesktopRegistration, DeviceFilter, DeviceRow, DeviceStore, DeviceType, PhoneRegistration,
    RegistrationOutcome, StoreError,
};

use crate::environment::Environment;
use crate::socket::transport::Transport;

/// What the door learned about a connection from its upgrade request (TR-2).
#[derive(Debug, Clone)]
pub struct ConnectionOrigin {
    /// The account of its credentials.
    pub account: AccountId,
    /// `X-Client-Type`; `None` if missing or odd, which is refused at `register`.
    pub client_type: Option<DeviceType>,
    /// `X-Device-ID` as sent.
    pub device_header: Option<String>,
    /// `X-Target-Desktop-Device-ID` as sent.
    pub target_header: Option<String>,
    /// The peer's address, for logs.
    pub peer: Option<SocketAddr>,
}

/// A running relay. Cheap to clone; every clone is the same relay.
#[derive(Clone)]
pub struct Relay {}

impl Relay {
    /// Starts the actors of a relay on the current arbiter.
    pub fn start(
        _limits: Arc<Limits>,
        _environment: Arc<dyn Environment>,
        _store: Arc<dyn DeviceStore>,
    ) -> Self {
        todo!()
    }

    /// This run of the relay (SES-5).
    pub fn instance(&self) -> RelayInstanceId {
        todo!()
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        todo!()
    }

    /// Takes over an upgraded connection; must be called on the arbiter that is to run it. `early`
    /// are bytes that came right behind the upgrade request.
    pub fn accept(&self, _origin: ConnectionOrigin, _transport: Box<dyn Transport>, _early: Bytes) {
        todo!()
    }

    /// `POST /api/devices/register`.
    pub async fn register_desktop(
        &self,
        _account: AccountId,
        _device: DeviceId,
        _registration: DesktopRegistration,
    ) -> Result<RegistrationOutcome, StoreError> {
        todo!()
    }

    /// `POST /api/devices/mobile/register`.
    pub async fn register_phone(
        &self,
        _account: AccountId,
        _device: DeviceId,
        _registration: PhoneRegistration,
    ) -> Result<RegistrationOutcome, StoreError> {
        todo!()
    }

    /// The account's devices; their status is the live one (PR-6).
    pub async fn devices(
        &self,
        _account: AccountId,
        _filter: DeviceFilter,
    ) -> Result<Vec<DeviceRow>, StoreError> {
        todo!()
    }

    /// The protocol floor (REG-9).
    pub async fn protocol_floor(&self) -> Result<u32, StoreError> {
        todo!()
    }

    /// Whether the database answers (OP-8).
    pub async fn check_database(&self) -> Result<(), StoreError> {
        todo!()
    }

    /// Closes every device socket with 1012, waits for them at most `drain.stop_timeout`, and gives
    /// up this instance's rows. New sockets are closed the same way.
    pub async fn stop(&self) {
        todo!()
    }
}
