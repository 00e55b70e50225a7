//! Google's push service: HTTP v1, with access tokens of a service account (PUSH-1).

mod access;

use std::sync::Arc;

use relay_model::limits::PUSH_PAYLOAD_BYTES;
use relay_model::time::Timestamp;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, trusting, word};
use super::content::{Alert, DesktopOnline, PushContent};
use super::sender::{Attempt, Push, PushFuture, PushSender};
use crate::environment::Environment;
use access::{Access, AccessTokens, Fetch};

/// Where Google listens.
pub const ENDPOINT: &str = "https://fcm.googleapis.com";

/// What an operator has from Google.
#[derive(Clone)]
pub struct FcmSettings {
    /// The key of the service account: what is in the JSON file.
    pub service_account: String,
    /// Where messages are sent.
    pub endpoint: Url,
    /// Authorities beside the system's for the endpoint, in PEM.
    pub authorities: Option<Vec<u8>>,
}

/// Why there can be no sender.
#[derive(Debug, thiserror::Error)]
pub enum FcmError {
    /// The key file is none.
    #[error(
        "it is no key of a service account in JSON, with private_key, client_email and token_uri"
    )]
    ServiceAccount,
    /// It names no project.
    #[error("it names no project_id")]
    Project,
    /// The authorities are none.
    #[error("it holds no certificates in PEM")]
    Authorities,
    /// No HTTP client could be made.
    #[error("no HTTP client: {0}")]
    Client(String),
}

/// Sends through FCM.
#[derive(Clone)]
pub struct FcmSender(Arc<Inner>);

struct Inner {
    client: Client,
    url: Url,
    access: AccessTokens,
    environment: Arc<dyn Environment>,
}

/// The body of an answer that is no success.
#[derive(Debug, Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    error: Status,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    status: Option<String>,
    #[serde(default)]
    details: Vec<Detail>,
}

#[derive(Debug, Deserialize)]
struct Detail {
    #[serde(rename = "errorCode")]
    error_code: Option<String>,
}

impl Refusal {
    /// FCM's own code, else that of Google's APIs.
    fn code(&self) -> &str {
        let mut own = self.error.details.iter();
        let own = own.find_map(|detail| detail.error_code.as_deref());
        word(own.or(self.error.status.as_deref()))
    }
}

impl FcmSender {
    /// A sender with these settings. Pushes are sent over the runtime that polls them.
    ///
    /// # Errors
    /// When the key or an authority cannot be used.
    pub fn new(settings: FcmSettings, environment: Arc<dyn Environment>) -> Result<Self, FcmError> {
        let (access, project) = AccessTokens::new(settings.service_account)?;
        let client = Client::builder()
            .user_agent(concat!("relay/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none());
        let client =
            trusting(client, settings.authorities.as_deref()).ok_or(FcmError::Authorities)?;
        let client = client
            .build()
            .map_err(|error| FcmError::Client(error.to_string()))?;
        let mut url = settings.endpoint;
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty()
                .extend(["v1", "projects", &project, "messages:send"]);
        }
        Ok(Self(Arc::new(Inner {
            client,
            url,
            access,
            environment,
        })))
    }
}

impl PushSender for FcmSender {
    fn send(&self, push: Push) -> PushFuture<Attempt> {
        let inner = Arc::clone(&self.0);
        let fetch = inner.access.current();
        Box::pin(async move {
            let now = inner.environment.now();
            let body = json!({"message": message(&push, now)});
            inner.send(&body, fetch).await
        })
    }

    fn check(&self) -> PushFuture<Result<(), String>> {
        let inner = Arc::clone(&self.0);
        let fetch = inner.access.current();
        Box::pin(async move {
            let message = json!({"token": "nobody", "data": {"type": "check"}});
            let body = json!({"validate_only": true, "message": message});
            match inner.send(&body, fetch).await {
                // Whoever gets so far as to be told that this is no token has shown who they are.
                Attempt::Delivered | Attempt::TokenGone { .. } => Ok(()),
                Attempt::Rejected(reason) if reason.ends_with("INVALID_ARGUMENT") => Ok(()),
                Attempt::Rejected(reason) => Err(format!("{reason}; check push.fcm.endpoint")),
                Attempt::Refused(reason) | Attempt::Failed { reason, .. } => Err(reason),
            }
        })
    }
}

impl Inner {
    /// Sends a body; once more, with a new access token, if the one at hand is not taken.
    async fn send(&self, body: &Value, fetch: Fetch) -> Attempt {
        let (answer, access) = match self.ask(body, fetch).await {
            Ok(answered) => answered,
            Err(attempt) => return attempt,
        };
        let refusal = read(&answer);
        if answer.status != 401 || refusal.code() == "THIRD_PARTY_AUTH_ERROR" {
            return attempt(&answer, &refusal);
        }
        match self.ask(body, self.access.instead_of(&access)).await {
            Ok((answer, _)) => attempt(&answer, &read(&answer)),
            Err(attempt) => attempt,
        }
    }

    async fn ask(&self, body: &Value, fetch: Fetch) -> Result<(Answer, Arc<Access>), Attempt> {
        let failed = |reason| Attempt::Failed {
            retry_after: None,
            reason,
        };
        let access = fetch.await.map_err(|error| failed(error.to_string()))?;
        let request = self.client.post(self.url.clone());
        let request = request.bearer_auth(access.as_str()).json(body);
        let answer = Answer::to(request, self.environment.now()).await;
        answer.map(|answer| (answer, access)).map_err(failed)
    }
}

fn read(answer: &Answer) -> Refusal {
    serde_json::from_slice(&answer.body).unwrap_or_default()
}

/// What an answer means (PUSH-4).
fn attempt(answer: &Answer, refusal: &Refusal) -> Attempt {
    match (answer.status, refusal.code()) {
        (200..=299, _) => Attempt::Delivered,
        // A bare 404 is no word about a token: an endpoint that is none gives it too.
        (404, "UNREGISTERED" | "NOT_FOUND") | (_, "UNREGISTERED") => {
            Attempt::TokenGone { since: None }
        }
        (403, "SENDER_ID_MISMATCH") => Attempt::Rejected("403 SENDER_ID_MISMATCH".to_owned()),
        (429 | 500.., code) | (_, code @ ("QUOTA_EXCEEDED" | "UNAVAILABLE" | "INTERNAL")) => {
            answer.failed(code)
        }
        (401 | 403, code) => Attempt::Refused(format!(
            "{code}; check push.fcm.service_account_file, that its account may send messages in its \
             project, and this machine's clock{}",
            answer.clock_advice()
        )),
        (status, code) => Attempt::Rejected(format!("{status} {code}")),
    }
}

/// A push as FCM takes it: every value of `data` is a string.
fn message(push: &Push, now: Timestamp) -> Value {
    let ttl = format!("{}s", push.expires_at.since(now).as_secs());
    let token = push.token.reveal();
    match &*push.content {
        PushContent::DesktopOnline(online) => json!({
            "token": token,
            "data": silent(online),
            "android": {
                "priority": "HIGH",
                "ttl": ttl,
                "collapse_key": format!("desktop-online-{}", online.desktop),
            },
        }),
        PushContent::Alert(alert) => {
            let size = |alert: &Alert| visible(alert).to_string().len();
            let mut message = visible(&alert.fitted(PUSH_PAYLOAD_BYTES, size));
            message["token"] = json!(token);
            message["android"] = json!({"priority": "HIGH", "ttl": ttl});
            message
        }
    }
}

fn silent(online: &DesktopOnline) -> Value {
    json!({
        "type": "desktop_online",
        "desktopDeviceId": online.desktop,
        "relayInstanceId": online.instance,
        "connectionGeneration": online.generation.to_string(),
    })
}

fn visible(alert: &Alert) -> Value {
    json!({
        "notification": {"title": alert.title, "body": alert.body},
        "data": {"sessionId": alert.session},
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answered(status: u16, body: &str) -> Attempt {
        let answer = Answer {
            status,
            retry_after: Some(Duration::from_secs(7)),
            clock: None,
            body: body.as_bytes().to_vec(),
        };
        attempt(&answer, &read(&answer))
    }

    fn coded(status: u16, code: &str) -> Attempt {
        let kind = "type.googleapis.com/google.firebase.fcm.v1.FcmError";
        let detail = json!([{"@type": "other"}, {"@type": kind, "errorCode": code}]);
        let error = json!({"code": status, "status": "SOME_STATUS", "details": detail});
        answered(status, &json!({ "error": error }).to_string())
    }

    /// PUSH-4: which answers mean that the token is gone, that another attempt may help, and neither.
    #[test]
    fn answers_are_understood() {
        let gone = Attempt::TokenGone { since: None };
        let failed = |reason: &str| Attempt::Failed {
            retry_after: Some(Duration::from_secs(7)),
            reason: reason.to_owned(),
        };
        assert_eq!(
            answered(200, r#"{"name":"projects/p/messages/1"}"#),
            Attempt::Delivered
        );
        assert_eq!(coded(404, "UNREGISTERED"), gone);
        assert_eq!(answered(404, r#"{"error":{"status":"NOT_FOUND"}}"#), gone);
        assert!(matches!(answered(404, "<html>"), Attempt::Rejected(_)));
        let invalid = Attempt::Rejected("400 INVALID_ARGUMENT".to_owned());
        assert_eq!(coded(400, "INVALID_ARGUMENT"), invalid);
        assert!(matches!(
            coded(403, "SENDER_ID_MISMATCH"),
            Attempt::Rejected(_)
        ));
        for (status, code) in [
            (429, "QUOTA_EXCEEDED"),
            (503, "UNAVAILABLE"),
            (500, "INTERNAL"),
        ] {
            assert_eq!(coded(status, code), failed(&format!("{status} {code}")));
        }
        assert_eq!(answered(502, ""), failed("502 without a reason"));
        for status in [401, 403] {
            let refused = coded(status, "THIRD_PARTY_AUTH_ERROR");
            assert!(matches!(refused, Attempt::Refused(text) if text.contains("push.fcm")));
        }
    }
}
