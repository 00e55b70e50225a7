//! Presence changes and heartbeats, in batches. Each is one conditional update by id and account:
//! what it may change is decided by the row as it stands, never by a read before.

use diesel::dsl::case_when;
use diesel::prelude::*;

use super::columns::{StoredMoment, StoredUuid};
use super::pool::{Pool, transaction};
use super::prepared_update::prepared_update;
use super::presence_history::{PresenceChange, keep_history};
use super::schema::devices;
use super::{DeviceStatus, HeartbeatWrite, OfflineReason, PresenceWrite, StoreError};

/// The later of a column and a moment; the moment, if the column is null.
macro_rules! later {
    ($column:expr, $moment:expr) => {
        case_when($column.gt($moment), $column).otherwise($moment)
    };
}
pub(super) use later;

/// Writes the changes of each device in order, all or none, and keeps those that took effect in the
/// history. A device that is unknown or of another account is passed over.
pub(super) fn write_changes(pool: &Pool, mut writes: Vec<PresenceWrite>) -> Result<(), StoreError> {
    // Two relays that lock rows in one order never wait for each other in a circle.
    writes.sort_by_key(|write| write.device);
    transaction!(pool, |connection| -> Result<(), StoreError> {
        let mut effective: Vec<PresenceChange> = Vec::new();
        for write in &writes {
            let row = devices::id
                .eq(StoredUuid::from(write.device))
                .and(devices::account.eq(StoredUuid::from(write.account)));
            let instance = StoredUuid::from(write.instance);
            // Kept bit for bit: generations are compared for equality only.
            let generation = write.generation.get().cast_signed();
            let at = StoredMoment(write.at);
            let reason = write
                .reason
                .filter(|_| write.status == DeviceStatus::Offline);
            let changed = if write.status == DeviceStatus::Online {
                let marked_by_another = devices::offline_reason
                    .eq(OfflineReason::RelayStopped)
                    .and(devices::instance.ne(instance));
                let takes_over = devices::instance
                    .is_null()
                    .or(devices::status_at.le(at))
                    .or(devices::offline_reason.eq(OfflineReason::RelayLost))
                    .or(marked_by_another);
                prepared_update(
                    devices::table,
                    (
                        devices::status.eq(DeviceStatus::Online),
                        devices::offline_reason.eq(None::<OfflineReason>),
                        devices::instance.eq(instance),
                        devices::generation.eq(generation),
                        devices::status_at.eq(at),
                        devices::last_seen.eq(later!(devices::last_seen, at)),
                    ),
                    row.and(takes_over),
                )
                .execute(connection)?
            } else {
                let reason_before = devices::offline_reason;
                let is_no_last_word = reason_before.is_null().or(reason_before
                    .ne(OfflineReason::RelayStopped)
                    .and(reason_before.ne(OfflineReason::Unlinked)));
                prepared_update(
                    devices::table,
                    (
                        devices::status.eq(write.status),
                        devices::offline_reason.eq(reason),
                        devices::status_at.eq(at),
                        // It was connected until this moment, if it was connected at all.
                        devices::last_seen.eq(case_when(
                            devices::status.ne(DeviceStatus::Online),
                            devices::last_seen,
                        )
                        .otherwise(later!(devices::last_seen, at))),
                    ),
                    row.and(devices::instance.eq(instance))
                        .and(devices::generation.eq(generation))
                        .and(
                            devices::status_at
                                .le(at)
                                .or(devices::offline_reason.eq(OfflineReason::RelayLost)),
                        )
                        .and(is_no_last_word),
                )
                .execute(connection)?
            };
            if changed > 0 {
                effective.push(PresenceChange {
                    account: write.account.into(),
                    device: write.device.into(),
                    at,
                    instance,
                    generation,
                    status: write.status,
                    reason,
                });
            }
        }
        keep_history!(connection, effective);
        Ok(())
    })
}

/// Writes the heartbeats, all or none. An older one than the row has changes nothing.
pub(super) fn write_heartbeats(
    pool: &Pool,
    mut writes: Vec<HeartbeatWrite>,
) -> Result<(), StoreError> {
    writes.sort_by_key(|write| write.device);
    transaction!(pool, |connection| -> Result<(), StoreError> {
        for write in &writes {
            let at = StoredMoment(write.at);
            prepared_update(
                devices::table,
                (
                    devices::last_heartbeat.eq(later!(devices::last_heartbeat, at)),
                    devices::last_seen.eq(later!(devices::last_seen, at)),
                ),
                devices::id
                    .eq(StoredUuid::from(write.device))
                    .and(devices::account.eq(StoredUuid::from(write.account))),
            )
            .execute(connection)?;
        }
        Ok(())
    })
}
