//! What every device store must do, as one suite that runs over each of them: the store in memory
//! is only worth simulating with if it behaves like the one over a database.

mod changes;
mod foreign;
mod forgetting;
mod history;
mod keys;
mod operators;
mod push_tokens;
mod recorder;

use std::sync::Arc;
use std::time::Duration;

use relay_model::ids::{AccountId, ConnectionGeneration, DeviceId, RelayInstanceId};
use relay_model::limits::DEFAULT_PROTOCOL_FLOOR;
use relay_model::store::{
    Asker, DesktopRegistration, DeviceFilter, DeviceRow, DeviceStanding, DeviceStatus, DeviceStore,
    DeviceType, Elsewhere, HeartbeatWrite, Holder, OfflineReason, PhoneRegistration, PresenceWrite,
    RegistrationFacts, RegistrationOutcome,
};
use relay_model::time::Timestamp;
use serde_json::json;
use uuid::Uuid;

use DeviceStatus::{Offline, Online, Reconnecting};

use crate::memory_store::PresenceChange;
pub use changes::*;
pub use foreign::*;
pub use forgetting::*;
pub use history::*;
pub use keys::*;
pub use operators::*;
pub use push_tokens::*;

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

/// What the asker is told of the desktop, by both queries that tell it, which must agree.
async fn elsewhere(store: &dyn DeviceStore, asker: Asker) -> Option<Elsewhere> {
    let listed = row_for(store, DESKTOP, asker).await.elsewhere;
    let facts = store
        .registration_facts(asker, OURS, PHONE, Some(DESKTOP))
        .await
        .unwrap();
    assert_eq!(facts.target.unwrap().elsewhere, listed);
    listed
}

/// Another relay holds the device.
fn held(seconds: u64) -> Option<Elsewhere> {
    was_seen(seconds, Holder::Live)
}

/// Another relay held the device and owns it no more.
fn left(seconds: u64) -> Option<Elsewhere> {
    was_seen(seconds, Holder::Gone)
}

/// Another relay holds the device until its drain is over.
fn leaving(seconds: u64) -> Option<Elsewhere> {
    was_seen(seconds, Holder::Draining)
}

fn was_seen(seconds: u64, holder: Holder) -> Option<Elsewhere> {
    let seen = at(seconds);
    Some(Elsewhere { seen, holder })
}

/// REG-9, OP-8: the floor of a new database is 1, and the database answers.
pub async fn a_new_database_has_the_default_floor(subject: &dyn Subject) {
    let store = subject.store();
    assert_eq!(store.protocol_floor().await, Ok(DEFAULT_PROTOCOL_FLOOR));
    assert_eq!(store.check().await, Ok(()));
    assert_eq!(facts(store, OURS, NOBODY, None).await.protocol_floor, 1);
}

/// REG-9: the floor can be raised, or turned off, without a deploy.
pub async fn the_floor_is_read_each_time(subject: &dyn Subject) {
    for floor in [7, 0, 999_999_999] {
        subject.set_protocol_floor(floor);
        let store = subject.second();
        assert_eq!(store.protocol_floor().await, Ok(floor));
        assert_eq!(facts(store, OURS, NOBODY, None).await.protocol_floor, floor);
    }
}

/// The first registration makes a row that is offline and eligible, with defaults for the rest.
pub async fn a_registration_makes_the_row(subject: &dyn Subject) {
    let store = subject.store();
    let mut expected = DeviceRow {
        id: DESKTOP,
        device_type: DeviceType::Desktop,
        device_name: "Desk \u{1F5A5}".to_owned(),
        platform: "linux".to_owned(),
        platform_version: Some("6.1".to_owned()),
        app_version: "1.2.3".to_owned(),
        capabilities: json!({}),
        relay_eligible: true,
        status: Offline,
        offline_reason: None,
        elsewhere: None,
        last_seen: None,
        last_heartbeat: None,
        active_project_directory: None,
        created_at: at(3),
        updated_at: at(3),
    };
    let made = store
        .register_desktop(OURS, DESKTOP, desktop("Desk \u{1F5A5}"), at(3))
        .await;
    assert_eq!(registered(made.unwrap()), expected);
    assert_eq!(row(store, DESKTOP).await, expected);

    expected.id = PHONE;
    expected.device_type = DeviceType::Mobile;
    expected.device_name = "Pocket".to_owned();
    expected.platform = "ios".to_owned();
    expected.platform_version = None;
    expected.app_version = "4.5".to_owned();
    let made = store
        .register_phone(OURS, PHONE, phone("Pocket"), at(3))
        .await;
    assert_eq!(registered(made.unwrap()), expected);
    assert_eq!(row(subject.second(), PHONE).await, expected);
}

/// EV-5: what a registration does not name is kept, the rest is as it says.
pub async fn a_registration_updates_the_row_and_keeps_what_it_does_not_name(subject: &dyn Subject) {
    let store = subject.store();
    let capabilities = json!({"tools": ["a", {"b": [1, 2.5, null]}], "x": "\u{0} \u{1F600}"});
    let first = DesktopRegistration {
        capabilities: Some(capabilities.clone()),
        relay_eligible: Some(false),
        ..desktop("Old")
    };
    store
        .register_desktop(OURS, DESKTOP, first, at(0))
        .await
        .unwrap();
    let second = DesktopRegistration {
        platform: "macos".to_owned(),
        platform_version: None,
        app_version: "2.0".to_owned(),
        ..desktop("New")
    };
    let updated = registered(
        store
            .register_desktop(OURS, DESKTOP, second, at(5))
            .await
            .unwrap(),
    );
    assert_eq!(updated.device_name, "New");
    assert_eq!(updated.platform, "macos");
    assert_eq!(updated.platform_version, None);
    assert_eq!(updated.app_version, "2.0");
    assert_eq!(updated.capabilities, capabilities);
    assert!(!updated.relay_eligible);
    assert_eq!((updated.created_at, updated.updated_at), (at(0), at(5)));
    assert_eq!(row(store, DESKTOP).await, updated);

    let third = DesktopRegistration {
        capabilities: Some(json!(null)),
        relay_eligible: Some(true),
        ..desktop("New")
    };
    let updated = registered(
        store
            .register_desktop(OURS, DESKTOP, third, at(6))
            .await
            .unwrap(),
    );
    assert_eq!(updated.capabilities, json!(null));
    assert!(updated.relay_eligible);
}

/// A desktop registers over HTTP before each connect, also while another connection of it lives.
pub async fn a_registration_leaves_presence_alone(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    write(store, online(DESKTOP, (BLUE, 1), 10)).await;
    store
        .write_heartbeats(vec![HeartbeatWrite {
            account: OURS,
            device: DESKTOP,
            at: at(12),
        }])
        .await
        .unwrap();
    let before = row(store, DESKTOP).await;
    let after = registered(
        store
            .register_desktop(OURS, DESKTOP, desktop("Desk"), at(20))
            .await
            .unwrap(),
    );
    let expected = DeviceRow {
        updated_at: at(20),
        ..before
    };
    assert_eq!(
        (expected.status, expected.last_seen),
        (Online, Some(at(12)))
    );
    assert_eq!(after, expected);
    // Its relay still holds it.
    write(store, change(DESKTOP, (BLUE, 1), Reconnecting, None, 21)).await;
    assert_eq!(row(store, DESKTOP).await.status, Reconnecting);
}

/// A shipped desktop registers before every connect: that may not undo a forget, `rejoin` does.
pub async fn a_forgotten_device_rejoins_only_on_request(subject: &dyn Subject) {
    let store = subject.store();
    let before = with_desktop(store, DESKTOP).await;
    with_phone(store).await;
    subject.forget(DESKTOP);
    subject.forget(PHONE);
    assert_eq!(list(store, OURS, asker(BLUE, 0)).await, []);

    let refused = store
        .register_desktop(OURS, DESKTOP, desktop("Other"), at(5))
        .await;
    assert_eq!(refused, Ok(RegistrationOutcome::Forgotten));
    let refused = store
        .register_phone(OURS, PHONE, phone("Other"), at(5))
        .await;
    assert_eq!(refused, Ok(RegistrationOutcome::Forgotten));
    assert_eq!(list(store, OURS, asker(BLUE, 0)).await, []);

    let rejoin = DesktopRegistration {
        rejoin: true,
        ..desktop("Desk")
    };
    let joined = registered(
        store
            .register_desktop(OURS, DESKTOP, rejoin, at(6))
            .await
            .unwrap(),
    );
    let expected = DeviceRow {
        updated_at: at(6),
        ..before
    };
    assert_eq!(joined, expected);
    assert_eq!(list(store, OURS, asker(BLUE, 0)).await, [expected]);
    let again = store
        .register_desktop(OURS, DESKTOP, desktop("Desk"), at(7))
        .await;
    assert_eq!(registered(again.unwrap()).updated_at, at(7));
}

/// A row never changes its type, whatever else is asked.
pub async fn a_device_keeps_its_type(subject: &dyn Subject) {
    let store = subject.store();
    let mut before = vec![with_desktop(store, DESKTOP).await, with_phone(store).await];
    before.sort_by_key(|row| (row.created_at, row.id));
    let refused = store
        .register_phone(OURS, DESKTOP, phone("Other"), at(5))
        .await;
    assert_eq!(refused, Ok(RegistrationOutcome::TypeMismatch));
    let rejoin = DesktopRegistration {
        rejoin: true,
        ..desktop("Other")
    };
    let refused = store
        .register_desktop(OURS, PHONE, rejoin.clone(), at(5))
        .await;
    assert_eq!(refused, Ok(RegistrationOutcome::TypeMismatch));
    assert_eq!(list(store, OURS, asker(BLUE, 0)).await, before);

    subject.forget(PHONE);
    let refused = store.register_desktop(OURS, PHONE, rejoin, at(6)).await;
    assert_eq!(refused, Ok(RegistrationOutcome::TypeMismatch));
    assert_eq!(list(store, OURS, asker(BLUE, 0)).await.len(), 1);
}

/// HTTP-1: of two first registrations of one id at once, by two accounts over two relays, one makes
/// the row and the other learns that it is foreign.
pub async fn first_registrations_that_race_end_well(subject: &dyn Subject) {
    for round in 0..20 {
        let device = DeviceId::from_uuid(Uuid::from_u128(0x1000 + round));
        let ours = subject
            .store()
            .register_desktop(OURS, device, desktop("Ours"), at(0));
        let theirs = subject
            .second()
            .register_desktop(THEIRS, device, desktop("Theirs"), at(0));
        let (ours, theirs) = tokio::join!(ours, theirs);
        let (owner, row) = match (ours.unwrap(), theirs.unwrap()) {
            (RegistrationOutcome::Registered(made), RegistrationOutcome::Foreign) => {
                (OURS, made.row)
            }
            (RegistrationOutcome::Foreign, RegistrationOutcome::Registered(made)) => {
                (THEIRS, made.row)
            }
            others => panic!("{others:?}"),
        };
        assert!(
            list(subject.store(), owner, asker(BLUE, 0))
                .await
                .contains(&row)
        );
    }
}

/// REG-4: each standing that a refusal depends on.
pub async fn standings_follow_the_row(subject: &dyn Subject) {
    let store = subject.store();
    assert_eq!(
        facts(store, OURS, DESKTOP, None).await.device,
        DeviceStanding::Unknown
    );
    with_desktop(store, DESKTOP).await;
    with_phone(store).await;
    let hidden = DesktopRegistration {
        relay_eligible: Some(false),
        ..desktop("Hidden")
    };
    store
        .register_desktop(OURS, OTHER_DESKTOP, hidden, at(0))
        .await
        .unwrap();
    let standing = |device_type, forgotten, relay_eligible| DeviceStanding::Owned {
        device_type,
        forgotten,
        relay_eligible,
    };
    use DeviceType::{Desktop, Mobile};
    for (device, expected) in [
        (DESKTOP, standing(Desktop, false, true)),
        (OTHER_DESKTOP, standing(Desktop, false, false)),
        (PHONE, standing(Mobile, false, true)),
        (NOBODY, DeviceStanding::Unknown),
    ] {
        assert_eq!(facts(store, OURS, device, None).await.device, expected);
    }
    subject.forget(DESKTOP);
    subject.forget(PHONE);
    for (device, expected) in [
        (DESKTOP, standing(Desktop, true, true)),
        (PHONE, standing(Mobile, true, true)),
    ] {
        assert_eq!(facts(store, OURS, device, None).await.device, expected);
    }
}

/// REG-4, REG-5: a target is a desktop of this account, hidden and forgotten ones included; unknown,
/// foreign and mobile ones are none.
pub async fn targets_are_desktops_of_the_account(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    with_phone(store).await;
    store
        .register_desktop(THEIRS, OTHER_DESKTOP, desktop("Theirs"), at(0))
        .await
        .unwrap();
    for target in [None, Some(NOBODY), Some(OTHER_DESKTOP), Some(PHONE)] {
        let told = facts(store, OURS, PHONE, target).await;
        assert_eq!(told.target, None, "{target:?}");
    }
    let admitted = async || {
        let told = facts(store, OURS, PHONE, Some(DESKTOP)).await;
        told.target.unwrap().admitted
    };
    assert!(admitted().await);
    let hide = DesktopRegistration {
        relay_eligible: Some(false),
        ..desktop("Desk")
    };
    store
        .register_desktop(OURS, DESKTOP, hide, at(1))
        .await
        .unwrap();
    assert!(!admitted().await);
    let show = DesktopRegistration {
        relay_eligible: Some(true),
        ..desktop("Desk")
    };
    store
        .register_desktop(OURS, DESKTOP, show, at(2))
        .await
        .unwrap();
    assert!(admitted().await);
    subject.forget(DESKTOP);
    assert!(!admitted().await);
    // A device that is no row yet may still be told of its target.
    let told = facts(store, OURS, NOBODY, Some(DESKTOP)).await;
    assert_eq!(told.device, DeviceStanding::Unknown);
    assert!(told.target.is_some());
}

/// The list: oldest first, by id within a moment, forgotten and foreign ones left out.
pub async fn the_list_is_oldest_first_and_filtered(subject: &dyn Subject) {
    let store = subject.store();
    for (account, device, seconds) in [
        (OURS, NOBODY, 1),
        (OURS, OTHER_DESKTOP, 2),
        (OURS, DESKTOP, 2),
        (THEIRS, DeviceId::from_uuid(Uuid::from_u128(1)), 0),
    ] {
        store
            .register_desktop(account, device, desktop("Desk"), at(seconds))
            .await
            .unwrap();
    }
    store
        .register_phone(OURS, PHONE, phone("Pocket"), at(0))
        .await
        .unwrap();
    let ids = async |device_type| -> Vec<DeviceId> {
        let rows = store
            .devices(asker(BLUE, 0), OURS, DeviceFilter { device_type })
            .await
            .unwrap();
        rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(ids(None).await, [PHONE, NOBODY, DESKTOP, OTHER_DESKTOP]);
    let desktops = ids(Some(DeviceType::Desktop)).await;
    assert_eq!(desktops, [NOBODY, DESKTOP, OTHER_DESKTOP]);
    assert_eq!(ids(Some(DeviceType::Mobile)).await, [PHONE]);
    subject.forget(NOBODY);
    assert_eq!(ids(None).await, [PHONE, DESKTOP, OTHER_DESKTOP]);
}

/// PR-2, PR-6, OP-9: the row follows the device, keeps when it was last connected, and tells why it
/// is offline only while it is.
pub async fn presence_is_written_as_it_changes(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    let shown = async || {
        let row = row(store, DESKTOP).await;
        (row.status, row.offline_reason, row.last_seen)
    };
    let timeout = Some(OfflineReason::ReconnectTimeout);
    let closed = Some(OfflineReason::Disconnected);

    write(store, online(DESKTOP, (BLUE, 1), 10)).await;
    assert_eq!(shown().await, (Online, None, Some(at(10))));
    // A reason means something for offline only.
    write(
        store,
        change(DESKTOP, (BLUE, 1), Reconnecting, timeout, 100),
    )
    .await;
    assert_eq!(shown().await, (Reconnecting, None, Some(at(100))));
    write(store, change(DESKTOP, (BLUE, 1), Offline, timeout, 190)).await;
    assert_eq!(shown().await, (Offline, timeout, Some(at(100))));
    write(store, online(DESKTOP, (BLUE, 2), 300)).await;
    assert_eq!(shown().await, (Online, None, Some(at(300))));
    write(store, change(DESKTOP, (BLUE, 2), Offline, closed, 400)).await;
    assert_eq!(shown().await, (Offline, closed, Some(at(400))));
    assert_eq!(row(store, DESKTOP).await.updated_at, at(0));
    // The highest generation there is survives the database.
    write(store, online(DESKTOP, (BLUE, u64::MAX), 500)).await;
    write(store, change(DESKTOP, (BLUE, u64::MAX), Offline, None, 501)).await;
    assert_eq!(shown().await, (Offline, None, Some(at(501))));
}

/// DR-5: of two relays that hold a device one after the other, the later word stays.
pub async fn an_older_online_changes_nothing(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    write(green, online(DESKTOP, (GREEN, 1), 20)).await;
    let before = row_for(blue, DESKTOP, asker(BLUE, 21)).await;
    write(blue, online(DESKTOP, (BLUE, 7), 19)).await;
    assert_eq!(row_for(blue, DESKTOP, asker(BLUE, 21)).await, before);
    write(blue, online(DESKTOP, (BLUE, 7), 20)).await;
    let own = row_for(blue, DESKTOP, asker(BLUE, 21)).await;
    assert_eq!((own.status, own.elsewhere), (Online, None));
    // A first word counts whenever it was said: clocks of two machines differ.
    with_desktop(blue, OTHER_DESKTOP).await;
    let early = PresenceWrite {
        at: at(0).minus(Duration::from_millis(1)),
        ..online(OTHER_DESKTOP, (BLUE, 8), 0)
    };
    write(blue, early).await;
    assert_eq!(row(blue, OTHER_DESKTOP).await.status, Online);
}

/// PR-7, DR-5: a change other than online needs the row's instance and its generation.
pub async fn only_the_holder_may_take_a_device_offline(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    // Nobody holds it yet.
    write(blue, change(DESKTOP, (BLUE, 1), Reconnecting, None, 5)).await;
    assert_eq!(row(blue, DESKTOP).await.status, Offline);

    write(blue, online(DESKTOP, (BLUE, 1), 10)).await;
    write(green, online(DESKTOP, (GREEN, 1), 20)).await;
    let before = row(blue, DESKTOP).await;
    let timeout = Some(OfflineReason::ReconnectTimeout);
    for holder in [(BLUE, 1), (BLUE, 2), (GREEN, 2), (GREEN, 0)] {
        for status in [Reconnecting, Offline] {
            write(blue, change(DESKTOP, holder, status, timeout, 30)).await;
        }
    }
    // Nor may the holder by a word older than its last.
    write(green, change(DESKTOP, (GREEN, 1), Offline, timeout, 19)).await;
    assert_eq!(row(blue, DESKTOP).await, before);
    write(green, change(DESKTOP, (GREEN, 1), Offline, timeout, 30)).await;
    assert_eq!(row(blue, DESKTOP).await.status, Offline);
}

/// Changes of one batch are written in its order, and of several devices at once.
pub async fn a_batch_is_written_in_order(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    with_phone(store).await;
    let closed = Some(OfflineReason::Disconnected);
    store
        .write_presence(vec![
            online(DESKTOP, (BLUE, 1), 10),
            online(PHONE, (BLUE, 2), 10),
            change(DESKTOP, (BLUE, 1), Reconnecting, None, 11),
            change(PHONE, (BLUE, 2), Offline, closed, 11),
            online(DESKTOP, (BLUE, 3), 11),
        ])
        .await
        .unwrap();
    assert_eq!(row(store, DESKTOP).await.status, Online);
    assert_eq!(row(store, PHONE).await.offline_reason, closed);
    // The last generation is the one that counts.
    write(store, change(DESKTOP, (BLUE, 1), Offline, None, 12)).await;
    assert_eq!(row(store, DESKTOP).await.status, Online);
    store.write_presence(Vec::new()).await.unwrap();
    store.write_heartbeats(Vec::new()).await.unwrap();
}

/// A device without a row stops nobody else's changes of the batch.
pub async fn unknown_devices_are_passed_over(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    store
        .write_presence(vec![
            online(NOBODY, (BLUE, 1), 10),
            online(DESKTOP, (BLUE, 2), 10),
        ])
        .await
        .unwrap();
    let beat = |device| HeartbeatWrite {
        account: OURS,
        device,
        at: at(11),
    };
    store
        .write_heartbeats(vec![beat(NOBODY), beat(DESKTOP)])
        .await
        .unwrap();
    let rows = list(store, OURS, asker(BLUE, 0)).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].status, Online);
    assert_eq!(rows[0].last_heartbeat, Some(at(11)));
}

/// DR-3, DR-5: once a relay has released its rows, what it still had to say changes none of them,
/// neither those that it held nor those that moved on.
pub async fn late_writes_of_a_stopped_relay_change_nothing(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    with_desktop(blue, OTHER_DESKTOP).await;
    blue.renew_instance(BLUE, at(0), at(30)).await.unwrap();
    green.renew_instance(GREEN, at(0), at(30)).await.unwrap();
    write(blue, online(DESKTOP, (BLUE, 1), 10)).await;
    write(blue, online(OTHER_DESKTOP, (BLUE, 2), 10)).await;
    write(green, online(OTHER_DESKTOP, (GREEN, 1), 15)).await;
    blue.release_instance(BLUE, at(20)).await.unwrap();

    let stopped = row_for(blue, DESKTOP, asker(GREEN, 21)).await;
    assert_eq!(stopped.offline_reason, Some(OfflineReason::RelayStopped));
    assert_eq!((stopped.status, stopped.last_seen), (Offline, Some(at(20))));
    let moved = row_for(blue, OTHER_DESKTOP, asker(GREEN, 21)).await;
    assert_eq!((moved.status, moved.elsewhere), (Online, None));

    let timeout = Some(OfflineReason::ReconnectTimeout);
    for seconds in [19, 20, 25] {
        for (device, generation) in [(DESKTOP, 1), (OTHER_DESKTOP, 2)] {
            for status in [Reconnecting, Offline] {
                write(
                    blue,
                    change(device, (BLUE, generation), status, timeout, seconds),
                )
                .await;
            }
        }
    }
    write(blue, online(DESKTOP, (BLUE, 3), 19)).await;
    write(blue, online(OTHER_DESKTOP, (BLUE, 4), 14)).await;
    assert_eq!(row_for(blue, DESKTOP, asker(GREEN, 21)).await, stopped);
    assert_eq!(row_for(blue, OTHER_DESKTOP, asker(GREEN, 21)).await, moved);
}

/// DR-5, PR-6: a device that came to this relay before the mark of a stop or a sweep was made is
/// online, though the write comes after the mark.
pub async fn a_device_that_moved_is_online_whatever_the_mark(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    with_desktop(blue, OTHER_DESKTOP).await;
    green.renew_instance(GREEN, at(0), at(90)).await.unwrap();
    write(blue, online(DESKTOP, (BLUE, 1), 10)).await;
    write(blue, online(OTHER_DESKTOP, (BLUE, 2), 10)).await;
    blue.release_instance(BLUE, at(20)).await.unwrap();
    write(green, online(DESKTOP, (GREEN, 1), 19)).await;
    let moved = row_for(green, DESKTOP, asker(GREEN, 21)).await;
    assert_eq!((moved.status, moved.offline_reason), (Online, None));
    // When it was last known to be connected never moves back.
    assert_eq!(moved.last_seen, Some(at(20)));

    let lost = RelayInstanceId::from_uuid(Uuid::from_u128(0xB3));
    write(blue, online(OTHER_DESKTOP, (lost, 1), 30)).await;
    assert_eq!(green.sweep_lost(at(40)).await, Ok(1));
    write(green, online(OTHER_DESKTOP, (GREEN, 2), 39)).await;
    assert_eq!(row(green, OTHER_DESKTOP).await.status, Online);
    // A relay that was taken for dead and is not may say so as well.
    write(blue, online(OTHER_DESKTOP, (lost, 3), 41)).await;
    assert_eq!(green.sweep_lost(at(50)).await, Ok(1));
    write(blue, online(OTHER_DESKTOP, (lost, 4), 49)).await;
    assert_eq!(row(green, OTHER_DESKTOP).await.status, Online);
}

/// PR-6: a relay whose lease lapsed finds its rows that a sweep marked as lost, until somebody has said
/// anything else of them.
pub async fn a_relay_finds_what_was_marked_lost(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    with_desktop(blue, OTHER_DESKTOP).await;
    with_phone(blue).await;
    blue.renew_instance(BLUE, at(0), at(30)).await.unwrap();
    write(blue, online(DESKTOP, (BLUE, 1), 10)).await;
    write(blue, online(OTHER_DESKTOP, (BLUE, 2), 10)).await;
    write(blue, online(PHONE, (BLUE, 3), 10)).await;
    write(blue, change(DESKTOP, (BLUE, 1), Reconnecting, None, 20)).await;
    let closed = Some(OfflineReason::Disconnected);
    write(blue, change(PHONE, (BLUE, 3), Offline, closed, 20)).await;
    assert_eq!(blue.marked_lost(BLUE).await, Ok(vec![]));
    assert_eq!(green.sweep_lost(at(31)).await, Ok(2));
    let both = vec![(OURS, DESKTOP), (OURS, OTHER_DESKTOP)];
    assert_eq!(blue.marked_lost(BLUE).await, Ok(both));
    assert_eq!(blue.marked_lost(GREEN).await, Ok(vec![]));

    // The relay that holds a device knows better, also when it says so later than the device went.
    write(blue, change(DESKTOP, (BLUE, 2), Offline, closed, 32)).await;
    assert_eq!(
        row(blue, DESKTOP).await.offline_reason,
        Some(OfflineReason::RelayLost)
    );
    write(blue, change(DESKTOP, (BLUE, 1), Reconnecting, None, 25)).await;
    let left = vec![(OURS, OTHER_DESKTOP)];
    assert_eq!(blue.marked_lost(BLUE).await, Ok(left));
    write(green, online(OTHER_DESKTOP, (GREEN, 1), 33)).await;
    assert_eq!(blue.marked_lost(BLUE).await, Ok(vec![]));
    assert_eq!(row(blue, DESKTOP).await.status, Reconnecting);
    // What a relay left at its stop is no mistake of another.
    blue.release_instance(BLUE, at(34)).await.unwrap();
    assert_eq!(blue.marked_lost(BLUE).await, Ok(vec![]));
}

/// PR-8: what is told of a row that another relay holds: live, lapsed, draining, gone.
pub async fn elsewhere_is_told_of_other_relays_only(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    with_phone(blue).await;
    assert_eq!(elsewhere(green, asker(GREEN, 5)).await, None);

    // Without a row of its own the relay counts as gone, and the device's own time is told.
    write(blue, online(DESKTOP, (BLUE, 1), 10)).await;
    assert_eq!(elsewhere(green, asker(GREEN, 15)).await, left(10));
    // Live, to the last moment of its lease; its own rows are never "elsewhere".
    blue.renew_instance(BLUE, at(12), at(42)).await.unwrap();
    for seconds in [15, 42] {
        let told = elsewhere(green, asker(GREEN, seconds)).await;
        assert_eq!(told, held(seconds));
        assert_eq!(elsewhere(blue, asker(BLUE, seconds)).await, None);
    }
    write(blue, change(DESKTOP, (BLUE, 1), Reconnecting, None, 20)).await;
    assert_eq!(elsewhere(green, asker(GREEN, 25)).await, held(25));
    // Lapsed: its last renewal, or the row's time if that is later.
    assert_eq!(elsewhere(green, asker(GREEN, 43)).await, left(20));
    blue.renew_instance(BLUE, at(22), at(52)).await.unwrap();
    assert_eq!(elsewhere(green, asker(GREEN, 53)).await, left(22));
    // Draining: it owns nothing, and its renewals still tell until when the device was connected.
    blue.mark_draining(BLUE, at(53), at(83)).await.unwrap();
    assert_eq!(elsewhere(green, asker(GREEN, 51)).await, leaving(22));
    assert_eq!(elsewhere(green, asker(GREEN, 54)).await, left(22), "lapsed");
    blue.renew_instance(BLUE, at(55), at(85)).await.unwrap();
    assert_eq!(elsewhere(green, asker(GREEN, 56)).await, leaving(55));
    // Also when a sweep has marked the row.
    assert_eq!(green.sweep_lost(at(57)).await, Ok(1));
    assert_eq!(elsewhere(green, asker(GREEN, 58)).await, leaving(55));
    write(blue, online(DESKTOP, (BLUE, 1), 59)).await;
    // Released: the moment of the stop.
    blue.release_instance(BLUE, at(60)).await.unwrap();
    assert_eq!(elsewhere(green, asker(GREEN, 70)).await, left(60));
    // A late word under a draining relay: not live, whatever its lease says.
    write(blue, online(DESKTOP, (BLUE, 2), 61)).await;
    blue.renew_instance(BLUE, at(62), at(99)).await.unwrap();
    assert_eq!(elsewhere(green, asker(GREEN, 70)).await, leaving(62));
    // Its own relay saw it go.
    write(green, online(DESKTOP, (GREEN, 1), 80)).await;
    let closed = Some(OfflineReason::ReconnectTimeout);
    write(green, change(DESKTOP, (GREEN, 1), Offline, closed, 81)).await;
    assert_eq!(elsewhere(green, asker(GREEN, 82)).await, None);
    assert_eq!(elsewhere(blue, asker(BLUE, 82)).await, None);
}

/// PR-6, PR-8: a sweep does not change what a starting relay is told of a lost device, and what it
/// is told is the latest that is known.
pub async fn elsewhere_does_not_jump_when_swept(subject: &dyn Subject) {
    let (blue, green) = (subject.store(), subject.second());
    with_desktop(blue, DESKTOP).await;
    with_phone(blue).await;
    // Each story: renewal, what happened before and after, and the time that should be told.
    let beat = |seconds| HeartbeatWrite {
        account: OURS,
        device: DESKTOP,
        at: at(seconds),
    };
    for (start, renewed, seen, dropped, told) in [
        (1_000, None, None, None, 1_000),
        (2_000, Some(2_020), None, None, 2_020),
        (3_000, Some(3_020), Some(3_025), None, 3_025),
        (4_000, Some(4_020), Some(4_005), Some(4_010), 4_020),
        (5_000, Some(4_999), Some(5_003), Some(5_010), 5_010),
    ] {
        let relay = RelayInstanceId::from_uuid(Uuid::from_u128(u128::from(start)));
        write(blue, online(DESKTOP, (relay, 1), start)).await;
        if let Some(renewed) = renewed {
            blue.renew_instance(relay, at(renewed), at(renewed + 30))
                .await
                .unwrap();
        }
        if let Some(seen) = seen {
            blue.write_heartbeats(vec![beat(seen)]).await.unwrap();
        }
        if let Some(dropped) = dropped {
            write(
                blue,
                change(DESKTOP, (relay, 1), Reconnecting, None, dropped),
            )
            .await;
        }
        let later = asker(GREEN, start + 100);
        assert_eq!(elsewhere(green, later).await, left(told), "{start}");
        assert_eq!(green.sweep_lost(later.now).await, Ok(1), "{start}");
        assert_eq!(elsewhere(green, later).await, left(told), "{start}");
        let swept = row(green, DESKTOP).await;
        assert_eq!(swept.offline_reason, Some(OfflineReason::RelayLost));
        assert_eq!((swept.status, swept.last_seen), (Offline, Some(at(told))));
    }
}

/// PR-6: rows of relays that are gone, draining or lapsed are corrected, others are not touched.
pub async fn a_sweep_marks_the_dead_only(subject: &dyn Subject) {
    let store = subject.store();
    let id = |number: u128| DeviceId::from_uuid(Uuid::from_u128(0x2000 + number));
    let relay = |number: u128| RelayInstanceId::from_uuid(Uuid::from_u128(0x3000 + number));
    const LIVE: u128 = 0;
    const LAPSED: u128 = 1;
    const DRAINING: u128 = 2;
    const GONE: u128 = 3;
    for number in 0..4 {
        with_desktop(store, id(number)).await;
        with_desktop(store, id(number + 10)).await;
        with_desktop(store, id(number + 20)).await;
    }
    store
        .renew_instance(relay(LIVE), at(5), at(35))
        .await
        .unwrap();
    store
        .renew_instance(relay(LAPSED), at(4), at(34))
        .await
        .unwrap();
    store
        .renew_instance(relay(DRAINING), at(5), at(35))
        .await
        .unwrap();
    store
        .release_instance(relay(DRAINING), at(6))
        .await
        .unwrap();
    for number in [LIVE, LAPSED, DRAINING, GONE] {
        for (device, status) in [
            (id(number), Online),
            (id(number + 10), Reconnecting),
            (id(number + 20), Offline),
        ] {
            let holder = (relay(number), 1);
            write(store, online(device, holder, 10)).await;
            if status != Online {
                write(store, change(device, holder, status, None, 11)).await;
            }
        }
    }
    let before = list(store, OURS, asker(BLUE, 35)).await;
    assert_eq!(store.sweep_lost(at(35)).await, Ok(6));
    for old in before {
        let new = row_for(store, old.id, asker(BLUE, 35)).await;
        let number = (old.id.as_uuid().as_u128() - 0x2000) % 10;
        if number == LIVE || old.status == Offline {
            assert_eq!(new, old);
        } else {
            assert_eq!(new.status, Offline);
            let reason = if number == DRAINING {
                OfflineReason::RelayStopped
            } else {
                OfflineReason::RelayLost
            };
            assert_eq!(new.offline_reason, Some(reason));
        }
    }
    assert_eq!(store.sweep_lost(at(35)).await, Ok(0));
    // A moment later the last lease has ended too.
    let after_lease = at(35).plus(Duration::from_micros(1));
    assert_eq!(store.sweep_lost(after_lease).await, Ok(2));
}

/// PR-6, DR-3: a release marks what the relay holds, nothing else, and no late renewal undoes it.
pub async fn a_released_relay_stays_dead(subject: &dyn Subject) {
    let store = subject.store();
    let closed = DeviceId::from_uuid(Uuid::from_u128(0xD3));
    for device in [DESKTOP, OTHER_DESKTOP, closed] {
        with_desktop(store, device).await;
    }
    with_phone(store).await;
    store.renew_instance(BLUE, at(0), at(30)).await.unwrap();
    store.renew_instance(GREEN, at(0), at(90)).await.unwrap();
    write(store, online(DESKTOP, (BLUE, 1), 10)).await;
    write(store, change(DESKTOP, (BLUE, 1), Reconnecting, None, 12)).await;
    write(store, online(PHONE, (BLUE, 2), 10)).await;
    write(store, online(OTHER_DESKTOP, (GREEN, 1), 10)).await;
    write(store, online(closed, (BLUE, 3), 10)).await;
    let timeout = Some(OfflineReason::ReconnectTimeout);
    write(store, change(closed, (BLUE, 3), Offline, timeout, 11)).await;
    let untouched = [row(store, OTHER_DESKTOP).await, row(store, closed).await];

    store.release_instance(BLUE, at(20)).await.unwrap();
    for device in [DESKTOP, PHONE] {
        let row = row(store, device).await;
        assert_eq!((row.status, row.last_seen), (Offline, Some(at(20))));
        assert_eq!(row.offline_reason, Some(OfflineReason::RelayStopped));
    }
    let others = [row(store, OTHER_DESKTOP).await, row(store, closed).await];
    assert_eq!(others, untouched);

    // A relay that never renewed can be released as well; renewing makes neither live again.
    let unborn = RelayInstanceId::from_uuid(Uuid::from_u128(0xB3));
    store.release_instance(unborn, at(20)).await.unwrap();
    for relay in [BLUE, unborn] {
        store.renew_instance(relay, at(21), at(51)).await.unwrap();
        write(store, online(DESKTOP, (relay, 5), 25)).await;
        assert_eq!(store.sweep_lost(at(26)).await, Ok(1));
    }
}

/// KA-1: a heartbeat counts as seen; an older one that comes late moves nothing back.
pub async fn heartbeats_move_forward_only(subject: &dyn Subject) {
    let store = subject.store();
    with_desktop(store, DESKTOP).await;
    write(store, online(DESKTOP, (BLUE, 1), 10)).await;
    let times = async || {
        let row = row(store, DESKTOP).await;
        (row.last_heartbeat, row.last_seen)
    };
    for (beat, heartbeat, seen) in [(5, 5, 10), (20, 20, 20), (15, 20, 20)] {
        store
            .write_heartbeats(vec![HeartbeatWrite {
                account: OURS,
                device: DESKTOP,
                at: at(beat),
            }])
            .await
            .unwrap();
        assert_eq!(times().await, (Some(at(heartbeat)), Some(at(seen))));
    }
    let row = row(store, DESKTOP).await;
    assert_eq!((row.status, row.updated_at), (Online, at(0)));
}
