//! `POST /admin/drain`, and how far a drain has come (section 10).

use actix_web::{HttpResponse, web};
use relay_actors::DrainState;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;

use super::AdminApi;
use super::operator::Operator;
use crate::refusal::{Problem, Refusal};

/// How far the drain has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Drain {
    /// `running`, `announced`, `draining`, `closing` or `drained`, in this order; there is no way back.
    pub(crate) phase: String,
    /// How long it has been going on; 0 while the relay runs.
    pub(crate) seconds: f64,
    /// How long it still waits for work at most; null while it does not.
    pub(crate) seconds_left: Option<f64>,
    /// The work in progress when it was last looked at; null before.
    pub(crate) work: Option<Work>,
    /// Device sockets that are not closed yet; null before the closing.
    pub(crate) sockets_left: Option<usize>,
}

/// What a drain waits for (DR-2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Work {
    /// Requests without a final answer.
    pub(crate) requests: usize,
    /// Frames that wait for devices which take them.
    pub(crate) frames: u64,
    /// Calls to the database and presence changes that wait or run.
    pub(crate) database: usize,
    /// Pushes that wait or are being sent.
    pub(crate) push: usize,
}

impl From<DrainState> for Drain {
    fn from(state: DrainState) -> Self {
        let now = Instant::now();
        Self {
            phase: state.phase.as_str().to_owned(),
            seconds: state.running_for.as_secs_f64(),
            seconds_left: state
                .waits_until
                .map(|until| until.saturating_duration_since(now).as_secs_f64()),
            work: state.work.map(|work| Work {
                requests: work.requests,
                frames: work.frames,
                database: work.database,
                push: work.push,
            }),
            sockets_left: state.sockets_left,
        }
    }
}

/// Begin to drain.
///
/// The relay refuses registrations from here on, waits for work in progress, sends its devices to the
/// next relay and ends. There is no way back; asking again changes nothing. `GET /admin/state` tells how
/// far it has come.
#[utoipa::path(
    post,
    path = "/admin/drain",
    operation_id = "drain",
    responses(
        (status = 202, description = "It drains.", body = Drain),
        (status = 503, response = Problem),
    ),
    security(("operatorToken" = [])),
)]
pub(super) async fn begin(_: Operator, api: web::Data<AdminApi>) -> Result<HttpResponse, Refusal> {
    api.relay.drain("POST /admin/drain");
    let state = api.relay.drain_state().await;
    let state = state.map_err(|_| Refusal::RelayUnavailable)?;
    Ok(HttpResponse::Accepted().json(Drain::from(state)))
}
