//! How the values that every call shares look in the published description. The model's types do not
//! know of it, so that their crate stays free of HTTP.

use relay_model::credentials::Scope;
use relay_model::limits::{NAME_CHARACTERS, PUSH_TOKEN_BYTES};
use relay_model::push::{PushEnvironment, PushPlatform};
use relay_model::store::{DeviceStatus, DeviceType};
use serde_json::{Value, json};
use utoipa::openapi::schema::{
    Array, ArrayBuilder, KnownFormat, Object, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type,
};

/// A time as in ENV-2: UTC, six fraction digits, `Z`.
pub(crate) fn time() -> Object {
    text()
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .pattern(Some(
            r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$",
        ))
        .examples([json!("2026-10-05T08:00:00.000001Z")])
        .build()
}

/// A UUID as the relay writes it: in lower case.
pub(crate) fn id() -> Object {
    text()
        .format(Some(SchemaFormat::Custom("uuid".to_owned())))
        .pattern(Some(
            "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        ))
        .examples([json!("5b0c5d6e-9a54-4f0e-8a3c-2f6f0f4f1c10")])
        .build()
}

/// A name or version as the relay reads it: 1 to 255 characters are left after trimming (HTTP-3).
pub(crate) fn trimmed_text() -> Object {
    text()
        .min_length(Some(1))
        .pattern(Some(r"\S"))
        .description(Some(format!(
            "Trimmed; 1 to {NAME_CHARACTERS} characters must be left."
        )))
        .build()
}

/// The name of a desktop: as [`trimmed_text`], and not `unknown`.
pub(crate) fn desktop_name() -> Object {
    let Object { pattern, .. } = trimmed_text();
    text()
        .min_length(Some(1))
        .pattern(pattern)
        .description(Some(format!(
            "Trimmed; 1 to {NAME_CHARACTERS} characters must be left, and not `unknown`."
        )))
        .build()
}

/// A [`desktop_name`] that may be left out or null.
pub(crate) fn optional_name() -> Object {
    let types = SchemaType::from_iter([Type::String, Type::Null]);
    ObjectBuilder::from(desktop_name())
        .schema_type(types)
        .build()
}

/// Phone or desktop.
pub(crate) fn device_type() -> Object {
    words([DeviceType::Desktop, DeviceType::Mobile].map(|kind| json!(kind)))
}

/// What an API key allows (HTTP-4): at least one of them.
pub(crate) fn scopes() -> Array {
    let names = [Scope::Rpc, Scope::Read, Scope::Write].map(|scope| json!(scope.as_str()));
    ArrayBuilder::new()
        .items(words(names))
        .min_items(Some(1))
        .build()
}

/// Presence (PR-6).
pub(crate) fn device_status() -> Object {
    let all = [
        DeviceStatus::Online,
        DeviceStatus::Reconnecting,
        DeviceStatus::Offline,
    ];
    words(all.map(|status| json!(status)))
}

/// A push token.
pub(super) fn push_token() -> Object {
    text()
        .min_length(Some(1))
        .max_length(Some(PUSH_TOKEN_BYTES))
        .pattern(Some("^[!-~]+$"))
        .description(Some("What the phone's push service gave it."))
        .build()
}

/// A [`push_token`] that may be left out, null or empty.
pub(super) fn optional_push_token() -> Object {
    text()
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .max_length(Some(PUSH_TOKEN_BYTES))
        .pattern(Some("^[!-~]*$"))
        .description(Some(
            "What the phone's push service gave it. Left out or empty, a row keeps what it has.",
        ))
        .build()
}

/// The kind of phone, which decides the push service (PUSH-1).
pub(super) fn push_platform() -> Object {
    words([PushPlatform::Ios, PushPlatform::Android].map(|platform| json!(platform)))
}

/// Which of Apple's services gave a token out; may be left out or null.
pub(super) fn push_environment() -> Object {
    let all = [PushEnvironment::Production, PushEnvironment::Sandbox];
    let words = all.map(|environment| json!(environment));
    text()
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .enum_values(Some(words.into_iter().chain([Value::Null])))
        .description(Some(
            "Of an iOS token: left out, a token keeps what it had; a new one is production.",
        ))
        .build()
}

/// Any JSON: the relay keeps it as it is.
pub(crate) fn opaque() -> Schema {
    utoipa::openapi::schema::empty()
}

fn words(all: impl IntoIterator<Item = Value>) -> Object {
    text().enum_values(Some(all)).build()
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}
