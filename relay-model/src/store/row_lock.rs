//! Reading a device's row in order to change it: nobody else changes it until the transaction ends.
//! SQLite's write transactions have that from their start, other backends lock the row.

use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::DeviceType;
use super::columns::StoredUuid;
use super::schema::devices;

/// What a change depends on.
#[derive(Queryable)]
pub(super) struct Standing {
    pub(super) account: StoredUuid,
    pub(super) device_type: DeviceType,
    pub(super) forgotten: bool,
    pub(super) relay_eligible: bool,
}

/// A connection within a write transaction.
pub(super) trait RowLock {
    /// The device's row, whoever it belongs to: the caller compares the account.
    fn standing_for_update(&mut self, device: StoredUuid) -> QueryResult<Option<Standing>>;
}

/// One text for every backend, and what each says behind it.
macro_rules! row_lock {
    ($connection:ty $(, $locked:ident)?) => {
        impl RowLock for $connection {
            fn standing_for_update(&mut self, device: StoredUuid) -> QueryResult<Option<Standing>> {
                devices::table
                    .find(device)
                    .select((
                        devices::account,
                        devices::device_type,
                        devices::forgotten_at.is_not_null(),
                        devices::relay_eligible,
                    ))
                    $(.$locked())?
                    .first(self)
                    .optional()
            }
        }
    };
}

row_lock!(SqliteConnection);
