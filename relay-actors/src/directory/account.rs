//! The devices and pairs of one account. Pure but for the handles that it keeps: it decides who has
//! the route of a device, and says what follows.

use actix::Addr;
use relay_model::ids::{ConnectionGeneration, ConnectionId, DeviceId};
use relay_model::store::{DeviceStatus, DeviceType};
use relay_model::time::Timestamp;

use super::{PairEpoch, RegistrationSequence};
use crate::registry::RegistryActor;
use crate::socket::SocketHandle;

/// A registered connection of a device.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) socket: SocketHandle,
    pub(super) sequence: RegistrationSequence,
    /// The desktop that a phone wants.
    pub(super) target: Option<DeviceId>,
}

/// A device that has a route, or a desktop within its grace.
pub(super) struct Device {
    pub(super) id: DeviceId,
    pub(super) device_type: DeviceType,
    pub(super) status: DeviceStatus,
    pub(super) since: Timestamp,
    /// The generation of the connection that the status is about.
    pub(super) generation: ConnectionGeneration,
    pub(super) route: Option<Route>,
}

/// A pair's registry.
pub(super) struct Pair {
    pub(super) desktop: DeviceId,
    pub(super) registry: Addr<RegistryActor>,
    pub(super) epoch: PairEpoch,
}

/// One account. Its devices are few, so they stand in a list in the order of their arrival, which
/// is also the order in which they are told things.
#[derive(Default)]
pub(super) struct Account {
    pub(super) devices: Vec<Device>,
    pub(super) pairs: Vec<Pair>,
}

impl Account {
    pub(super) fn device(&self, id: DeviceId) -> Option<&Device> {
        self.devices.iter().find(|device| device.id == id)
    }

    pub(super) fn device_mut(&mut self, id: DeviceId) -> Option<&mut Device> {
        self.devices.iter_mut().find(|device| device.id == id)
    }

    /// Makes `route` the route of a device and returns the one that it replaces. The status becomes
    /// online.
    pub(super) fn attach(
        &mut self,
        id: DeviceId,
        device_type: DeviceType,
        generation: ConnectionGeneration,
        route: Route,
        now: Timestamp,
    ) -> Option<Route> {
        let device = Device {
            id,
            device_type,
            status: DeviceStatus::Online,
            since: now,
            generation,
            route: Some(route),
        };
        match self.device_mut(id) {
            Some(known) => std::mem::replace(known, device).route,
            None => {
                // Most accounts have few devices, and there are many accounts.
                self.devices.reserve_exact(1);
                self.devices.push(device);
                None
            }
        }
    }

    /// Takes the route of a device away if it is this connection's. A phone is forgotten with it; a
    /// desktop is reconnecting from then on.
    pub(super) fn detach(
        &mut self,
        id: DeviceId,
        connection: ConnectionId,
        now: Timestamp,
    ) -> Option<(DeviceType, ConnectionGeneration)> {
        let position = self.devices.iter().position(|device| {
            let route = device.route.as_ref();
            device.id == id && route.is_some_and(|route| route.socket.connection == connection)
        })?;
        let device = &mut self.devices[position];
        let detached = (device.device_type, device.generation);
        match device.device_type {
            DeviceType::Mobile => {
                self.devices.remove(position);
            }
            DeviceType::Desktop => {
                device.route = None;
                device.status = DeviceStatus::Reconnecting;
                device.since = now;
            }
        }
        Some(detached)
    }

    /// Takes a desktop as reconnecting that this relay has not seen (PR-8).
    pub(super) fn await_return(
        &mut self,
        id: DeviceId,
        generation: ConnectionGeneration,
        now: Timestamp,
    ) {
        self.devices.push(Device {
            id,
            device_type: DeviceType::Desktop,
            status: DeviceStatus::Reconnecting,
            since: now,
            generation,
            route: None,
        });
    }

    /// Forgets a desktop whose grace is over, if it still is that grace (PR-7).
    pub(super) fn end_grace(&mut self, id: DeviceId, generation: ConnectionGeneration) -> bool {
        let before = self.devices.len();
        self.devices.retain(|device| {
            device.id != id || device.generation != generation || device.route.is_some()
        });
        self.devices.len() < before
    }

    /// Takes a device out, with its route if it has one.
    pub(super) fn remove(&mut self, id: DeviceId) -> Option<Device> {
        let position = self.devices.iter().position(|device| device.id == id)?;
        Some(self.devices.remove(position))
    }

    pub(super) fn pair(&self, desktop: DeviceId) -> Option<&Pair> {
        self.pairs.iter().find(|pair| pair.desktop == desktop)
    }

    /// The phones' routes, with the phones.
    pub(super) fn phones(&self) -> impl Iterator<Item = (DeviceId, &Route)> {
        self.devices
            .iter()
            .filter(|device| device.device_type == DeviceType::Mobile)
            .filter_map(|device| Some((device.id, device.route.as_ref()?)))
    }

    /// Every route.
    pub(super) fn routes(&self) -> impl Iterator<Item = &Route> {
        self.devices
            .iter()
            .filter_map(|device| device.route.as_ref())
    }

    /// Every route but that of `device`.
    pub(super) fn others(&self, device: DeviceId) -> impl Iterator<Item = &Route> {
        self.devices
            .iter()
            .filter(move |other| other.id != device)
            .filter_map(|other| other.route.as_ref())
    }

    /// Whether anybody is attached to the pair of this desktop, or it is in its grace.
    pub(super) fn needs_pair(&self, desktop: DeviceId) -> bool {
        self.device(desktop).is_some()
            || self
                .phones()
                .any(|(_, route)| route.target == Some(desktop))
    }
}
