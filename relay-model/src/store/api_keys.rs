//! API keys as the relay keeps them (HTTP-4): what a key may do and until when, and of its secret the
//! hash alone.

use std::collections::HashSet;
use std::fmt;

use diesel::dsl::case_when;
use diesel::prelude::*;

use super::StoreError;
use super::columns::{StoredMoment, StoredUuid};
use super::pool::{Pool, query, transaction};
use super::schema::api_keys;
use crate::credentials::Scopes;
use crate::ids::{AccountId, ApiKeyId};
use crate::time::Timestamp;

/// How many ids one statement names: SQLite takes 32,766 parameters.
const IDS_OF_A_QUERY: usize = 1_000;

/// A key to be kept. `Debug` does not show the hash.
#[derive(Clone, PartialEq, Eq)]
pub struct NewApiKey {
    /// Random; the part of the key that is no secret.
    pub id: ApiKeyId,
    /// Whose it is.
    pub account: AccountId,
    /// What its owner calls it.
    pub name: Option<String>,
    /// What it may do; at least one.
    pub scopes: Scopes,
    /// SHA-256 of the secret part.
    pub secret_hash: [u8; 32],
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// A key as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRow {
    /// The part of the key that is no secret.
    pub id: ApiKeyId,
    /// Whose it is.
    pub account: AccountId,
    /// What its owner calls it.
    pub name: Option<String>,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When its owner ended it.
    pub revoked_at: Option<Timestamp>,
}

/// A key as a caller's secret is held against it. `Debug` does not show the hash.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredApiKey {
    /// All that is no secret.
    pub row: ApiKeyRow,
    /// SHA-256 of the secret part.
    pub secret_hash: [u8; 32],
}

impl fmt::Debug for NewApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewApiKey")
            .field("id", &self.id)
            .field("account", &self.account)
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .field("created_at", &self.created_at)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StoredApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredApiKey")
            .field("row", &self.row)
            .finish_non_exhaustive()
    }
}

/// The columns of a key that its owner sees.
#[derive(Queryable, Selectable)]
#[diesel(table_name = api_keys)]
struct KeyColumns {
    id: StoredUuid,
    account: StoredUuid,
    name: Option<String>,
    scopes: String,
    created_at: StoredMoment,
    expires_at: Option<StoredMoment>,
    revoked_at: Option<StoredMoment>,
}

impl KeyColumns {
    fn into_row(self) -> Result<ApiKeyRow, StoreError> {
        let scopes = self.scopes.parse().map_err(|_| {
            StoreError::Failed("an API key has an unknown scope; mend the row".to_owned())
        })?;
        Ok(ApiKeyRow {
            id: ApiKeyId::from_uuid(self.id.uuid()),
            account: AccountId::from_uuid(self.account.uuid()),
            name: self.name,
            scopes,
            created_at: self.created_at.0,
            expires_at: self.expires_at.map(|moment| moment.0),
            revoked_at: self.revoked_at.map(|moment| moment.0),
        })
    }
}

/// Keeps a key.
pub(super) fn create(pool: &Pool, key: &NewApiKey) -> Result<(), StoreError> {
    transaction!(pool, |connection| -> Result<(), StoreError> {
        diesel::insert_into(api_keys::table)
            .values((
                api_keys::id.eq(StoredUuid::from(key.id)),
                api_keys::account.eq(StoredUuid::from(key.account)),
                api_keys::name.eq(&key.name),
                api_keys::scopes.eq(key.scopes.to_string()),
                api_keys::secret_hash.eq(key.secret_hash.as_slice()),
                api_keys::created_at.eq(StoredMoment(key.created_at)),
                api_keys::expires_at.eq(key.expires_at.map(StoredMoment)),
            ))
            .execute(connection)?;
        Ok(())
    })
}

/// The account's keys, oldest first, ended ones included.
pub(super) fn list(pool: &Pool, account: AccountId) -> Result<Vec<ApiKeyRow>, StoreError> {
    let found: Vec<KeyColumns> = query!(pool, |connection| {
        api_keys::table
            .filter(api_keys::account.eq(StoredUuid::from(account)))
            .order((api_keys::created_at, api_keys::id))
            .select(KeyColumns::as_select())
            .load(connection)?
    });
    found.into_iter().map(KeyColumns::into_row).collect()
}

/// The key of this id, whoever presents it: its secret is what tells.
pub(super) fn find(pool: &Pool, id: ApiKeyId) -> Result<Option<StoredApiKey>, StoreError> {
    let found: Option<(KeyColumns, Vec<u8>)> = query!(pool, |connection| {
        api_keys::table
            .find(StoredUuid::from(id))
            .select((KeyColumns::as_select(), api_keys::secret_hash))
            .first(connection)
            .optional()?
    });
    let Some((columns, hash)) = found else {
        return Ok(None);
    };
    let secret_hash = hash.try_into().map_err(|_| {
        StoreError::Failed("an API key's hash has not 32 bytes; revoke the key".to_owned())
    })?;
    Ok(Some(StoredApiKey {
        row: columns.into_row()?,
        secret_hash,
    }))
}

/// Ends the key; one that was ended before keeps its time. False if the account has no such key.
pub(super) fn revoke(
    pool: &Pool,
    account: AccountId,
    id: ApiKeyId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    transaction!(pool, |connection| -> Result<bool, StoreError> {
        let revoked_at = case_when(api_keys::revoked_at.is_not_null(), api_keys::revoked_at)
            .otherwise(StoredMoment(now));
        let changed = diesel::update(api_keys::table.find(StoredUuid::from(id)))
            .filter(api_keys::account.eq(StoredUuid::from(account)))
            .set(api_keys::revoked_at.eq(revoked_at))
            .execute(connection)?;
        Ok(changed > 0)
    })
}

/// Which of these keys are revoked, expired at `now`, or gone, in the order in which they came.
pub(super) fn ended(
    pool: &Pool,
    mut ids: Vec<ApiKeyId>,
    now: Timestamp,
) -> Result<Vec<ApiKeyId>, StoreError> {
    let mut living = HashSet::new();
    for some in ids.chunks(IDS_OF_A_QUERY) {
        let some: Vec<StoredUuid> = some.iter().copied().map(StoredUuid::from).collect();
        let found: Vec<StoredUuid> = query!(pool, |connection| {
            api_keys::table
                .filter(api_keys::id.eq_any(some))
                .filter(api_keys::revoked_at.is_null())
                .filter(
                    api_keys::expires_at
                        .is_null()
                        .or(api_keys::expires_at.gt(StoredMoment(now))),
                )
                .select(api_keys::id)
                .load(connection)?
        });
        living.extend(found.into_iter().map(|id| ApiKeyId::from_uuid(id.uuid())));
    }
    ids.retain(|id| !living.contains(id));
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// HTTP-4: what proves a key is in no log line.
    #[test]
    fn hashes_are_not_shown() {
        let at = Timestamp::from_unix_micros(0);
        let key = NewApiKey {
            id: ApiKeyId::from_uuid(Uuid::from_u128(1)),
            account: AccountId::from_uuid(Uuid::from_u128(2)),
            name: Some("ci".to_owned()),
            scopes: Scopes::all(),
            secret_hash: [237; 32],
            created_at: at,
            expires_at: None,
        };
        let stored = StoredApiKey {
            row: ApiKeyRow {
                id: key.id,
                account: key.account,
                name: key.name.clone(),
                scopes: key.scopes,
                created_at: at,
                expires_at: None,
                revoked_at: None,
            },
            secret_hash: key.secret_hash,
        };
        for shown in [format!("{key:?}"), format!("{stored:?}")] {
            assert!(shown.contains("rpc,read,write"), "{shown}");
            assert!(!shown.contains("237"), "{shown}");
        }
    }
}
