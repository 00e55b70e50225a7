//! Devices that lose their route at once, without a grace: hidden desktops (EV-5), forgotten devices
//! (PR-4), and devices on which the user signed out (SES-2). Each was stored before it is acted on.

use std::time::Duration;

use actix::{AsyncContext, Context, Handler, Message};
use relay_model::ids::{AccountId, DeviceId};
use relay_model::store::{DeviceStatus, DeviceType};
use relay_model::time::Timestamp;
use relay_model::wire::OutgoingText;
use relay_model::wire::outbound::{self, DeviceStatusWord};

use super::DirectoryActor;
use super::removals::{Removal, Standing};
use crate::mailbox::post;
use crate::presence::CancelGrace;
use crate::registry::{DesktopGone, DesktopOffline, PhoneForgotten, PhoneGone};
use crate::sessions::EndSessions;
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

/// A device is forgotten; from whoever had the store forget it, one a call. Answered when it is acted
/// on.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct DeviceForgotten {
    pub(crate) account: AccountId,
    pub(crate) device: DeviceId,
    /// It had been forgotten before the call. What was stored then may not have been acted on: its
    /// caller may have been told too early that it failed.
    pub(crate) was_forgotten: bool,
    /// When the row was changed.
    pub(crate) at: Timestamp,
}

/// The user signed out on a device, or on all of the account; from the device API. Answered when it is
/// acted on.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SignedOut {
    pub(crate) account: AccountId,
    /// `None`: all.
    pub(crate) device: Option<DeviceId>,
}

impl DirectoryActor {
    /// Ends a device, connected or within its grace.
    fn end_at_once(&mut self, account_id: AccountId, id: DeviceId, removal: Removal) {
        let Some(account) = self.accounts.get_mut(&account_id) else {
            return;
        };
        let Some(device) = account.remove(id) else {
            return;
        };
        let connection = device.route.as_ref().map(|route| route.socket.connection);
        let (generation, reason) = (device.generation, Some(removal.offline_reason()));
        let owner = (account_id, id);
        match device.device_type {
            DeviceType::Mobile => {
                if let Some(connection) = connection {
                    for pair in &account.pairs {
                        let phone = id;
                        post(&pair.registry, PhoneGone { phone, connection });
                    }
                }
                self.record(owner, generation, DeviceStatus::Offline, reason);
            }
            DeviceType::Desktop => {
                if let Some(pair) = account.pair(id) {
                    if let Some(connection) = connection {
                        post(&pair.registry, DesktopGone { connection });
                    }
                    post(&pair.registry, DesktopOffline);
                }
                post(&self.presence, CancelGrace(owner));
                self.record(owner, generation, DeviceStatus::Offline, reason);
                let status = DeviceStatusWord::Disconnected;
                self.tell_status(account_id, id, status, reason, generation);
            }
        }
        if let Some(route) = device.route {
            self.dismiss(&route.socket, removal.close_reason());
        }
        self.remove_if_empty(account_id);
    }

    /// Tells every route of the account that a device is forgotten, that of the device included.
    fn tell_unlinked(&mut self, account_id: AccountId, device: DeviceId) {
        let Some(account) = self.accounts.get(&account_id) else {
            return;
        };
        let text = outbound::device_unlinked(device, self.core.environment.now());
        let congested: Vec<_> = account
            .routes()
            .filter(|route| route.socket.status(text.clone(), route.sequence).is_err())
            .map(|route| route.socket.connection)
            .collect();
        for connection in congested {
            self.retire(connection, CloseReason::Congested);
        }
    }

    /// Takes note of what a row has come to say; false if something later is known.
    fn note_standing(
        &mut self,
        device: (AccountId, DeviceId),
        standing: Standing,
        at: Timestamp,
        ctx: &mut Context<Self>,
    ) -> bool {
        let rank = self.core.next_registration();
        let newer = self.removals.note(device, standing, at, rank);
        if newer {
            let drop_note = move |actor: &mut Self, _: &mut _| actor.removals.drop_note(device, at);
            ctx.run_later(self.longest_check(), drop_note);
        }
        newer
    }

    /// No registration is longer under way between the read of its facts and its attach.
    fn longest_check(&self) -> Duration {
        let limits = &self.core.limits();
        limits.database_timeout + limits.registration_timeout
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
        let standing = if hidden {
            Standing::Hidden
        } else {
            Standing::Admitted
        };
        if self.note_standing((account, device), standing, at, ctx) && hidden {
            self.end_at_once(account, device, Removal::Hidden);
        }
    }
}

impl Handler<DeviceForgotten> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, forgotten: DeviceForgotten, ctx: &mut Context<Self>) {
        let DeviceForgotten {
            account: account_id,
            device,
            was_forgotten,
            at,
        } = forgotten;
        let known = self.accounts.get(&account_id);
        let is_here = known.is_some_and(|account| account.device(device).is_some());
        if !self.note_standing((account_id, device), Standing::Forgotten, at, ctx) {
            // It has rejoined meanwhile. That it was forgotten is told all the same, and ends nothing.
            if !was_forgotten {
                self.tell_unlinked(account_id, device);
            }
            return;
        }
        if (!was_forgotten || is_here) && self.removals.is_to_be_told((account_id, device)) {
            self.tell_unlinked(account_id, device);
        }
        self.end_at_once(account_id, device, Removal::Forgotten);
        // What the device still waits for ends with it, also at pairs where it has no route.
        for pair in self
            .accounts
            .get(&account_id)
            .iter()
            .flat_map(|account| &account.pairs)
        {
            post(&pair.registry, PhoneForgotten(device));
        }
        let device = Some(device);
        let account = account_id;
        post(&self.sessions, EndSessions { account, device });
    }
}

impl Handler<SignedOut> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, signed_out: SignedOut, ctx: &mut Context<Self>) {
        let SignedOut { account, device } = signed_out;
        let (who, rank) = ((account, device), self.core.next_registration());
        self.removals.note_sign_out(who, rank);
        let drop_note = move |actor: &mut Self, _: &mut _| actor.removals.drop_sign_out(who, rank);
        ctx.run_later(self.longest_check(), drop_note);
        let present = self.accounts.get(&account);
        let devices: Vec<DeviceId> = present
            .iter()
            .flat_map(|account| &account.devices)
            .map(|known| known.id)
            .filter(|id| device.is_none_or(|device| device == *id))
            .collect();
        for id in devices {
            self.end_at_once(account, id, Removal::SignedOut);
        }
        post(&self.sessions, EndSessions { account, device });
    }
}
