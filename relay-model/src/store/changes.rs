//! What a user or a desktop changes of a device's row afterwards: its name, whether it is admitted,
//! the directory that it works in (EV-5).

use diesel::prelude::*;

use super::columns::{StoredMoment, StoredUuid};
use super::devices::{PresenceColumns, ShownColumns};
use super::dialect::Dialect;
use super::pool::{Pool, transaction};
use super::schema::devices;
use super::{ChangedDevice, DeviceChange, StoreError};
use crate::ids::{AccountId, DeviceId};
use crate::time::Timestamp;

/// The columns that a change sets; `None` keeps what the row has.
#[derive(AsChangeset)]
#[diesel(table_name = devices)]
struct Changes {
    device_name: Option<String>,
    relay_eligible: Option<bool>,
    active_project_directory: Option<String>,
    updated_at: StoredMoment,
}

/// Changes the row, if it is this account's and not forgotten.
pub(super) fn change(
    pool: &Pool,
    account: AccountId,
    device: DeviceId,
    change: DeviceChange,
    now: Timestamp,
) -> Result<Option<ChangedDevice>, StoreError> {
    let account = StoredUuid::from(account);
    let device = StoredUuid::from(device);
    transaction!(
        pool,
        |connection| -> Result<Option<ChangedDevice>, StoreError> {
            let before = connection.standing_for_update(device)?;
            let Some(before) = before.filter(|row| row.account == account && !row.forgotten) else {
                return Ok(None);
            };
            diesel::update(devices::table.find(device))
                .filter(devices::account.eq(account))
                .set(Changes {
                    device_name: change.device_name,
                    relay_eligible: change.relay_eligible,
                    active_project_directory: change.project_directory,
                    updated_at: before.next_change(now),
                })
                .execute(connection)?;
            let (shown, presence): (ShownColumns, PresenceColumns) = devices::table
                .find(device)
                .filter(devices::account.eq(account))
                .select((ShownColumns::as_select(), PresenceColumns::as_select()))
                .first(connection)?;
            Ok(Some(ChangedDevice {
                row: shown.into_row(presence, None)?,
                was_eligible: before.relay_eligible,
                was_forgotten: false,
            }))
        }
    )
}
