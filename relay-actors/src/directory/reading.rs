//! What the directory tells operators: what it holds of an account, with the addresses of those who know
//! more (OP-9).

use actix::{Addr, Handler, Message, MessageResult};
use relay_model::ids::{AccountId, ConnectionGeneration, DeviceId};

use super::account::Device;
use super::{DirectoryActor, LiveDevice};
use crate::registry::RegistryActor;
use crate::socket::SocketHandle;

/// Asks for the devices of an account and whom to ask further; from whoever shows an account to its
/// operator.
#[derive(Message)]
#[rtype(result = "LiveAccount")]
pub(crate) struct ReadAccount(pub(crate) AccountId);

/// An account as the directory knows it.
#[derive(Default)]
pub(crate) struct LiveAccount {
    pub(crate) devices: Vec<LiveRoute>,
    /// The registries of its pairs, by desktop.
    pub(crate) pairs: Vec<(DeviceId, Addr<RegistryActor>)>,
}

/// A device with its route, if it has one.
pub(crate) struct LiveRoute {
    pub(crate) device: LiveDevice,
    pub(crate) generation: ConnectionGeneration,
    pub(crate) socket: Option<SocketHandle>,
    /// The desktop that a phone wants.
    pub(crate) target: Option<DeviceId>,
}

/// Asks for the registries of all pairs; from whoever adds up what they hold.
#[derive(Message)]
#[rtype(result = "Vec<Addr<RegistryActor>>")]
pub(crate) struct ListPairs;

impl Handler<ReadAccount> for DirectoryActor {
    type Result = MessageResult<ReadAccount>;

    fn handle(&mut self, ReadAccount(account): ReadAccount, _: &mut Self::Context) -> Self::Result {
        let Some(account) = self.accounts.get(&account) else {
            return MessageResult(LiveAccount::default());
        };
        let pairs = account.pairs.iter();
        MessageResult(LiveAccount {
            devices: account.devices.iter().map(LiveRoute::from).collect(),
            pairs: pairs
                .map(|pair| (pair.desktop, pair.registry.clone()))
                .collect(),
        })
    }
}

impl Handler<ListPairs> for DirectoryActor {
    type Result = MessageResult<ListPairs>;

    fn handle(&mut self, _: ListPairs, _: &mut Self::Context) -> Self::Result {
        let pairs = self.accounts.values().flat_map(|account| &account.pairs);
        MessageResult(pairs.map(|pair| pair.registry.clone()).collect())
    }
}

impl From<&Device> for LiveRoute {
    fn from(device: &Device) -> Self {
        let route = device.route.as_ref();
        Self {
            device: device.into(),
            generation: device.generation,
            socket: route.map(|route| route.socket.clone()),
            target: route.and_then(|route| route.target),
        }
    }
}

impl From<&Device> for LiveDevice {
    fn from(device: &Device) -> Self {
        Self {
            device: device.id,
            status: device.status,
            reason: None,
            since: device.since,
        }
    }
}
