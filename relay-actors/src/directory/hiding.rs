//! What follows from a device's row that was changed: its event goes to all, and a desktop that is
//! not admitted any more is gone at once, without a grace (EV-4, EV-5, PR-4).

use std::collections::HashMap;

use actix::{AsyncContext, Context, Handler, Message};
use relay_model::ids::{AccountId, DeviceId};
use relay_model::store::{DeviceStatus, OfflineReason};
use relay_model::time::Timestamp;
use relay_model::wire::OutgoingText;
use relay_model::wire::outbound::DeviceStatusWord;

use super::{DirectoryActor, RegistrationSequence};
use crate::mailbox::post;
use crate::presence::CancelGrace;
use crate::registry::{DesktopGone, DesktopOffline};
use crate::socket::messages::CloseReason;

/// A device's row was changed; from whoever had the store change it, one a change.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct DeviceChanged {
    pub(crate) account: AccountId,
    pub(crate) device: DeviceId,
    /// A desktop that is not admitted to the relay.
    pub(crate) hidden: bool,
    /// When the row was changed: the messages of two changes may come in either order.
    pub(crate) at: Timestamp,
    /// What all others of the account are told.
    pub(crate) event: Option<OutgoingText>,
}

/// The desktops that were hidden or shown a short time ago, as long as a registration may be under
/// way that was checked before (REG-11).
#[derive(Default)]
pub(super) struct Hidings {
    by_device: HashMap<(AccountId, DeviceId), Hiding>,
}

struct Hiding {
    hidden: bool,
    at: Timestamp,
    /// Registrations whose facts were read before this rank may not know of it.
    rank: RegistrationSequence,
}

impl Hidings {
    /// Takes note of a change; false if a later one is known.
    fn note(
        &mut self,
        desktop: (AccountId, DeviceId),
        hidden: bool,
        at: Timestamp,
        rank: RegistrationSequence,
    ) -> bool {
        let known = self.by_device.get(&desktop);
        let newer = known.is_none_or(|known| known.at <= at);
        if newer {
            self.by_device.insert(desktop, Hiding { hidden, at, rank });
        }
        newer
    }

    /// Forgets a change, unless a later one took its place.
    fn forget(&mut self, desktop: (AccountId, DeviceId), at: Timestamp) {
        if self
            .by_device
            .get(&desktop)
            .is_some_and(|known| known.at == at)
        {
            self.by_device.remove(&desktop);
        }
    }

    /// Whether the desktop was hidden after the facts of a registration were read.
    pub(super) fn came_after(
        &self,
        account: AccountId,
        device: DeviceId,
        facts_read: RegistrationSequence,
    ) -> bool {
        let known = self.by_device.get(&(account, device));
        known.is_some_and(|known| known.hidden && known.rank > facts_read)
    }

    pub(super) fn len(&self) -> usize {
        self.by_device.len()
    }
}

impl DirectoryActor {
    /// Ends a desktop that was hidden, connected or within its grace.
    fn hide(&mut self, account_id: AccountId, desktop: DeviceId) {
        let Some(account) = self.accounts.get_mut(&account_id) else {
            return;
        };
        let Some(device) = account.remove(desktop) else {
            return;
        };
        if let Some(pair) = account.pair(desktop) {
            if let Some(route) = &device.route {
                let connection = route.socket.connection;
                post(&pair.registry, DesktopGone { connection });
            }
            post(&pair.registry, DesktopOffline);
        }
        post(&self.presence, CancelGrace((account_id, desktop)));
        let (generation, reason) = (device.generation, Some(OfflineReason::Hidden));
        self.record(
            (account_id, desktop),
            generation,
            DeviceStatus::Offline,
            reason,
        );
        let status = DeviceStatusWord::Disconnected;
        self.tell_status(account_id, desktop, status, reason, generation);
        if let Some(route) = device.route {
            self.dismiss(&route.socket, CloseReason::Hidden);
        }
        self.remove_if_empty(account_id);
    }
}

impl Handler<DeviceChanged> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, changed: DeviceChanged, ctx: &mut Context<Self>) {
        let DeviceChanged {
            account,
            device,
            hidden,
            at,
            event,
        } = changed;
        if let Some(event) = event {
            self.publish(account, device, &event);
        }
        let desktop = (account, device);
        let rank = self.core.next_registration();
        if self.hidings.note(desktop, hidden, at, rank) {
            let limits = &self.core.limits();
            // No registration is longer under way between the read of its facts and its attach.
            let memory = limits.database_timeout + limits.registration_timeout;
            ctx.run_later(memory, move |actor, _| actor.hidings.forget(desktop, at));
            if hidden {
                self.hide(account, device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_unix_micros(micros)
    }

    /// REG-11, EV-5: a hide counts against what was checked before it, until the desktop is shown,
    /// in whatever order the two are heard of.
    #[test]
    fn a_hide_counts_against_earlier_checks() {
        let desktop = (
            AccountId::from_uuid(Uuid::nil()),
            DeviceId::from_uuid(Uuid::nil()),
        );
        let rank = RegistrationSequence;
        let after =
            |hidings: &Hidings, facts| hidings.came_after(desktop.0, desktop.1, rank(facts));

        let mut hidings = Hidings::default();
        assert!(!after(&hidings, 0));
        assert!(hidings.note(desktop, true, at(10), rank(5)));
        assert!(after(&hidings, 4) && !after(&hidings, 6));
        assert!(hidings.note(desktop, false, at(20), rank(7)));
        assert!(!after(&hidings, 4) && !after(&hidings, 6));
        assert!(
            !hidings.note(desktop, true, at(15), rank(8)),
            "it came late"
        );
        assert!(!after(&hidings, 4));

        hidings.forget(desktop, at(10));
        assert_eq!(hidings.len(), 1);
        hidings.forget(desktop, at(20));
        assert_eq!(hidings.len(), 0);
    }
}
