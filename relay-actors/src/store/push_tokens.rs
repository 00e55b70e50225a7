//! The calls about push tokens (section 12).

use actix::{Handler, Message, ResponseFuture};
use relay_model::ids::{AccountId, DeviceId};
use relay_model::push::{
    NewPushToken, PushOutcomeWrite, PushRegistration, PushTokenRow, PushTokenSetting,
};
use relay_model::store::StoreError;

use super::StoreActor;

/// Gives a phone its token; from the device API.
#[derive(Message)]
#[rtype(result = "Result<PushTokenSetting, StoreError>")]
pub(crate) struct SetPushToken {
    pub(crate) account: AccountId,
    pub(crate) device: DeviceId,
    pub(crate) token: NewPushToken,
}

/// Removes the token of a device of an account, or of all of them, and tells how many those were; from
/// the device API, and from whoever ends a device's stay.
#[derive(Message)]
#[rtype(result = "Result<usize, StoreError>")]
pub(crate) struct RemovePushTokens {
    pub(crate) account: AccountId,
    pub(crate) device: Option<DeviceId>,
}

/// Reads the tokens of an account; from PushActor, one call an account at a time.
#[derive(Message)]
#[rtype(result = "Result<Vec<PushTokenRow>, StoreError>")]
pub(crate) struct ReadPushTokens(pub(crate) AccountId);

/// Removes a token that its service calls gone, unless it was registered again (PUSH-4); from
/// PushActor, once a push.
#[derive(Message)]
#[rtype(result = "Result<bool, StoreError>")]
pub(crate) struct RemovePushRegistration(pub(crate) PushRegistration);

/// Keeps what became of pushes; from PushActor, one call at a time.
#[derive(Message)]
#[rtype(result = "Result<(), StoreError>")]
pub(crate) struct RecordPushOutcomes(pub(crate) Vec<PushOutcomeWrite>);

impl Handler<SetPushToken> for StoreActor {
    type Result = ResponseFuture<Result<PushTokenSetting, StoreError>>;

    fn handle(&mut self, set: SetPushToken, _: &mut Self::Context) -> Self::Result {
        let SetPushToken {
            account,
            device,
            token,
        } = set;
        let now = self.core.environment.now();
        self.write(move |store| store.set_push_token(account, device, token, now))
    }
}

impl Handler<RemovePushTokens> for StoreActor {
    type Result = ResponseFuture<Result<usize, StoreError>>;

    fn handle(&mut self, remove: RemovePushTokens, _: &mut Self::Context) -> Self::Result {
        let RemovePushTokens { account, device } = remove;
        self.write(move |store| store.remove_push_tokens(account, device))
    }
}

impl Handler<ReadPushTokens> for StoreActor {
    type Result = ResponseFuture<Result<Vec<PushTokenRow>, StoreError>>;

    fn handle(
        &mut self,
        ReadPushTokens(account): ReadPushTokens,
        _: &mut Self::Context,
    ) -> Self::Result {
        self.read(move |store| store.push_tokens(account))
    }
}

impl Handler<RemovePushRegistration> for StoreActor {
    type Result = ResponseFuture<Result<bool, StoreError>>;

    fn handle(
        &mut self,
        RemovePushRegistration(registration): RemovePushRegistration,
        _: &mut Self::Context,
    ) -> Self::Result {
        self.write(move |store| store.remove_push_registration(registration))
    }
}

impl Handler<RecordPushOutcomes> for StoreActor {
    type Result = ResponseFuture<Result<(), StoreError>>;

    fn handle(
        &mut self,
        RecordPushOutcomes(writes): RecordPushOutcomes,
        _: &mut Self::Context,
    ) -> Self::Result {
        self.write(move |store| store.record_push_outcomes(writes))
    }
}
