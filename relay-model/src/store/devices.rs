//! Device rows as `GET /api/devices` shows them, and what a row says about other relays (PR-8).

use diesel::prelude::*;

use super::columns::{StoredMoment, StoredUuid};
use super::pool::{Pool, query};
use super::schema::{devices, relay_instances};
use super::{
    Asker, DeviceFilter, DeviceRow, DeviceStatus, DeviceType, Elsewhere, Holder, KnownDevice,
    OfflineReason, StoreError,
};
use crate::ids::{AccountId, DeviceId, RelayInstanceId};

/// The columns of a device that are shown.
#[derive(Queryable, Selectable)]
#[diesel(table_name = devices)]
pub(super) struct ShownColumns {
    id: StoredUuid,
    device_type: DeviceType,
    device_name: String,
    platform: String,
    platform_version: Option<String>,
    app_version: String,
    capabilities: String,
    relay_eligible: bool,
    last_heartbeat: Option<StoredMoment>,
    active_project_directory: Option<String>,
    created_at: StoredMoment,
    updated_at: StoredMoment,
}

/// The columns of a device that tell where it is connected.
#[derive(Debug, Clone, Copy, Queryable, Selectable)]
#[diesel(table_name = devices)]
pub(super) struct PresenceColumns {
    pub(super) status: DeviceStatus,
    pub(super) offline_reason: Option<OfflineReason>,
    pub(super) instance: Option<StoredUuid>,
    pub(super) status_at: StoredMoment,
    pub(super) last_seen: Option<StoredMoment>,
}

/// The columns of the relay that holds a device.
#[derive(Debug, Clone, Copy, Queryable, Selectable)]
#[diesel(table_name = relay_instances)]
pub(super) struct HolderColumns {
    pub(super) draining: bool,
    pub(super) renewed_at: StoredMoment,
    pub(super) lease_until: StoredMoment,
}

impl PresenceColumns {
    /// See [`DeviceRow::elsewhere`].
    pub(super) fn elsewhere(
        &self,
        holder: Option<HolderColumns>,
        asker: Asker,
    ) -> Option<Elsewhere> {
        let instance = RelayInstanceId::from_uuid(self.instance?.uuid());
        if instance == asker.instance {
            return None;
        }
        let renewed_at = holder.map(|holder| holder.renewed_at);
        let holder = holder.map_or(Holder::Gone, |holder| {
            Holder::of(holder.draining, holder.lease_until.0, asker.now)
        });
        let seen = match (self.status, self.offline_reason) {
            (DeviceStatus::Online | DeviceStatus::Reconnecting, _) => match holder {
                Holder::Live => asker.now,
                Holder::Draining | Holder::Gone => self.last_known(renewed_at).0,
            },
            (
                DeviceStatus::Offline,
                Some(OfflineReason::RelayStopped | OfflineReason::RelayLost),
            ) => self.last_seen?.0,
            (DeviceStatus::Offline, _) => return None,
        };
        Some(Elsewhere { seen, holder })
    }

    /// When the relay that held this row last knew it connected, as far as it had time to say: by
    /// the row's own times, or by renewing its lease after them.
    pub(super) fn last_known(&self, renewed_at: Option<StoredMoment>) -> StoredMoment {
        self.status_at
            .max(self.last_seen.unwrap_or(self.status_at))
            .max(renewed_at.unwrap_or(self.status_at))
    }
}

impl ShownColumns {
    /// The row as callers get it.
    pub(super) fn into_row(
        self,
        presence: PresenceColumns,
        elsewhere: Option<Elsewhere>,
    ) -> Result<DeviceRow, StoreError> {
        let capabilities = serde_json::from_str(&self.capabilities).map_err(|_| {
            StoreError::Failed("a device's capabilities are not JSON; mend the row".to_owned())
        })?;
        Ok(DeviceRow {
            id: DeviceId::from_uuid(self.id.uuid()),
            device_type: self.device_type,
            device_name: self.device_name,
            platform: self.platform,
            platform_version: self.platform_version,
            app_version: self.app_version,
            capabilities,
            relay_eligible: self.relay_eligible,
            status: presence.status,
            offline_reason: presence.offline_reason,
            elsewhere,
            last_seen: presence.last_seen.map(|moment| moment.0),
            last_heartbeat: self.last_heartbeat.map(|moment| moment.0),
            active_project_directory: self.active_project_directory,
            created_at: self.created_at.0,
            updated_at: self.updated_at.0,
        })
    }
}

/// The account's devices that are not forgotten, oldest first.
pub(super) fn list(
    pool: &Pool,
    asker: Asker,
    account: AccountId,
    filter: DeviceFilter,
) -> Result<Vec<DeviceRow>, StoreError> {
    type Found = (ShownColumns, PresenceColumns, Option<HolderColumns>);

    let found: Vec<Found> = query!(pool, |connection| {
        let mut wanted = devices::table
            .left_join(
                relay_instances::table.on(relay_instances::id.nullable().eq(devices::instance)),
            )
            .filter(devices::account.eq(StoredUuid::from(account)))
            .filter(devices::forgotten_at.is_null())
            .order((devices::created_at, devices::id))
            .select((
                ShownColumns::as_select(),
                PresenceColumns::as_select(),
                Option::<HolderColumns>::as_select(),
            ))
            .into_boxed();
        if let Some(device_type) = filter.device_type {
            wanted = wanted.filter(devices::device_type.eq(device_type));
        }
        wanted.load(connection)?
    });
    found
        .into_iter()
        .map(|(shown, presence, holder)| {
            shown.into_row(presence, presence.elsewhere(holder, asker))
        })
        .collect()
}

/// All devices of the account, oldest first.
pub(super) fn list_known(
    pool: &Pool,
    asker: Asker,
    account: AccountId,
) -> Result<Vec<KnownDevice>, StoreError> {
    type Found = (
        ShownColumns,
        PresenceColumns,
        Option<StoredMoment>,
        Option<HolderColumns>,
    );

    let found: Vec<Found> = query!(pool, |connection| {
        devices::table
            .left_join(
                relay_instances::table.on(relay_instances::id.nullable().eq(devices::instance)),
            )
            .filter(devices::account.eq(StoredUuid::from(account)))
            .order((devices::created_at, devices::id))
            .select((
                ShownColumns::as_select(),
                PresenceColumns::as_select(),
                devices::forgotten_at,
                Option::<HolderColumns>::as_select(),
            ))
            .load(connection)?
    });
    found
        .into_iter()
        .map(|(shown, presence, forgotten_at, holder)| {
            let elsewhere = presence.elsewhere(holder, asker);
            Ok(KnownDevice {
                row: shown.into_row(presence, elsewhere)?,
                forgotten: forgotten_at.is_some(),
                status_at: presence.status_at.0,
            })
        })
        .collect()
}
