//! OutcomesActor: remembers how the connections of each device ended and why its registrations were
//! refused, beyond the connections themselves, so that "why is it offline?" has an answer (OP-9).

mod memory;
mod messages;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, Context, Handler, MessageResult};

pub use memory::{DeviceOutcomes, LastClose, LastRefusal};
pub(crate) use messages::*;

use crate::environment::{Environment, FatalGuard};
use memory::Memory;

/// The memory of a relay.
pub(crate) struct OutcomesActor {
    memory: Memory,
    /// Refusals since the process started, by code.
    refusals: BTreeMap<&'static str, u64>,
    _fatal: FatalGuard,
}

impl OutcomesActor {
    pub(crate) fn new(environment: Arc<dyn Environment>) -> Self {
        Self {
            memory: Memory::default(),
            refusals: BTreeMap::new(),
            _fatal: FatalGuard::new("OutcomesActor", environment),
        }
    }
}

impl Actor for OutcomesActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // Each socket posts one close, and refusals one at a time; see `crate::mailbox`.
        ctx.set_mailbox_capacity(0);
    }
}

impl Handler<ConnectionClosed> for OutcomesActor {
    type Result = ();

    fn handle(&mut self, closed: ConnectionClosed, _: &mut Self::Context) {
        self.memory.closed(closed.device, closed.close);
    }
}

impl Handler<RegistrationRefused> for OutcomesActor {
    type Result = ();

    fn handle(&mut self, refused: RegistrationRefused, _: &mut Self::Context) {
        let RegistrationRefused {
            account,
            device,
            refusal,
        } = refused;
        *self.refusals.entry(refusal.code.code()).or_default() += 1;
        if let Some(device) = device {
            self.memory.refused((account, device), refusal);
        }
    }
}

impl Handler<ReadOutcomes> for OutcomesActor {
    type Result = MessageResult<ReadOutcomes>;

    fn handle(
        &mut self,
        ReadOutcomes(account): ReadOutcomes,
        _: &mut Self::Context,
    ) -> Self::Result {
        MessageResult(self.memory.of_account(account).collect())
    }
}

impl Handler<CountRefusals> for OutcomesActor {
    type Result = MessageResult<CountRefusals>;

    fn handle(&mut self, _: CountRefusals, _: &mut Self::Context) -> Self::Result {
        MessageResult(Refusals {
            by_code: self.refusals.clone(),
            remembered_devices: self.memory.len(),
        })
    }
}
