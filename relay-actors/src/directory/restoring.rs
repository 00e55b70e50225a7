//! Rows that another relay marked as lost although this one lives: its lease had lapsed, because the
//! database was away or the process stood still (PR-6).

use actix::{Handler, Message};
use relay_model::ids::{AccountId, DeviceId};

use super::DirectoryActor;

/// Has these devices stored as they are; from StoreActor, when a lease that had lapsed is renewed. Those
/// that are gone meanwhile were stored as such when they went.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct RestoreRows(pub(crate) Vec<(AccountId, DeviceId)>);

impl Handler<RestoreRows> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, RestoreRows(devices): RestoreRows, _: &mut Self::Context) {
        for (account, id) in devices {
            let known = self
                .accounts
                .get(&account)
                .and_then(|known| known.device(id));
            if let Some(device) = known {
                self.store_status((account, id), device.generation, device.status, None);
            }
        }
    }
}
