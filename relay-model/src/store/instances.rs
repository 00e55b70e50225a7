//! The relays that share this database, and the rows that a dead or stopped one leaves behind
//! (PR-6, DR-3).

use diesel::dsl::{auto_type, case_when, sql};
use diesel::expression::SqlLiteral;
use diesel::prelude::*;
use diesel::sql_types::Bool;
use diesel::upsert::excluded;

use super::columns::{StoredMoment, StoredUuid};
use super::pool::{Pool, query, transaction};
use super::presence_history::{PresenceChange, keep_history};
use super::schema::{devices, relay_instances};
use super::{DeviceStatus, OfflineReason, StoreError};
use crate::ids::{AccountId, DeviceId, RelayInstanceId};
use crate::time::Timestamp;

/// Stands for the renewal of a relay that has no row.
const LONG_AGO: StoredMoment = StoredMoment(Timestamp::from_unix_micros(0));

/// Spelled out, not bound: only so does the index of connected rows serve it.
fn connected() -> SqlLiteral<Bool> {
    sql("devices.status <> 'offline'")
}

/// The connected rows of one relay.
#[auto_type(no_type_alias)]
fn held_by(instance: StoredUuid) -> _ {
    let connected: SqlLiteral<Bool> = connected();
    devices::table
        .filter(devices::instance.eq(instance))
        .filter(connected)
}

/// What the history keeps of a row that is marked.
#[derive(Queryable, Selectable)]
#[diesel(table_name = devices)]
struct MarkedColumns {
    account: StoredUuid,
    id: StoredUuid,
    // A connected row always has one; the table checks it.
    #[diesel(select_expression = devices::generation.assume_not_null())]
    generation: i64,
}

fn marks_of(
    instance: StoredUuid,
    rows: &[MarkedColumns],
    reason: OfflineReason,
    at: StoredMoment,
) -> Vec<PresenceChange> {
    let mark = |row: &MarkedColumns| PresenceChange {
        account: row.account,
        device: row.id,
        at,
        instance,
        generation: row.generation,
        status: DeviceStatus::Offline,
        reason: Some(reason),
    };
    rows.iter().map(mark).collect()
}

/// The row of a relay that has none yet.
#[derive(Insertable)]
#[diesel(table_name = relay_instances)]
struct NewInstance {
    id: StoredUuid,
    draining: bool,
    started_at: StoredMoment,
    renewed_at: StoredMoment,
    lease_until: StoredMoment,
}

impl NewInstance {
    fn starting(instance: RelayInstanceId, now: Timestamp, lease_until: Timestamp) -> Self {
        Self {
            id: instance.into(),
            draining: false,
            started_at: StoredMoment(now),
            renewed_at: StoredMoment(now),
            lease_until: StoredMoment(lease_until),
        }
    }
}

/// Makes or renews the instance's row. One that was released stays so.
pub(super) fn renew(
    pool: &Pool,
    instance: RelayInstanceId,
    now: Timestamp,
    lease_until: Timestamp,
) -> Result<(), StoreError> {
    transaction!(pool, |connection| -> Result<(), StoreError> {
        diesel::insert_into(relay_instances::table)
            .values(NewInstance::starting(instance, now, lease_until))
            .on_conflict(relay_instances::id)
            .do_update()
            .set((
                relay_instances::renewed_at.eq(excluded(relay_instances::renewed_at)),
                relay_instances::lease_until.eq(excluded(relay_instances::lease_until)),
            ))
            .execute(connection)?;
        Ok(())
    })
}

/// Marks the instance as draining. One that was released keeps its ended lease.
pub(super) fn mark_draining(
    pool: &Pool,
    instance: RelayInstanceId,
    now: Timestamp,
    lease_until: Timestamp,
) -> Result<(), StoreError> {
    transaction!(pool, |connection| -> Result<(), StoreError> {
        diesel::insert_into(relay_instances::table)
            .values(NewInstance {
                draining: true,
                ..NewInstance::starting(instance, now, lease_until)
            })
            .on_conflict(relay_instances::id)
            .do_update()
            .set(relay_instances::draining.eq(true))
            .execute(connection)?;
        Ok(())
    })
}

/// Marks what dead relays left connected as lost, or as stopped if they drained, and forgets relays that lapsed before
/// `forget_before`. Returns how many rows it marked.
pub(super) fn sweep_lost(
    pool: &Pool,
    now: Timestamp,
    forget_before: Timestamp,
) -> Result<usize, StoreError> {
    transaction!(pool, |connection| -> Result<usize, StoreError> {
        let dead: Vec<(StoredUuid, Option<StoredMoment>, Option<bool>)> = devices::table
            .left_join(
                relay_instances::table.on(relay_instances::id.nullable().eq(devices::instance)),
            )
            .filter(connected())
            .filter(
                relay_instances::id
                    .nullable()
                    .is_null()
                    .or(relay_instances::draining.nullable().eq(true))
                    .or(relay_instances::lease_until
                        .nullable()
                        .lt(StoredMoment(now))),
            )
            // A connected row always names its relay; the table checks it.
            .select((
                devices::instance.assume_not_null(),
                relay_instances::renewed_at.nullable(),
                relay_instances::draining.nullable(),
            ))
            .distinct()
            .load(connection)?;
        let mut marked = 0;
        for (instance, renewed_at, draining) in dead {
            let reason = if draining == Some(true) {
                OfflineReason::RelayStopped
            } else {
                OfflineReason::RelayLost
            };
            // One that renews in this moment waits for the end of the sweep, or is found alive.
            if renewed_at.is_some() {
                let still_dead = diesel::update(relay_instances::table.find(instance))
                    .filter(
                        relay_instances::draining
                            .eq(true)
                            .or(relay_instances::lease_until.lt(StoredMoment(now))),
                    )
                    .set(relay_instances::draining.eq(relay_instances::draining))
                    .execute(connection)?;
                if still_dead == 0 {
                    continue;
                }
            }
            let renewed_at = renewed_at.unwrap_or(LONG_AGO);
            // As `PresenceColumns::last_known` says.
            let last_known = case_when(
                devices::last_seen
                    .gt(devices::status_at.nullable())
                    .and(devices::last_seen.gt(renewed_at)),
                devices::last_seen,
            )
            .when(
                devices::status_at.gt(renewed_at),
                devices::status_at.nullable(),
            )
            .otherwise(renewed_at);
            let lost: Vec<MarkedColumns> = diesel::update(held_by(instance))
                .set((
                    devices::status.eq(DeviceStatus::Offline),
                    devices::offline_reason.eq(reason),
                    devices::status_at.eq(StoredMoment(now)),
                    devices::last_seen.eq(last_known),
                ))
                .returning(MarkedColumns::as_returning())
                .load(connection)?;
            marked += lost.len();
            let changes = marks_of(instance, &lost, reason, StoredMoment(now));
            keep_history!(connection, changes);
        }
        // No connected row names a lapsed relay any more, and others do not need it.
        diesel::delete(relay_instances::table)
            .filter(relay_instances::lease_until.lt(StoredMoment(forget_before)))
            .execute(connection)?;
        Ok(marked)
    })
}

/// The devices whose rows the instance held last and a sweep marked as lost, in the order of their ids.
/// No index serves this: it is asked only after a lease lapsed, and one would cost each change.
pub(super) fn marked_lost(
    pool: &Pool,
    instance: RelayInstanceId,
) -> Result<Vec<(AccountId, DeviceId)>, StoreError> {
    let rows: Vec<(StoredUuid, StoredUuid)> = query!(pool, |connection| {
        devices::table
            .filter(devices::instance.eq(StoredUuid::from(instance)))
            .filter(devices::offline_reason.eq(OfflineReason::RelayLost))
            .order(devices::id)
            .select((devices::account, devices::id))
            .load(connection)?
    });
    let ids = |(account, device): (StoredUuid, StoredUuid)| {
        (
            AccountId::from_uuid(account.uuid()),
            DeviceId::from_uuid(device.uuid()),
        )
    };
    Ok(rows.into_iter().map(ids).collect())
}

/// Marks what the instance holds as stopped, and ends its lease for good: no late renewal makes it
/// live again.
pub(super) fn release(
    pool: &Pool,
    relay: RelayInstanceId,
    moment: Timestamp,
) -> Result<(), StoreError> {
    let instance = StoredUuid::from(relay);
    let now = StoredMoment(moment);
    transaction!(pool, |connection| -> Result<(), StoreError> {
        let stopped: Vec<MarkedColumns> = diesel::update(held_by(instance))
            .set((
                devices::status.eq(DeviceStatus::Offline),
                devices::offline_reason.eq(OfflineReason::RelayStopped),
                devices::status_at.eq(now),
                devices::last_seen.eq(now),
            ))
            .returning(MarkedColumns::as_returning())
            .load(connection)?;
        let changes = marks_of(instance, &stopped, OfflineReason::RelayStopped, now);
        keep_history!(connection, changes);
        diesel::insert_into(relay_instances::table)
            .values(NewInstance {
                draining: true,
                ..NewInstance::starting(relay, moment, moment)
            })
            .on_conflict(relay_instances::id)
            .do_update()
            .set((
                relay_instances::draining.eq(true),
                relay_instances::lease_until.eq(now),
            ))
            .execute(connection)?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use diesel::sql_types::{Binary, Text};
    use diesel::sqlite::Sqlite;
    use uuid::Uuid;

    use super::*;
    use crate::limits::INSTANCE_RETENTION;
    use crate::store::DeviceStore;
    use crate::store::diesel_store::tests::{Fixture, at};

    #[derive(QueryableByName)]
    struct Plan {
        #[diesel(sql_type = Text)]
        detail: String,
    }

    /// PR-6, DR-3: the rows of one relay are found by index, however many devices there are.
    #[tokio::test]
    async fn rows_of_a_relay_are_found_by_index() {
        let fixture = Fixture::migrated().await;
        let relay = RelayInstanceId::from_uuid(Uuid::from_u128(1));
        let query = diesel::debug_query::<Sqlite, _>(&held_by(relay.into())).to_string();
        let text = query.split(" -- ").next().unwrap();
        let plan: Vec<Plan> = diesel::sql_query(format!("EXPLAIN QUERY PLAN {text}"))
            .bind::<Binary, _>(relay.as_uuid().as_bytes().to_vec())
            .load(&mut fixture.shell())
            .unwrap();
        let plan: Vec<String> = plan.into_iter().map(|step| step.detail).collect();
        assert!(
            plan[0].contains("USING INDEX devices_by_instance"),
            "{plan:?}"
        );
    }

    /// PR-6: relays that lapsed long ago do not pile up; a lapsed one is remembered for a while.
    #[tokio::test]
    async fn relays_that_lapsed_long_ago_are_forgotten() {
        let fixture = Fixture::migrated().await;
        for (number, lease_until) in [(1, at(30)), (2, at(31))] {
            let relay = RelayInstanceId::from_uuid(Uuid::from_u128(number));
            fixture
                .store
                .renew_instance(relay, at(0), lease_until)
                .await
                .unwrap();
        }
        let count = || -> i64 {
            relay_instances::table
                .count()
                .get_result(&mut fixture.shell())
                .unwrap()
        };
        let sweep = async |now| fixture.store.sweep_lost(now).await.unwrap();
        let retained = at(30).plus(INSTANCE_RETENTION);
        sweep(retained).await;
        assert_eq!(count(), 2);
        sweep(retained.plus(Duration::from_micros(1))).await;
        assert_eq!(count(), 1);
    }
}
