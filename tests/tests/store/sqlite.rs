//! The store on SQLite.

use std::sync::Arc;

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Binary};
use relay_model::ids::DeviceId;
use relay_model::limits::Limits;
use relay_model::store::{DatabaseUrl, DeviceStore, DieselStore};
use relay_tests::memory_store::PresenceChange;
use relay_tests::store_suite::Subject;

use crate::history_row::HistoryRow;

/// Two stores on one SQLite file, as two relay processes have them.
pub(crate) struct SqliteSubject {
    pub(crate) blue: DieselStore,
    pub(crate) green: DieselStore,
    folder: tempfile::TempDir,
}

impl SqliteSubject {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url: DatabaseUrl = format!("sqlite://{}/relay.db", folder.path().display())
            .parse()
            .unwrap();
        let limits = Limits {
            database_pool: 2,
            ..Limits::default()
        };
        let blue = DieselStore::open(&url, &limits).unwrap();
        let green = DieselStore::open(&url, &limits).unwrap();
        // Both start at once, both migrate.
        let (ours, theirs) = tokio::join!(blue.migrate(), green.migrate());
        let applied = ours.unwrap().len() + theirs.unwrap().len();
        assert_eq!(applied, 3, "each step once");
        Self {
            blue,
            green,
            folder,
        }
    }

    fn shell(&self) -> SqliteConnection {
        let path = self.folder.path().join("relay.db");
        SqliteConnection::establish(path.to_str().unwrap()).unwrap()
    }
}

impl Subject for SqliteSubject {
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
            "SELECT hex(account) AS account, at, hex(instance) AS instance, generation, status,
                 reason
             FROM presence_history WHERE device = ? ORDER BY at, instance, generation, status",
        )
        .bind::<Binary, _>(device.as_uuid().as_bytes().as_slice())
        .load(&mut self.shell())
        .unwrap();
        rows.into_iter()
            .map(|row| row.into_change(device))
            .collect()
    }

    fn forget(&self, device: DeviceId) {
        let changed = diesel::sql_query("UPDATE devices SET forgotten_at = 1 WHERE id = ?")
            .bind::<Binary, _>(device.as_uuid().as_bytes().as_slice())
            .execute(&mut self.shell());
        assert_eq!(changed, Ok(1));
    }

    fn set_protocol_floor(&self, floor: u32) {
        let changed = diesel::sql_query("UPDATE relay_policy SET min_protocol_version = ?")
            .bind::<BigInt, _>(i64::from(floor))
            .execute(&mut self.shell());
        assert_eq!(changed, Ok(1));
    }
}

relay_tests::store_suite!(SqliteSubject::new().await);
