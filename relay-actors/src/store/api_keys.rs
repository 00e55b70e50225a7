//! The calls about API keys (HTTP-4).

use actix::{Handler, Message, ResponseFuture};
use relay_model::ids::{AccountId, ApiKeyId};
use relay_model::store::{ApiKeyRow, NewApiKey, StoreError, StoredApiKey};

use super::StoreActor;

/// Keeps a new key; from the device API.
#[derive(Message)]
#[rtype(result = "Result<(), StoreError>")]
pub(crate) struct CreateApiKey(pub(crate) NewApiKey);

/// Lists an account's keys, ended ones too; from the device API.
#[derive(Message)]
#[rtype(result = "Result<Vec<ApiKeyRow>, StoreError>")]
pub(crate) struct ListApiKeys(pub(crate) AccountId);

/// Looks up a key that a caller sent; from the door.
#[derive(Message)]
#[rtype(result = "Result<Option<StoredApiKey>, StoreError>")]
pub(crate) struct FindApiKey(pub(crate) ApiKeyId);

/// Ends a key of an account; from the device API.
#[derive(Message)]
#[rtype(result = "Result<bool, StoreError>")]
pub(crate) struct RevokeApiKey {
    pub(crate) account: AccountId,
    pub(crate) id: ApiKeyId,
}

/// Asks which of these keys have ended; from CredentialsActor, one at a time (SES-6).
#[derive(Message)]
#[rtype(result = "Result<Vec<ApiKeyId>, StoreError>")]
pub(crate) struct FindEndedKeys(pub(crate) Vec<ApiKeyId>);

impl Handler<CreateApiKey> for StoreActor {
    type Result = ResponseFuture<Result<(), StoreError>>;

    fn handle(&mut self, CreateApiKey(key): CreateApiKey, _: &mut Self::Context) -> Self::Result {
        self.write(move |store| store.create_api_key(key))
    }
}

impl Handler<ListApiKeys> for StoreActor {
    type Result = ResponseFuture<Result<Vec<ApiKeyRow>, StoreError>>;

    fn handle(&mut self, ListApiKeys(account): ListApiKeys, _: &mut Self::Context) -> Self::Result {
        self.read(move |store| store.api_keys(account))
    }
}

impl Handler<FindApiKey> for StoreActor {
    type Result = ResponseFuture<Result<Option<StoredApiKey>, StoreError>>;

    fn handle(&mut self, FindApiKey(id): FindApiKey, _: &mut Self::Context) -> Self::Result {
        self.read(move |store| store.api_key(id))
    }
}

impl Handler<RevokeApiKey> for StoreActor {
    type Result = ResponseFuture<Result<bool, StoreError>>;

    fn handle(&mut self, revoke: RevokeApiKey, _: &mut Self::Context) -> Self::Result {
        let RevokeApiKey { account, id } = revoke;
        let now = self.core.environment.now();
        self.write(move |store| store.revoke_api_key(account, id, now))
    }
}

impl Handler<FindEndedKeys> for StoreActor {
    type Result = ResponseFuture<Result<Vec<ApiKeyId>, StoreError>>;

    fn handle(
        &mut self,
        FindEndedKeys(keys): FindEndedKeys,
        _: &mut Self::Context,
    ) -> Self::Result {
        let now = self.core.environment.now();
        self.read(move |store| store.ended_api_keys(keys, now))
    }
}
