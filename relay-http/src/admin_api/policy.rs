//! What the relay admits, as the operator decides (REG-9).

use actix_web::{HttpResponse, web};
use serde::Serialize;
use utoipa::ToSchema;

use super::AdminApi;
use super::operator::Operator;
use crate::refusal::{Problem, Refusal};

/// What the relay admits.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Policy {
    /// The lowest `relayProtocolVersion` that may register; 0 admits all.
    min_protocol_version: u32,
}

/// Read the policy.
#[utoipa::path(
    get,
    path = "/admin/policy",
    operation_id = "readPolicy",
    responses(
        (status = 200, description = "The policy.", body = Policy),
        (status = 503, response = Problem),
    ),
    security(("operatorToken" = [])),
)]
pub(super) async fn read(_: Operator, api: web::Data<AdminApi>) -> Result<HttpResponse, Refusal> {
    let min_protocol_version = api.relay.protocol_floor().await?;
    Ok(HttpResponse::Ok().json(Policy {
        min_protocol_version,
    }))
}
