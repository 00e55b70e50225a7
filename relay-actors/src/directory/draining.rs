//! The directory's part of a drain: it is the gate for registrations, and closes the sockets
//! (DR-1, DR-3, REG-11).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use actix::{Addr, Handler, Message, MessageResult};
use relay_model::ids::{AccountId, ConnectionId};
use relay_model::store::DeviceType;
use tokio::sync::Notify;

use super::DirectoryActor;
use crate::mailbox::post;
use crate::registry::{Forget, RegistryActor};
use crate::socket::SocketHandle;
use crate::socket::messages::CloseReason;

/// Nobody registers any more; from DrainActor, once.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ShutGate;

/// Asks who may have work in progress; from DrainActor, one a look.
#[derive(Message)]
#[rtype(result = "Busy")]
pub(crate) struct FindBusy;

/// Who may have work in progress.
#[derive(actix::MessageResponse)]
pub(crate) struct Busy {
    /// Every pair's registry.
    pub(crate) registries: Vec<Addr<RegistryActor>>,
    /// The sockets for which something waits.
    pub(crate) sockets: Vec<SocketHandle>,
}

/// Memory is cleared: no request is answered and no presence told or stored any more. From
/// DrainActor, once. Answered with the number of sockets that are to be closed.
#[derive(Message)]
#[rtype(result = "usize")]
pub(crate) struct BeginClosing;

/// Closes the next so many sockets with 1012; from DrainActor, in the rhythm of DR-3.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CloseNext(pub(crate) usize);

/// Asks for what is notified when no socket is left; from DrainActor, once all were told to close.
#[derive(Message)]
#[rtype(result = "Arc<Notify>")]
pub(crate) struct AwaitEmpty;

/// Asks how many sockets there are, closing ones included; from DrainActor.
#[derive(Message)]
#[rtype(result = "usize")]
pub(crate) struct CountSockets;

/// Whether devices may register.
#[derive(Default)]
pub(super) enum Gate {
    /// They may.
    #[default]
    Open,
    /// They may not; what is registered goes on.
    Shut,
    /// Nothing goes on.
    Closing {
        /// The sockets that were not told yet, in the order in which they will be.
        untold: VecDeque<ConnectionId>,
        /// Told when no socket is left.
        empty: Arc<Notify>,
    },
}

impl Gate {
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    pub(super) fn is_closing(&self) -> bool {
        matches!(self, Self::Closing { .. })
    }
}

impl DirectoryActor {
    /// In which order sockets are closed: an account's one after the other, its desktops first, so that
    /// its phones find them, or nearly, when they come to the next process.
    fn order_of_closing(&self) -> VecDeque<ConnectionId> {
        let mut places: HashMap<AccountId, usize> = HashMap::new();
        let mut order = Vec::with_capacity(self.sockets.len());
        for (position, (connection, socket)) in self.sockets.iter().enumerate() {
            if socket.dismissed {
                continue;
            }
            let (place, is_desktop) = match socket.attached {
                None => (position, false),
                Some((account, device)) => {
                    let place = *places.entry(account).or_insert(position);
                    let known = self.accounts.get(&account);
                    let device = known.and_then(|account| account.device(device));
                    let device_type = device.map(|device| device.device_type);
                    (place, device_type == Some(DeviceType::Desktop))
                }
            };
            order.push((place, !is_desktop, position, *connection));
        }
        order.sort_unstable();
        order
            .into_iter()
            .map(|(_, _, _, connection)| connection)
            .collect()
    }

    /// Tells whoever waits for it that no socket is left.
    pub(super) fn notice_empty(&self) {
        if let (Gate::Closing { empty, .. }, true) = (&self.gate, self.sockets.is_empty()) {
            empty.notify_one();
        }
    }
}

impl Handler<ShutGate> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, _: ShutGate, _: &mut Self::Context) {
        if self.gate.is_open() {
            self.gate = Gate::Shut;
        }
    }
}

impl Handler<FindBusy> for DirectoryActor {
    type Result = Busy;

    fn handle(&mut self, _: FindBusy, _: &mut Self::Context) -> Busy {
        let pairs = self.accounts.values().flat_map(|account| &account.pairs);
        let staying = self.sockets.values().filter(|socket| !socket.dismissed);
        Busy {
            registries: pairs.map(|pair| pair.registry.clone()).collect(),
            sockets: staying
                .filter(|socket| socket.handle.debt() > 0)
                .map(|socket| socket.handle.clone())
                .collect(),
        }
    }
}

impl Handler<BeginClosing> for DirectoryActor {
    type Result = usize;

    fn handle(&mut self, _: BeginClosing, _: &mut Self::Context) -> usize {
        if let Gate::Closing { untold, .. } = &self.gate {
            return untold.len();
        }
        for pair in self.accounts.values().flat_map(|account| &account.pairs) {
            post(&pair.registry, Forget);
        }
        let untold = self.order_of_closing();
        let count = untold.len();
        let empty = Arc::default();
        self.gate = Gate::Closing { untold, empty };
        count
    }
}

impl Handler<CloseNext> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, CloseNext(count): CloseNext, _: &mut Self::Context) {
        let Gate::Closing { untold, .. } = &mut self.gate else {
            return;
        };
        for connection in untold.drain(..count.min(untold.len())) {
            if let Some(socket) = self.sockets.get_mut(&connection) {
                socket.dismissed = true;
                socket.handle.close(CloseReason::Drained);
            }
        }
    }
}

impl Handler<AwaitEmpty> for DirectoryActor {
    type Result = MessageResult<AwaitEmpty>;

    fn handle(&mut self, _: AwaitEmpty, _: &mut Self::Context) -> Self::Result {
        self.notice_empty();
        MessageResult(match &self.gate {
            Gate::Closing { empty, .. } => Arc::clone(empty),
            Gate::Open | Gate::Shut => Arc::default(),
        })
    }
}

impl Handler<CountSockets> for DirectoryActor {
    type Result = usize;

    fn handle(&mut self, _: CountSockets, _: &mut Self::Context) -> usize {
        self.sockets.len()
    }
}
