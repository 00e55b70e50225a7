//! Apple's push service: HTTP/2, and tokens of our own that say who we are (PUSH-1).

mod provider_token;

use std::sync::Arc;
use std::time::Duration;

use relay_model::limits::{PUSH_KEEP_ALIVE, PUSH_PAYLOAD_BYTES};
use relay_model::push::PushEnvironment;
use relay_model::time::Timestamp;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, trusting, word};
use super::content::{Alert, DesktopOnline, PushContent};
use super::sender::{Attempt, Push, PushFuture, PushSender};
use crate::environment::Environment;
use provider_token::{ProviderToken, ProviderTokens};

/// Where Apple listens for pushes to apps of the store.
pub const PRODUCTION: &str = "https://api.push.apple.com";
/// Where Apple listens for pushes to apps built for development.
pub const SANDBOX: &str = "https://api.sandbox.push.apple.com";
/// A token that no phone has, for dry runs.
const NOBODY: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What an operator has from Apple.
#[derive(Clone)]
pub struct ApnsSettings {
    /// The signing key: what is in the `.p8` file.
    pub key: String,
    /// The key's id.
    pub key_id: String,
    /// The team's id.
    pub team_id: String,
    /// The app's bundle id.
    pub topic: String,
    /// For tokens of production.
    pub endpoint: Url,
    /// For tokens of the sandbox.
    pub sandbox_endpoint: Url,
    /// Authorities beside the system's, in PEM.
    pub authorities: Option<Vec<u8>>,
}

/// Why there can be no sender.
#[derive(Debug, thiserror::Error)]
pub enum ApnsError {
    /// The key is none.
    #[error("it holds no EC private key in PEM (PKCS #8), as Apple's .p8 files do")]
    Key,
    /// The authorities are none.
    #[error("it holds no certificates in PEM")]
    Authorities,
    /// No HTTP client could be made.
    #[error("no HTTP client: {0}")]
    Client(String),
}

/// Sends through APNs. One connection serves all pushes to an endpoint.
#[derive(Clone)]
pub struct ApnsSender(Arc<Inner>);

struct Inner {
    client: Client,
    settings: ApnsSettings,
    tokens: ProviderTokens,
    environment: Arc<dyn Environment>,
}

/// The body of an answer that is no success.
#[derive(Debug, Default, Deserialize)]
struct Refusal {
    reason: Option<String>,
    /// Milliseconds since 1970: when the token was last known to be gone.
    timestamp: Option<i64>,
}

impl ApnsSender {
    /// A sender with these settings. Pushes are sent over the runtime that polls them.
    ///
    /// # Errors
    /// When the key or an authority cannot be used.
    pub fn new(
        settings: ApnsSettings,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, ApnsError> {
        let tokens =
            ProviderTokens::new(&settings, Arc::clone(&environment)).map_err(|_| ApnsError::Key)?;
        let client = Client::builder()
            .user_agent(concat!("relay/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .http2_prior_knowledge()
            .http2_keep_alive_interval(PUSH_KEEP_ALIVE)
            .http2_keep_alive_timeout(PUSH_KEEP_ALIVE)
            .pool_idle_timeout(None::<Duration>);
        let client =
            trusting(client, settings.authorities.as_deref()).ok_or(ApnsError::Authorities)?;
        let client = client
            .build()
            .map_err(|error| ApnsError::Client(error.to_string()))?;
        Ok(Self(Arc::new(Inner {
            client,
            settings,
            tokens,
            environment,
        })))
    }
}

impl PushSender for ApnsSender {
    fn send(&self, push: Push) -> PushFuture<Attempt> {
        let inner = Arc::clone(&self.0);
        let token = inner.tokens.current();
        Box::pin(async move { inner.send(&push, token).await })
    }

    fn check(&self) -> PushFuture<Result<(), String>> {
        let inner = Arc::clone(&self.0);
        let token = inner.tokens.current();
        Box::pin(async move { inner.check(token).await })
    }
}

impl Inner {
    fn request(&self, push: &Push, token: &ProviderToken) -> RequestBuilder {
        let endpoint = match push.environment {
            Some(PushEnvironment::Sandbox) => &self.settings.sandbox_endpoint,
            Some(PushEnvironment::Production) | None => &self.settings.endpoint,
        };
        let expires = push.expires_at.unix_micros() / 1_000_000;
        let request = self
            .post(endpoint, push.token.reveal(), token)
            .header("apns-id", push.id.to_string())
            .header("apns-expiration", expires.to_string());
        match &*push.content {
            PushContent::DesktopOnline(online) => request
                .header("apns-push-type", "background")
                .header("apns-priority", "5")
                .header("apns-collapse-id", collapse_id(online))
                .json(&silent(online)),
            PushContent::Alert(alert) => {
                let size = |alert: &Alert| visible(alert).to_string().len();
                let fitted = alert.fitted(PUSH_PAYLOAD_BYTES, size);
                request
                    .header("apns-push-type", "alert")
                    .header("apns-priority", "10")
                    .json(&visible(&fitted))
            }
        }
    }

    fn post(&self, endpoint: &Url, device: &str, token: &ProviderToken) -> RequestBuilder {
        let mut url = endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["3", "device", device]);
        }
        self.client
            .post(url)
            .header("authorization", token.header())
            .header("apns-topic", &self.settings.topic)
    }

    async fn send(&self, push: &Push, token: Arc<ProviderToken>) -> Attempt {
        let answer = Answer::to(self.request(push, &token), self.environment.now()).await;
        let (answer, refusal) = match answer {
            Ok(answer) => read(answer),
            Err(reason) => return failed(reason),
        };
        if refusal.reason.as_deref() != Some("ExpiredProviderToken") {
            return attempt(&answer, &refusal);
        }
        let Some(token) = self.tokens.renewed(&token) else {
            return attempt(&answer, &refusal);
        };
        match Answer::to(self.request(push, &token), self.environment.now()).await {
            Ok(answer) => {
                let (answer, refusal) = read(answer);
                attempt(&answer, &refusal)
            }
            Err(reason) => failed(reason),
        }
    }

    async fn check(&self, token: Arc<ProviderToken>) -> Result<(), String> {
        let request = self
            .post(&self.settings.endpoint, NOBODY, &token)
            .header("apns-push-type", "background")
            .header("apns-priority", "5")
            .json(&json!({"aps": {"content-available": 1}}));
        let (answer, refusal) = read(Answer::to(request, self.environment.now()).await?);
        match (answer.status, word(refusal.reason.as_deref())) {
            // Whoever gets so far as to be told that this is no device has shown who they are.
            (400, "BadDeviceToken") | (410, _) | (200, _) => Ok(()),
            (400, reason) => Err(format!("{reason}; check push.apns.topic")),
            (403, reason) => Err(refused(&answer, reason)),
            (status, reason) => Err(format!("{status} {reason}; try again later")),
        }
    }
}

fn failed(reason: String) -> Attempt {
    Attempt::Failed {
        retry_after: None,
        reason,
    }
}

fn read(answer: Answer) -> (Answer, Refusal) {
    let refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
    (answer, refusal)
}

fn refused(answer: &Answer, reason: &str) -> String {
    format!(
        "{reason}; check push.apns.key_file, push.apns.key_id and push.apns.team_id, and this \
         machine's clock{}",
        answer.clock_advice()
    )
}

/// What an answer means (PUSH-4).
fn attempt(answer: &Answer, refusal: &Refusal) -> Attempt {
    let reason = word(refusal.reason.as_deref());
    match (answer.status, reason) {
        (200, _) => Attempt::Delivered,
        (410, _) => Attempt::TokenGone {
            since: refusal
                .timestamp
                .map(|millis| Timestamp::from_unix_micros(millis.saturating_mul(1_000))),
        },
        (400, "BadDeviceToken") => Attempt::TokenGone { since: None },
        (403, reason) => Attempt::Refused(refused(answer, reason)),
        (429 | 500.., reason) => answer.failed(reason),
        (status, reason) => Attempt::Rejected(format!("{status} {reason}")),
    }
}

/// Later pushes of a desktop take the place of earlier ones that a phone has not got yet. At most 64
/// bytes.
fn collapse_id(online: &DesktopOnline) -> String {
    format!("desktop-online-{}", online.desktop)
}

fn silent(online: &DesktopOnline) -> Value {
    json!({
        "aps": {"content-available": 1},
        "type": "desktop_online",
        "desktopDeviceId": online.desktop,
        "relayInstanceId": online.instance,
        "connectionGeneration": online.generation,
    })
}

fn visible(alert: &Alert) -> Value {
    json!({
        "aps": {"alert": {"title": alert.title, "body": alert.body}, "sound": "default"},
        "sessionId": alert.session,
    })
}

#[cfg(test)]
mod tests {
    use relay_model::ids::{ConnectionGeneration, DeviceId, RelayInstanceId};
    use relay_model::limits::APNS_COLLAPSE_ID_BYTES;
    use uuid::Uuid;

    use super::*;

    fn answered(status: u16, body: &str) -> Attempt {
        let (answer, refusal) = read(Answer {
            status,
            retry_after: Some(Duration::from_secs(7)),
            clock: None,
            body: body.as_bytes().to_vec(),
        });
        attempt(&answer, &refusal)
    }

    /// PUSH-4: which answers mean that the token is gone, that another attempt may help, and neither.
    #[test]
    fn answers_are_understood() {
        assert_eq!(answered(200, ""), Attempt::Delivered);
        let since = Some(Timestamp::from_unix_micros(1_791_187_200_123_000));
        let gone = r#"{"reason":"Unregistered","timestamp":1791187200123}"#;
        assert_eq!(answered(410, gone), Attempt::TokenGone { since });
        for gone in [(410, ""), (400, r#"{"reason":"BadDeviceToken"}"#)] {
            assert_eq!(answered(gone.0, gone.1), Attempt::TokenGone { since: None });
        }
        for (status, reason) in [
            (400, "DeviceTokenNotForTopic"),
            (400, "PayloadEmpty"),
            (404, "BadPath"),
            (413, "PayloadTooLarge"),
        ] {
            let rejected = answered(status, &format!(r#"{{"reason":"{reason}"}}"#));
            assert_eq!(rejected, Attempt::Rejected(format!("{status} {reason}")));
        }
        for status in [429, 500, 503] {
            let failed = answered(status, r#"{"reason":"Busy"}"#);
            let retry_after = Some(Duration::from_secs(7));
            let reason = format!("{status} Busy");
            assert_eq!(
                failed,
                Attempt::Failed {
                    retry_after,
                    reason
                }
            );
        }
        let refused = answered(403, r#"{"reason":"InvalidProviderToken"}"#);
        assert!(matches!(refused, Attempt::Refused(text) if text.contains("push.apns.key_id")));
    }

    /// PUSH-2, PUSH-3: what phones get, as Apple wants it.
    #[test]
    fn payloads_have_apples_form() {
        let online = DesktopOnline {
            desktop: DeviceId::from_uuid(Uuid::from_u128(1)),
            instance: RelayInstanceId::from_uuid(Uuid::from_u128(2)),
            generation: ConnectionGeneration::new(318),
        };
        assert_eq!(
            silent(&online),
            json!({
                "aps": {"content-available": 1},
                "type": "desktop_online",
                "desktopDeviceId": "00000000-0000-0000-0000-000000000001",
                "relayInstanceId": "00000000-0000-0000-0000-000000000002",
                "connectionGeneration": 318,
            })
        );
        assert!(collapse_id(&online).len() <= APNS_COLLAPSE_ID_BYTES);
        let alert = Alert::new("s-1".to_owned(), "Title", "Body");
        let expected = json!({
            "aps": {"alert": {"title": "Title", "body": "Body"}, "sound": "default"},
            "sessionId": "s-1",
        });
        assert_eq!(visible(&alert), expected);
    }
}
