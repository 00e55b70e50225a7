//! JSON bodies, bounded in size and time (HTTP-2): whoever sends one byte a minute holds a
//! connection, but not for ever.

use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::http::header::CONTENT_LENGTH;
use actix_web::{FromRequest, HttpRequest, web};
use bytes::BytesMut;
use futures_util::StreamExt;
use relay_model::limits::Limits;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::DeviceApi;
use crate::refusal::Refusal;

/// A body of JSON, whatever its `Content-Type` says; unknown fields are ignored.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest for JsonBody<T> {
    type Error = Refusal;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Refusal>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let bytes = read_whole(&request, payload).await?;
            parse(&bytes).map(Self)
        })
    }
}

/// As [`JsonBody`], where no body at all, or white space, stands for a body that says nothing.
pub(super) struct OptionalJsonBody<T>(pub(super) T);

impl<T: DeserializeOwned + Default> FromRequest for OptionalJsonBody<T> {
    type Error = Refusal;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Refusal>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let bytes = read_whole(&request, payload).await?;
            if bytes.trim_ascii().is_empty() {
                return Ok(Self(T::default()));
            }
            parse(&bytes).map(Self)
        })
    }
}

async fn read_whole(request: &HttpRequest, payload: Payload) -> Result<BytesMut, Refusal> {
    // The routes and their state are added together, so it is always there.
    let api = request
        .app_data::<web::Data<DeviceApi>>()
        .ok_or(Refusal::RelayUnavailable)?;
    read(request, payload, &api.relay.limits()).await
}

async fn read(
    request: &HttpRequest,
    mut payload: Payload,
    limits: &Limits,
) -> Result<BytesMut, Refusal> {
    let limit = limits.http_body;
    let too_large = Refusal::BodyTooLarge { limit };
    let announced = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(too_large);
    }
    let mut body = BytesMut::new();
    let whole = async {
        while let Some(chunk) = payload.next().await {
            let chunk = chunk.map_err(|error| match error {
                PayloadError::Overflow => Refusal::BodyTooLarge { limit },
                _ => Refusal::BodyBroken,
            })?;
            if body.len() + chunk.len() > limit {
                return Err(too_large);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(())
    };
    let deadline = limits.http_timeout;
    tokio::time::timeout(deadline, whole)
        .await
        .map_err(|_| Refusal::BodyTimeout { limit: deadline })??;
    Ok(body)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    // serde would take an array for a struct.
    let starts_as_object = bytes
        .trim_ascii_start()
        .first()
        .is_none_or(|first| *first == b'{');
    serde_json::from_slice(bytes)
        // serde's own classes do not tell the two apart: a number in the place of an enum is a
        // "syntax error" to it.
        .map_err(|error| match serde_json::from_slice::<IgnoredAny>(bytes) {
            Ok(_) => Refusal::InvalidPayload(error.to_string().into()),
            Err(not_json) => Refusal::InvalidJson(not_json.to_string()),
        })
        .and_then(|body| {
            if starts_as_object {
                Ok(body)
            } else {
                Err(Refusal::InvalidPayload(
                    "the body must be a JSON object".into(),
                ))
            }
        })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::refusal::ErrorType;
    use relay_model::wire::codes::ErrorCode;

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(rename_all = "camelCase")]
    struct Body {
        device_name: String,
        number: Option<u8>,
        kind: Option<Kind>,
    }

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(rename_all = "camelCase")]
    enum Kind {
        Known,
    }

    /// Section 11: unknown fields are ignored, and null is "not given".
    #[test]
    fn bodies_are_read() {
        let body: Body = parse(
            br#" {"deviceName":"n","number":null,"kind":"known","more":{"x":[1]},"device_name":7}"#,
        )
        .unwrap();
        assert_eq!(
            body,
            Body {
                device_name: "n".to_owned(),
                number: None,
                kind: Some(Kind::Known),
            }
        );
    }

    /// Section 11: what is not JSON and what has the wrong fields are told apart; fields are named.
    #[test]
    fn bad_bodies_are_refused() {
        for (text, code, named) in [
            ("", ErrorCode::InvalidJson, ""),
            ("{", ErrorCode::InvalidJson, ""),
            ("{\"deviceName\":\"\u{0}\"}", ErrorCode::InvalidJson, ""),
            ("null", ErrorCode::InvalidPayload, ""),
            ("[\"n\",1,null]", ErrorCode::InvalidPayload, "object"),
            ("{}", ErrorCode::InvalidPayload, "deviceName"),
            (r#"{"deviceName":null}"#, ErrorCode::InvalidPayload, "null"),
            (
                r#"{"deviceName":"a","kind":7}"#,
                ErrorCode::InvalidPayload,
                "",
            ),
            (
                r#"{"deviceName":"a","kind":"other"}"#,
                ErrorCode::InvalidPayload,
                "other",
            ),
            (r#"{"deviceName":"a","kind":7"#, ErrorCode::InvalidJson, ""),
            (
                r#"{"deviceName":"a","deviceName":"b"}"#,
                ErrorCode::InvalidPayload,
                "deviceName",
            ),
            (
                r#"{"deviceName":"a","number":300}"#,
                ErrorCode::InvalidPayload,
                "300",
            ),
        ] {
            let refusal = parse::<Body>(text.as_bytes()).unwrap_err();
            assert_eq!(refusal.error_type(), ErrorType::Frame(code), "{text}");
            assert!(refusal.to_string().contains(named), "{refusal}");
        }
    }
}
