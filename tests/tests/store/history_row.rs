//! A row of the presence history as a database's shell reads it.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};
use relay_model::ids::{AccountId, ConnectionGeneration, DeviceId, RelayInstanceId};
use relay_model::store::{DeviceStatus, OfflineReason};
use relay_model::time::Timestamp;
use relay_tests::memory_store::PresenceChange;
use uuid::Uuid;

/// Ids as hexadecimal digits, the time in microseconds since 1970.
#[derive(QueryableByName)]
pub(crate) struct HistoryRow {
    #[diesel(sql_type = Text)]
    account: String,
    #[diesel(sql_type = BigInt)]
    at: i64,
    #[diesel(sql_type = Text)]
    instance: String,
    #[diesel(sql_type = BigInt)]
    generation: i64,
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = Nullable<Text>)]
    reason: Option<String>,
}

impl HistoryRow {
    pub(crate) fn into_change(self, device: DeviceId) -> PresenceChange {
        let uuid = |text: &str| Uuid::try_parse(text).unwrap();
        PresenceChange {
            account: AccountId::from_uuid(uuid(&self.account)),
            device,
            at: Timestamp::from_unix_micros(self.at),
            instance: RelayInstanceId::from_uuid(uuid(&self.instance)),
            generation: ConnectionGeneration::new(self.generation.cast_unsigned()),
            status: word(&self.status, &STATUSES.map(DeviceStatus::as_str)),
            reason: self
                .reason
                .map(|reason| word(&reason, &REASONS.map(OfflineReason::as_str))),
        }
    }
}

const STATUSES: [DeviceStatus; 3] = [
    DeviceStatus::Online,
    DeviceStatus::Reconnecting,
    DeviceStatus::Offline,
];

const REASONS: [OfflineReason; 7] = [
    OfflineReason::ReconnectTimeout,
    OfflineReason::Disconnected,
    OfflineReason::Hidden,
    OfflineReason::Unlinked,
    OfflineReason::SignedOut,
    OfflineReason::RelayStopped,
    OfflineReason::RelayLost,
];

fn word(read: &str, known: &[&'static str]) -> &'static str {
    let found = known.iter().find(|known| **known == read);
    found.unwrap_or_else(|| panic!("{read:?} is none of {known:?}"))
}
