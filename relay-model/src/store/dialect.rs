//! The few things that the backends say differently, within a write transaction.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sqlite::SqliteConnection;

use super::DeviceType;
use super::columns::{StoredMoment, StoredUuid};
use super::schema::devices;
use crate::time::Timestamp;

#[diesel::declare_sql_function]
extern "SQL" {
    /// Waits for a lock that ends with the transaction.
    fn pg_advisory_xact_lock(number: diesel::sql_types::BigInt) -> diesel::sql_types::Bool;
}

/// What a change of a device's row depends on.
#[derive(Queryable)]
pub(super) struct Standing {
    pub(super) account: StoredUuid,
    pub(super) device_type: DeviceType,
    pub(super) forgotten: bool,
    pub(super) relay_eligible: bool,
    updated_at: StoredMoment,
}

impl Standing {
    /// The time of a change that is made at `now`: later than that of the change before it.
    pub(super) fn next_change(&self, now: Timestamp) -> StoredMoment {
        let earliest = self.updated_at.0.plus(Duration::from_micros(1));
        StoredMoment(now.max(earliest))
    }

    /// The time of the last change.
    pub(super) fn last_change(&self) -> Timestamp {
        self.updated_at.0
    }
}

/// A connection within a write transaction.
pub(super) trait Dialect {
    /// The device's row, whoever it belongs to: the caller compares the account. Nobody else changes
    /// it before the transaction ends.
    fn standing_for_update(&mut self, device: StoredUuid) -> QueryResult<Option<Standing>>;

    /// Makes sure that no other transaction passes this number before this one ends.
    fn lock_number(&mut self, number: i64) -> QueryResult<()>;

    /// Makes sure that no other process migrates before the transaction ends, and that the steps may
    /// take their time.
    fn begin_migration(&mut self) -> QueryResult<()>;
}

macro_rules! standing {
    ($connection:expr, $device:expr $(, $lock:ident)?) => {
        devices::table
            .find($device)
            .select((
                devices::account,
                devices::device_type,
                devices::forgotten_at.is_not_null(),
                devices::relay_eligible,
                devices::updated_at,
            ))
            $(.$lock())?
            .first($connection)
            .optional()
    };
}

/// A write transaction is alone from its start.
impl Dialect for SqliteConnection {
    fn standing_for_update(&mut self, device: StoredUuid) -> QueryResult<Option<Standing>> {
        standing!(self, device)
    }

    fn lock_number(&mut self, _: i64) -> QueryResult<()> {
        Ok(())
    }

    fn begin_migration(&mut self) -> QueryResult<()> {
        Ok(())
    }
}

/// Write transactions run side by side; what one relies on must be locked.
impl Dialect for PgConnection {
    fn standing_for_update(&mut self, device: StoredUuid) -> QueryResult<Option<Standing>> {
        standing!(self, device, for_update)
    }

    fn lock_number(&mut self, number: i64) -> QueryResult<()> {
        diesel::select(pg_advisory_xact_lock(number)).execute(self)?;
        Ok(())
    }

    /// The number of the lock is the relay's own, and means nothing else.
    fn begin_migration(&mut self) -> QueryResult<()> {
        self.batch_execute(
            "SET LOCAL lock_timeout = '60s';
             SET LOCAL statement_timeout = 0;
             SELECT pg_advisory_xact_lock(8237145590716403);",
        )
    }
}
