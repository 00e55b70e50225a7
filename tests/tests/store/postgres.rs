//! The store on PostgreSQL.

use std::sync::Arc;

use diesel::prelude::*;
use diesel::sql_types::{Integer, Uuid};
use relay_model::ids::DeviceId;
use relay_model::limits::Limits;
use relay_model::store::{DatabaseUrl, DeviceStore, DieselStore, TestDatabase};
use relay_tests::memory_store::PresenceChange;
use relay_tests::store_suite::Subject;

use crate::history_row::HistoryRow;

/// Two stores on one database, as two relay processes have them.
pub(crate) struct PostgresSubject {
    blue: DieselStore,
    green: DieselStore,
    database: TestDatabase,
}

impl PostgresSubject {
    pub(crate) async fn new() -> Self {
        let database = TestDatabase::create();
        let url: DatabaseUrl = database.url().parse().unwrap();
        let limits = Limits {
            database_pool: 2,
            ..Limits::default()
        };
        let blue = DieselStore::open(&url, &limits).unwrap();
        let green = DieselStore::open(&url, &limits).unwrap();
        // Both start at once, both migrate.
        let (ours, theirs) = tokio::join!(blue.migrate(), green.migrate());
        let applied = ours.unwrap().len() + theirs.unwrap().len();
        assert_eq!(applied, 2, "each step once");
        Self {
            blue,
            green,
            database,
        }
    }
}

impl Subject for PostgresSubject {
    fn store(&self) -> &dyn DeviceStore {
        &self.blue
    }

    fn second(&self) -> &dyn DeviceStore {
        &self.green
    }

    fn shared(&self) -> Arc<dyn DeviceStore> {
        Arc::new(self.blue.clone())
    }

    fn history(&self, device: DeviceId) -> Vec<PresenceChange> {
        let rows: Vec<HistoryRow> = diesel::sql_query(
            "SELECT account::text AS account, (extract(epoch FROM at) * 1000000)::bigint AS at,
                 instance::text AS instance, generation, status, reason
             FROM presence_history WHERE device = $1
             ORDER BY presence_history.at, presence_history.instance, generation, status",
        )
        .bind::<Uuid, _>(device.as_uuid())
        .load(&mut self.database.shell())
        .unwrap();
        rows.into_iter()
            .map(|row| row.into_change(device))
            .collect()
    }

    fn forget(&self, device: DeviceId) {
        let changed = diesel::sql_query("UPDATE devices SET forgotten_at = now() WHERE id = $1")
            .bind::<Uuid, _>(device.as_uuid())
            .execute(&mut self.database.shell());
        assert_eq!(changed, Ok(1));
    }

    fn set_protocol_floor(&self, floor: u32) {
        let changed = diesel::sql_query("UPDATE relay_policy SET min_protocol_version = $1")
            .bind::<Integer, _>(i32::try_from(floor).unwrap())
            .execute(&mut self.database.shell());
        assert_eq!(changed, Ok(1));
    }
}

relay_tests::store_suite!(PostgresSubject::new().await);
