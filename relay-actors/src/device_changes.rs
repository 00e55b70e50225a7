//! Changes of a device's row, by its own events or over HTTP: stored first, then acted on, whatever
//! becomes of the one who asked (EV-4, EV-5).

use actix::{Handler, MailboxError, Message};
use relay_model::ids::{AccountId, DeviceId};
use relay_model::store::{
    ChangedDevice, DesktopRegistration, DeviceChange, DeviceRow, DeviceType, PhoneRegistration,
    RegistrationOutcome, StoreError,
};
use relay_model::wire::{OutgoingText, outbound};

use crate::directory::{DeviceChanged, DeviceForgotten, SignedOut};
use crate::mailbox::post;
use crate::relay::{Relay, directory_is_gone, store_is_gone};
use crate::store::{
    ChangeDevice, ForgetDevice, RegisterDesktop, RegisterPhone, RemovePushTokens, StoreActor,
};

impl Relay {
    /// Creates or updates a desktop's row. A desktop that says `relayEligible:false` is hidden
    /// (EV-5).
    ///
    /// # Errors
    /// When the database did not do it, in time.
    pub async fn register_desktop(
        &self,
        account: AccountId,
        device: DeviceId,
        registration: DesktopRegistration,
    ) -> Result<RegistrationOutcome, StoreError> {
        let asked = registration.relay_eligible;
        let message = RegisterDesktop {
            account,
            device,
            registration,
        };
        self.register(account, message, asked).await
    }

    /// Creates or updates a phone's row.
    ///
    /// # Errors
    /// When the database did not do it, in time.
    pub async fn register_phone(
        &self,
        account: AccountId,
        device: DeviceId,
        registration: PhoneRegistration,
    ) -> Result<RegistrationOutcome, StoreError> {
        let message = RegisterPhone {
            account,
            device,
            registration,
        };
        self.register(account, message, None).await
    }

    /// Has a row registered, and the account told what changed in it. The outcome comes with the presence
    /// that holds now: what was stored last may be behind it.
    async fn register<M>(
        &self,
        account: AccountId,
        message: M,
        asked: Option<bool>,
    ) -> Result<RegistrationOutcome, StoreError>
    where
        M: Message<Result = Result<RegistrationOutcome, StoreError>> + Send + 'static,
        StoreActor: Handler<M>,
    {
        let relay = self.clone();
        let registered = to_its_end(async move {
            let outcome = relay.store().send(message).await;
            let outcome = outcome.unwrap_or_else(store_is_gone)?;
            if let RegistrationOutcome::Registered(changed) = &outcome {
                relay.tell_change(account, changed, asked, None);
            }
            Ok(outcome)
        });
        let mut outcome = registered.await?;
        if let RegistrationOutcome::Registered(changed) = &mut outcome {
            self.show_live_presence(account, std::slice::from_mut(&mut changed.row))
                .await?;
        }
        Ok(outcome)
    }

    /// Changes a device's row, tells the account of it, and hides a desktop that is not admitted any
    /// more (EV-5). `None`: the account has no such device.
    ///
    /// # Errors
    /// When the database did not do it, in time.
    pub async fn change_device(
        &self,
        account: AccountId,
        device: DeviceId,
        change: DeviceChange,
    ) -> Result<Option<DeviceRow>, StoreError> {
        let mut changed = self.apply_change(account, device, change, None).await?;
        if let Some(row) = &mut changed {
            self.show_live_presence(account, std::slice::from_mut(row))
                .await?;
        }
        Ok(changed)
    }

    /// Has a row changed and `event` sent to all once it is.
    pub(crate) fn apply_change(
        &self,
        account: AccountId,
        device: DeviceId,
        change: DeviceChange,
        event: Option<OutgoingText>,
    ) -> impl Future<Output = Result<Option<DeviceRow>, StoreError>> + use<> {
        let relay = self.clone();
        to_its_end(async move {
            let asked = change.relay_eligible;
            let message = ChangeDevice {
                account,
                device,
                change,
            };
            let changed = relay.store().send(message).await;
            let changed = changed.unwrap_or_else(store_is_gone)?;
            if let Some(changed) = &changed {
                relay.tell_change(account, changed, asked, event);
            }
            Ok(changed.map(|changed| changed.row))
        })
    }

    /// Forgets a device: its row, then its route, session and requests (PR-4). Forgetting it again
    /// changes nothing, and makes up for what could not be acted on the first time. False if the
    /// account has no such device.
    ///
    /// # Errors
    /// When the database did not do it, in time.
    pub async fn forget_device(
        &self,
        account: AccountId,
        device: DeviceId,
    ) -> Result<bool, StoreError> {
        let relay = self.clone();
        let forgotten = to_its_end(async move {
            let forget = ForgetDevice { account, device };
            let forgotten = relay.store().send(forget).await;
            let Some(forgotten) = forgotten.unwrap_or_else(store_is_gone)? else {
                return Ok(false);
            };
            tracing::info!(
                %account,
                %device,
                client_type = forgotten.device_type.as_str(),
                again = forgotten.was_forgotten,
                "device forgotten"
            );
            let message = DeviceForgotten {
                account,
                device,
                was_forgotten: forgotten.was_forgotten,
                at: forgotten.updated_at,
            };
            let acted = relay.directory().send(message).await;
            acted.map(|()| true).or_else(directory_is_gone)
        });
        forgotten.await
    }

    /// Signs the user out on a device, or on all of the account: push tokens are removed, then sessions
    /// and connections end (SES-2). A device that is not there is signed out already.
    ///
    /// # Errors
    /// When the database did not do it, in time.
    pub async fn sign_out(
        &self,
        account: AccountId,
        device: Option<DeviceId>,
    ) -> Result<(), StoreError> {
        let relay = self.clone();
        let signed_out = to_its_end(async move {
            let message = RemovePushTokens { account, device };
            let removed = relay.store().send(message).await;
            let push_tokens = removed.unwrap_or_else(store_is_gone)?;
            tracing::info!(
                %account,
                device = device.map(tracing::field::display),
                push_tokens,
                "signed out"
            );
            let acted = relay.directory().send(SignedOut { account, device }).await;
            acted.or_else(directory_is_gone)
        });
        signed_out.await
    }

    /// Tells the directory what follows from a change. `asked` is what the caller wanted of the flag,
    /// `event` the caller's own event.
    fn tell_change(
        &self,
        account: AccountId,
        changed: &ChangedDevice,
        asked: Option<bool>,
        event: Option<OutgoingText>,
    ) {
        let row = &changed.row;
        let hidden = row.device_type == DeviceType::Desktop && !row.relay_eligible;
        if hidden && asked != Some(false) && !changed.was_forgotten {
            // Somebody hid it meanwhile: it is about to be closed, and has nothing more to say.
            return;
        }
        let event = event.or_else(|| {
            let now = self.core().environment.now();
            (changed.was_eligible != row.relay_eligible)
                .then(|| outbound::device_visibility(row.id, row.relay_eligible, now))
        });
        // That it has rejoined ends what a forget said of it.
        if hidden || changed.was_forgotten || event.is_some() {
            let changed = DeviceChanged {
                account,
                device: row.id,
                hidden,
                at: row.updated_at,
                event,
            };
            post(self.directory(), changed);
        }
    }
}

/// Runs `work` to its end also if its caller gives up, as an HTTP client or a socket may at any time.
fn to_its_end<T: 'static>(
    work: impl Future<Output = Result<T, StoreError>> + 'static,
) -> impl Future<Output = Result<T, StoreError>> {
    let task = actix_rt::spawn(work);
    async {
        let ended = task.await.map_err(|_| MailboxError::Closed);
        ended.unwrap_or_else(store_is_gone)
    }
}
