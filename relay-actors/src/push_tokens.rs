//! Push tokens as the door asks for them (section 12).

use relay_model::ids::{AccountId, DeviceId};
use relay_model::push::{NewPushToken, PushTokenRow, PushTokenSetting};
use relay_model::store::{DeviceStanding, StoreError};

use crate::relay::{Relay, store_is_gone};
use crate::store::{ReadPushTokens, ReadRegistrationFacts, RemovePushTokens, SetPushToken};

impl Relay {
    /// Gives a phone its push token; whoever held it has none then.
    ///
    /// # Errors
    /// When the database did not do it, in time.
    pub async fn set_push_token(
        &self,
        account: AccountId,
        device: DeviceId,
        token: NewPushToken,
    ) -> Result<PushTokenSetting, StoreError> {
        let set = SetPushToken {
            account,
            device,
            token,
        };
        self.store().send(set).await.unwrap_or_else(store_is_gone)
    }

    /// Removes the push token of a device of this account, or of all its devices, and returns how many
    /// those were.
    ///
    /// # Errors
    /// When the database did not do it, in time.
    pub async fn remove_push_tokens(
        &self,
        account: AccountId,
        device: Option<DeviceId>,
    ) -> Result<usize, StoreError> {
        let remove = RemovePushTokens { account, device };
        let removed = self.store().send(remove).await;
        removed.unwrap_or_else(store_is_gone)
    }

    /// The push tokens of the account's phones, with what became of the last push to each (OP-9).
    ///
    /// # Errors
    /// When the database did not answer, in time.
    pub async fn push_tokens(&self, account: AccountId) -> Result<Vec<PushTokenRow>, StoreError> {
        let read = ReadPushTokens(account);
        self.store().send(read).await.unwrap_or_else(store_is_gone)
    }

    /// How a device id stands to an account.
    ///
    /// # Errors
    /// When the database did not answer, in time.
    pub async fn device_standing(
        &self,
        account: AccountId,
        device: DeviceId,
    ) -> Result<DeviceStanding, StoreError> {
        let read = ReadRegistrationFacts {
            account,
            device,
            target: None,
        };
        let facts = self.store().send(read).await;
        Ok(facts.unwrap_or_else(store_is_gone)?.device)
    }
}
