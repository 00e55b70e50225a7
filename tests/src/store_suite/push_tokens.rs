//! Push tokens in the store (section 12).

use relay_model::ids::{AccountId, DeviceId};
use relay_model::push::{
    NewPushToken, PushEnvironment, PushOutcome, PushOutcomeWrite, PushPlatform, PushRegistration,
    PushTokenRow, PushTokenSetting,
};
use relay_model::store::{DeviceStore, PhoneRegistration};
use relay_model::time::Timestamp;
use uuid::Uuid;

use super::{DESKTOP, NOBODY, OURS, PHONE, Subject, THEIRS, at, desktop, phone};

const OTHER_PHONE: DeviceId = DeviceId::from_uuid(Uuid::from_u128(0xE2));
const THEIR_PHONE: DeviceId = DeviceId::from_uuid(Uuid::from_u128(0xE3));

pub(super) fn token(text: &str) -> NewPushToken {
    NewPushToken {
        platform: PushPlatform::Ios,
        environment: Some(PushEnvironment::Sandbox),
        token: format!("pushtoken-{text}").parse().unwrap(),
    }
}

fn row_of(
    account: AccountId,
    device: DeviceId,
    new: &NewPushToken,
    set_at: Timestamp,
) -> PushTokenRow {
    PushTokenRow {
        device,
        account,
        platform: new.platform,
        environment: new.environment,
        token: new.token.clone(),
        registered_at: set_at,
        last_outcome: None,
    }
}

/// Two phones and a desktop of ours, a phone of theirs.
async fn with_devices(store: &dyn DeviceStore) {
    for (account, id) in [(OURS, PHONE), (OURS, OTHER_PHONE), (THEIRS, THEIR_PHONE)] {
        let made = store.register_phone(account, id, phone("Pocket"), at(0));
        made.await.unwrap();
    }
    let made = store.register_desktop(OURS, DESKTOP, desktop("Desk"), at(0));
    made.await.unwrap();
}

async fn set(
    store: &dyn DeviceStore,
    account: AccountId,
    device: DeviceId,
    text: &str,
    seconds: u64,
) {
    let set = store.set_push_token(account, device, token(text), at(seconds));
    assert_eq!(set.await, Ok(PushTokenSetting::Set));
}

async fn tokens(store: &dyn DeviceStore, account: AccountId) -> Vec<(DeviceId, String)> {
    let rows = store.push_tokens(account).await.unwrap();
    let pairs = rows.iter().map(|row| {
        let text = row.token.reveal().trim_start_matches("pushtoken-");
        (row.device, text.to_owned())
    });
    pairs.collect()
}

fn pair(device: DeviceId, text: &str) -> (DeviceId, String) {
    (device, text.to_owned())
}

/// Section 11: a token is read back as it was set; a later one takes its place. The longest fits,
/// Android has no environment, and a token that is set again keeps its.
pub async fn a_push_token_is_read_as_it_was_set(subject: &dyn Subject) {
    let store = subject.store();
    with_devices(store).await;
    // Not one that a database could make small.
    let long: String = (0..4_096u32)
        .map(|place| char::from(33 + (place.wrapping_mul(2_654_435_761) >> 16) as u8 % 94))
        .collect();
    let android = NewPushToken {
        platform: PushPlatform::Android,
        environment: Some(PushEnvironment::Sandbox),
        token: long.parse().unwrap(),
    };
    let first = store.set_push_token(OURS, PHONE, android.clone(), at(1));
    assert_eq!(first.await, Ok(PushTokenSetting::Set));
    let kept = NewPushToken {
        environment: None,
        ..android
    };
    let rows = subject.second().push_tokens(OURS).await.unwrap();
    assert_eq!(rows, [row_of(OURS, PHONE, &kept, at(1))]);

    set(store, OURS, PHONE, "b", 2).await;
    // Not said again is not unsaid.
    let silent = NewPushToken {
        environment: None,
        ..token("b")
    };
    for seconds in [2, 3] {
        let rows = store.push_tokens(OURS).await.unwrap();
        assert_eq!(rows, [row_of(OURS, PHONE, &token("b"), at(seconds))]);
        let set = store.set_push_token(OURS, PHONE, silent.clone(), at(3));
        assert_eq!(set.await, Ok(PushTokenSetting::Set));
    }
}

/// Section 11, PUSH-2: a token held by another device moves to the one that sets it, also out of the
/// account of whoever was signed in before.
pub async fn a_push_token_moves_to_who_claims_it(subject: &dyn Subject) {
    let store = subject.store();
    with_devices(store).await;
    set(store, OURS, PHONE, "a", 1).await;
    set(store, OURS, OTHER_PHONE, "b", 2).await;
    set(store, OURS, OTHER_PHONE, "a", 3).await;
    assert_eq!(tokens(store, OURS).await, [pair(OTHER_PHONE, "a")]);
    set(subject.second(), THEIRS, THEIR_PHONE, "a", 4).await;
    assert_eq!(tokens(store, OURS).await, []);
    assert_eq!(tokens(store, THEIRS).await, [pair(THEIR_PHONE, "a")]);
}

/// PUSH-2, HTTP-1: desktops, forgotten, unknown and foreign devices get no token, and what they tried
/// takes nobody's away.
pub async fn push_tokens_are_for_phones_of_the_account(subject: &dyn Subject) {
    let store = subject.store();
    with_devices(store).await;
    set(store, OURS, PHONE, "a", 1).await;
    set(store, OURS, OTHER_PHONE, "b", 1).await;
    subject.forget(OTHER_PHONE);
    assert_eq!(tokens(store, OURS).await, [pair(PHONE, "a")]);
    for (account, device, expected) in [
        (OURS, NOBODY, PushTokenSetting::Unknown),
        (OURS, THEIR_PHONE, PushTokenSetting::Foreign),
        (THEIRS, DESKTOP, PushTokenSetting::Foreign),
        (OURS, DESKTOP, PushTokenSetting::NotAPhone),
        (OURS, OTHER_PHONE, PushTokenSetting::Forgotten),
    ] {
        let set = store.set_push_token(account, device, token("a"), at(2));
        assert_eq!(set.await, Ok(expected));
    }
    assert_eq!(tokens(store, OURS).await, [pair(PHONE, "a")]);
    assert_eq!(tokens(store, THEIRS).await, []);
}

/// Section 11: a phone may bring its token along when it registers; a registration without one keeps
/// it, and one that is refused changes nothing.
pub async fn a_registration_sets_a_push_token_and_keeps_it(subject: &dyn Subject) {
    let store = subject.store();
    let with_token = PhoneRegistration {
        push_token: Some(token("a")),
        ..phone("Pocket")
    };
    for (registration, seconds) in [(with_token.clone(), 1), (phone("Other"), 2)] {
        let made = store.register_phone(OURS, PHONE, registration, at(seconds));
        made.await.unwrap();
        let rows = store.push_tokens(OURS).await.unwrap();
        assert_eq!(rows, [row_of(OURS, PHONE, &token("a"), at(1))]);
    }
    let foreign = store.register_phone(THEIRS, PHONE, with_token.clone(), at(3));
    foreign.await.unwrap();
    assert_eq!(tokens(store, OURS).await, [pair(PHONE, "a")]);
    let made = store.register_phone(THEIRS, THEIR_PHONE, with_token, at(4));
    made.await.unwrap();
    assert_eq!(tokens(store, OURS).await, []);
    assert_eq!(tokens(store, THEIRS).await, [pair(THEIR_PHONE, "a")]);
}

/// SES-2, section 11: tokens are removed one by one and all at once, of the account alone.
pub async fn push_tokens_are_removed_by_device_and_by_account(subject: &dyn Subject) {
    let store = subject.store();
    with_devices(store).await;
    set(store, OURS, PHONE, "a", 1).await;
    set(store, OURS, OTHER_PHONE, "b", 1).await;
    set(store, THEIRS, THEIR_PHONE, "c", 1).await;
    for (account, device, removed) in [
        (THEIRS, PHONE, 0),
        (OURS, NOBODY, 0),
        (OURS, PHONE, 1),
        (OURS, PHONE, 0),
    ] {
        assert_eq!(
            store.remove_push_tokens(account, Some(device)).await,
            Ok(removed)
        );
    }
    assert_eq!(tokens(store, OURS).await, [pair(OTHER_PHONE, "b")]);
    set(store, OURS, PHONE, "a", 2).await;
    assert_eq!(store.remove_push_tokens(OURS, None).await, Ok(2));
    assert_eq!(tokens(store, OURS).await, []);
    assert_eq!(tokens(store, THEIRS).await, [pair(THEIR_PHONE, "c")]);
}

/// PUSH-4: a token that its service calls gone is removed, unless the phone has registered one since,
/// the same or another one.
pub async fn a_token_that_was_registered_again_is_kept(subject: &dyn Subject) {
    let store = subject.store();
    with_devices(store).await;
    set(store, OURS, PHONE, "a", 1).await;
    let registration = store.push_tokens(OURS).await.unwrap()[0].registration();
    for again in ["a", "b"] {
        set(store, OURS, PHONE, again, 2).await;
        assert_eq!(
            store.remove_push_registration(registration).await,
            Ok(false)
        );
        assert_eq!(tokens(store, OURS).await, [pair(PHONE, again)]);
    }
    // In the same moment, but another token.
    let other = PushRegistration {
        registered_at: at(2),
        ..registration
    };
    assert_eq!(store.remove_push_registration(other).await, Ok(false));
    let current = store.push_tokens(OURS).await.unwrap()[0].registration();
    assert_eq!(store.remove_push_registration(current).await, Ok(true));
    assert_eq!(store.remove_push_registration(current).await, Ok(false));
    assert_eq!(tokens(store, OURS).await, []);
}

/// OP-9: what became of the last push stays with the token, and goes with it.
pub async fn the_outcome_of_the_last_push_is_kept(subject: &dyn Subject) {
    let store = subject.store();
    with_devices(store).await;
    set(store, OURS, PHONE, "a", 1).await;
    let registration = store.push_tokens(OURS).await.unwrap()[0].registration();
    let write = |outcome, seconds| PushOutcomeWrite {
        registration,
        outcome,
        at: at(seconds),
    };
    let gone = PushOutcomeWrite {
        registration: PushRegistration {
            device: OTHER_PHONE,
            ..registration
        },
        ..write(PushOutcome::Delivered, 1)
    };
    let outcome = async || store.push_tokens(OURS).await.unwrap()[0].last_outcome;
    assert_eq!(outcome().await, None);
    for &result in PushOutcome::ALL {
        let writes = vec![gone, write(result, 3), write(PushOutcome::Dropped, 2)];
        store.record_push_outcomes(writes).await.unwrap();
        assert_eq!(outcome().await, Some((result, at(3))));
    }
    set(store, OURS, PHONE, "a", 4).await;
    assert_eq!(outcome().await, Some((PushOutcome::Retried, at(3))));
    set(store, OURS, PHONE, "b", 5).await;
    assert_eq!(outcome().await, None);
    let late = vec![write(PushOutcome::Delivered, 6)];
    store.record_push_outcomes(late).await.unwrap();
    assert_eq!(outcome().await, None);
}

/// Section 11: of phones that claim one token at once one has it in the end, and none fails.
pub async fn claims_that_race_end_with_one_holder(subject: &dyn Subject) {
    let store = subject.store();
    with_devices(store).await;
    for round in 0..8 {
        let ours = store.set_push_token(OURS, PHONE, token("a"), at(round));
        let other = subject
            .second()
            .set_push_token(OURS, OTHER_PHONE, token("a"), at(round));
        let theirs = store.set_push_token(THEIRS, THEIR_PHONE, token("a"), at(round));
        let ends = tokio::join!(ours, other, theirs);
        let set = Ok(PushTokenSetting::Set);
        assert_eq!(ends, (set.clone(), set.clone(), set));
        let mut holders = tokens(store, OURS).await;
        holders.extend(tokens(store, THEIRS).await);
        assert_eq!(holders.len(), 1, "{holders:?}");
    }
}
