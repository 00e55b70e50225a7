//! What the relay tells and does for those who operate it (section 11, OP-9, REG-9). Nobody is waited
//! for: an actor that does not answer in time is left out and named as silent.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use actix::MailboxError;
use futures_util::future::{join, join_all};
use indexmap::IndexMap;
use relay_model::ids::{AccountId, ConnectionGeneration, ConnectionId, DeviceId};
use relay_model::limits::{OPERATOR_ANSWER_TIMEOUT, SHOWN_PRESENCE_CHANGES};
use relay_model::store::{DeviceStatus, KnownDevice, OfflineReason, PresenceEntry, StoreError};
use relay_model::time::Timestamp;
use tokio::time::{Instant, timeout, timeout_at};

use crate::directory::{ListPairs, LiveAccount, LiveDevice, ReadAccount};
use crate::mailbox::post;
use crate::outcomes::{CountRefusals, DeviceOutcomes, ReadOutcomes};
use crate::registry::tally::{PairTotals, Tally};
use crate::registry::{AddUp, HeldLease, PairDetails, ReadPairDetails};
use crate::relay::{Relay, RelayState, store_is_gone};
use crate::socket::SocketState;
use crate::socket::messages::ReadSocketState;
use crate::store::{ListKnownDevices, ReadPresenceHistory, SetProtocolFloor};

/// Why an operator's question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The database did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An actor that there is one of did not answer in time: the relay hangs, and should be restarted.
    #[error(
        "the relay did not answer itself within {} s; if that repeats, it hangs and has to be \
         restarted", .0.as_secs()
    )]
    Silent(Duration),
}

/// What a relay holds and has counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// When it started.
    pub started_at: Timestamp,
    /// Its clock.
    pub now: Timestamp,
    /// What it holds.
    pub state: RelayState,
    /// What its pairs hold.
    pub pairs: PairTotals,
    /// Connections that ended, by the word of the log (OP-5).
    pub closes: BTreeMap<&'static str, u64>,
    /// Registrations that were refused, by code (REG-4).
    pub refusals: BTreeMap<&'static str, u64>,
    /// Devices whose last close or refusal is remembered.
    pub remembered_devices: usize,
}

/// A device of an account, as its operator sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceView {
    /// The device.
    pub id: DeviceId,
    /// Its row, if it has one, with the presence that holds now.
    pub known: Option<KnownDevice>,
    /// What it is.
    pub status: DeviceStatus,
    /// Why it is offline, if that is known.
    pub offline_reason: Option<OfflineReason>,
    /// Since when; `None` if it never was anything else.
    pub since: Option<Timestamp>,
    /// Its connection, if it has one.
    pub route: Option<RouteView>,
    /// Requests without a final answer: a desktop's to answer, a phone's own.
    pub pending: usize,
    /// Leases: those on a desktop's sessions, or a phone's own.
    pub leases: Vec<LeaseView>,
    /// An actor that knows more did not answer in time: the numbers may be too low.
    pub silent: bool,
    /// How it last left, and was last refused.
    pub outcomes: DeviceOutcomes,
    /// What became of its presence, the newest first.
    pub history: Vec<PresenceEntry>,
}

/// A connection, as its operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteView {
    /// Its id, as in the log.
    pub connection: ConnectionId,
    /// Its generation.
    pub generation: ConnectionGeneration,
    /// The desktop that a phone wants.
    pub target: Option<DeviceId>,
    /// What it holds; `None` if the socket did not answer in time.
    pub socket: Option<SocketState>,
}

/// A lease, as its operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseView {
    /// The desktop of the session.
    pub desktop: DeviceId,
    /// What its registry says.
    pub lease: HeldLease,
}

impl Relay {
    /// What the relay holds and has counted since it started.
    ///
    /// # Errors
    /// When it does not answer itself in time.
    pub async fn overview(&self) -> Result<Overview, Unanswered> {
        let asked = async {
            let state = self.state().await?;
            let closes = self.closes().await?;
            let refusals = self.outcomes().send(CountRefusals).await?;
            let pairs = self.directory().send(ListPairs).await?;
            Ok((state, closes, refusals, pairs))
        };
        let (state, closes, refusals, pairs) = in_time(asked).await?;
        let (tally, shares) = Tally::of(pairs.len());
        for (pair, share) in pairs.iter().zip(shares) {
            post(pair, AddUp(share));
        }
        let pairs = tally.wait(OPERATOR_ANSWER_TIMEOUT).await;
        let core = self.core();
        Ok(Overview {
            started_at: core.started_at,
            now: core.environment.now(),
            state,
            pairs,
            closes,
            refusals: refusals.by_code,
            remembered_devices: refusals.remembered_devices,
        })
    }

    /// Every device of an account that the database or this relay has heard of: those with a row,
    /// oldest first, then the others. Empty for an account that nobody has heard of.
    ///
    /// # Errors
    /// When the database does not answer, or the relay itself.
    pub async fn account_view(&self, account: AccountId) -> Result<Vec<DeviceView>, Unanswered> {
        let known = self.store().send(ListKnownDevices(account)).await;
        let mut known = known.unwrap_or_else(store_is_gone)?;
        let asked = async {
            let outcomes = self.outcomes().send(ReadOutcomes(account)).await?;
            let live = self.directory().send(ReadAccount(account)).await?;
            Ok((outcomes, live))
        };
        let (outcomes, live) = in_time(asked).await?;
        self.put_live_presence(&live, &mut known);
        let rows = known.into_iter().map(DeviceView::of_row);
        let mut views: Views = rows.map(|view| (view.id, view)).collect();

        for (device, outcomes) in outcomes {
            view_of(&mut views, device).outcomes = outcomes;
        }
        for route in &live.devices {
            view_of(&mut views, route.device.device).take_presence(&route.device);
        }
        self.ask_the_actors(&live, &mut views).await;
        let with_rows = views.values().filter(|view| view.known.is_some());
        let read = ReadPresenceHistory {
            account,
            devices: with_rows.map(|view| view.id).collect(),
            limit: SHOWN_PRESENCE_CHANGES,
        };
        let history = self.store().send(read).await;
        for entry in history.unwrap_or_else(store_is_gone)? {
            view_of(&mut views, entry.device).history.push(entry);
        }
        Ok(views.into_values().collect())
    }

    /// Sets the protocol floor, from the next registration on (REG-9).
    ///
    /// # Errors
    /// When the database did not do it, in time.
    pub async fn set_protocol_floor(&self, floor: u32) -> Result<(), StoreError> {
        let set = self.store().send(SetProtocolFloor(floor)).await;
        set.unwrap_or_else(store_is_gone)
    }

    fn put_live_presence(&self, live: &LiveAccount, known: &mut [KnownDevice]) {
        let live: Vec<LiveDevice> = live.devices.iter().map(|route| route.device).collect();
        for device in known {
            self.show_presence(&live, &mut device.row);
        }
    }

    /// Asks the sockets and the pairs, all at once.
    async fn ask_the_actors(&self, live: &LiveAccount, views: &mut Views) {
        let deadline = Instant::now() + OPERATOR_ANSWER_TIMEOUT;
        let sockets = join_all(live.devices.iter().filter_map(|route| {
            let socket = route.socket.as_ref()?;
            let asked = timeout_at(deadline, socket.address().send(ReadSocketState));
            Some(async move { (route, socket.connection, asked.await) })
        }));
        let pairs = join_all(live.pairs.iter().map(|(desktop, registry)| {
            let asked = timeout_at(deadline, registry.send(ReadPairDetails));
            async move { (*desktop, asked.await) }
        }));
        let (sockets, pairs) = join(sockets, pairs).await;
        for (route, connection, answer) in sockets {
            let view = view_of(views, route.device.device);
            let socket = answer.ok().and_then(Result::ok);
            view.silent |= socket.is_none();
            view.route = Some(RouteView {
                connection,
                generation: route.generation,
                target: route.target,
                socket,
            });
        }
        for (desktop, answer) in pairs {
            match answer {
                Ok(Ok(details)) => put_pair(views, desktop, details),
                // It has ended, by itself or by a fault: it holds nothing.
                Ok(Err(_)) => {}
                Err(_) => view_of(views, desktop).silent = true,
            }
        }
    }
}

fn put_pair(views: &mut Views, desktop: DeviceId, details: PairDetails) {
    for (phone, pending) in details.pending {
        view_of(views, phone).pending += pending;
        view_of(views, desktop).pending += pending;
    }
    for lease in details.leases {
        let phone = lease.phone;
        let lease = LeaseView { desktop, lease };
        view_of(views, phone).leases.push(lease.clone());
        view_of(views, desktop).leases.push(lease);
    }
}

/// The devices of an account, in the order in which they are shown.
type Views = IndexMap<DeviceId, DeviceView>;

/// The view of a device, made if there is none.
fn view_of(views: &mut Views, device: DeviceId) -> &mut DeviceView {
    views
        .entry(device)
        .or_insert_with(|| DeviceView::of_nobody(device))
}

impl DeviceView {
    /// A device that nothing is known of yet.
    fn of_nobody(id: DeviceId) -> Self {
        Self {
            id,
            known: None,
            status: DeviceStatus::Offline,
            offline_reason: None,
            since: None,
            route: None,
            pending: 0,
            leases: Vec::new(),
            silent: false,
            outcomes: DeviceOutcomes::default(),
            history: Vec::new(),
        }
    }

    fn of_row(known: KnownDevice) -> Self {
        let row = &known.row;
        // A row begins as offline; only a connection has ever made it anything.
        let was_connected = row.last_seen.is_some();
        Self {
            status: row.status,
            offline_reason: row.offline_reason,
            since: was_connected.then_some(known.status_at),
            ..Self::of_nobody(row.id)
        }
        .with_row(known)
    }

    fn with_row(mut self, known: KnownDevice) -> Self {
        self.known = Some(known);
        self
    }

    fn take_presence(&mut self, live: &LiveDevice) {
        self.status = live.status;
        self.offline_reason = live.reason;
        self.since = Some(live.since);
    }
}

/// An answer of the actors that there is one of.
async fn in_time<T>(asked: impl Future<Output = Result<T, MailboxError>>) -> Result<T, Unanswered> {
    let silent = Unanswered::Silent(OPERATOR_ANSWER_TIMEOUT);
    match timeout(OPERATOR_ANSWER_TIMEOUT, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) | Err(_) => Err(silent),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    /// OP-9: a relay that hangs says so in time.
    #[tokio::test(start_paused = true)]
    async fn silence_is_told() {
        let answer: Result<(), _> = in_time(pending()).await;
        assert_eq!(answer, Err(Unanswered::Silent(OPERATOR_ANSWER_TIMEOUT)));
        assert_eq!(in_time(ready(Ok(1))).await, Ok(1));
    }
}
