//! The API keys of the store in memory (HTTP-4).

use relay_model::ids::{AccountId, ApiKeyId};
use relay_model::store::{ApiKeyRow, NewApiKey, StoreError, StoredApiKey};
use relay_model::time::Timestamp;

use super::Tables;

impl Tables {
    pub(in crate::memory_store) fn create_api_key(
        &mut self,
        key: NewApiKey,
    ) -> Result<(), StoreError> {
        if key.scopes.is_empty() || self.api_keys.contains_key(&key.id) {
            return Err(StoreError::Failed(
                "a key breaks a rule of its table".to_owned(),
            ));
        }
        let stored = StoredApiKey {
            secret_hash: key.secret_hash,
            row: ApiKeyRow {
                id: key.id,
                account: key.account,
                name: key.name,
                scopes: key.scopes,
                created_at: key.created_at,
                expires_at: key.expires_at,
                revoked_at: None,
            },
        };
        self.api_keys.insert(key.id, stored);
        Ok(())
    }

    pub(in crate::memory_store) fn list_api_keys(&self, account: AccountId) -> Vec<ApiKeyRow> {
        let rows = self.api_keys.values().map(|key| &key.row);
        let mut rows: Vec<ApiKeyRow> = rows.filter(|row| row.account == account).cloned().collect();
        rows.sort_by_key(|row| (row.created_at, row.id));
        rows
    }

    pub(in crate::memory_store) fn find_api_key(&self, id: ApiKeyId) -> Option<StoredApiKey> {
        self.api_keys.get(&id).cloned()
    }

    pub(in crate::memory_store) fn revoke_api_key(
        &mut self,
        account: AccountId,
        id: ApiKeyId,
        now: Timestamp,
    ) -> bool {
        let found = self.api_keys.get_mut(&id);
        let Some(key) = found.filter(|key| key.row.account == account) else {
            return false;
        };
        key.row.revoked_at.get_or_insert(now);
        true
    }

    pub(in crate::memory_store) fn ended_api_keys(
        &self,
        mut ids: Vec<ApiKeyId>,
        now: Timestamp,
    ) -> Vec<ApiKeyId> {
        ids.retain(|id| {
            self.api_keys.get(id).is_none_or(|key| {
                let expired = key.row.expires_at.is_some_and(|at| at <= now);
                expired || key.row.revoked_at.is_some()
            })
        });
        ids
    }
}
