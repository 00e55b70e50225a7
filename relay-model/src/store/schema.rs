//! The tables as diesel checks queries against them; the same for every backend, which is why the
//! column types are those of [`columns`](super::columns).

diesel::table! {
    use diesel::sql_types::{BigInt, Bool, Nullable, Text};
    use crate::store::columns::{Moment, Uuid};

    /// Phones and desktops.
    devices (id) {
        /// Chosen by the client.
        id -> Uuid,
        /// Its owner.
        account -> Uuid,
        /// [`DeviceType`](crate::store::DeviceType).
        device_type -> Text,
        /// Its name.
        device_name -> Text,
        /// Its operating system.
        platform -> Text,
        /// Version of the operating system.
        platform_version -> Nullable<Text>,
        /// Version of the app.
        app_version -> Text,
        /// Opaque JSON, readable in a database shell.
        capabilities -> Text,
        /// Not hidden (EV-5).
        relay_eligible -> Bool,
        /// When its user forgot it.
        forgotten_at -> Nullable<Moment>,
        /// [`DeviceStatus`](crate::store::DeviceStatus).
        status -> Text,
        /// [`OfflineReason`](crate::store::OfflineReason).
        offline_reason -> Nullable<Text>,
        /// The relay that held it last.
        instance -> Nullable<Uuid>,
        /// The generation of its last connection, bit for bit.
        generation -> Nullable<BigInt>,
        /// When `status` became what it is.
        status_at -> Moment,
        /// When it was last known to be connected.
        last_seen -> Nullable<Moment>,
        /// When its last heartbeat came.
        last_heartbeat -> Nullable<Moment>,
        /// The directory that a desktop works in.
        active_project_directory -> Nullable<Text>,
        /// When the row was made.
        created_at -> Moment,
        /// When the device last registered or changed it.
        updated_at -> Moment,
    }
}

diesel::table! {
    use diesel::sql_types::Bool;
    use crate::store::columns::{Moment, Uuid};

    /// Runs of the relay process (PR-6).
    relay_instances (id) {
        /// New for each process (SES-5).
        id -> Uuid,
        /// Owns nothing any more.
        draining -> Bool,
        /// When it first renewed.
        started_at -> Moment,
        /// When it last renewed.
        renewed_at -> Moment,
        /// Owns nothing after this.
        lease_until -> Moment,
    }
}

diesel::table! {
    /// What operators may change without a deploy (REG-9); one row.
    relay_policy (id) {
        /// Always 1.
        id -> Integer,
        /// The protocol floor.
        min_protocol_version -> Integer,
    }
}

diesel::table! {
    use diesel::sql_types::{BigInt, Nullable, Text};
    use crate::store::columns::{Moment, Uuid};

    /// Presence changes that took effect (PR-6).
    presence_history (account, device, at, instance, generation, status) {
        /// The device's owner.
        account -> Uuid,
        /// The device.
        device -> Uuid,
        /// When.
        at -> Moment,
        /// The relay that held it.
        instance -> Uuid,
        /// The generation of its connection, bit for bit.
        generation -> BigInt,
        /// What it became: [`DeviceStatus`](crate::store::DeviceStatus).
        status -> Text,
        /// Why: [`OfflineReason`](crate::store::OfflineReason).
        reason -> Nullable<Text>,
    }
}

diesel::table! {
    use diesel::sql_types::{Binary, Nullable, Text};
    use crate::store::columns::{Moment, Uuid};

    /// API keys (HTTP-4).
    api_keys (id) {
        /// The part of the key that is no secret.
        id -> Uuid,
        /// Its owner.
        account -> Uuid,
        /// What its owner calls it.
        name -> Nullable<Text>,
        /// [`Scopes`](crate::credentials::Scopes).
        scopes -> Text,
        /// SHA-256 of its secret.
        secret_hash -> Binary,
        /// When it was made.
        created_at -> Moment,
        /// When it ends by itself.
        expires_at -> Nullable<Moment>,
        /// When its owner ended it.
        revoked_at -> Nullable<Moment>,
    }
}

diesel::table! {
    use diesel::sql_types::{Binary, Nullable, Text};
    use crate::store::columns::{Moment, Uuid};

    /// Where phones are reached that are not connected (section 12).
    push_tokens (device) {
        /// The phone.
        device -> Uuid,
        /// Its owner.
        account -> Uuid,
        /// [`PushPlatform`](crate::push::PushPlatform).
        platform -> Text,
        /// [`PushEnvironment`](crate::push::PushEnvironment).
        environment -> Nullable<Text>,
        /// The token, which is a secret.
        token -> Text,
        /// SHA-256 of the token.
        token_hash -> Binary,
        /// When the phone last said that this is its token.
        registered_at -> Moment,
        /// [`PushOutcome`](crate::push::PushOutcome) of the last push.
        last_outcome -> Nullable<Text>,
        /// When that was known.
        last_outcome_at -> Nullable<Moment>,
    }
}

diesel::allow_tables_to_appear_in_same_query!(devices, relay_instances, relay_policy);
diesel::allow_tables_to_appear_in_same_query!(devices, push_tokens);

#[cfg(test)]
mod tests {
    use diesel::prelude::*;
    use diesel::query_builder::AsQuery;
    use diesel::sql_types::{Bool, Text};
    use diesel::sqlite::Sqlite;
    use diesel_migrations::MigrationHarness;

    use super::*;
    use crate::store::TestDatabase;
    use crate::store::migrations::{PG_MIGRATIONS, SQLITE_MIGRATIONS};

    #[derive(QueryableByName)]
    struct Column {
        #[diesel(sql_type = Text)]
        name: String,
        #[diesel(sql_type = Bool)]
        required: bool,
    }

    fn described() -> [(&'static str, String); 6] {
        [
            ("devices", select_text(devices::table)),
            ("relay_instances", select_text(relay_instances::table)),
            ("relay_policy", select_text(relay_policy::table)),
            ("presence_history", select_text(presence_history::table)),
            ("api_keys", select_text(api_keys::table)),
            ("push_tokens", select_text(push_tokens::table)),
        ]
    }

    fn compare(mut columns_of: impl FnMut(&str) -> Vec<Column>) {
        for (table, query) in described() {
            let columns = columns_of(table);
            assert!(columns.iter().any(|column| column.required), "{table}");
            let mut real: Vec<String> = columns
                .into_iter()
                .map(|column| format!("`{table}`.`{}`", column.name))
                .collect();
            let mut described: Vec<String> = query
                .trim_start_matches("SELECT ")
                .split(" FROM ")
                .next()
                .unwrap()
                .split(", ")
                .map(str::to_owned)
                .collect();
            real.sort();
            described.sort();
            assert_eq!(described, real, "{table}");
        }
    }

    /// The hand-written schema names every column of the migrated tables and no other.
    #[test]
    fn schema_matches_the_migrated_database() {
        let mut connection = SqliteConnection::establish(":memory:").unwrap();
        connection
            .run_pending_migrations(SQLITE_MIGRATIONS)
            .unwrap();
        compare(|table| {
            diesel::sql_query(
                "SELECT name, \"notnull\" AS required FROM pragma_table_info(?) ORDER BY cid",
            )
            .bind::<Text, _>(table)
            .load(&mut connection)
            .unwrap()
        });
    }

    /// As in SQLite, so on PostgreSQL.
    #[test]
    fn schema_matches_the_migrated_server() {
        let database = TestDatabase::create();
        let mut connection = database.shell();
        connection.run_pending_migrations(PG_MIGRATIONS).unwrap();
        compare(|table| {
            diesel::sql_query(
                "SELECT column_name::text AS name, is_nullable = 'NO' AS required
                 FROM information_schema.columns WHERE table_name = $1",
            )
            .bind::<Text, _>(table)
            .load(&mut connection)
            .unwrap()
        });
    }

    fn select_text<T>(table: T) -> String
    where
        T: AsQuery,
        T::Query: diesel::query_builder::QueryFragment<Sqlite>,
    {
        diesel::debug_query::<Sqlite, _>(&table.as_query())
            .to_string()
            .split(" -- ")
            .next()
            .unwrap()
            .to_owned()
    }
}
