//! `PATCH /api/devices/{id}`: a user renames a device, or hides a desktop and shows it again (EV-5).

use actix_web::{HttpResponse, web};
use relay_model::ids::DeviceId;
use relay_model::store::{DeviceChange, DeviceFilter, DeviceRow};
use serde::Deserialize;
use utoipa::ToSchema;

use super::body::JsonBody;
use super::caller::Caller;
use super::devices::Device;
use super::text::desktop_name;
use super::{DeviceApi, schemas};
use crate::refusal::{Problem, Refusal};

/// What is to change; what is left out or null stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChangeBody {
    #[schema(schema_with = schemas::optional_name, required = false)]
    device_name: Option<String>,
    /// Whether a desktop is admitted to the relay; false hides and disconnects it.
    relay_eligible: Option<bool>,
}

impl ChangeBody {
    /// A name is held to the rules of desktops whatever the device is: `unknown` is what apps send
    /// when they find no name, and nobody who renames a phone means it (HTTP-3).
    fn into_change(self) -> Result<DeviceChange, Refusal> {
        Ok(DeviceChange {
            device_name: self.device_name.as_deref().map(desktop_name).transpose()?,
            relay_eligible: self.relay_eligible,
            ..DeviceChange::default()
        })
    }
}

/// Change a device.
///
/// Renames it, or turns its admission to the relay on or off. A change of nothing changes nothing.
#[utoipa::path(
    patch,
    path = "/api/devices/{id}",
    operation_id = "changeDevice",
    tag = "devices",
    params(("id" = String, Path, format = "uuid", description = "The device's id, in any case.")),
    request_body = ChangeBody,
    responses(
        (status = 200, description = "The device as it stands.", body = Device),
        (status = 400, response = Problem),
        (status = 404, response = Problem),
        (status = 408, response = Problem),
        (status = 413, response = Problem),
    ),
    security(("userToken" = []), ("apiKey" = [])),
)]
pub(super) async fn change(
    caller: Caller,
    api: web::Data<DeviceApi>,
    id: web::Path<String>,
    JsonBody(body): JsonBody<ChangeBody>,
) -> Result<HttpResponse, Refusal> {
    let change = body.into_change()?;
    // What is no UUID names no device, as an unknown id does.
    let id: DeviceId = id.parse().map_err(|_| Refusal::NoSuchDevice)?;
    let row = if change == DeviceChange::default() {
        find(&caller, &api, id).await?
    } else {
        api.relay.change_device(caller.account, id, change).await?
    };
    let device = Device::from(row.ok_or(Refusal::NoSuchDevice)?);
    Ok(HttpResponse::Ok().json(device))
}

/// The row as it stands, untouched: a change would also renew its `updatedAt`.
async fn find(
    caller: &Caller,
    api: &DeviceApi,
    id: DeviceId,
) -> Result<Option<DeviceRow>, Refusal> {
    let all = DeviceFilter::default();
    let rows = api.relay.devices(caller.account, all).await?;
    Ok(rows.into_iter().find(|row| row.id == id))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn change(body: Value) -> Result<DeviceChange, Refusal> {
        serde_json::from_value::<ChangeBody>(body)
            .unwrap()
            .into_change()
    }

    /// HTTP-3, EV-5: null is "not given", unknown fields are ignored, names are trimmed.
    #[test]
    fn bodies_are_read() {
        for nothing in [
            json!({}),
            json!({ "deviceName": null, "relayEligible": null, "platform": "linux" }),
        ] {
            assert_eq!(change(nothing), Ok(DeviceChange::default()));
        }
        let both = change(json!({ "deviceName": " Mac ", "relayEligible": false })).unwrap();
        assert_eq!(both.device_name.as_deref(), Some("Mac"));
        assert_eq!(both.relay_eligible, Some(false));
        assert_eq!(both.project_directory, None);
    }

    /// HTTP-3: a name that is none is refused by name.
    #[test]
    fn bad_names_are_refused() {
        for bad in ["", " ", "Unknown", &"n".repeat(256)] {
            let refusal = change(json!({ "deviceName": bad })).unwrap_err();
            assert!(refusal.to_string().contains("deviceName"), "{refusal}");
        }
    }
}
