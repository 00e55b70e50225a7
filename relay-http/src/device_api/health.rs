//! What the world may know without credentials: that the relay lives, whether it can serve, and
//! which one it is (OP-8).

use actix_web::{HttpResponse, web};
use relay_model::ids::RelayInstanceId;
use serde::Serialize;
use serde_json::json;

use super::DeviceApi;
use crate::refusal::Refusal;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    name: &'static str,
    version: &'static str,
    relay_instance_id: RelayInstanceId,
    min_protocol_version: u32,
}

/// `/healthz`: 200 as long as requests are answered at all.
pub(super) async fn alive() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ok" }))
}

/// `/readyz`: 200 only while the database answers.
pub(super) async fn ready(api: web::Data<DeviceApi>) -> Result<HttpResponse, Refusal> {
    api.relay.check_database().await?;
    Ok(HttpResponse::Ok().json(json!({ "status": "ready" })))
}

/// `/api/version`.
pub(super) async fn version(api: web::Data<DeviceApi>) -> Result<HttpResponse, Refusal> {
    Ok(HttpResponse::Ok().json(Version {
        name: "relay",
        version: env!("CARGO_PKG_VERSION"),
        relay_instance_id: api.relay.instance(),
        min_protocol_version: api.relay.protocol_floor().await?,
    }))
}
