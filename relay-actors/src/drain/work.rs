//! What a drain still waits for, asked from those who have it (DR-2).

use std::time::Duration;

use actix::{Addr, MailboxError};
use futures_util::future::join_all;

use super::DrainWork;
use crate::directory::{Busy, DirectoryActor, FindBusy};
use crate::push::{PushActor, ReadPushState};
use crate::registry::ReadPairState;
use crate::socket::messages::ReadSocketState;
use crate::store::{ReadStoreState, StoreActor};

/// Those who may have work.
#[derive(Clone)]
pub(super) struct Workers {
    pub(super) directory: Addr<DirectoryActor>,
    pub(super) store: Addr<StoreActor>,
    pub(super) push: Addr<PushActor>,
}

impl Workers {
    /// Asks everybody. Frames for a peer that has taken nothing for `patience` do not count: nobody
    /// waits for whoever does not read. Who is gone has nothing left to do.
    ///
    /// # Errors
    /// When the directory or the store is gone, and the process with it.
    pub(super) async fn measure(self, patience: Duration) -> Result<DrainWork, MailboxError> {
        let Busy {
            registries,
            sockets,
        } = self.directory.send(FindBusy).await?;
        let pairs = registries.iter().map(|pair| pair.send(ReadPairState));
        let requests = join_all(pairs).await.into_iter().flatten();
        let loads = sockets
            .iter()
            .map(|socket| socket.address().send(ReadSocketState));
        let reading = join_all(loads).await.into_iter().flatten();
        let reading = reading.filter(|socket| {
            let stalled = socket.stalled_for;
            stalled.is_none_or(|stalled| stalled < patience)
        });
        // A relay without it pushes nothing any more.
        let push = self.push.send(ReadPushState).await.unwrap_or_default();
        // Last, as what the others do leads to it.
        let store = self.store.send(ReadStoreState).await?;
        // A database that is away or full may stay so. What waits is tried once more at the end.
        let presence = if store.presence_stuck {
            0
        } else {
            store.presence
        };
        Ok(DrainWork {
            requests: requests.map(|pair| pair.pending).sum(),
            frames: reading
                .map(|socket| {
                    let lanes = [socket.control, socket.rpc, socket.event];
                    lanes.iter().map(|lane| lane.messages).sum::<u64>()
                })
                .sum(),
            database: store.awaited + presence,
            push: push.queued + push.in_flight,
        })
    }
}
