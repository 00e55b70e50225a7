//! What whoever looks after a database wants to know of it beyond that it answers.

use diesel::prelude::*;
use diesel::sql_types::BigInt;

use super::StoreError;
use super::pool::{Pool, transaction};
use super::schema::relay_policy;
use crate::time::Timestamp;

/// Writes something that changes nothing. A value that is set to itself undoes no change that
/// somebody makes at the same time.
pub(super) fn write(pool: &Pool) -> Result<(), StoreError> {
    transaction!(pool, |connection| -> Result<(), StoreError> {
        diesel::update(relay_policy::table)
            .set(relay_policy::min_protocol_version.eq(relay_policy::min_protocol_version))
            .execute(connection)?;
        Ok(())
    })
}

#[derive(QueryableByName)]
struct Clock {
    #[diesel(sql_type = BigInt)]
    micros: i64,
}

/// What the database's server takes for the time; `None` if it has no clock of its own.
pub(super) fn clock(pool: &Pool) -> Result<Option<Timestamp>, StoreError> {
    match pool {
        Pool::Sqlite(_) => Ok(None),
        Pool::Pg(postgres) => {
            let mut connection = postgres.connection()?;
            let clock: Clock = diesel::sql_query(
                "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros",
            )
            .get_result(&mut *connection)?;
            Ok(Some(Timestamp::from_unix_micros(clock.micros)))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::store::DeviceStore;
    use crate::store::diesel_store::tests::Fixture;

    /// Command line: a probe leaves what it writes as it was.
    #[tokio::test]
    async fn a_probe_changes_nothing() {
        let fixture = Fixture::migrated().await;
        let floor = fixture.store.set_protocol_floor(7);
        floor.await.unwrap();
        assert_eq!(fixture.store.probe_write().await, Ok(()));
        assert_eq!(fixture.store.protocol_floor().await, Ok(7));
        assert_eq!(fixture.store.clock().await, Ok(None));
    }
}
