//! Column types of our own, so that one query serves every backend: diesel's UUID and its time with
//! zone exist for PostgreSQL only. A backend joins by one more attribute and one more pair of
//! conversions per type.

use diesel::backend::Backend;
use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::data_types::PgTimestamp;
use diesel::pg::{Pg, PgValue};
use diesel::query_builder::QueryId;
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::{BigInt, Binary, SqlType, Text, Timestamptz};
use diesel::sqlite::{Sqlite, SqliteValue};

use super::{DeviceStatus, DeviceType, OfflineReason};
use crate::push::{PushEnvironment, PushOutcome, PushPlatform};
use crate::time::Timestamp;

/// SQL type of ids: a BLOB of 16 bytes in SQLite, `uuid` in PostgreSQL.
#[derive(Debug, Clone, Copy, Default, SqlType, QueryId)]
#[diesel(sqlite_type(name = "Binary"))]
#[diesel(postgres_type(oid = 2950, array_oid = 2951))]
pub struct Uuid;

/// SQL type of times: microseconds since 1970 in UTC in SQLite, `timestamptz` in PostgreSQL.
#[derive(Debug, Clone, Copy, Default, SqlType, QueryId)]
#[diesel(sqlite_type(name = "Long"))]
#[diesel(postgres_type(oid = 1184, array_oid = 1185))]
pub struct Moment;

/// An id on its way to or from the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, AsExpression, FromSqlRow)]
#[diesel(sql_type = Uuid)]
pub(super) struct StoredUuid(uuid::Uuid);

impl StoredUuid {
    /// The id itself.
    pub(super) fn uuid(self) -> uuid::Uuid {
        self.0
    }
}

macro_rules! stored_id {
    ($($id:ident),+) => {$(
        impl From<crate::ids::$id> for StoredUuid {
            fn from(id: crate::ids::$id) -> Self {
                Self(*id.as_uuid())
            }
        }
    )+};
}
stored_id!(AccountId, ApiKeyId, DeviceId, RelayInstanceId);

impl ToSql<Uuid, Sqlite> for StoredUuid {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        <[u8] as ToSql<Binary, Sqlite>>::to_sql(self.0.as_bytes(), out)
    }
}

impl FromSql<Uuid, Sqlite> for StoredUuid {
    fn from_sql(value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
        let bytes = <Vec<u8> as FromSql<Binary, Sqlite>>::from_sql(value)?;
        Ok(Self(uuid::Uuid::from_slice(&bytes)?))
    }
}

impl ToSql<Uuid, Pg> for StoredUuid {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<diesel::sql_types::Uuid, Pg>::to_sql(&self.0, out)
    }
}

impl FromSql<Uuid, Pg> for StoredUuid {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        FromSql::<diesel::sql_types::Uuid, Pg>::from_sql(value).map(Self)
    }
}

/// From 1970 to 2000, where PostgreSQL's time begins, in microseconds.
const PG_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A time on its way to or from the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, AsExpression, FromSqlRow)]
#[diesel(sql_type = Moment)]
pub(super) struct StoredMoment(pub(super) Timestamp);

impl ToSql<Moment, Sqlite> for StoredMoment {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        out.set_value(self.0.unix_micros());
        Ok(serialize::IsNull::No)
    }
}

impl FromSql<Moment, Sqlite> for StoredMoment {
    fn from_sql(value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
        let micros = <i64 as FromSql<BigInt, Sqlite>>::from_sql(value)?;
        Ok(Self(Timestamp::from_unix_micros(micros)))
    }
}

impl ToSql<Moment, Pg> for StoredMoment {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        let micros = self.0.unix_micros().saturating_sub(PG_EPOCH_MICROS);
        ToSql::<Timestamptz, Pg>::to_sql(&PgTimestamp(micros), &mut out.reborrow())
    }
}

impl FromSql<Moment, Pg> for StoredMoment {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        let PgTimestamp(micros) = FromSql::<Timestamptz, Pg>::from_sql(value)?;
        Ok(Self(Timestamp::from_unix_micros(
            micros.saturating_add(PG_EPOCH_MICROS),
        )))
    }
}

/// A word in the database that stands for no variant: written by another version of the relay.
#[derive(Debug, thiserror::Error)]
#[error("{word:?} is not a known {of}; the database was written by another version of the relay")]
struct UnknownWord {
    of: &'static str,
    word: String,
}

macro_rules! words {
    ($enum:ident, $of:literal: $($variant:ident = $word:literal),+) => {
        impl $enum {
            /// Every one of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its spelling in the database and on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl<DB: Backend> ToSql<Text, DB> for $enum
        where
            str: ToSql<Text, DB>,
        {
            fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result {
                self.as_str().to_sql(out)
            }
        }

        impl<DB: Backend> FromSql<Text, DB> for $enum
        where
            String: FromSql<Text, DB>,
        {
            fn from_sql(value: DB::RawValue<'_>) -> deserialize::Result<Self> {
                let word = String::from_sql(value)?;
                match word.as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(UnknownWord { of: $of, word }.into()),
                }
            }
        }
    };
}

words! { DeviceType, "device type": Desktop = "desktop", Mobile = "mobile" }
words! { DeviceStatus, "device status":
    Online = "online", Reconnecting = "reconnecting", Offline = "offline"
}
words! { OfflineReason, "offline reason":
    ReconnectTimeout = "reconnect_timeout", Disconnected = "disconnected",
    Hidden = "hidden", Unlinked = "unlinked", SignedOut = "signed_out",
    RelayStopped = "relay_stopped", RelayLost = "relay_lost"
}
words! { PushPlatform, "push platform": Ios = "ios", Android = "android" }
words! { PushEnvironment, "push environment": Production = "production", Sandbox = "sandbox" }
words! { PushOutcome, "push outcome":
    Delivered = "delivered", TokenGone = "token_gone", Rejected = "rejected",
    Refused = "refused", Expired = "expired", Dropped = "dropped", Retried = "retried"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PR-6, OP-9: one spelling in the database, in JSON and in code.
    #[test]
    fn words_are_spelled_as_in_json() {
        use DeviceStatus::{Offline, Online, Reconnecting};
        use OfflineReason::{
            Disconnected, Hidden, ReconnectTimeout, RelayLost, RelayStopped, SignedOut, Unlinked,
        };

        for status in [Online, Reconnecting, Offline] {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        for reason in [
            ReconnectTimeout,
            Disconnected,
            Hidden,
            Unlinked,
            SignedOut,
            RelayStopped,
            RelayLost,
        ] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
        for &outcome in PushOutcome::ALL {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
        for platform in [PushPlatform::Ios, PushPlatform::Android] {
            assert_eq!(serde_json::to_value(platform).unwrap(), platform.as_str());
        }
        for environment in [PushEnvironment::Production, PushEnvironment::Sandbox] {
            assert_eq!(
                serde_json::to_value(environment).unwrap(),
                environment.as_str()
            );
        }
        for device_type in [DeviceType::Desktop, DeviceType::Mobile] {
            assert_eq!(
                serde_json::to_value(device_type).unwrap(),
                device_type.as_str()
            );
        }
    }
}
