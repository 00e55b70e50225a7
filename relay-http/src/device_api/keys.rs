//! `/api/keys`: a user makes, lists and ends the API keys of the account (HTTP-4).

use actix_web::{HttpResponse, web};
use chrono::DateTime;
use relay_model::credentials::{Scope, Scopes};
use relay_model::ids::ApiKeyId;
use relay_model::store::{ApiKeyRow, NewApiKey};
use relay_model::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::JsonBody;
use super::caller::CallingUser;
use super::text::checked;
use super::{DeviceApi, schemas};
use crate::authentication::{ApiKey, live_keys};
use crate::refusal::{Problem, Refusal};

/// What the key is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeyBody {
    #[schema(min_length = 1, pattern = r"\S")]
    name: Option<String>,
    #[schema(schema_with = schemas::scopes)]
    scopes: Vec<String>,
    /// When the key ends; left out, it does not. With any offset.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

/// A key, with the fields that are not set left out.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Key {
    #[schema(schema_with = schemas::id)]
    id: ApiKeyId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    name: Option<String>,
    #[schema(schema_with = schemas::scopes)]
    scopes: Scopes,
    #[schema(schema_with = schemas::time)]
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time, required = false)]
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time, required = false)]
    revoked_at: Option<Timestamp>,
}

/// The answer that shows a key's secret, which nothing else ever does.
#[derive(Serialize, ToSchema)]
struct CreatedKey<'a> {
    /// The key itself, shown this once.
    key: &'a str,
    #[serde(flatten)]
    rest: Key,
}

impl From<ApiKeyRow> for Key {
    fn from(row: ApiKeyRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            scopes: row.scopes,
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
        }
    }
}

/// What is left of the body once its fields are checked.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    name: Option<String>,
    scopes: Scopes,
    expires_at: Option<Timestamp>,
}

impl KeyBody {
    fn check(self, now: Timestamp) -> Result<Wanted, Refusal> {
        let name = self.name.map(|name| checked("name", &name)).transpose()?;
        let scopes: Result<Scopes, _> = self
            .scopes
            .iter()
            .map(|name| name.parse::<Scope>())
            .collect();
        let scopes = scopes.map_err(|_| {
            Refusal::InvalidPayload("scopes may hold rpc, read and write only".into())
        })?;
        if scopes.is_empty() {
            return Err(Refusal::InvalidPayload(
                "scopes must hold at least one of rpc, read and write".into(),
            ));
        }
        let expires_at = self
            .expires_at
            .map(|text| moment_after(now, &text))
            .transpose()?;
        Ok(Wanted {
            name,
            scopes,
            expires_at,
        })
    }
}

/// A moment in RFC 3339, with any offset.
fn moment_after(now: Timestamp, text: &str) -> Result<Timestamp, Refusal> {
    let moment = DateTime::parse_from_rfc3339(text).map_err(|_| {
        Refusal::InvalidPayload(
            "expiresAt must be an RFC 3339 time such as 2027-01-31T12:00:00Z".into(),
        )
    })?;
    let moment = Timestamp::from_datetime(moment.to_utc());
    if moment <= now {
        return Err(Refusal::InvalidPayload(
            "expiresAt must lie in the future".into(),
        ));
    }
    Ok(moment)
}

/// Make an API key.
#[utoipa::path(
    post,
    path = "/api/keys",
    operation_id = "createKey",
    tag = "keys",
    request_body = KeyBody,
    responses(
        (status = 201, description = "Made; the key is shown this once.", body = CreatedKey),
        (status = 400, response = Problem),
        (status = 408, response = Problem),
        (status = 409, response = Problem),
        (status = 413, response = Problem),
        (status = 500, response = Problem),
    ),
    security(("userToken" = [])),
)]
pub(super) async fn create(
    user: CallingUser,
    api: web::Data<DeviceApi>,
    JsonBody(body): JsonBody<KeyBody>,
) -> Result<HttpResponse, Refusal> {
    let now = api.environment.now();
    let wanted = body.check(now)?;
    let limit = api.relay.limits().api_keys;
    if live_keys(&api.relay.api_keys(user.account).await?, now) >= limit {
        return Err(Refusal::TooManyKeys { limit });
    }
    let id = ApiKeyId::from_uuid(api.environment.new_uuid());
    let key = ApiKey::generate(id).map_err(|error| {
        tracing::error!(%error, "the operating system gave no random numbers");
        Refusal::NoRandomness
    })?;
    let row = NewApiKey {
        id,
        account: user.account,
        name: wanted.name.clone(),
        scopes: wanted.scopes,
        secret_hash: key.hash(),
        created_at: now,
        expires_at: wanted.expires_at,
    };
    api.relay.create_api_key(row).await?;
    tracing::info!(account = %user.account, key = %id, scopes = %wanted.scopes, "an API key was made");
    let rest = Key {
        id,
        name: wanted.name,
        scopes: wanted.scopes,
        created_at: now,
        expires_at: wanted.expires_at,
        revoked_at: None,
    };
    let key = key.reveal();
    Ok(HttpResponse::Created()
        .insert_header(("Cache-Control", "no-store"))
        .json(CreatedKey { key: &key, rest }))
}

/// List the account's API keys.
///
/// Oldest first, ended ones included.
#[utoipa::path(
    get,
    path = "/api/keys",
    operation_id = "listKeys",
    tag = "keys",
    responses((status = 200, description = "The keys, without their secrets.", body = [Key])),
    security(("userToken" = [])),
)]
pub(super) async fn list(
    user: CallingUser,
    api: web::Data<DeviceApi>,
) -> Result<HttpResponse, Refusal> {
    let rows = api.relay.api_keys(user.account).await?;
    let keys: Vec<Key> = rows.into_iter().map(Key::from).collect();
    Ok(HttpResponse::Ok().json(keys))
}

/// Revoke an API key.
#[utoipa::path(
    delete,
    path = "/api/keys/{id}",
    operation_id = "revokeKey",
    tag = "keys",
    params(("id" = String, Path, format = "uuid", description = "The key's id, in any case.")),
    responses(
        (status = 204, description = "Revoked, at the latest by this call."),
        (status = 404, response = Problem),
    ),
    security(("userToken" = [])),
)]
pub(super) async fn revoke(
    user: CallingUser,
    api: web::Data<DeviceApi>,
    id: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    // What is no UUID names no key, as an unknown id does.
    let id: ApiKeyId = id.parse().map_err(|_| Refusal::NoSuchKey)?;
    if !api.relay.revoke_api_key(user.account, id).await? {
        return Err(Refusal::NoSuchKey);
    }
    tracing::info!(account = %user.account, key = %id, "an API key was revoked");
    Ok(HttpResponse::NoContent().finish())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_micros(1_800_000_000_000_000);

    fn check(body: Value) -> Result<Wanted, Refusal> {
        serde_json::from_value::<KeyBody>(body).unwrap().check(NOW)
    }

    /// HTTP-4: scopes in any order, a trimmed name, an expiry in any spelling of RFC 3339.
    #[test]
    fn bodies_are_read() {
        let read = check(json!({ "scopes": ["write", "rpc", "write"], "name": " ci " })).unwrap();
        assert_eq!(read.scopes, "rpc,write".parse().unwrap());
        assert_eq!(read.name.as_deref(), Some("ci"));
        assert_eq!(read.expires_at, None);
        let end = Timestamp::from_unix_micros(1_800_000_001_500_000);
        for text in [
            "2027-01-15T08:00:01.5Z",
            "2027-01-15T08:00:01.500000Z",
            "2027-01-15T08:00:01.500000999Z",
            "2027-01-15T10:00:01.5+02:00",
            "2027-01-15T00:30:01.5-07:30",
            "2027-01-15t08:00:01.5z",
            "2027-01-15 08:00:01.5+00:00",
        ] {
            let read = check(json!({ "scopes": ["read"], "expiresAt": text })).unwrap();
            assert_eq!(read.expires_at, Some(end), "{text}");
        }
    }

    /// HTTP-4: what cannot be taken is refused by name.
    #[test]
    fn bad_bodies_are_refused() {
        for (body, field) in [
            (json!({ "scopes": [] }), "scopes"),
            (json!({ "scopes": ["admin"] }), "scopes"),
            (json!({ "scopes": ["Read"] }), "scopes"),
            (json!({ "scopes": ["read", "rpc,write"] }), "scopes"),
            (json!({ "scopes": ["read"], "name": " " }), "name"),
            (
                json!({ "scopes": ["read"], "name": "n".repeat(256) }),
                "name",
            ),
            (json!({ "scopes": ["read"], "expiresAt": "" }), "expiresAt"),
            (
                json!({ "scopes": ["read"], "expiresAt": "90d" }),
                "expiresAt",
            ),
            (
                json!({ "scopes": ["read"], "expiresAt": "2027-01-15" }),
                "expiresAt",
            ),
            (
                json!({ "scopes": ["read"], "expiresAt": "2027-01-15T08:00:01" }),
                "expiresAt",
            ),
            (
                json!({ "scopes": ["read"], "expiresAt": "2027-01-15T08:00:00Z" }),
                "expiresAt",
            ),
            (
                json!({ "scopes": ["read"], "expiresAt": "1999-01-15T08:00:00Z" }),
                "expiresAt",
            ),
        ] {
            let refusal = check(body.clone()).unwrap_err();
            assert!(refusal.to_string().contains(field), "{body}: {refusal}");
        }
    }
}
