//! `DELETE /api/devices/{id}`: a user forgets a device (PR-4).

use actix_web::{HttpResponse, web};
use relay_model::ids::DeviceId;

use super::DeviceApi;
use super::caller::Caller;
use crate::refusal::{Problem, Refusal};

/// Forget a device.
///
/// The device is disconnected and not listed any more; its session and push token are removed. It comes
/// back only by registering with `rejoin`. Forgetting it again is answered alike.
#[utoipa::path(
    delete,
    path = "/api/devices/{id}",
    operation_id = "forgetDevice",
    tag = "devices",
    params(("id" = String, Path, format = "uuid", description = "The device's id, in any case.")),
    responses(
        (status = 204, description = "Forgotten."),
        (status = 404, response = Problem),
    ),
    security(("userToken" = []), ("apiKey" = [])),
)]
pub(super) async fn forget(
    caller: Caller,
    api: web::Data<DeviceApi>,
    id: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    // What is no UUID names no device, as an unknown id does.
    let id: DeviceId = id.parse().map_err(|_| Refusal::NoSuchDevice)?;
    if api.relay.forget_device(caller.account, id).await? {
        Ok(HttpResponse::NoContent().finish())
    } else {
        Err(Refusal::NoSuchDevice)
    }
}
