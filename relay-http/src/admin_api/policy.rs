//! What the relay admits, as the operator decides (REG-9).

use actix_web::{HttpResponse, web};
use relay_model::limits::MAX_PROTOCOL_FLOOR;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::AdminApi;
use super::operator::Operator;
use crate::device_api::body::JsonBody;
use crate::refusal::{Problem, Refusal};

/// What the relay admits.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Policy {
    /// The lowest `relayProtocolVersion` that may register, 0 to 999,999,999; 0 admits also those that
    /// name none.
    #[schema(maximum = 999_999_999)]
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

/// Change the policy.
///
/// It holds from the next registration on, at every relay on this database; what is connected stays.
#[utoipa::path(
    put,
    path = "/admin/policy",
    operation_id = "changePolicy",
    request_body = Policy,
    responses(
        (status = 200, description = "The policy as it stands.", body = Policy),
        (status = 400, response = Problem),
        (status = 408, response = Problem),
        (status = 413, response = Problem),
        (status = 503, response = Problem),
    ),
    security(("operatorToken" = [])),
)]
pub(super) async fn change(
    _: Operator,
    api: web::Data<AdminApi>,
    JsonBody(policy): JsonBody<Policy>,
) -> Result<HttpResponse, Refusal> {
    let floor = policy.min_protocol_version;
    if floor > MAX_PROTOCOL_FLOOR {
        let range = format!("minProtocolVersion must be 0 to {MAX_PROTOCOL_FLOOR}");
        return Err(Refusal::InvalidPayload(range.into()));
    }
    api.relay.set_protocol_floor(floor).await?;
    tracing::info!(min_protocol_version = floor, "the operator set the policy");
    Ok(HttpResponse::Ok().json(policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// REG-9: the published range is the one that is checked.
    #[test]
    fn the_published_range_is_the_checked_one() {
        let schema = serde_json::to_value(<Policy as utoipa::PartialSchema>::schema()).unwrap();
        let field = &schema["properties"]["minProtocolVersion"];
        assert_eq!(field["minimum"], 0);
        assert_eq!(field["maximum"], MAX_PROTOCOL_FLOOR);
    }
}
