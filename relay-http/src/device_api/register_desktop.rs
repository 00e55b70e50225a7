//! `POST /api/devices/register`: a desktop makes or renews its row before it connects.

use actix_web::{HttpResponse, web};
use relay_model::ids::DeviceId;
use relay_model::store::{DesktopRegistration, DeviceStatus};
use relay_model::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::DeviceApi;
use super::body::JsonBody;
use super::caller::CallingDesktop;
use super::registered::registered;
use super::schemas;
use super::text::{checked, desktop_name};
use crate::refusal::{Problem, Refusal};

/// What the desktop says about itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DesktopBody {
    #[schema(schema_with = schemas::desktop_name)]
    device_name: String,
    platform: DesktopPlatform,
    #[schema(min_length = 1, pattern = r"\S")]
    platform_version: Option<String>,
    #[schema(schema_with = schemas::trimmed_text)]
    app_version: String,
    /// Any JSON; kept as it is. Left out, a row keeps what it has.
    #[schema(schema_with = schemas::opaque)]
    capabilities: Option<serde_json::Value>,
    /// Whether the desktop is admitted to the relay (EV-5). Left out, a row keeps what it has.
    relay_eligible: Option<bool>,
    /// Undoes a forget; to be sent on the user's action only.
    rejoin: Option<bool>,
}

/// The operating systems that desktops run on.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
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

/// The row as it stands.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RegisteredDesktop {
    #[schema(schema_with = schemas::id)]
    device_id: DeviceId,
    #[schema(schema_with = schemas::device_status)]
    status: DeviceStatus,
    #[schema(schema_with = schemas::time)]
    created_at: Timestamp,
    #[schema(schema_with = schemas::time)]
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

/// Register a desktop.
///
/// Makes the desktop's row or renews it. A forgotten desktop is refused unless it asks to rejoin.
#[utoipa::path(
    post,
    path = "/api/devices/register",
    operation_id = "registerDesktop",
    tag = "devices",
    params(
        ("X-Device-ID" = String, Header, format = "uuid", description = "The desktop's UUID."),
        ("X-Client-Type" = String, Header, pattern = "^desktop$", description = "`desktop`."),
    ),
    request_body = DesktopBody,
    responses(
        (status = 201, description = "Registered.", body = RegisteredDesktop),
        (status = 400, response = Problem),
        (status = 408, response = Problem),
        (status = 409, response = Problem),
        (status = 413, response = Problem),
    ),
    security(("userToken" = []), ("apiKey" = [])),
)]
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
    let row = registered(outcome)?;
    Ok(HttpResponse::Created().json(RegisteredDesktop {
        device_id: row.id,
        status: row.status,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }))
}
