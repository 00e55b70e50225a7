//! A device's registration over HTTP: its row is made or brought up to date; presence is not
//! touched.

use diesel::prelude::*;

use super::columns::{StoredMoment, StoredUuid};
use super::devices::{PresenceColumns, ShownColumns};
use super::dialect::Dialect;
use super::pool::{Pool, transaction};
use super::push_tokens::{TokenColumns, set_within};
use super::schema::devices;
use super::{
    ChangedDevice, DesktopRegistration, DeviceStatus, DeviceType, PhoneRegistration,
    RegistrationOutcome, StoreError,
};
use crate::ids::{AccountId, DeviceId};
use crate::time::Timestamp;

/// What either kind of device says about itself.
pub(super) struct Registration {
    device_type: DeviceType,
    facts: Facts,
    push_token: Option<TokenColumns>,
    rejoin: bool,
}

/// The columns that a registration sets; `None` in the last two keeps what the row has.
#[derive(AsChangeset)]
#[diesel(table_name = devices)]
struct Facts {
    device_name: String,
    platform: String,
    #[diesel(treat_none_as_null = true)]
    platform_version: Option<String>,
    app_version: String,
    capabilities: Option<String>,
    relay_eligible: Option<bool>,
}

impl From<DesktopRegistration> for Registration {
    fn from(desktop: DesktopRegistration) -> Self {
        Self {
            device_type: DeviceType::Desktop,
            facts: Facts {
                device_name: desktop.device_name,
                platform: desktop.platform,
                platform_version: desktop.platform_version,
                app_version: desktop.app_version,
                capabilities: desktop.capabilities.map(|value| value.to_string()),
                relay_eligible: desktop.relay_eligible,
            },
            push_token: None,
            rejoin: desktop.rejoin,
        }
    }
}

impl From<PhoneRegistration> for Registration {
    fn from(phone: PhoneRegistration) -> Self {
        Self {
            device_type: DeviceType::Mobile,
            facts: Facts {
                device_name: phone.device_name,
                platform: phone.platform,
                platform_version: None,
                app_version: phone.app_version,
                capabilities: phone.capabilities.map(|value| value.to_string()),
                relay_eligible: None,
            },
            push_token: phone.push_token.map(TokenColumns::from),
            rejoin: phone.rejoin,
        }
    }
}

/// Makes the row, or updates it if it is this account's, of this type and not forgotten.
pub(super) fn register(
    pool: &Pool,
    account: AccountId,
    device: DeviceId,
    registration: Registration,
    now: Timestamp,
) -> Result<RegistrationOutcome, StoreError> {
    let account = StoredUuid::from(account);
    let device = StoredUuid::from(device);
    let made_at = StoredMoment(now);
    let Registration {
        device_type,
        facts,
        push_token,
        rejoin,
    } = registration;
    transaction!(
        pool,
        |connection| -> Result<RegistrationOutcome, StoreError> {
            // Inserting before looking settles a race of two first registrations on every backend:
            // one of them makes the row, the other finds it.
            let made = diesel::insert_into(devices::table)
                .values((
                    (
                        devices::id.eq(device),
                        devices::account.eq(account),
                        devices::device_type.eq(device_type),
                        devices::device_name.eq(&facts.device_name),
                        devices::platform.eq(&facts.platform),
                        devices::platform_version.eq(&facts.platform_version),
                        devices::app_version.eq(&facts.app_version),
                        devices::capabilities.eq(facts.capabilities.as_deref().unwrap_or("{}")),
                        devices::relay_eligible.eq(facts.relay_eligible.unwrap_or(true)),
                    ),
                    (
                        devices::status.eq(DeviceStatus::Offline),
                        devices::status_at.eq(made_at),
                        devices::created_at.eq(made_at),
                        devices::updated_at.eq(made_at),
                    ),
                ))
                .on_conflict(devices::id)
                .do_nothing()
                .execute(connection)?;
            let (mut was_eligible, mut was_forgotten) = (None, false);
            if made == 0 {
                let before = connection.standing_for_update(device)?;
                // A row is forgotten, never removed.
                let before = before.ok_or(diesel::result::Error::NotFound)?;
                if before.account != account {
                    return Ok(RegistrationOutcome::Foreign);
                }
                if before.device_type != device_type {
                    return Ok(RegistrationOutcome::TypeMismatch);
                }
                if before.forgotten && !rejoin {
                    return Ok(RegistrationOutcome::Forgotten);
                }
                was_eligible = Some(before.relay_eligible);
                was_forgotten = before.forgotten;
                diesel::update(devices::table.find(device))
                    .filter(devices::account.eq(account))
                    .set((
                        facts,
                        devices::forgotten_at.eq(None::<StoredMoment>),
                        devices::updated_at.eq(before.next_change(now)),
                    ))
                    .execute(connection)?;
            }
            if let Some(token) = &push_token {
                set_within!(connection, device, account, token, made_at);
            }
            let (shown, presence): (ShownColumns, PresenceColumns) = devices::table
                .find(device)
                .filter(devices::account.eq(account))
                .select((ShownColumns::as_select(), PresenceColumns::as_select()))
                .first(connection)?;
            let row = shown.into_row(presence, None)?;
            Ok(RegistrationOutcome::Registered(Box::new(ChangedDevice {
                was_eligible: was_eligible.unwrap_or(row.relay_eligible),
                was_forgotten,
                row,
            })))
        }
    )
}
