//! `PUT` and `DELETE /api/devices/push-token`: a phone says where it is reached when it is not
//! connected, or that it is not to be any more (section 12).

use actix_web::{HttpResponse, web};
use relay_model::push::{NewPushToken, PushEnvironment, PushPlatform, PushTokenSetting};
use relay_model::store::DeviceStanding;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::DeviceApi;
use super::body::JsonBody;
use super::caller::CallingDevice;
use super::schemas;
use super::text::push_token;
use crate::refusal::{Problem, Refusal};

/// Where the phone is reached.
#[derive(Deserialize, ToSchema)]
pub(super) struct PushTokenBody {
    #[schema(schema_with = schemas::push_platform)]
    platform: PushPlatform,
    #[schema(schema_with = schemas::push_token)]
    token: String,
    #[schema(schema_with = schemas::push_environment, required = false)]
    environment: Option<PushEnvironment>,
}

/// Done.
#[derive(Serialize, ToSchema)]
struct PushTokenSet {
    success: bool,
}

impl PushTokenBody {
    fn into_token(self) -> Result<NewPushToken, Refusal> {
        Ok(NewPushToken {
            platform: self.platform,
            environment: self.environment,
            token: push_token("token", &self.token)?,
        })
    }
}

/// Set a phone's push token.
///
/// A token that another device holds moves to this one.
#[utoipa::path(
    put,
    path = "/api/devices/push-token",
    operation_id = "setPushToken",
    tag = "devices",
    params(("X-Device-ID" = String, Header, format = "uuid", description = "The phone's UUID.")),
    request_body = PushTokenBody,
    responses(
        (status = 200, description = "Set.", body = PushTokenSet),
        (status = 400, response = Problem),
        (status = 404, response = Problem),
        (status = 408, response = Problem),
        (status = 409, response = Problem),
        (status = 413, response = Problem),
    ),
    security(("userToken" = []), ("apiKey" = [])),
)]
pub(super) async fn set(
    caller: CallingDevice,
    api: web::Data<DeviceApi>,
    JsonBody(body): JsonBody<PushTokenBody>,
) -> Result<HttpResponse, Refusal> {
    let token = body.into_token()?;
    let setting = api
        .relay
        .set_push_token(caller.account, caller.device, token)
        .await?;
    match setting {
        PushTokenSetting::Set => Ok(HttpResponse::Ok().json(PushTokenSet { success: true })),
        PushTokenSetting::Unknown => Err(Refusal::NoSuchDevice),
        PushTokenSetting::Foreign => Err(Refusal::DeviceOwnershipFailed),
        PushTokenSetting::Forgotten => Err(Refusal::DesktopForgotten),
        PushTokenSetting::NotAPhone => Err(Refusal::DeviceTypeMismatch),
    }
}

/// Remove a phone's push token.
///
/// A device that has none, or that the account does not know, has none then either.
#[utoipa::path(
    delete,
    path = "/api/devices/push-token",
    operation_id = "removePushToken",
    tag = "devices",
    params(("X-Device-ID" = String, Header, format = "uuid", description = "The phone's UUID.")),
    responses(
        (status = 204, description = "The device has no push token."),
        (status = 400, response = Problem),
        (status = 409, response = Problem),
    ),
    security(("userToken" = []), ("apiKey" = [])),
)]
pub(super) async fn remove(
    caller: CallingDevice,
    api: web::Data<DeviceApi>,
) -> Result<HttpResponse, Refusal> {
    let CallingDevice { account, device } = caller;
    if api.relay.device_standing(account, device).await? == DeviceStanding::Foreign {
        return Err(Refusal::DeviceOwnershipFailed);
    }
    api.relay.remove_push_tokens(account, Some(device)).await?;
    Ok(HttpResponse::NoContent().finish())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn token(body: Value) -> Result<NewPushToken, Refusal> {
        serde_json::from_value::<PushTokenBody>(body)
            .unwrap()
            .into_token()
    }

    /// Section 11: the environment may be left out or null, other fields are ignored.
    #[test]
    fn bodies_are_read() {
        let full = token(json!({
            "platform": "ios", "token": "pushtoken-1", "environment": "sandbox", "more": [1],
        }));
        let full = full.unwrap();
        assert_eq!(full.platform, PushPlatform::Ios);
        assert_eq!(full.environment, Some(PushEnvironment::Sandbox));
        assert_eq!(full.token.reveal(), "pushtoken-1");
        for body in [
            json!({"platform": "android", "token": "pushtoken:2"}),
            json!({"platform": "android", "token": "pushtoken:2", "environment": null}),
        ] {
            let short = token(body).unwrap();
            assert_eq!(short.platform, PushPlatform::Android);
            assert_eq!(short.environment, None);
        }
    }

    /// PUSH-5: what is refused is named and not repeated.
    #[test]
    fn bad_tokens_are_refused() {
        for bad in ["", "push token", "pushtoken\n", &"x".repeat(4_097)] {
            let refusal = token(json!({"platform": "ios", "token": bad})).unwrap_err();
            let text = refusal.to_string();
            assert!(text.starts_with("token must be 1 to 4096"), "{text}");
        }
    }
}
