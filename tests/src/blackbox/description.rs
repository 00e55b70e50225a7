//! Every HTTP answer that any test gets is held against the published description of the API, so
//! that neither can change without the other.

use std::sync::LazyLock;

use jsonschema::Draft;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::api::HttpAnswer;
use super::frame::is_time;

static DEVICE_API: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(relay_http::device_api::description()).expect("the description is JSON")
});

static ADMIN_API: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(relay_http::admin_api::description()).expect("the description is JSON")
});

/// Whether a path is one of those that operators use.
fn is_for_operators(path: &str) -> bool {
    path.starts_with("/admin/")
}

fn description_of(path: &str) -> &'static Value {
    if is_for_operators(path) {
        &ADMIN_API
    } else {
        &DEVICE_API
    }
}

/// What an answer breaks: of the description, or of what holds for all answers (ENV-2, shipped
/// clients).
///
/// # Errors
/// With what it breaks.
pub fn conforms(method: &Method, path: &str, answer: &HttpAnswer) -> Result<(), String> {
    has_plain_keys_and_times(&answer.body)?;
    let path = path.split('?').next().unwrap_or_default();
    let whole = description_of(path);
    let Some(call) = described_call(whole, method, path) else {
        return match answer.status {
            404 | 405 => has_body(whole, answer, &problem()),
            _ if path.starts_with("/api/") || is_for_operators(path) => {
                Err(format!("{method} {path} is not described"))
            }
            _ => Ok(()),
        };
    };
    let status = answer.status.to_string();
    match call["responses"].get(&status) {
        // Without an operator token there is no admin API.
        None if answer.status == 404 && is_for_operators(path) => {
            has_body(whole, answer, &problem())
        }
        None => Err(format!("{status} of {method} {path} is not described")),
        // An answer to HEAD has the headers only.
        Some(_) if method == Method::HEAD => Ok(()),
        Some(response) => has_body(whole, answer, response),
    }
}

fn problem() -> Value {
    json!({ "$ref": "#/components/responses/Problem" })
}

/// The description of a call; HEAD is GET.
fn described_call(whole: &'static Value, method: &Method, path: &str) -> Option<&'static Value> {
    let name = match *method {
        Method::HEAD => "get".to_owned(),
        _ => method.as_str().to_ascii_lowercase(),
    };
    let paths = whole["paths"].as_object()?;
    // A path that is written out wins over one with parameters, as in the relay.
    let written_out = paths.get(path).and_then(|item| item.get(&name));
    written_out.or_else(|| {
        let fits = |pattern: &&String| {
            let (parts, given) = (pattern.split('/'), path.split('/'));
            parts.clone().count() == given.clone().count()
                && parts
                    .zip(given)
                    .all(|(part, given)| part == given || part.starts_with('{'))
        };
        let pattern = paths.keys().find(fits)?;
        paths[pattern].get(&name)
    })
}

fn has_body(whole: &Value, answer: &HttpAnswer, response: &Value) -> Result<(), String> {
    let response = match response["$ref"].as_str() {
        Some(reference) => whole
            .pointer(reference.trim_start_matches('#'))
            .ok_or_else(|| format!("{reference} is not there"))?,
        None => response,
    };
    let nothing = Map::new();
    let content = response["content"].as_object().unwrap_or(&nothing);
    let media_type = answer.header("content-type").unwrap_or_default();
    match content.get(media_type) {
        Some(content) => fits(whole, &content["schema"], &answer.body),
        None if content.is_empty() && answer.body == "" => Ok(()),
        None => Err(format!("{media_type:?} is not described: {answer:?}")),
    }
}

fn fits(whole: &Value, schema: &Value, body: &Value) -> Result<(), String> {
    let whole = json!({ "allOf": [schema], "components": whole["components"] });
    let validator = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .should_validate_formats(true)
        .build(&whole)
        .map_err(|error| format!("the description is no schema: {error}"))?;
    let errors: Vec<String> = validator
        .iter_errors(body)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(format!("{errors:?} in {body}"))
    }
}

/// ENV-2: each time has six fraction digits and `Z`, and no key has `_`, outside of what devices
/// store as they like.
fn has_plain_keys_and_times(body: &Value) -> Result<(), String> {
    match body {
        Value::Object(members) => members.iter().try_for_each(|(key, value)| {
            if key.contains('_') {
                return Err(format!("the key {key:?}"));
            }
            match key.as_str() {
                "capabilities" => Ok(()),
                _ => has_plain_keys_and_times(value),
            }
        }),
        Value::Array(items) => items.iter().try_for_each(has_plain_keys_and_times),
        Value::String(text) if looks_like_time(text) && !is_time(text) => {
            Err(format!("the time {text:?}"))
        }
        _ => Ok(()),
    }
}

fn looks_like_time(text: &str) -> bool {
    let begins = text
        .get(..11)
        .is_some_and(|begin| begin.ends_with(['T', 't', ' ']));
    begins && text.bytes().take(4).all(|byte| byte.is_ascii_digit()) && text.contains(':')
}
