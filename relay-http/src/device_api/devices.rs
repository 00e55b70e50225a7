//! `GET /api/devices`: the account's devices with their live status (PR-6).

use actix_web::http::Uri;
use actix_web::{HttpResponse, web};
use relay_model::ids::DeviceId;
use relay_model::store::{DeviceFilter, DeviceRow, DeviceStatus, DeviceType, OfflineReason};
use relay_model::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::DeviceApi;
use super::caller::Caller;
use super::schemas;
use crate::device_headers::client_type;
use crate::refusal::{Problem, Refusal};

/// One device, with the fields that are not set left out.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Device {
    #[schema(schema_with = schemas::id)]
    device_id: DeviceId,
    device_name: String,
    #[schema(schema_with = schemas::device_type)]
    device_type: DeviceType,
    platform: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    platform_version: Option<String>,
    app_version: String,
    #[schema(schema_with = schemas::device_status)]
    status: DeviceStatus,
    is_connected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time, required = false)]
    last_seen: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time, required = false)]
    last_heartbeat: Option<Timestamp>,
    /// Why it is offline; later versions may know further words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    offline_reason: Option<OfflineReason>,
    /// Any JSON, as the device gave it.
    #[schema(schema_with = schemas::opaque)]
    capabilities: serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    active_project_directory: Option<String>,
    #[schema(schema_with = schemas::time)]
    created_at: Timestamp,
    #[schema(schema_with = schemas::time)]
    updated_at: Timestamp,
}

impl From<DeviceRow> for Device {
    fn from(row: DeviceRow) -> Self {
        Self {
            device_id: row.id,
            device_name: row.device_name,
            device_type: row.device_type,
            platform: row.platform,
            platform_version: row.platform_version,
            app_version: row.app_version,
            status: row.status,
            is_connected: row.status == DeviceStatus::Online,
            last_seen: row.last_seen,
            last_heartbeat: row.last_heartbeat,
            offline_reason: row.offline_reason,
            capabilities: row.capabilities,
            active_project_directory: row.active_project_directory,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// The query of the call; both spellings of a parameter are known, an empty value is no filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct DeviceQuery {
    device_type: Option<DeviceType>,
    connected_only: bool,
}

impl DeviceQuery {
    fn parse(query: &str) -> Result<Self, Refusal> {
        let parameters = web::Query::<Vec<(String, String)>>::from_query(query)
            .map_err(|_| Refusal::InvalidPayload("the query cannot be read".into()))?
            .into_inner();
        let mut read = Self::default();
        for (name, value) in parameters {
            match (name.as_str(), value.as_str()) {
                ("deviceType" | "device_type", "") => read.device_type = None,
                ("deviceType" | "device_type", text) => {
                    let known = client_type(text).ok_or(Refusal::InvalidPayload(
                        "deviceType must be desktop or mobile".into(),
                    ))?;
                    read.device_type = Some(known);
                }
                ("connectedOnly" | "connected_only", text) => {
                    read.connected_only = match text.to_ascii_lowercase().as_str() {
                        "true" | "1" => true,
                        "false" | "0" | "" => false,
                        _ => {
                            return Err(Refusal::InvalidPayload(
                                "connectedOnly must be true or false".into(),
                            ));
                        }
                    };
                }
                _ => (),
            }
        }
        Ok(read)
    }
}

/// List devices.
///
/// The devices of the account with their live status, forgotten ones left out.
#[utoipa::path(
    get,
    path = "/api/devices",
    operation_id = "listDevices",
    tag = "devices",
    params(
        ("deviceType" = Option<String>, Query, pattern = "^(desktop|mobile)?$",
            description = "`desktop` or `mobile`; empty is no filter. `device_type` is the same."),
        ("connectedOnly" = Option<String>, Query, pattern = "^(true|false|1|0)?$",
            description = "`true` or `1`, `false` or `0`. `connected_only` is the same."),
    ),
    responses(
        (status = 200, description = "The devices.", body = [Device]),
        (status = 400, response = Problem),
    ),
    security(("userToken" = []), ("apiKey" = [])),
)]
pub(super) async fn list(
    caller: Caller,
    api: web::Data<DeviceApi>,
    uri: Uri,
) -> Result<HttpResponse, Refusal> {
    let query = DeviceQuery::parse(uri.query().unwrap_or_default())?;
    let filter = DeviceFilter {
        device_type: query.device_type,
    };
    let rows = api.relay.devices(caller.account, filter).await?;
    let devices: Vec<Device> = rows
        .into_iter()
        .map(Device::from)
        .filter(|device| device.is_connected || !query.connected_only)
        .collect();
    Ok(HttpResponse::Ok().json(devices))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 11: `deviceType` and `connectedOnly`, in both spellings.
    #[test]
    fn queries_are_read() {
        let desktops = DeviceQuery {
            device_type: Some(DeviceType::Desktop),
            connected_only: false,
        };
        let connected = DeviceQuery {
            device_type: None,
            connected_only: true,
        };
        for (query, expected) in [
            ("", DeviceQuery::default()),
            ("deviceType=&connectedOnly=", DeviceQuery::default()),
            ("deviceType=desktop", desktops),
            ("device_type=desktop&connected_only=false", desktops),
            ("connectedOnly=true", connected),
            ("connected_only=True&other=1", connected),
            ("connectedOnly=1", connected),
        ] {
            assert_eq!(DeviceQuery::parse(query), Ok(expected), "{query}");
        }
    }

    /// Section 11: a filter that cannot be read is refused by name and not ignored.
    #[test]
    fn bad_queries_are_refused() {
        for (query, name) in [
            ("deviceType=tablet", "deviceType"),
            ("deviceType=Desktop", "deviceType"),
            ("connectedOnly=yes", "connectedOnly"),
        ] {
            let refusal = DeviceQuery::parse(query).unwrap_err();
            assert!(refusal.to_string().contains(name), "{query}");
        }
    }
}
