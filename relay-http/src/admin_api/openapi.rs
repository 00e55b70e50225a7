//! The description of the admin API that is served at `/admin/openapi.json`, apart from that of the
//! device API: apps have no business with it.

use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::http::header::ContentType;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, OpenApi as Document};
use utoipa::{Modify, OpenApi};

use super::operator::Operator;
use super::{account, drain, policy, state};
use crate::device_api::openapi::CommonRefusals;
use crate::refusal::{Problem, Requirement};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Device relay, admin API",
        description = "For whoever operates the relay. Errors are problem documents (RFC 9457). It is \
            served on server.admin_listen if that is set, else beside the device API.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    paths(drain::begin, state::read, account::read, policy::read, policy::change, serve),
    components(responses(Problem), schemas(Requirement)),
    modifiers(&Credentials, &CommonRefusals),
)]
struct Description;

/// The one way of signing in.
struct Credentials;

impl Modify for Credentials {
    fn modify(&self, document: &mut Document) {
        let token = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("`admin.token` of the configuration."))
            .build();
        let components = document.components.get_or_insert_with(Components::new);
        components.add_security_scheme("operatorToken", SecurityScheme::Http(token));
    }
}

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
    path = "/admin/openapi.json",
    operation_id = "describeAdminApi",
    responses((status = 200, description = "This document.", body = serde_json::Value)),
    security(("operatorToken" = [])),
)]
pub(super) async fn serve(_: Operator) -> HttpResponse {
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
    use crate::admin_api::endpoints;

    /// Section 11: every call that is served is described, takes the operator token, and the other
    /// way round. HEAD goes without saying beside GET.
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
            .collect();
        let description: Value = serde_json::from_str(description()).unwrap();
        let mut described = BTreeSet::new();
        for (path, item) in description["paths"].as_object().unwrap() {
            assert!(path.starts_with("/admin/"), "{path}");
            for (method, call) in item.as_object().unwrap() {
                let security = &call["security"];
                assert_eq!(*security, serde_json::json!([{ "operatorToken": [] }]));
                assert!(call["responses"]["401"].is_object(), "{method} {path}");
                described.insert((path.clone(), method.clone()));
            }
        }
        assert_eq!(described, served);
    }
}
