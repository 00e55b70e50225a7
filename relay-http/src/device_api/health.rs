//! What the world may know without credentials: that the relay lives, whether it can serve, and
//! which one it is (OP-8).

use actix_web::{HttpResponse, web};
use relay_model::ids::RelayInstanceId;
use serde::Serialize;
use utoipa::ToSchema;

use super::{DeviceApi, schemas};
use crate::refusal::{Problem, Refusal, Requirement};

/// That the relay is well.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// `ok` or `ready`.
    status: &'static str,
}

/// Which relay this is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Version {
    name: &'static str,
    version: &'static str,
    #[schema(schema_with = schemas::id)]
    relay_instance_id: RelayInstanceId,
    /// The lowest `relayProtocolVersion` that may register (REG-9).
    min_protocol_version: u32,
}

/// Ask whether the relay lives.
///
/// 200 as long as requests are answered at all.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "health",
    tag = "relay",
    responses((status = 200, description = "It lives.", body = Health)),
)]
pub(super) async fn alive() -> HttpResponse {
    HttpResponse::Ok().json(Health { status: "ok" })
}

/// Ask whether the relay can serve.
///
/// 200 only while the database answers and no drain was asked for; else `missing` of the problem
/// document says what is missing.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readiness",
    tag = "relay",
    responses(
        (status = 200, description = "It can serve.", body = Health),
        (status = 503, response = Problem),
    ),
)]
pub(super) async fn ready(api: web::Data<DeviceApi>) -> Result<HttpResponse, Refusal> {
    let mut missing = Vec::new();
    if api.relay.drain_signal().is_leaving() {
        missing.push(Requirement::NotDraining);
    }
    if let Err(error) = api.relay.check_database().await {
        tracing::debug!(%error, "not ready: no database");
        missing.push(Requirement::Database);
    }
    if missing.is_empty() {
        Ok(HttpResponse::Ok().json(Health { status: "ready" }))
    } else {
        Err(Refusal::NotReady { missing })
    }
}

/// Ask which relay this is.
#[utoipa::path(
    get,
    path = "/api/version",
    operation_id = "version",
    tag = "relay",
    responses(
        (status = 200, description = "Which relay this is.", body = Version),
        (status = 503, response = Problem),
    ),
)]
pub(super) async fn version(api: web::Data<DeviceApi>) -> Result<HttpResponse, Refusal> {
    Ok(HttpResponse::Ok().json(Version {
        name: "relay",
        version: env!("CARGO_PKG_VERSION"),
        relay_instance_id: api.relay.instance(),
        min_protocol_version: api.relay.protocol_floor().await?,
    }))
}
