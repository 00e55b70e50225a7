//! What a registration over the socket is checked against, in one statement: one snapshot of the
//! policy, the device and its target (REG-4, REG-9).

use diesel::prelude::*;

use super::columns::{StoredMoment, StoredUuid};
use super::devices::{HolderColumns, PresenceColumns};
use super::policy::{floor_from_column, no_policy};
use super::pool::{Pool, query};
use super::schema::{devices, relay_instances, relay_policy};
use super::{Asker, DeviceStanding, DeviceType, RegistrationFacts, StoreError, TargetFacts};
use crate::ids::{AccountId, DeviceId};

diesel::alias!(devices as own: Own);

/// The device's own row, whoever it belongs to.
#[derive(Queryable)]
struct OwnColumns {
    account: StoredUuid,
    device_type: DeviceType,
    forgotten_at: Option<StoredMoment>,
    relay_eligible: bool,
}

/// The target's row, if it is a desktop of the account.
#[derive(Queryable, Selectable)]
#[diesel(table_name = devices)]
struct AdmissionColumns {
    forgotten_at: Option<StoredMoment>,
    relay_eligible: bool,
}

/// Reads all of it. A row of another account leaves this function as
/// [`DeviceStanding::Foreign`] and nothing else; a foreign target is never read.
pub(super) fn read(
    pool: &Pool,
    asker: Asker,
    account: AccountId,
    device: DeviceId,
    target: Option<DeviceId>,
) -> Result<RegistrationFacts, StoreError> {
    type Found = (
        i32,
        Option<OwnColumns>,
        Option<(AdmissionColumns, PresenceColumns)>,
        Option<HolderColumns>,
    );

    let account = StoredUuid::from(account);
    let device = StoredUuid::from(device);
    let target = target.map(StoredUuid::from);
    let found: Option<Found> = query!(pool, |connection| {
        relay_policy::table
            .left_join(own.on(own.field(devices::id).eq(device)))
            .left_join(
                devices::table.on(devices::id
                    .nullable()
                    .eq(target)
                    .and(devices::account.eq(account))
                    .and(devices::device_type.eq(DeviceType::Desktop))),
            )
            .left_join(
                relay_instances::table.on(relay_instances::id.nullable().eq(devices::instance)),
            )
            .select((
                relay_policy::min_protocol_version,
                own.fields((
                    devices::account,
                    devices::device_type,
                    devices::forgotten_at,
                    devices::relay_eligible,
                ))
                .nullable(),
                Option::<(AdmissionColumns, PresenceColumns)>::as_select(),
                Option::<HolderColumns>::as_select(),
            ))
            .first(connection)
            .optional()?
    });
    let (floor, own_row, target_row, holder) = found.ok_or_else(no_policy)?;
    Ok(RegistrationFacts {
        protocol_floor: floor_from_column(floor)?,
        device: match own_row {
            None => DeviceStanding::Unknown,
            Some(row) if row.account != account => DeviceStanding::Foreign,
            Some(row) => DeviceStanding::Owned {
                device_type: row.device_type,
                forgotten: row.forgotten_at.is_some(),
                relay_eligible: row.relay_eligible || row.device_type == DeviceType::Mobile,
            },
        },
        target: target_row.map(|(admission, presence)| TargetFacts {
            admitted: admission.forgotten_at.is_none() && admission.relay_eligible,
            elsewhere: presence.elsewhere(holder, asker),
        }),
    })
}
