//! What operators read and set in the database (OP-9, REG-9).

use actix::{Handler, ResponseFuture};
use relay_model::store::{KnownDevice, PresenceEntry, StoreError};

use super::{ListKnownDevices, ReadPresenceHistory, SetProtocolFloor, StoreActor};

impl Handler<ListKnownDevices> for StoreActor {
    type Result = ResponseFuture<Result<Vec<KnownDevice>, StoreError>>;

    fn handle(
        &mut self,
        ListKnownDevices(account): ListKnownDevices,
        _: &mut Self::Context,
    ) -> Self::Result {
        let asker = self.asker();
        self.read(move |store| store.known_devices(asker, account))
    }
}

impl Handler<ReadPresenceHistory> for StoreActor {
    type Result = ResponseFuture<Result<Vec<PresenceEntry>, StoreError>>;

    fn handle(&mut self, read: ReadPresenceHistory, _: &mut Self::Context) -> Self::Result {
        let ReadPresenceHistory {
            account,
            devices,
            limit,
        } = read;
        self.read(move |store| store.presence_history(account, devices, limit))
    }
}

impl Handler<SetProtocolFloor> for StoreActor {
    type Result = ResponseFuture<Result<(), StoreError>>;

    fn handle(
        &mut self,
        SetProtocolFloor(floor): SetProtocolFloor,
        _: &mut Self::Context,
    ) -> Self::Result {
        self.write(move |store| store.set_protocol_floor(floor))
    }
}
