//! What operators may change without a deploy: the protocol floor (REG-9).

use diesel::prelude::*;

use super::StoreError;
use super::pool::{Pool, query, transaction};
use super::schema::relay_policy;

/// The id of the one row.
const THE_ROW: i32 = 1;

/// The protocol floor alone.
pub(super) fn protocol_floor(pool: &Pool) -> Result<u32, StoreError> {
    let found: Option<i32> = query!(pool, |connection| {
        relay_policy::table
            .select(relay_policy::min_protocol_version)
            .first(connection)
            .optional()?
    });
    floor_from_column(found.ok_or_else(no_policy)?)
}

/// Sets the protocol floor, also in a database whose row was lost.
pub(super) fn set_protocol_floor(pool: &Pool, floor: u32) -> Result<(), StoreError> {
    let floor = i32::try_from(floor)
        .map_err(|_| StoreError::Failed("the protocol version is too large".to_owned()))?;
    transaction!(pool, |connection| -> Result<(), StoreError> {
        diesel::insert_into(relay_policy::table)
            .values((
                relay_policy::id.eq(THE_ROW),
                relay_policy::min_protocol_version.eq(floor),
            ))
            .on_conflict(relay_policy::id)
            .do_update()
            .set(relay_policy::min_protocol_version.eq(floor))
            .execute(connection)?;
        Ok(())
    })
}

pub(super) fn no_policy() -> StoreError {
    StoreError::Failed("relay_policy has no row; insert (1, 1)".to_owned())
}

pub(super) fn floor_from_column(floor: i32) -> Result<u32, StoreError> {
    u32::try_from(floor)
        .map_err(|_| StoreError::Failed("relay_policy's protocol version is negative".to_owned()))
}
