//! `POST /api/devices/mobile/register`: a phone makes or renews its row before it connects.

use actix_web::{HttpResponse, web};
use relay_model::ids::DeviceId;
use relay_model::store::{DeviceStatus, DeviceType, PhoneRegistration, RegistrationOutcome};
use serde::{Deserialize, Serialize};

use super::DeviceApi;
use super::body::JsonBody;
use super::caller::CallingPhone;
use super::text::checked;
use crate::refusal::Refusal;

/// What the phone says about itself.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PhoneBody {
    device_name: String,
    platform: PhonePlatform,
    app_version: String,
    capabilities: Option<serde_json::Value>,
}

/// The operating systems that phones run on.
#[derive(Debug, Clone, Copy, Deserialize)]
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
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RegisteredPhone {
    device_id: DeviceId,
    device_name: String,
    device_type: DeviceType,
    platform: String,
    app_version: String,
    is_connected: bool,
}

impl PhoneBody {
    fn into_registration(self) -> Result<PhoneRegistration, Refusal> {
        Ok(PhoneRegistration {
            device_name: checked("deviceName", &self.device_name)?,
            platform: self.platform.name().to_owned(),
            app_version: checked("appVersion", &self.app_version)?,
            capabilities: self.capabilities,
        })
    }
}

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
    match outcome {
        RegistrationOutcome::Registered(changed) => {
            let row = changed.row;
            Ok(HttpResponse::Created().json(RegisteredPhone {
                device_id: row.id,
                device_name: row.device_name,
                device_type: row.device_type,
                platform: row.platform,
                app_version: row.app_version,
                is_connected: row.status == DeviceStatus::Online,
            }))
        }
        RegistrationOutcome::Foreign => Err(Refusal::DeviceOwnershipFailed),
        RegistrationOutcome::Forgotten => Err(Refusal::DesktopForgotten),
        RegistrationOutcome::TypeMismatch => Err(Refusal::DeviceTypeMismatch),
    }
}
