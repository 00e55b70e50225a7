//! Push tokens as the relay keeps them (section 12): one a phone, and one phone a token.

use diesel::prelude::*;

use super::StoreError;
use super::columns::{StoredMoment, StoredUuid};
use super::dialect::Dialect;
use super::pool::{Pool, query, transaction};
use super::schema::{devices, push_tokens};
use super::{DeviceType, dialect::Standing};
use crate::ids::{AccountId, DeviceId};
use crate::push::{
    NewPushToken, PushEnvironment, PushOutcome, PushOutcomeWrite, PushPlatform, PushRegistration,
    PushTokenRow, PushTokenSetting,
};
use crate::time::Timestamp;

/// A token as a phone's registration sets it.
pub(super) struct TokenColumns {
    pub(super) platform: PushPlatform,
    pub(super) environment: Option<PushEnvironment>,
    pub(super) token: String,
    pub(super) hash: [u8; 32],
}

impl From<NewPushToken> for TokenColumns {
    fn from(new: NewPushToken) -> Self {
        Self {
            platform: new.platform,
            environment: match new.platform {
                PushPlatform::Ios => new.environment,
                PushPlatform::Android => None,
            },
            hash: new.token.hash(),
            token: new.token.reveal().to_owned(),
        }
    }
}

impl TokenColumns {
    /// A number for the token's lock.
    pub(super) fn lock(&self) -> i64 {
        let [a, b, c, d, e, f, g, h, ..] = self.hash;
        i64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

/// Gives a phone of this account its token, within a write transaction that holds the phone's row:
/// `set_within!(connection, device, account, token, now)`. The environment and the outcome of the last
/// push are kept with the token that they belong to.
macro_rules! set_within {
    ($connection:ident, $device:expr, $account:expr, $token:expr, $now:expr) => {{
        use $crate::store::schema::push_tokens;

        let (device, account, now) = ($device, $account, $now);
        let token: &$crate::store::push_tokens::TokenColumns = $token;
        // Two phones that claim one token at once: the later one gets it.
        $connection.lock_number(token.lock())?;
        diesel::delete(push_tokens::table)
            .filter(push_tokens::token_hash.eq(token.hash.as_slice()))
            .filter(push_tokens::device.ne(device))
            .execute($connection)?;
        let known = diesel::update(push_tokens::table.find(device))
            .filter(push_tokens::token_hash.eq(token.hash.as_slice()))
            .filter(push_tokens::platform.eq(token.platform))
            .set((
                token
                    .environment
                    .map(|known| push_tokens::environment.eq(known)),
                push_tokens::registered_at.eq(now),
            ))
            .execute($connection)?;
        if known == 0 {
            diesel::delete(push_tokens::table.find(device)).execute($connection)?;
            diesel::insert_into(push_tokens::table)
                .values((
                    push_tokens::device.eq(device),
                    push_tokens::account.eq(account),
                    push_tokens::platform.eq(token.platform),
                    push_tokens::environment.eq(token.environment),
                    push_tokens::token.eq(&token.token),
                    push_tokens::token_hash.eq(token.hash.as_slice()),
                    push_tokens::registered_at.eq(now),
                ))
                .execute($connection)?;
        }
    }};
}

pub(super) use set_within;

/// Gives a phone its token.
pub(super) fn set(
    pool: &Pool,
    account: AccountId,
    device: DeviceId,
    token: NewPushToken,
    now: Timestamp,
) -> Result<PushTokenSetting, StoreError> {
    let account = StoredUuid::from(account);
    let device = StoredUuid::from(device);
    let token = TokenColumns::from(token);
    transaction!(pool, |connection| -> Result<PushTokenSetting, StoreError> {
        let standing = connection.standing_for_update(device)?;
        if let Some(refused) = refusal(account, standing) {
            return Ok(refused);
        }
        set_within!(connection, device, account, &token, StoredMoment(now));
        Ok(PushTokenSetting::Set)
    })
}

fn refusal(account: StoredUuid, standing: Option<Standing>) -> Option<PushTokenSetting> {
    match standing {
        None => Some(PushTokenSetting::Unknown),
        Some(row) if row.account != account => Some(PushTokenSetting::Foreign),
        Some(row) if row.device_type != DeviceType::Mobile => Some(PushTokenSetting::NotAPhone),
        Some(row) if row.forgotten => Some(PushTokenSetting::Forgotten),
        Some(_) => None,
    }
}

/// Removes the token of a device of this account, or of all of them, and returns how many those were.
pub(super) fn remove(
    pool: &Pool,
    account: AccountId,
    device: Option<DeviceId>,
) -> Result<usize, StoreError> {
    let account = StoredUuid::from(account);
    transaction!(pool, |connection| -> Result<usize, StoreError> {
        let of_account = push_tokens::table.filter(push_tokens::account.eq(account));
        Ok(match device.map(StoredUuid::from) {
            Some(device) => diesel::delete(of_account.filter(push_tokens::device.eq(device)))
                .execute(connection)?,
            None => diesel::delete(of_account).execute(connection)?,
        })
    })
}

/// Removes the token of this registration, unless the phone has registered since.
pub(super) fn remove_registration(
    pool: &Pool,
    registration: PushRegistration,
) -> Result<bool, StoreError> {
    transaction!(pool, |connection| -> Result<bool, StoreError> {
        let removed =
            diesel::delete(push_tokens::table.find(StoredUuid::from(registration.device)))
                .filter(push_tokens::token_hash.eq(registration.token_hash.as_slice()))
                .filter(push_tokens::registered_at.eq(StoredMoment(registration.registered_at)))
                .execute(connection)?;
        Ok(removed > 0)
    })
}

/// Keeps what became of pushes, with the tokens that are still there.
pub(super) fn record_outcomes(pool: &Pool, writes: &[PushOutcomeWrite]) -> Result<(), StoreError> {
    transaction!(pool, |connection| -> Result<(), StoreError> {
        for write in writes {
            diesel::update(push_tokens::table.find(StoredUuid::from(write.registration.device)))
                .filter(push_tokens::token_hash.eq(write.registration.token_hash.as_slice()))
                .filter(
                    push_tokens::last_outcome_at
                        .is_null()
                        .or(push_tokens::last_outcome_at.le(StoredMoment(write.at))),
                )
                .set((
                    push_tokens::last_outcome.eq(write.outcome),
                    push_tokens::last_outcome_at.eq(StoredMoment(write.at)),
                ))
                .execute(connection)?;
        }
        Ok(())
    })
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = push_tokens)]
struct KeptColumns {
    device: StoredUuid,
    account: StoredUuid,
    platform: PushPlatform,
    environment: Option<PushEnvironment>,
    token: String,
    registered_at: StoredMoment,
    last_outcome: Option<PushOutcome>,
    last_outcome_at: Option<StoredMoment>,
}

impl KeptColumns {
    fn into_row(self) -> Result<PushTokenRow, StoreError> {
        let token = self.token.parse().map_err(|_| {
            StoreError::Failed("a push token cannot be one; remove the row".to_owned())
        })?;
        let at = self.last_outcome_at.map(|moment| moment.0);
        Ok(PushTokenRow {
            device: DeviceId::from_uuid(self.device.uuid()),
            account: AccountId::from_uuid(self.account.uuid()),
            platform: self.platform,
            environment: self.environment,
            token,
            registered_at: self.registered_at.0,
            last_outcome: self.last_outcome.zip(at),
        })
    }
}

/// The tokens of the account's phones that are not forgotten, in the order of their ids.
pub(super) fn list(pool: &Pool, account: AccountId) -> Result<Vec<PushTokenRow>, StoreError> {
    let account = StoredUuid::from(account);
    let found: Vec<KeptColumns> = query!(pool, |connection| {
        push_tokens::table
            .inner_join(devices::table.on(devices::id.eq(push_tokens::device)))
            .filter(push_tokens::account.eq(account))
            .filter(devices::account.eq(account))
            .filter(devices::forgotten_at.is_null())
            .order(push_tokens::device)
            .select(KeptColumns::as_select())
            .load(connection)?
    });
    found.into_iter().map(KeptColumns::into_row).collect()
}
