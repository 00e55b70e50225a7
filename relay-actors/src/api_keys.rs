//! API keys as the door asks for them (HTTP-4).

use relay_model::ids::{AccountId, ApiKeyId};
use relay_model::store::{ApiKeyRow, NewApiKey, StoreError, StoredApiKey};

use crate::credentials::KeyEnded;
use crate::mailbox::post;
use crate::relay::{Relay, store_is_gone};
use crate::store::{CreateApiKey, FindApiKey, ListApiKeys, RevokeApiKey};

impl Relay {
    /// Keeps a new API key.
    ///
    /// # Errors
    /// When the database did not do it, in time.
    pub async fn create_api_key(&self, key: NewApiKey) -> Result<(), StoreError> {
        let create = CreateApiKey(key);
        self.store()
            .send(create)
            .await
            .unwrap_or_else(store_is_gone)
    }

    /// The account's API keys, oldest first, ended ones included.
    ///
    /// # Errors
    /// When the database did not answer, in time.
    pub async fn api_keys(&self, account: AccountId) -> Result<Vec<ApiKeyRow>, StoreError> {
        let list = ListApiKeys(account);
        self.store().send(list).await.unwrap_or_else(store_is_gone)
    }

    /// The API key with this id, ended or not.
    ///
    /// # Errors
    /// When the database did not answer, in time.
    pub async fn api_key(&self, id: ApiKeyId) -> Result<Option<StoredApiKey>, StoreError> {
        let find = FindApiKey(id);
        self.store().send(find).await.unwrap_or_else(store_is_gone)
    }

    /// Ends an API key and closes its sockets with 4401 (SES-6); false if the account has no such key.
    ///
    /// # Errors
    /// When the database did not do it, in time.
    pub async fn revoke_api_key(
        &self,
        account: AccountId,
        id: ApiKeyId,
    ) -> Result<bool, StoreError> {
        let revoke = RevokeApiKey { account, id };
        let revoked = self.store().send(revoke).await;
        let revoked = revoked.unwrap_or_else(store_is_gone)?;
        if revoked {
            post(self.credentials(), KeyEnded(id));
        }
        Ok(revoked)
    }
}
