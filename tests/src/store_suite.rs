//! What every device store must do, as one suite that runs over each of them: the store in memory
//! is only worth simulating with if it behaves like the one over a database.

mod changes;
mod foreign;
mod forgetting;
mod history;
mod instances;
mod keys;
mod listing;
mod operators;
mod presence;
mod push_tokens;
mod recorder;
mod registration;

use std::sync::Arc;
use std::time::Duration;

use relay_model::ids::{AccountId, ConnectionGeneration, DeviceId, RelayInstanceId};
use relay_model::store::{
    Asker, DesktopRegistration, DeviceFilter, DeviceRow, DeviceStatus, DeviceStore, OfflineReason,
    PhoneRegistration, PresenceWrite, RegistrationFacts, RegistrationOutcome,
};
use relay_model::time::Timestamp;
use uuid::Uuid;

use DeviceStatus::{Offline, Online, Reconnecting};

use crate::memory_store::PresenceChange;
pub use changes::*;
pub use foreign::*;
pub use forgetting::*;
pub use history::*;
pub use instances::*;
pub use keys::*;
pub use listing::*;
pub use operators::*;
pub use presence::*;
pub use push_tokens::*;
pub use registration::*;

/// A fresh store under test, and what an operator or another part of the relay does to its data.
pub trait Subject {
    /// The store.
    fn store(&self) -> &dyn DeviceStore;

    /// The same data as a second relay process has it.
    fn second(&self) -> &dyn DeviceStore;

    /// The store, to be passed on.
    fn shared(&self) -> Arc<dyn DeviceStore>;

    /// The device's presence history, oldest first.
    fn history(&self, device: DeviceId) -> Vec<PresenceChange>;

    /// Forgets a device.
    fn forget(&self, device: DeviceId);

    /// Sets the protocol floor.
    fn set_protocol_floor(&self, floor: u32);
}

/// Makes one `#[tokio::test]` of each case of the suite; the expression makes a fresh [`Subject`].
#[macro_export]
macro_rules! store_suite {
    ($subject:expr) => {
        $crate::store_suite!(@cases $subject;
            a_new_database_has_the_default_floor,
            the_floor_is_read_each_time,
            a_floor_that_is_set_holds_everywhere,
            a_registration_makes_the_row,
            a_registration_updates_the_row_and_keeps_what_it_does_not_name,
            a_registration_leaves_presence_alone,
            a_forgotten_device_rejoins_only_on_request,
            a_device_keeps_its_type,
            first_registrations_that_race_end_well,
            foreign_accounts_read_and_write_nothing,
            standings_follow_the_row,
            targets_are_desktops_of_the_account,
            the_list_is_oldest_first_and_filtered,
            presence_is_written_as_it_changes,
            an_older_online_changes_nothing,
            only_the_holder_may_take_a_device_offline,
            a_batch_is_written_in_order,
            unknown_devices_are_passed_over,
            late_writes_of_a_stopped_relay_change_nothing,
            a_device_that_moved_is_online_whatever_the_mark,
            elsewhere_is_told_of_other_relays_only,
            elsewhere_does_not_jump_when_swept,
            a_sweep_marks_the_dead_only,
            a_released_relay_stays_dead,
            a_relay_finds_what_was_marked_lost,
            heartbeats_move_forward_only,
            the_history_keeps_what_took_effect,
            the_history_keeps_marks,
            a_change_is_known_by_all_but_why,
            a_purge_drops_old_history_only,
            operators_see_every_device,
            operators_see_the_last_changes,
            a_change_sets_what_it_names,
            what_cannot_be_changed_is_not,
            a_registration_tells_whether_it_was_admitted,
            changes_that_race_follow_each_other,
            a_forgotten_device_is_gone_from_then_on,
            a_forget_takes_the_push_token,
            forgetting_again_changes_nothing,
            a_forgotten_device_takes_no_late_word,
            a_forget_and_a_rejoin_that_race_follow_each_other,
            keys_are_read_as_they_were_made,
            impossible_keys_are_refused,
            a_revoked_key_keeps_its_first_time,
            ended_keys_are_told_apart,
            a_push_token_is_read_as_it_was_set,
            a_push_token_moves_to_who_claims_it,
            push_tokens_are_for_phones_of_the_account,
            a_registration_sets_a_push_token_and_keeps_it,
            push_tokens_are_removed_by_device_and_by_account,
            a_token_that_was_registered_again_is_kept,
            the_outcome_of_the_last_push_is_kept,
            claims_that_race_end_with_one_holder,
        );
    };
    (@cases $subject:expr; $($case:ident,)+) => {
        $(
            #[tokio::test]
            async fn $case() {
                let subject = $subject;
                $crate::store_suite::$case(&subject).await;
            }
        )+
    };
}

const OURS: AccountId = AccountId::from_uuid(Uuid::from_u128(0xA1));
const THEIRS: AccountId = AccountId::from_uuid(Uuid::from_u128(0xA2));
const DESKTOP: DeviceId = DeviceId::from_uuid(Uuid::from_u128(0xD1));
const OTHER_DESKTOP: DeviceId = DeviceId::from_uuid(Uuid::from_u128(0xD2));
const PHONE: DeviceId = DeviceId::from_uuid(Uuid::from_u128(0xE1));
const NOBODY: DeviceId = DeviceId::from_uuid(Uuid::from_u128(0xFF));
const BLUE: RelayInstanceId = RelayInstanceId::from_uuid(Uuid::from_u128(0xB1));
const GREEN: RelayInstanceId = RelayInstanceId::from_uuid(Uuid::from_u128(0xB2));

/// Seconds after the start of the story.
fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_micros(1_791_187_200_000_001).plus(Duration::from_secs(seconds))
}

fn asker(instance: RelayInstanceId, seconds: u64) -> Asker {
    Asker {
        instance,
        now: at(seconds),
    }
}

fn desktop(name: &str) -> DesktopRegistration {
    DesktopRegistration {
        device_name: name.to_owned(),
        platform: "linux".to_owned(),
        platform_version: Some("6.1".to_owned()),
        app_version: "1.2.3".to_owned(),
        capabilities: None,
        relay_eligible: None,
        rejoin: false,
    }
}

fn phone(name: &str) -> PhoneRegistration {
    PhoneRegistration {
        device_name: name.to_owned(),
        platform: "ios".to_owned(),
        app_version: "4.5".to_owned(),
        capabilities: None,
        rejoin: false,
        push_token: None,
    }
}

fn change(
    device: DeviceId,
    (instance, generation): (RelayInstanceId, u64),
    status: DeviceStatus,
    reason: Option<OfflineReason>,
    seconds: u64,
) -> PresenceWrite {
    PresenceWrite {
        account: OURS,
        device,
        instance,
        generation: ConnectionGeneration::new(generation),
        status,
        reason,
        at: at(seconds),
    }
}

fn online(device: DeviceId, holder: (RelayInstanceId, u64), seconds: u64) -> PresenceWrite {
    change(device, holder, Online, None, seconds)
}

async fn write(store: &dyn DeviceStore, write: PresenceWrite) {
    store.write_presence(vec![write]).await.unwrap();
}

async fn with_desktop(store: &dyn DeviceStore, device: DeviceId) -> DeviceRow {
    registered(
        store
            .register_desktop(OURS, device, desktop("Desk"), at(0))
            .await
            .unwrap(),
    )
}

async fn with_phone(store: &dyn DeviceStore) -> DeviceRow {
    registered(
        store
            .register_phone(OURS, PHONE, phone("Pocket"), at(0))
            .await
            .unwrap(),
    )
}

fn registered(outcome: RegistrationOutcome) -> DeviceRow {
    match outcome {
        RegistrationOutcome::Registered(changed) => changed.row,
        refused => panic!("not registered: {refused:?}"),
    }
}

async fn list(store: &dyn DeviceStore, account: AccountId, asker: Asker) -> Vec<DeviceRow> {
    store
        .devices(asker, account, DeviceFilter::default())
        .await
        .unwrap()
}

async fn row(store: &dyn DeviceStore, device: DeviceId) -> DeviceRow {
    row_for(store, device, asker(BLUE, 0)).await
}

async fn row_for(store: &dyn DeviceStore, device: DeviceId, asker: Asker) -> DeviceRow {
    let rows = list(store, OURS, asker).await;
    rows.into_iter()
        .find(|row| row.id == device)
        .unwrap_or_else(|| panic!("no row of {device}"))
}

async fn facts(
    store: &dyn DeviceStore,
    account: AccountId,
    device: DeviceId,
    target: Option<DeviceId>,
) -> RegistrationFacts {
    store
        .registration_facts(asker(BLUE, 0), account, device, target)
        .await
        .unwrap()
}
