//! `POST /api/devices/mobile/register`: a phone makes or renews its row before it connects.

use actix_web::{HttpResponse, web};
use relay_model::ids::DeviceId;
use relay_model::push::{NewPushToken, PushPlatform};
use relay_model::store::{DeviceStatus, DeviceType, PhoneRegistration};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::DeviceApi;
use super::body::JsonBody;
use super::caller::CallingPhone;
use super::registered::registered;
use super::schemas;
use super::text::{checked, push_token};
use crate::refusal::{Problem, Refusal};

/// What the phone says about itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PhoneBody {
    #[schema(schema_with = schemas::trimmed_text)]
    device_name: String,
    platform: PhonePlatform,
    #[schema(schema_with = schemas::trimmed_text)]
    app_version: String,
    /// Any JSON; kept as it is. Left out, a row keeps what it has.
    #[schema(schema_with = schemas::opaque)]
    capabilities: Option<serde_json::Value>,
    /// Undoes a forget; to be sent on the user's action only.
    rejoin: Option<bool>,
    #[schema(schema_with = schemas::optional_push_token, required = false)]
    push_token: Option<String>,
}

/// The operating systems that phones run on.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum PhonePlatform {
    Ios,
    Android,
}

impl PhonePlatform {
    const fn name(self) -> &'static str {
        match self {
            Self::Ios => "ios",
            Self::Android => "android",
        }
    }

    const fn push_platform(self) -> PushPlatform {
        match self {
            Self::Ios => PushPlatform::Ios,
            Self::Android => PushPlatform::Android,
        }
    }
}

/// The row as it stands.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RegisteredPhone {
    #[schema(schema_with = schemas::id)]
    device_id: DeviceId,
    device_name: String,
    #[schema(schema_with = schemas::device_type)]
    device_type: DeviceType,
    platform: String,
    app_version: String,
    is_connected: bool,
}

impl PhoneBody {
    fn into_registration(self) -> Result<PhoneRegistration, Refusal> {
        // An app that has none yet may send an empty one.
        let text = self.push_token.as_deref().filter(|text| !text.is_empty());
        let push_token = match text {
            Some(text) => Some(NewPushToken {
                platform: self.platform.push_platform(),
                environment: None,
                token: push_token("pushToken", text)?,
            }),
            None => None,
        };
        Ok(PhoneRegistration {
            device_name: checked("deviceName", &self.device_name)?,
            platform: self.platform.name().to_owned(),
            app_version: checked("appVersion", &self.app_version)?,
            capabilities: self.capabilities,
            rejoin: self.rejoin.unwrap_or(false),
            push_token,
        })
    }
}

/// Register a phone.
///
/// Makes the phone's row or renews it. A forgotten phone is refused unless it asks to rejoin.
#[utoipa::path(
    post,
    path = "/api/devices/mobile/register",
    operation_id = "registerPhone",
    tag = "devices",
    params(
        ("X-Device-ID" = String, Header, format = "uuid", description = "The phone's UUID."),
        ("X-Client-Type" = String, Header, pattern = "^mobile$", description = "`mobile`."),
    ),
    request_body = PhoneBody,
    responses(
        (status = 201, description = "Registered.", body = RegisteredPhone),
        (status = 400, response = Problem),
        (status = 408, response = Problem),
        (status = 409, response = Problem),
        (status = 413, response = Problem),
    ),
    security(("userToken" = []), ("apiKey" = [])),
)]
pub(super) async fn register(
    caller: CallingPhone,
    api: web::Data<DeviceApi>,
    JsonBody(body): JsonBody<PhoneBody>,
) -> Result<HttpResponse, Refusal> {
    let registration = body.into_registration()?;
    let outcome = api
        .relay
        .register_phone(caller.account, caller.device, registration)
        .await?;
    let row = registered(outcome)?;
    Ok(HttpResponse::Created().json(RegisteredPhone {
        device_id: row.id,
        device_name: row.device_name,
        device_type: row.device_type,
        platform: row.platform,
        app_version: row.app_version,
        is_connected: row.status == DeviceStatus::Online,
    }))
}
