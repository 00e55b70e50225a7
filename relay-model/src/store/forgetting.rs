//! Devices that their user forgets: the row stays, so that the device cannot come back by itself, and
//! says from then on that the device is gone (PR-4).

use diesel::dsl::case_when;
use diesel::prelude::*;

use super::columns::{StoredMoment, StoredUuid};
use super::dialect::Dialect;
use super::pool::{Pool, transaction};
use super::presence::later;
use super::presence_history::{PresenceChange, keep_history};
use super::schema::{devices, push_tokens};
use super::{DeviceStatus, ForgottenDevice, OfflineReason, StoreError};
use crate::ids::{AccountId, DeviceId};
use crate::time::Timestamp;

/// The columns of a device that tell which connection a relay knew of it.
type Held = (DeviceStatus, Option<StoredUuid>, Option<i64>);

/// Forgets the device, if it is this account's.
pub(super) fn forget(
    pool: &Pool,
    account: AccountId,
    device: DeviceId,
    now: Timestamp,
) -> Result<Option<ForgottenDevice>, StoreError> {
    let account = StoredUuid::from(account);
    let device = StoredUuid::from(device);
    transaction!(
        pool,
        |connection| -> Result<Option<ForgottenDevice>, StoreError> {
            let before = connection.standing_for_update(device)?;
            let Some(before) = before.filter(|row| row.account == account) else {
                return Ok(None);
            };
            let mut forgotten = ForgottenDevice {
                device_type: before.device_type,
                was_forgotten: before.forgotten,
                updated_at: before.last_change(),
            };
            if forgotten.was_forgotten {
                return Ok(Some(forgotten));
            }
            let (now, changed_at) = (StoredMoment(now), before.next_change(now));
            forgotten.updated_at = changed_at.0;
            let (status, instance, generation): Held = devices::table
                .find(device)
                .filter(devices::account.eq(account))
                .select((devices::status, devices::instance, devices::generation))
                .first(connection)?;
            diesel::update(devices::table.find(device))
                .filter(devices::account.eq(account))
                .set((
                    devices::forgotten_at.eq(now),
                    devices::updated_at.eq(changed_at),
                    devices::status.eq(DeviceStatus::Offline),
                    devices::offline_reason.eq(OfflineReason::Unlinked),
                    devices::status_at.eq(later!(devices::status_at, now)),
                    devices::last_seen.eq(case_when(
                        devices::status.ne(DeviceStatus::Online),
                        devices::last_seen,
                    )
                    .otherwise(later!(devices::last_seen, now))),
                ))
                .execute(connection)?;
            diesel::delete(push_tokens::table.find(device)).execute(connection)?;
            let held = instance.zip(generation);
            let ended = held.filter(|_| status != DeviceStatus::Offline);
            let ended = ended.map(|(instance, generation)| PresenceChange {
                account,
                device,
                at: now,
                instance,
                generation,
                status: DeviceStatus::Offline,
                reason: Some(OfflineReason::Unlinked),
            });
            keep_history!(connection, ended.into_iter().collect::<Vec<_>>());
            Ok(Some(forgotten))
        }
    )
}
