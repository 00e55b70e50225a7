//! `POST /api/devices/register`: a desktop makes or renews its row before it connects.

use actix_web::{HttpResponse, web};
use relay_model::ids::DeviceId;
use relay_model::store::{DesktopRegistration, DeviceStatus, RegistrationOutcome};
use relay_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::DeviceApi;
use super::body::JsonBody;
use super::caller::CallingDesktop;
use super::text::{checked, desktop_name};
use crate::refusal::Refusal;

/// What the desktop says about itself.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DesktopBody {
    device_name: String,
    platform: DesktopPlatform,
    platform_version: Option<String>,
    app_version: String,
    capabilities: Option<serde_json::Value>,
    relay_eligible: Option<bool>,
    rejoin: Option<bool>,
}

/// The operating systems that desktops run on.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum DesktopPlatform {
    Macos,
    Windows,
    Linux,
}

impl DesktopPlatform {
    const fn name(self) -> &'static str {
        match self {
            Self::Macos => "macos",
            Self::Windows => "windows",
            Self::Linux => "linux",
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RegisteredDesktop {
    device_id: DeviceId,
    status: DeviceStatus,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl DesktopBody {
    fn into_registration(self) -> Result<DesktopRegistration, Refusal> {
        Ok(DesktopRegistration {
            device_name: desktop_name(&self.device_name)?,
            platform: self.platform.name().to_owned(),
            platform_version: self
                .platform_version
                .map(|version| checked("platformVersion", &version))
                .transpose()?,
            app_version: checked("appVersion", &self.app_version)?,
            capabilities: self.capabilities,
            relay_eligible: self.relay_eligible,
            rejoin: self.rejoin.unwrap_or(false),
        })
    }
}

pub(super) async fn register(
    caller: CallingDesktop,
    api: web::Data<DeviceApi>,
    JsonBody(body): JsonBody<DesktopBody>,
) -> Result<HttpResponse, Refusal> {
    let registration = body.into_registration()?;
    let outcome = api
        .relay
        .register_desktop(caller.account, caller.device, registration)
        .await?;
    match outcome {
        RegistrationOutcome::Registered(changed) => {
            let row = changed.row;
            Ok(HttpResponse::Created().json(RegisteredDesktop {
                device_id: row.id,
                status: row.status,
                created_at: row.created_at,
                updated_at: row.updated_at,
            }))
        }
        RegistrationOutcome::Foreign => Err(Refusal::DeviceOwnershipFailed),
        RegistrationOutcome::Forgotten => Err(Refusal::DesktopForgotten),
        RegistrationOutcome::TypeMismatch => Err(Refusal::DeviceTypeMismatch),
    }
}
