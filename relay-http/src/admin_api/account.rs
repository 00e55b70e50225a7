//! `GET /admin/accounts/{id}`: why is it offline (OP-9)?

use actix_web::{HttpResponse, web};
use relay_actors::socket::SocketState;
use relay_actors::socket::lanes::LaneLoad;
use relay_actors::{DeviceView, LastClose, LastRefusal, LeaseView, RouteView};
use relay_model::ids::{AccountId, ConnectionId, DeviceId, RelayInstanceId};
use relay_model::store::{DeviceStatus, DeviceType, KnownDevice, OfflineReason, PresenceEntry};
use relay_model::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::AdminApi;
use super::explanation::{Explanation, explain};
use super::operator::Operator;
use crate::device_api::schemas;
use crate::refusal::{Problem, Refusal};

/// An account with all devices that the database or this relay has heard of.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Account {
    #[schema(schema_with = schemas::id)]
    account_id: AccountId,
    /// Those with a row, oldest first; then those that only tried to connect.
    devices: Vec<AccountDevice>,
}

/// One device, with what is not known left out.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AccountDevice {
    #[schema(schema_with = schemas::id)]
    device_id: DeviceId,
    /// Its row; missing if it never registered over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Registration, required = false)]
    registration: Option<Registration>,
    #[schema(schema_with = schemas::device_status)]
    status: DeviceStatus,
    /// Since when; missing if it has never connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time, required = false)]
    since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    offline_reason: Option<OfflineReason>,
    /// Why it is not online, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Explanation, required = false)]
    explanation: Option<Explanation>,
    /// How its last connection to this relay ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Close, required = false)]
    last_close: Option<Close>,
    /// How this relay last refused its registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = LastRefused, required = false)]
    last_refusal: Option<LastRefused>,
    /// Its connection, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Connection, required = false)]
    connection: Option<Connection>,
    /// Requests without a final answer: a desktop's to answer, a phone's own.
    pending_requests: usize,
    /// Leases on a desktop's sessions, or a phone's own.
    leases: Vec<Lease>,
    /// A part of the relay that knows more did not answer in time: numbers may be too low.
    silent: bool,
    /// What became of its presence, the newest first.
    history: Vec<Change>,
}

/// What the database has of a device.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Registration {
    device_name: String,
    #[schema(schema_with = schemas::device_type)]
    device_type: DeviceType,
    platform: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    platform_version: Option<String>,
    app_version: String,
    /// Whether a desktop is admitted to the relay: not hidden.
    relay_eligible: bool,
    /// Whether its user forgot it.
    forgotten: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time, required = false)]
    last_seen: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time, required = false)]
    last_heartbeat: Option<Timestamp>,
    #[schema(schema_with = schemas::time)]
    created_at: Timestamp,
    #[schema(schema_with = schemas::time)]
    updated_at: Timestamp,
}

/// How a connection ended.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Close {
    /// As in the log.
    #[schema(schema_with = schemas::id)]
    connection_id: ConnectionId,
    /// Missing if the connection ended without a close frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u16, required = false)]
    code: Option<u16>,
    /// The word of the log.
    reason: &'static str,
    /// Which side ended it: `relay` or `peer`.
    side: &'static str,
    #[schema(schema_with = schemas::time)]
    at: Timestamp,
}

/// How a registration was refused.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LastRefused {
    /// As in the `error` frame.
    code: &'static str,
    #[schema(schema_with = schemas::time)]
    at: Timestamp,
}

/// A connection that is registered.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Connection {
    /// As in the log.
    #[schema(schema_with = schemas::id)]
    connection_id: ConnectionId,
    generation: u64,
    /// The desktop that a phone wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::id, required = false)]
    target_desktop_device_id: Option<DeviceId>,
    /// What it holds; missing if it did not answer in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ConnectionState, required = false)]
    state: Option<ConnectionState>,
}

/// What a connection holds.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ConnectionState {
    /// The client's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    peer: Option<String>,
    /// How long its last ping took; missing before the first was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = f64, required = false)]
    round_trip_ms: Option<f64>,
    /// How long ago its last frame came.
    last_frame_ms: u64,
    /// It takes nothing although something waits for it.
    stalled: bool,
    /// What waits to be written to it, by lane.
    control: Lane,
    rpc: Lane,
    events: Lane,
    snapshots: Lane,
    /// Its own messages that are under way in the relay.
    inbound: Lane,
    /// Bytes of a message that it has not finished.
    unfinished_bytes: usize,
}

/// Messages and their bytes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Lane {
    messages: u64,
    bytes: u64,
}

/// A phone's interest in a session of a desktop.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Lease {
    #[schema(schema_with = schemas::id)]
    phone_device_id: DeviceId,
    #[schema(schema_with = schemas::id)]
    desktop_device_id: DeviceId,
    /// The base session (TL-2).
    session: String,
    /// For how long the phone has held it.
    held_ms: u64,
    /// When it ends unless it is renewed.
    ends_in_ms: u64,
}

/// A change of a device's presence.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Change {
    #[schema(schema_with = schemas::time)]
    at: Timestamp,
    #[schema(schema_with = schemas::device_status)]
    status: DeviceStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    reason: Option<OfflineReason>,
    generation: u64,
    #[schema(schema_with = schemas::id)]
    relay_instance_id: RelayInstanceId,
}

impl From<DeviceView> for AccountDevice {
    fn from(view: DeviceView) -> Self {
        Self {
            explanation: explain(&view),
            device_id: view.id,
            status: view.status,
            since: view.since,
            offline_reason: view.offline_reason,
            last_close: view.outcomes.close.map(Close::from),
            last_refusal: view.outcomes.refusal.map(LastRefused::from),
            connection: view.route.map(Connection::from),
            pending_requests: view.pending,
            leases: view.leases.into_iter().map(Lease::from).collect(),
            silent: view.silent,
            history: view.history.into_iter().map(Change::from).collect(),
            registration: view.known.map(Registration::from),
        }
    }
}

impl From<KnownDevice> for Registration {
    fn from(known: KnownDevice) -> Self {
        let KnownDevice { row, forgotten, .. } = known;
        Self {
            device_name: row.device_name,
            device_type: row.device_type,
            platform: row.platform,
            platform_version: row.platform_version,
            app_version: row.app_version,
            relay_eligible: row.relay_eligible,
            forgotten,
            last_seen: row.last_seen,
            last_heartbeat: row.last_heartbeat,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

impl From<LastClose> for Close {
    fn from(close: LastClose) -> Self {
        Self {
            connection_id: close.connection,
            code: close.code,
            reason: close.reason.as_str(),
            side: close.reason.side(),
            at: close.at,
        }
    }
}

impl From<LastRefusal> for LastRefused {
    fn from(refusal: LastRefusal) -> Self {
        Self {
            code: refusal.code.code(),
            at: refusal.at,
        }
    }
}

impl From<RouteView> for Connection {
    fn from(route: RouteView) -> Self {
        Self {
            connection_id: route.connection,
            generation: route.generation.get(),
            target_desktop_device_id: route.target,
            state: route.socket.map(ConnectionState::from),
        }
    }
}

impl From<SocketState> for ConnectionState {
    fn from(state: SocketState) -> Self {
        Self {
            peer: state.peer.map(|peer| peer.to_string()),
            round_trip_ms: state.round_trip.map(|took| took.as_secs_f64() * 1_000.0),
            last_frame_ms: millis(state.silent_for),
            stalled: state.stalled_for.is_some(),
            control: state.control.into(),
            rpc: state.rpc.into(),
            events: state.event.into(),
            snapshots: state.snapshots.into(),
            inbound: state.inbound.into(),
            unfinished_bytes: state.unfinished,
        }
    }
}

impl From<LaneLoad> for Lane {
    fn from(load: LaneLoad) -> Self {
        Self {
            messages: load.messages,
            bytes: load.bytes,
        }
    }
}

impl From<LeaseView> for Lease {
    fn from(view: LeaseView) -> Self {
        let LeaseView { desktop, lease } = view;
        Self {
            phone_device_id: lease.phone,
            desktop_device_id: desktop,
            session: lease.session.to_string(),
            held_ms: millis(lease.held_for),
            ends_in_ms: millis(lease.ends_in),
        }
    }
}

impl From<PresenceEntry> for Change {
    fn from(entry: PresenceEntry) -> Self {
        Self {
            at: entry.at,
            status: entry.status,
            reason: entry.reason,
            generation: entry.generation.get(),
            relay_instance_id: entry.instance,
        }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Read an account.
///
/// Tells of every device whether it is online, and if not, why. Closes and refusals are those that this
/// relay has seen since its start; the history is the database's.
#[utoipa::path(
    get,
    path = "/admin/accounts/{id}",
    operation_id = "readAccount",
    params(("id" = String, Path, format = "uuid", description = "The account's id, in any case.")),
    responses(
        (status = 200, description = "Its devices.", body = Account),
        (status = 404, response = Problem),
        (status = 503, response = Problem),
    ),
    security(("operatorToken" = [])),
)]
pub(super) async fn read(
    _: Operator,
    api: web::Data<AdminApi>,
    id: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    // What is no UUID names no account, as an unknown id does.
    let account_id: AccountId = id.parse().map_err(|_| Refusal::NoSuchAccount)?;
    let devices = api.relay.account_view(account_id).await?;
    if devices.is_empty() {
        return Err(Refusal::NoSuchAccount);
    }
    let devices = devices.into_iter().map(AccountDevice::from).collect();
    Ok(HttpResponse::Ok().json(Account {
        account_id,
        devices,
    }))
}
