//! What became of each device's presence, for as long as it may help to find out why one was offline
//! (PR-6). Written in the transaction of the change itself.

use diesel::prelude::*;

use super::columns::{StoredMoment, StoredUuid};
use super::pool::{Pool, query, transaction};
use super::schema::presence_history;
use super::{DeviceStatus, OfflineReason, PresenceEntry, StoreError};
use crate::ids::{AccountId, ConnectionGeneration, DeviceId, RelayInstanceId};
use crate::time::Timestamp;

/// How many changes one statement holds: SQLite takes 32,766 parameters.
pub(super) const CHANGES_OF_AN_INSERT: usize = 1_000;

/// About how many changes one transaction drops, so that writers need not wait long for their turn.
const CHANGES_OF_A_PURGE: i64 = 10_000;

/// A change that took effect. Its key is all but `reason`.
#[derive(Debug, Clone, Copy, Insertable, Queryable, Selectable)]
#[diesel(table_name = presence_history, treat_none_as_default_value = false)]
pub(super) struct PresenceChange {
    pub(super) account: StoredUuid,
    pub(super) device: StoredUuid,
    pub(super) at: StoredMoment,
    pub(super) instance: StoredUuid,
    pub(super) generation: i64,
    pub(super) status: DeviceStatus,
    pub(super) reason: Option<OfflineReason>,
}

/// Keeps `$changes`, within a transaction. One that is there already, from a write whose answer was
/// lost, stays once; so does the first of two that differ in why alone, in the same microsecond.
macro_rules! keep_history {
    ($connection:expr, $changes:expr) => {{
        use $crate::store::presence_history::CHANGES_OF_AN_INSERT;
        for some in $changes.chunks(CHANGES_OF_AN_INSERT) {
            diesel::insert_into($crate::store::schema::presence_history::table)
                .values(some)
                .on_conflict_do_nothing()
                .execute($connection)?;
        }
    }};
}

pub(super) use keep_history;

impl From<PresenceChange> for PresenceEntry {
    fn from(change: PresenceChange) -> Self {
        Self {
            device: DeviceId::from_uuid(change.device.uuid()),
            at: change.at.0,
            instance: RelayInstanceId::from_uuid(change.instance.uuid()),
            generation: ConnectionGeneration::new(change.generation.cast_unsigned()),
            status: change.status,
            reason: change.reason,
        }
    }
}

/// The last changes of each device, the newest first. One indexed query a device: an account has few,
/// and a device may have a long history.
pub(super) fn last(
    pool: &Pool,
    account: AccountId,
    devices: &[DeviceId],
    limit: usize,
) -> Result<Vec<PresenceEntry>, StoreError> {
    let account = StoredUuid::from(account);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut entries = Vec::new();
    query!(pool, |connection| {
        for device in devices {
            let found: Vec<PresenceChange> = presence_history::table
                .filter(presence_history::account.eq(account))
                .filter(presence_history::device.eq(StoredUuid::from(*device)))
                .order((
                    presence_history::at.desc(),
                    presence_history::instance.desc(),
                    presence_history::generation.desc(),
                    presence_history::status.desc(),
                ))
                .limit(limit)
                .select(PresenceChange::as_select())
                .load(connection)?;
            entries.extend(found.into_iter().map(PresenceEntry::from));
        }
    });
    Ok(entries)
}

/// Drops some of the oldest changes before `before`. Returns how many, and whether there may be more.
pub(super) fn purge_some(pool: &Pool, before: Timestamp) -> Result<(usize, bool), StoreError> {
    let before = StoredMoment(before);
    transaction!(pool, |connection| -> Result<(usize, bool), StoreError> {
        let last: Option<StoredMoment> = presence_history::table
            .filter(presence_history::at.lt(before))
            .order(presence_history::at)
            .offset(CHANGES_OF_A_PURGE)
            .select(presence_history::at)
            .first(connection)
            .optional()?;
        let dropped = match last {
            Some(last) => diesel::delete(presence_history::table)
                .filter(presence_history::at.le(last))
                .execute(connection)?,
            None => diesel::delete(presence_history::table)
                .filter(presence_history::at.lt(before))
                .execute(connection)?,
        };
        Ok((dropped, last.is_some()))
    })
}

#[cfg(test)]
mod tests {
    use diesel::sql_types::Text;
    use diesel::sqlite::Sqlite;

    use super::*;
    use crate::store::DeviceStore;
    use crate::store::diesel_store::tests::{Fixture, at};

    #[derive(QueryableByName)]
    struct Plan {
        #[diesel(sql_type = Text)]
        detail: String,
    }

    /// PR-6: a purge reads what it drops and nothing else.
    #[tokio::test]
    async fn old_changes_are_found_by_time() {
        let fixture = Fixture::migrated().await;
        let purge = diesel::delete(presence_history::table)
            .filter(presence_history::at.lt(StoredMoment(at(0))));
        let query = diesel::debug_query::<Sqlite, _>(&purge).to_string();
        let text = query.split(" -- ").next().unwrap();
        let plan: Vec<Plan> = diesel::sql_query(format!("EXPLAIN QUERY PLAN {text}"))
            .bind::<diesel::sql_types::BigInt, _>(0)
            .load(&mut fixture.shell())
            .unwrap();
        assert!(
            plan[0].detail.contains("presence_history_by_time"),
            "{}",
            plan[0].detail
        );
    }

    /// PR-6: a long history goes in several transactions, and all of it goes.
    #[tokio::test]
    async fn a_long_history_goes_too() {
        let fixture = Fixture::migrated().await;
        let more = CHANGES_OF_A_PURGE + 5;
        diesel::sql_query(format!(
            "INSERT INTO presence_history (account, device, at, instance, generation, status)
             WITH RECURSIVE numbers (number) AS
                 (SELECT 1 UNION ALL SELECT number + 1 FROM numbers LIMIT {more})
             SELECT zeroblob(16), zeroblob(16), number, zeroblob(16), 0, 'online' FROM numbers"
        ))
        .execute(&mut fixture.shell())
        .unwrap();
        let count = || -> i64 {
            presence_history::table
                .count()
                .get_result(&mut fixture.shell())
                .unwrap()
        };
        assert_eq!(count(), more);
        let before = Timestamp::from_unix_micros(more);
        let purged = fixture.store.purge_presence_history(before).await;
        assert_eq!(purged.map(|dropped| dropped as i64), Ok(more - 1));
        assert_eq!(count(), 1);
    }
}
