//! The device API as an app calls it.

use std::net::SocketAddr;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::account::{Account, ClientType, Device};
use super::description::conforms;
use super::leaks::note_output;
use super::process::Relay;

/// An answer of the HTTP API.
#[derive(Debug)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The headers; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, as JSON if it is that, else as a string.
    pub body: Value,
}

impl HttpAnswer {
    async fn read(response: Response) -> Result<Self, reqwest::Error> {
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            })
            .collect();
        let text = response.text().await?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Self {
            status,
            headers,
            body,
        })
    }

    /// A header's value, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Checks that this is a problem document with the members that clients read.
    ///
    /// # Panics
    /// When it is not.
    pub fn assert_problem(&self, status: u16, error_type: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let content_type = self.header("content-type");
        assert_eq!(content_type, Some("application/problem+json"), "{self:?}");
        let body = &self.body;
        assert_eq!(body["status"], json!(status), "{self:?}");
        assert_eq!(body["code"], json!(status), "{self:?}");
        assert_eq!(body["errorType"], json!(error_type), "{self:?}");
        for member in ["type", "title", "detail", "message"] {
            let text = body[member].as_str();
            assert!(
                text.is_some_and(|text| !text.is_empty()),
                "{member}: {self:?}"
            );
        }
    }
}

impl Relay {
    /// `GET` without credentials.
    pub async fn get(&self, path: &str) -> HttpAnswer {
        self.call(Method::GET, path, &[], None).await
    }

    /// Any call. Its answer is held against the published description.
    ///
    /// # Panics
    /// When no answer comes, or one that is not described.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> HttpAnswer {
        self.call_at(self.address(), method, path, headers, body)
            .await
    }

    /// Any call at one of the relay's addresses. Its answer is held against the published description.
    ///
    /// # Panics
    /// When no answer comes, or one that is not described.
    pub async fn call_at(
        &self,
        address: SocketAddr,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> HttpAnswer {
        let answer = self.try_call(address, method.clone(), path, headers, body);
        let answer = answer
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}{}", self.evidence().tail()));
        if answer.status >= 400 || path == "/metrics" {
            note_output(&format!("{method} {path}: {}", answer.body));
        }
        if let Err(problem) = conforms(&method, path, &answer) {
            panic!("{problem}{}", self.evidence().tail());
        }
        answer
    }

    /// Any call, of a relay that may end in the middle of it.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn try_call(
        &self,
        address: SocketAddr,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Result<HttpAnswer, reqwest::Error> {
        let url = self.url(address, path);
        let mut request = self.client.request(method, url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request
                .header("Content-Type", "application/json")
                .body(body);
        }
        let response = request.timeout(super::DEADLINE).send().await?;
        HttpAnswer::read(response).await
    }

    /// Forgets a device.
    ///
    /// # Panics
    /// When the relay refuses to.
    pub async fn forget(&self, device: &Device) {
        let authorization = format!("Bearer {}", device.account.token);
        let path = format!("/api/devices/{}", device.id);
        let answer = self.call_as(&authorization, Method::DELETE, &path, None);
        let answer = answer.await;
        assert_eq!(answer.status, 204, "{answer:?}{}", self.evidence().tail());
    }

    /// Any call with credentials in `Authorization`, such as `Bearer <token>`.
    pub async fn call_as(
        &self,
        authorization: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> HttpAnswer {
        let headers = [("Authorization", authorization)];
        let body = body.map(|body| body.to_string());
        self.call(method, path, &headers, body).await
    }

    /// The status of `GET /api/devices` with this user token.
    pub async fn status_for(&self, token: &str) -> u16 {
        let authorization = format!("Bearer {token}");
        let answer = self
            .call_as(&authorization, Method::GET, "/api/devices", None)
            .await;
        answer.status
    }

    /// Registers a device over HTTP with this body.
    pub async fn enrol_with(&self, device: &Device, body: &Value) -> HttpAnswer {
        let path = match device.client_type {
            ClientType::Desktop => "/api/devices/register",
            ClientType::Mobile => "/api/devices/mobile/register",
        };
        let authorization = format!("Bearer {}", device.account.token);
        let headers = [
            ("Authorization", authorization.as_str()),
            ("X-Device-ID", &device.id),
            ("X-Client-Type", device.client_type.header()),
        ];
        self.call(Method::POST, path, &headers, Some(body.to_string()))
            .await
    }

    /// Registers a device over HTTP.
    ///
    /// # Panics
    /// When the relay refuses it.
    pub async fn enrol(&self, device: &Device) {
        let answer = self
            .enrol_with(device, &enrolment(device.client_type))
            .await;
        assert_eq!(answer.status, 201, "{answer:?}{}", self.evidence().tail());
    }

    /// The devices of an account, with a query such as `?deviceType=desktop`.
    ///
    /// # Panics
    /// When the relay does not list them.
    pub async fn devices(&self, account: &Account, query: &str) -> Vec<Value> {
        let authorization = format!("Bearer {}", account.token);
        let headers = [("Authorization", authorization.as_str())];
        let path = format!("/api/devices{query}");
        let answer = self.call(Method::GET, &path, &headers, None).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        match answer.body {
            Value::Array(devices) => devices,
            other => panic!("not a bare array: {other}"),
        }
    }

    /// One device of its account's list.
    ///
    /// # Panics
    /// When it is not there.
    pub async fn listed(&self, device: &Device) -> Value {
        let devices = self.devices(&device.account, "").await;
        let listed = devices.into_iter().find(|row| row["deviceId"] == device.id);
        listed.unwrap_or_else(|| panic!("{} is not listed", device.id))
    }

    /// Waits until a device's `status` in its account's list is this one, and returns its entry.
    pub async fn until_listed_as(&self, device: &Device, status: &str) -> Value {
        let what = format!("status {status} of {}", device.id);
        self.eventually(&what, async || {
            self.listed(device).await["status"] == status
        })
        .await;
        self.listed(device).await
    }
}

/// The least that a device says when it registers over HTTP.
fn enrolment(client_type: ClientType) -> Value {
    let platform = match client_type {
        ClientType::Desktop => "linux",
        ClientType::Mobile => "android",
    };
    json!({ "deviceName": "test", "platform": platform, "appVersion": "1.0.0" })
}
