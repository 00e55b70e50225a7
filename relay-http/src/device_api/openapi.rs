//! The description of the HTTP API that is served at `/api/openapi.json` (section 11), made from the
//! types that the calls read and write, so that it cannot say anything else than they do.

use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::http::header::ContentType;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, OpenApi as Document, PathItem, Ref};
use utoipa::{Modify, OpenApi};

use super::{
    change_device, devices, forget_device, health, keys, logout, push_token, register_desktop,
    register_phone,
};
use crate::refusal::{Problem, Requirement};
use crate::upgrade::DEVICE_LINK;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Device relay",
        description = "Connects phones with the desktops of their users. Errors are problem \
            documents (RFC 9457); match on their errorType. A request whose Origin is not allowed \
            is refused with 403 on every path (TR-12).",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    paths(
        register_desktop::register,
        register_phone::register,
        devices::list,
        change_device::change,
        forget_device::forget,
        logout::logout,
        push_token::set,
        push_token::remove,
        keys::create,
        keys::list,
        keys::revoke,
        serve,
        health::version,
        health::alive,
        health::ready,
        device_link,
    ),
    components(responses(Problem), schemas(Requirement)),
    tags(
        (name = "devices", description = "Devices register, and are listed, changed and forgotten; users sign out."),
        (name = "keys", description = "Users make and revoke API keys."),
        (name = "relay", description = "What the world may know of the relay."),
        (name = "link", description = "The WebSocket of a device."),
    ),
    modifiers(&Credentials, &CommonRefusals),
)]
struct Description;

/// The two ways of signing in (TR-2, HTTP-4).
struct Credentials;

impl Modify for Credentials {
    fn modify(&self, document: &mut Document) {
        let token = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("JWT")
            .description(Some("A user token: `Authorization: Bearer <JWT>`."))
            .build();
        let key = ApiKeyValue::with_description(
            "X-API-Key",
            "An API key; `Authorization: ApiKey <key>` is the same.",
        );
        let components = document.components.get_or_insert_with(Components::new);
        components.add_security_scheme("userToken", SecurityScheme::Http(token));
        components.add_security_scheme("apiKey", SecurityScheme::ApiKey(ApiKey::Header(key)));
    }
}

/// The refusals that the calls need not name one by one: 403 everywhere (TR-12), and 401 and 503
/// wherever credentials are judged.
pub(crate) struct CommonRefusals;

impl Modify for CommonRefusals {
    fn modify(&self, document: &mut Document) {
        for operation in document.paths.paths.values_mut().flat_map(operations) {
            let signed_in = operation.security.is_some();
            let always: &[&str] = if signed_in {
                &["401", "403", "503"]
            } else {
                &["403"]
            };
            for status in always {
                let problem = Ref::from_response_name("Problem");
                let responses = &mut operation.responses.responses;
                responses
                    .entry((*status).to_owned())
                    .or_insert_with(|| problem.into());
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
        &mut item.patch,
    ]
    .into_iter()
    .flatten()
}

/// Connect a device.
///
/// The WebSocket of a device (TR-1, TR-2). What goes over it is not described here.
#[utoipa::path(
    get,
    path = DEVICE_LINK,
    operation_id = "connectDevice",
    tag = "link",
    params(
        ("X-Client-Type" = String, Header, pattern = "^(desktop|mobile)$", description = "`desktop` or `mobile`."),
        ("X-Device-ID" = Option<String>, Header, description = "The device's own UUID."),
        ("X-Target-Desktop-Device-ID" = Option<String>, Header,
            description = "The UUID of the desktop that a phone works with."),
    ),
    responses(
        (status = 101, description = "Switched to WebSocket."),
        (status = 400, response = Problem),
        (status = 426, response = Problem),
        (status = 429, response = Problem),
    ),
    security(("userToken" = []), ("apiKey" = [])),
)]
#[expect(
    dead_code,
    reason = "the upgrade is no call of the App; only its description is used"
)]
fn device_link() {}

static DESCRIPTION: LazyLock<String> = LazyLock::new(|| {
    // Strings, numbers and maps with string keys always serialize.
    serde_json::to_string(&Description::openapi()).unwrap_or_default()
});

/// The description as JSON, as it is served.
pub fn description() -> &'static str {
    &DESCRIPTION
}

/// Describe the API.
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    operation_id = "describeApi",
    tag = "relay",
    responses((status = 200, description = "This document.", body = serde_json::Value)),
)]
pub(super) async fn serve() -> HttpResponse {
    HttpResponse::Ok()
        .insert_header(ContentType::json())
        .body(description())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use actix_web::http::Method;
    use serde_json::Value;

    use super::*;
    use crate::device_api::endpoints;

    fn described() -> Value {
        serde_json::from_str(description()).unwrap()
    }

    /// Section 11: every call that is served is described, and the other way round. HEAD goes without
    /// saying beside GET, and the upgrade is served by the door.
    #[test]
    fn exactly_the_served_calls_are_described() {
        let served: BTreeSet<(String, String)> = endpoints()
            .iter()
            .flat_map(|endpoint| {
                let path = endpoint.path().to_owned();
                let methods = endpoint
                    .methods()
                    .iter()
                    .filter(|method| *method != Method::HEAD);
                methods.map(move |method| (path.clone(), method.as_str().to_ascii_lowercase()))
            })
            .chain([(DEVICE_LINK.to_owned(), "get".to_owned())])
            .collect();
        let description = described();
        let described: BTreeSet<(String, String)> = description["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().unwrap().keys();
                methods.map(move |method| (path.clone(), method.clone()))
            })
            .collect();
        assert_eq!(described, served);
    }

    /// Section 11: what the description refers to is in it, and every call has a name of its own and
    /// says who may call.
    #[test]
    fn the_description_is_whole() {
        fn check_references(part: &Value, whole: &Value) {
            match part {
                Value::Object(members) => {
                    for (name, value) in members {
                        if let ("$ref", Some(target)) = (name.as_str(), value.as_str()) {
                            let target = target.strip_prefix('#').unwrap();
                            assert!(whole.pointer(target).is_some(), "{target}");
                        }
                        check_references(value, whole);
                    }
                }
                Value::Array(items) => items.iter().for_each(|item| check_references(item, whole)),
                _ => (),
            }
        }
        let description = described();
        assert_eq!(description["openapi"], "3.1.0");
        check_references(&description, &description);

        let schemes = &description["components"]["securitySchemes"];
        let mut names = BTreeSet::new();
        for (path, item) in description["paths"].as_object().unwrap() {
            for (method, call) in item.as_object().unwrap() {
                let name = call["operationId"].as_str().unwrap();
                assert!(names.insert(name.to_owned()), "{name} twice");
                let responses = call["responses"].as_object().unwrap();
                let signed_in = call["security"].as_array();
                assert_eq!(
                    responses.contains_key("401"),
                    signed_in.is_some(),
                    "{method} {path}"
                );
                for requirement in signed_in.into_iter().flatten() {
                    for scheme in requirement.as_object().unwrap().keys() {
                        assert!(schemes[scheme].is_object(), "{scheme}");
                    }
                }
            }
        }
    }
}
