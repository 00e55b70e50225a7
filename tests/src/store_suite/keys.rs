//! API keys in the store (HTTP-4).

use std::time::Duration;

use relay_model::credentials::{Scope, Scopes};
use relay_model::ids::{AccountId, ApiKeyId};
use relay_model::store::{ApiKeyRow, NewApiKey, StoredApiKey};
use uuid::Uuid;

use super::{OURS, Subject, THEIRS, at};

pub(super) const KEY: ApiKeyId = key(1);

const fn key(number: u128) -> ApiKeyId {
    ApiKeyId::from_uuid(Uuid::from_u128(0xF000 + number))
}

pub(super) fn new_key(id: ApiKeyId, account: AccountId) -> NewApiKey {
    NewApiKey {
        id,
        account,
        name: Some("build \u{1F511}".to_owned()),
        scopes: Scopes::all(),
        secret_hash: std::array::from_fn(|place| 255 - place as u8),
        created_at: at(1),
        expires_at: None,
    }
}

fn row_of(key: &NewApiKey) -> ApiKeyRow {
    ApiKeyRow {
        id: key.id,
        account: key.account,
        name: key.name.clone(),
        scopes: key.scopes,
        created_at: key.created_at,
        expires_at: key.expires_at,
        revoked_at: None,
    }
}

/// HTTP-4: a key is read back as it was made, by its account and by its id, oldest first.
pub async fn keys_are_read_as_they_were_made(subject: &dyn Subject) {
    let store = subject.store();
    let plain = NewApiKey {
        name: None,
        scopes: Scopes::from_iter([Scope::Write, Scope::Rpc]),
        expires_at: Some(at(90)),
        created_at: at(0),
        ..new_key(key(3), OURS)
    };
    let made = [
        new_key(key(2), OURS),
        new_key(key(1), OURS),
        plain,
        new_key(key(4), THEIRS),
    ];
    for key in made.clone() {
        store.create_api_key(key).await.unwrap();
    }
    let [second, first, plain, theirs] = made;
    let rows = [row_of(&plain), row_of(&first), row_of(&second)];
    assert_eq!(subject.second().api_keys(OURS).await.unwrap(), rows);
    assert_eq!(store.api_keys(THEIRS).await.unwrap(), [row_of(&theirs)]);
    for key in [plain, theirs] {
        let stored = StoredApiKey {
            row: row_of(&key),
            secret_hash: key.secret_hash,
        };
        assert_eq!(store.api_key(key.id).await, Ok(Some(stored)));
    }
    assert_eq!(store.api_key(key(9)).await, Ok(None));
}

/// HTTP-4: a key that could never be used, or that takes another's place, is not kept.
pub async fn impossible_keys_are_refused(subject: &dyn Subject) {
    let store = subject.store();
    let useless = NewApiKey {
        scopes: Scopes::default(),
        ..new_key(KEY, OURS)
    };
    store.create_api_key(useless).await.unwrap_err();
    store.create_api_key(new_key(KEY, OURS)).await.unwrap();
    let again = NewApiKey {
        name: None,
        ..new_key(KEY, OURS)
    };
    store.create_api_key(again).await.unwrap_err();
    let rows = store.api_keys(OURS).await.unwrap();
    assert_eq!(rows, [row_of(&new_key(KEY, OURS))]);
}

/// HTTP-4: a revoked key stays in the list with the time of its first revocation.
pub async fn a_revoked_key_keeps_its_first_time(subject: &dyn Subject) {
    let store = subject.store();
    for number in [1, 2] {
        let made = store.create_api_key(new_key(key(number), OURS));
        made.await.unwrap();
    }
    assert_eq!(store.revoke_api_key(OURS, key(9), at(5)).await, Ok(false));
    for seconds in [5, 6] {
        let revoked = store.revoke_api_key(OURS, key(1), at(seconds)).await;
        assert_eq!(revoked, Ok(true));
    }
    let times: Vec<_> = store.api_keys(OURS).await.unwrap();
    let times: Vec<_> = times.iter().map(|row| row.revoked_at).collect();
    assert_eq!(times, [Some(at(5)), None]);
    let stored = subject.second().api_key(key(1)).await.unwrap();
    assert_eq!(stored.unwrap().row.revoked_at, Some(at(5)));
}

/// HTTP-4: keys that are revoked, expired or gone are told apart from those that live, for as many
/// as may be connected.
pub async fn ended_keys_are_told_apart(subject: &dyn Subject) {
    let store = subject.store();
    let [living, revoked, expiring] = [1, 2, 3].map(key);
    for id in [living, revoked] {
        store.create_api_key(new_key(id, OURS)).await.unwrap();
    }
    let ends = NewApiKey {
        expires_at: Some(at(50)),
        ..new_key(expiring, THEIRS)
    };
    store.create_api_key(ends).await.unwrap();
    store.revoke_api_key(OURS, revoked, at(5)).await.unwrap();
    let gone = key(9);
    let ended = async |now| {
        let ids = vec![gone, expiring, revoked, living];
        store.ended_api_keys(ids, now).await.unwrap()
    };
    let moment = Duration::from_micros(1);
    assert_eq!(ended(at(50).minus(moment)).await, [gone, revoked]);
    assert_eq!(ended(at(50)).await, [gone, expiring, revoked]);
    assert_eq!(
        store.ended_api_keys(Vec::new(), at(0)).await,
        Ok(Vec::new())
    );

    let mut many: Vec<_> = (100..2_600).map(key).collect();
    let expected = many.clone();
    many.insert(1_200, living);
    assert_eq!(store.ended_api_keys(many, at(0)).await, Ok(expected));
}
