//! `POST /api/auth/logout`: a user signs out on one device or on all (SES-2).

use actix_web::{HttpRequest, HttpResponse, web};
use relay_model::ids::DeviceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::DeviceApi;
use super::body::OptionalJsonBody;
use super::caller::{CallingUser, named_device};
use crate::refusal::{Problem, Refusal};

/// Where to sign out; without a body on the device of `X-Device-ID`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogoutBody {
    /// Signs out on all devices of the account, whatever `X-Device-ID` says.
    all_devices: Option<bool>,
}

/// Signed out.
#[derive(Debug, Serialize, ToSchema)]
struct LoggedOut {
    /// Always true.
    success: bool,
}

impl LogoutBody {
    /// The device to sign out on; `None` for all. `named` is what the header names.
    fn device(&self, named: Result<DeviceId, Refusal>) -> Result<Option<DeviceId>, Refusal> {
        match self.all_devices {
            Some(true) => Ok(None),
            Some(false) | None => named.map(Some),
        }
    }
}

/// Sign out.
///
/// Ends the sessions, disconnects, and removes the push tokens. The user's tokens stay valid until they
/// expire; an app deletes its own.
#[utoipa::path(
    post,
    path = "/api/auth/logout",
    operation_id = "logout",
    tag = "devices",
    params(
        ("X-Device-ID" = Option<String>, Header, format = "uuid",
            description = "The device to sign out on; needed without `allDevices`."),
    ),
    request_body = Option<LogoutBody>,
    responses(
        (status = 200, description = "Signed out.", body = LoggedOut),
        (status = 400, response = Problem),
        (status = 408, response = Problem),
        (status = 413, response = Problem),
    ),
    security(("userToken" = [])),
)]
pub(super) async fn logout(
    user: CallingUser,
    api: web::Data<DeviceApi>,
    request: HttpRequest,
    OptionalJsonBody(body): OptionalJsonBody<LogoutBody>,
) -> Result<HttpResponse, Refusal> {
    let device = body.device(named_device(&request))?;
    api.relay.sign_out(user.account, device).await?;
    Ok(HttpResponse::Ok().json(LoggedOut { success: true }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    /// SES-2: one device, which must be named, or all.
    #[test]
    fn a_device_is_named_or_all_are_meant() {
        let device = DeviceId::from_uuid(Uuid::nil());
        let read = |body: Value| serde_json::from_value::<LogoutBody>(body).unwrap();
        for (body, one) in [
            (json!({}), true),
            (json!({ "allDevices": null, "more": 1 }), true),
            (json!({ "allDevices": false }), true),
            (json!({ "allDevices": true }), false),
        ] {
            let body = read(body);
            assert_eq!(body.device(Ok(device)), Ok(one.then_some(device)));
            let unnamed = body.device(Err(Refusal::InvalidDeviceId));
            let expected = if one {
                Err(Refusal::InvalidDeviceId)
            } else {
                Ok(None)
            };
            assert_eq!(unnamed, expected);
        }
        assert!(serde_json::from_value::<LogoutBody>(json!({ "allDevices": "yes" })).is_err());
    }
}
