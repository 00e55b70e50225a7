//! `GET /admin/state`: what the relay holds and has counted, as `relay status` shows it.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use relay_actors::Overview;
use relay_model::ids::RelayInstanceId;
use relay_model::limits::Limits;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::AdminApi;
use super::drain::Drain;
use super::operator::Operator;
use crate::device_api::schemas;
use crate::refusal::{Problem, Refusal};

/// What the relay holds at a moment.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct State {
    /// This run of the relay.
    #[schema(schema_with = schemas::id)]
    pub(crate) relay_instance_id: String,
    pub(crate) version: String,
    #[schema(schema_with = schemas::time)]
    pub(crate) started_at: String,
    /// The relay's clock.
    #[schema(schema_with = schemas::time)]
    pub(crate) now: String,
    pub(crate) uptime_seconds: u64,
    pub(crate) drain: Drain,
    /// Accounts with a device that is connected or within its grace.
    pub(crate) accounts: usize,
    /// Connections, registered or not.
    pub(crate) sockets: usize,
    pub(crate) routes: Routes,
    /// Desktops within their grace, or expected back after a restart (PR-2, PR-8).
    pub(crate) graces: usize,
    /// Desktops with a registry: those that are connected or wanted by a phone.
    pub(crate) pairs: usize,
    /// Pairs that did not answer in time; what they hold is not counted.
    pub(crate) silent_pairs: usize,
    /// Requests without a final answer (RPC-6).
    pub(crate) pending_requests: usize,
    /// Interests of phones in sessions (TL-3).
    pub(crate) leases: usize,
    /// Relay sessions that can be resumed (SES-1).
    pub(crate) sessions: usize,
    /// Connections that came in by an API key.
    pub(crate) key_sockets: usize,
    /// Devices whose last close or refusal is remembered.
    pub(crate) remembered_devices: usize,
    pub(crate) database: DatabaseQueue,
    /// Bytes that wait to be written to devices.
    pub(crate) outbound_bytes: u64,
    /// Bytes of messages that devices have not finished.
    pub(crate) unfinished_bytes: u64,
    pub(crate) limits: StateLimits,
    /// Connections that ended since the start, by reason.
    pub(crate) closes: Vec<CloseCount>,
    /// Registrations that were refused since the start, by code.
    pub(crate) refusals: Vec<RefusalCount>,
}

/// Registered connections.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Routes {
    pub(crate) desktops: usize,
    pub(crate) phones: usize,
}

/// What waits for the database.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DatabaseQueue {
    /// Calls that wait or run.
    pub(crate) calls: usize,
    /// Devices whose presence waits to be written.
    pub(crate) presence: usize,
    /// Heartbeats that wait to be written.
    pub(crate) heartbeats: usize,
}

/// The limits that these numbers run into.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StateLimits {
    /// `database.queue`.
    pub(crate) database_calls: usize,
    /// `limits.outbound_total`.
    pub(crate) outbound_bytes: usize,
    /// `limits.inbound_total`.
    pub(crate) unfinished_bytes: usize,
}

/// How often connections ended for one reason.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CloseCount {
    /// The word of the log.
    pub(crate) reason: String,
    pub(crate) count: u64,
}

/// How often registrations were refused with one code.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefusalCount {
    /// As in the `error` frame.
    pub(crate) code: String,
    pub(crate) count: u64,
}

impl State {
    fn new(overview: Overview, drain: Drain, instance: RelayInstanceId, limits: &Limits) -> Self {
        let Overview {
            started_at,
            now,
            state,
            pairs,
            closes,
            refusals,
            remembered_devices,
        } = overview;
        Self {
            relay_instance_id: instance.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: started_at.to_string(),
            now: now.to_string(),
            uptime_seconds: now.since(started_at).as_secs(),
            drain,
            accounts: state.directory.accounts,
            sockets: state.directory.sockets,
            routes: Routes {
                desktops: state.directory.desktops,
                phones: state.directory.phones,
            },
            graces: state.graces,
            pairs: state.directory.pairs,
            silent_pairs: pairs.silent,
            pending_requests: pairs.pending,
            leases: pairs.leases,
            sessions: state.sessions,
            key_sockets: state.key_sockets,
            remembered_devices,
            database: DatabaseQueue {
                calls: state.store.calls,
                presence: state.store.presence,
                heartbeats: state.store.heartbeats,
            },
            outbound_bytes: state.outbound_bytes,
            unfinished_bytes: state.unfinished_bytes,
            limits: StateLimits {
                database_calls: limits.database_queue,
                outbound_bytes: limits.outbound_total,
                unfinished_bytes: limits.inbound_total,
            },
            closes: counts(closes, |reason, count| CloseCount { reason, count }),
            refusals: counts(refusals, |code, count| RefusalCount { code, count }),
        }
    }
}

fn counts<T>(counted: BTreeMap<&'static str, u64>, make: impl Fn(String, u64) -> T) -> Vec<T> {
    let each = counted.into_iter();
    each.map(|(word, count)| make(word.to_owned(), count))
        .collect()
}

/// Read what the relay holds.
///
/// Answered within a few seconds also if a part of the relay hangs: a pair that is silent is counted as
/// such.
#[utoipa::path(
    get,
    path = "/admin/state",
    operation_id = "readState",
    responses(
        (status = 200, description = "What it holds.", body = State),
        (status = 503, response = Problem),
    ),
    security(("operatorToken" = [])),
)]
pub(super) async fn read(_: Operator, api: web::Data<AdminApi>) -> Result<HttpResponse, Refusal> {
    let overview = api.relay.overview().await?;
    let drain = api.relay.drain_state().await;
    let drain = drain.map_err(|_| Refusal::RelayUnavailable)?;
    let state = State::new(
        overview,
        drain.into(),
        api.relay.instance(),
        &api.relay.limits(),
    );
    Ok(HttpResponse::Ok().json(state))
}
