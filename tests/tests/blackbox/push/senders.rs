//! The senders by themselves against servers that play Apple and Google (PUSH-1, PUSH-4, PUSH-5).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use relay_actors::environment::{Environment, FatalFault};
use relay_actors::push::apns::{ApnsSender, ApnsSettings};
use relay_actors::push::fcm::{FcmSender, FcmSettings};
use relay_actors::push::{Alert, Attempt, DesktopOnline, Push, PushContent, PushSender};
use relay_model::ids::{ConnectionGeneration, DeviceId, RelayInstanceId, ResumeToken};
use relay_model::push::PushEnvironment;
use relay_model::time::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::service::{Reaction, Service, signing_key};

/// 2026-10-05T08:00:00Z.
const BEGINNING: i64 = 1_791_187_200_000_000;

/// A world whose clock the test sets.
struct World(AtomicI64);

impl World {
    fn pass(&self, duration: Duration) {
        let micros = i64::try_from(duration.as_micros()).unwrap();
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Environment for World {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_micros(self.0.load(Ordering::SeqCst))
    }

    fn new_uuid(&self) -> Uuid {
        Uuid::from_u128(7)
    }

    fn new_resume_token(&self) -> ResumeToken {
        ResumeToken::from_bytes([0; 32])
    }

    fn fatal(&self, fault: FatalFault) {
        panic!("{fault}");
    }
}

/// Apple's server, and a sender that trusts it.
struct Apple {
    service: Service,
    sender: ApnsSender,
    world: Arc<World>,
    public_key: String,
}

impl Apple {
    async fn new() -> Self {
        let service = Service::apple().await;
        let authority = service.authority.clone().into_bytes();
        Self::with_authority(service, Some(authority))
    }

    fn with_authority(service: Service, authorities: Option<Vec<u8>>) -> Self {
        let key = signing_key();
        let world = Arc::new(World(AtomicI64::new(BEGINNING)));
        let settings = ApnsSettings {
            key: key.serialize_pem(),
            key_id: "KEY1234567".to_owned(),
            team_id: "TEAM123456".to_owned(),
            topic: "app.example".to_owned(),
            endpoint: service.url().parse().unwrap(),
            sandbox_endpoint: format!("{}/sandbox/", service.url()).parse().unwrap(),
            authorities,
        };
        let sender = ApnsSender::new(settings, Arc::clone(&world) as _).unwrap();
        Self {
            service,
            sender,
            world,
            public_key: key.public_key_pem(),
        }
    }

    async fn react(&self, reaction: Reaction) -> Attempt {
        self.service.react([reaction]);
        self.sender.send(online()).await
    }
}

/// Google's server, and a sender to it.
struct Google {
    service: Service,
    sender: FcmSender,
}

impl Google {
    async fn new() -> Self {
        let service = Service::google().await;
        let settings = FcmSettings {
            service_account: service.service_account(),
            endpoint: service.url().parse().unwrap(),
            authorities: None,
        };
        let world = Arc::new(World(AtomicI64::new(BEGINNING)));
        let sender = FcmSender::new(settings, world).unwrap();
        Self { service, sender }
    }

    async fn react(&self, reaction: Reaction) -> Attempt {
        self.service.react([reaction]);
        self.sender.send(online()).await
    }
}

fn push(content: PushContent) -> Push {
    Push {
        id: Uuid::from_u128(9),
        token: "pushtoken-1".parse().unwrap(),
        environment: None,
        content: Arc::new(content),
        expires_at: Timestamp::from_unix_micros(BEGINNING + 60_000_000),
    }
}

fn online() -> Push {
    push(PushContent::DesktopOnline(DesktopOnline {
        desktop: DeviceId::from_uuid(Uuid::from_u128(1)),
        instance: RelayInstanceId::from_uuid(Uuid::from_u128(2)),
        generation: ConnectionGeneration::new(318),
    }))
}

fn long_alert() -> Push {
    let body = "\u{1F600}".repeat(2_000);
    push(PushContent::Alert(Alert::new(
        "s-1".to_owned(),
        "Title",
        &body,
    )))
}

fn reason_of(attempt: Attempt) -> String {
    match attempt {
        Attempt::Rejected(reason) | Attempt::Refused(reason) | Attempt::Failed { reason, .. } => {
            assert!(!reason.contains("pushtoken"), "{reason}");
            reason
        }
        other => panic!("no reason in {other:?}"),
    }
}

/// PUSH-1, PUSH-2: a push has Apple's headers, goes over HTTP/2, and one provider token, properly
/// signed, serves many pushes over one connection.
#[tokio::test]
async fn apple_gets_many_pushes_with_one_token() {
    let apple = Apple::new().await;
    assert_eq!(apple.sender.send(online()).await, Attempt::Delivered);
    let more = (0..50).map(|_| apple.sender.send(online()));
    assert!(
        join_all(more)
            .await
            .iter()
            .all(|attempt| *attempt == Attempt::Delivered)
    );
    let taken = apple.service.taken();
    assert_eq!((taken.len(), apple.service.connections()), (51, 1));
    let first = &taken[0];
    assert_eq!(first.path, "/3/device/pushtoken-1");
    assert_eq!(first.version, hyper::Version::HTTP_2);
    for (name, value) in [
        ("apns-topic", "app.example"),
        ("apns-push-type", "background"),
        ("apns-priority", "5"),
        (
            "apns-collapse-id",
            "desktop-online-00000000-0000-0000-0000-000000000001",
        ),
        ("apns-expiration", "1791187260"),
        ("apns-id", "00000000-0000-0000-0000-000000000009"),
    ] {
        assert_eq!(first.header(name), value, "{name}");
    }
    assert_eq!(first.body["aps"], json!({"content-available": 1}));
    assert_eq!(first.body["connectionGeneration"], 318);

    let tokens = taken.iter().map(|push| push.header("authorization"));
    let mut tokens: Vec<&str> = tokens.collect();
    tokens.dedup();
    assert_eq!(tokens.len(), 1);
    let token = tokens[0].strip_prefix("bearer ").unwrap();
    let key = DecodingKey::from_ec_pem(apple.public_key.as_bytes()).unwrap();
    let mut rules = Validation::new(Algorithm::ES256);
    rules.required_spec_claims.clear();
    rules.validate_exp = false;
    let token = jsonwebtoken::decode::<Value>(token, &key, &rules).unwrap();
    assert_eq!(token.header.kid.as_deref(), Some("KEY1234567"));
    assert_eq!(
        token.claims,
        json!({"iss": "TEAM123456", "iat": BEGINNING / 1_000_000})
    );
}

/// PUSH-3: an alert is shortened to what Apple takes; tokens of the sandbox go to the sandbox, and a
/// token with the signs of a path stays one part of it.
#[tokio::test]
async fn apple_gets_alerts_that_fit() {
    let apple = Apple::new().await;
    let odd = Push {
        token: "pushtoken/../x?y#z".parse().unwrap(),
        environment: Some(PushEnvironment::Sandbox),
        ..long_alert()
    };
    assert_eq!(apple.sender.send(odd).await, Attempt::Delivered);
    let taken = &apple.service.taken()[0];
    assert_eq!(taken.path, "/sandbox/3/device/pushtoken%2F..%2Fx%3Fy%23z");
    assert_eq!(taken.header("apns-push-type"), "alert");
    assert_eq!(taken.header("apns-priority"), "10");
    assert_eq!(taken.header("apns-collapse-id"), "");
    assert_eq!(taken.body["sessionId"], "s-1");
    let body = taken.body["aps"]["alert"]["body"].as_str().unwrap();
    assert!(body.ends_with('…') && body.len() > 3_900, "{}", body.len());
    assert!(taken.body.to_string().len() <= 4_096);
}

/// PUSH-4: what Apple says, and what its network does.
#[tokio::test]
async fn apples_answers_are_understood() {
    let apple = Apple::new().await;
    let gone = json!({"reason": "Unregistered", "timestamp": BEGINNING / 1_000});
    let gone = apple.react(Reaction::Answer(410, Vec::new(), gone)).await;
    let since = Some(Timestamp::from_unix_micros(BEGINNING));
    assert_eq!(gone, Attempt::TokenGone { since });
    let bad = apple.react(Reaction::apple(400, "BadDeviceToken")).await;
    assert_eq!(bad, Attempt::TokenGone { since: None });
    let other = apple
        .react(Reaction::apple(400, "DeviceTokenNotForTopic"))
        .await;
    assert_eq!(reason_of(other), "400 DeviceTokenNotForTopic");
    let busy = Reaction::apple(429, "TooManyRequests").with("retry-after", 17);
    assert_eq!(
        apple.react(busy).await,
        Attempt::Failed {
            retry_after: Some(Duration::from_secs(17)),
            reason: "429 TooManyRequests".to_owned(),
        }
    );
    let fault = apple
        .react(Reaction::apple(500, "InternalServerError"))
        .await;
    assert!(matches!(
        fault,
        Attempt::Failed {
            retry_after: None,
            ..
        }
    ));
    let reset = apple.react(Reaction::Reset).await;
    assert!(matches!(reset, Attempt::Failed { .. }), "{reset:?}");
    reason_of(reset);
    assert_eq!(apple.sender.send(online()).await, Attempt::Delivered);
}

/// PUSH-1: a certificate of nobody whom the relay trusts, and nobody there, are failures that name
/// no token.
#[tokio::test]
async fn strangers_in_apples_place_get_nothing() {
    let stranger = Apple::with_authority(Service::apple().await, None);
    let reason = reason_of(stranger.sender.send(online()).await);
    assert!(reason.contains("certificate"), "{reason}");
    assert!(stranger.service.taken().is_empty());
}

/// PUSH-1: a refusal of the credentials says what to look at, and names a clock that is off.
#[tokio::test]
async fn a_wrong_clock_is_named() {
    let apple = Apple::new().await;
    let date = |hour| format!("Mon, 05 Oct 2026 {hour}:00:00 GMT");
    let refuse = |hour| Reaction::apple(403, "InvalidProviderToken").with("date", date(hour));
    let right = reason_of(apple.react(refuse("08")).await);
    assert!(
        right.contains("push.apns.key_id") && !right.contains("3600s"),
        "{right}"
    );
    let behind = reason_of(apple.react(refuse("09")).await);
    assert!(behind.contains("clock is 3600s behind"), "{behind}");
    let ahead = reason_of(apple.react(refuse("07")).await);
    assert!(ahead.contains("clock is 3600s ahead"), "{ahead}");
}

/// PUSH-1: a provider token is renewed after 40 minutes, and at once when Apple calls it expired, but
/// never within 20 minutes, which Apple forbids.
#[tokio::test]
async fn provider_tokens_are_renewed_in_time() {
    let apple = Apple::new().await;
    let minutes = |number: u64| Duration::from_secs(60 * number);
    let expired = || Reaction::apple(403, "ExpiredProviderToken");
    let young = apple.react(expired()).await;
    assert!(matches!(young, Attempt::Refused(_)), "{young:?}");
    apple.world.pass(minutes(39));
    assert_eq!(apple.sender.send(online()).await, Attempt::Delivered);
    apple.world.pass(minutes(1));
    assert_eq!(apple.sender.send(online()).await, Attempt::Delivered);
    apple.world.pass(minutes(20));
    assert_eq!(apple.react(expired()).await, Attempt::Delivered);
    let taken = apple.service.taken();
    let tokens: Vec<&str> = taken
        .iter()
        .map(|push| push.header("authorization"))
        .collect();
    let [first, second, third, fourth, fifth] = tokens[..] else {
        panic!("{} pushes", tokens.len());
    };
    assert!(first == second && second != third && third == fourth && fourth != fifth);
}

/// PUSH-1: an access token is fetched once, however many pushes wait for it, and serves them all.
#[tokio::test]
async fn google_gets_many_pushes_with_one_token() {
    let google = Google::new().await;
    let many = (0..30).map(|_| google.sender.send(online()));
    assert!(
        join_all(many)
            .await
            .iter()
            .all(|attempt| *attempt == Attempt::Delivered)
    );
    assert_eq!(google.sender.send(long_alert()).await, Attempt::Delivered);
    assert_eq!(google.service.token_fetches(), 1);
    let taken = google.service.taken();
    assert_eq!(taken.len(), 31);
    for push in &taken {
        assert_eq!(push.path, "/v1/projects/project-1/messages:send");
        assert_eq!(push.header("authorization"), "Bearer accesstoken-1");
    }
    assert_eq!(
        taken[0].body["message"],
        json!({
            "token": "pushtoken-1",
            "data": {
                "type": "desktop_online",
                "desktopDeviceId": "00000000-0000-0000-0000-000000000001",
                "relayInstanceId": "00000000-0000-0000-0000-000000000002",
                "connectionGeneration": "318",
            },
            "android": {
                "priority": "HIGH",
                "ttl": "60s",
                "collapse_key": "desktop-online-00000000-0000-0000-0000-000000000001",
            },
        })
    );
    let alert = &taken[30].body["message"];
    assert_eq!(alert["data"], json!({"sessionId": "s-1"}));
    assert_eq!(alert["android"], json!({"priority": "HIGH", "ttl": "60s"}));
    let body = alert["notification"]["body"].as_str().unwrap();
    assert!(body.ends_with('…') && body.len() <= 4_096);
}

/// PUSH-4: what Google says, and what its network does.
#[tokio::test]
async fn googles_answers_are_understood() {
    let google = Google::new().await;
    let gone = google.react(Reaction::google(404, "UNREGISTERED")).await;
    assert_eq!(gone, Attempt::TokenGone { since: None });
    let invalid = google
        .react(Reaction::google(400, "INVALID_ARGUMENT"))
        .await;
    assert_eq!(reason_of(invalid), "400 INVALID_ARGUMENT");
    let busy = Reaction::google(429, "QUOTA_EXCEEDED").with("retry-after", 17);
    let retry_after = Some(Duration::from_secs(17));
    let reason = "429 QUOTA_EXCEEDED".to_owned();
    assert_eq!(
        google.react(busy).await,
        Attempt::Failed {
            retry_after,
            reason
        }
    );
    let refused = google
        .react(Reaction::google(401, "THIRD_PARTY_AUTH_ERROR"))
        .await;
    assert!(matches!(refused, Attempt::Refused(_)), "{refused:?}");
    let reset = google.react(Reaction::Reset).await;
    assert!(matches!(reset, Attempt::Failed { .. }), "{reset:?}");
    reason_of(reset);
    assert_eq!(google.service.token_fetches(), 1);
}

/// PUSH-1: an access token that is not taken is fetched anew once, and what comes then counts.
#[tokio::test]
async fn a_refused_access_token_is_fetched_anew_once() {
    let google = Google::new().await;
    let refuse = || Reaction::google(401, "UNAUTHENTICATED");
    assert_eq!(google.react(refuse()).await, Attempt::Delivered);
    assert_eq!(google.service.token_fetches(), 2);
    google.service.react([refuse(), refuse()]);
    let refused = reason_of(google.sender.send(online()).await);
    assert!(
        refused.contains("push.fcm.service_account_file"),
        "{refused}"
    );
    assert_eq!(google.service.token_fetches(), 3);
    let tokens: Vec<_> = google.service.taken();
    let last = tokens.last().unwrap().header("authorization");
    assert_eq!(last, "Bearer accesstoken-3");
}

/// OP-1: a dry run proves the credentials by a message that reaches nobody, or says what is wrong.
#[tokio::test]
async fn dry_runs_prove_the_credentials() {
    let apple = Apple::new().await;
    apple.service.react([
        Reaction::apple(400, "BadDeviceToken"),
        Reaction::apple(400, "TopicDisallowed"),
        Reaction::apple(403, "InvalidProviderToken"),
    ]);
    assert_eq!(apple.sender.check().await, Ok(()));
    let topic = apple.sender.check().await.unwrap_err();
    assert!(topic.contains("push.apns.topic"), "{topic}");
    let key = apple.sender.check().await.unwrap_err();
    assert!(key.contains("push.apns.key_file"), "{key}");

    let google = Google::new().await;
    let forbid = Reaction::google(403, "PERMISSION_DENIED");
    google
        .service
        .react([Reaction::google(400, "INVALID_ARGUMENT"), forbid]);
    assert_eq!(google.sender.check().await, Ok(()));
    let denied = google.sender.check().await.unwrap_err();
    assert!(denied.contains("push.fcm.service_account_file"), "{denied}");
    assert_eq!(google.service.taken()[0].body["validate_only"], true);
}
