//! Pushes of the built binary, to servers that play Apple and Google (section 12).

mod senders;
mod service;

use relay_tests::blackbox::{Account, Device, Relay, Site};
use reqwest::Method;
use serde_json::{Value, json};

use service::{Reaction, Service, signing_key};

/// Both services and a relay that pushes through them.
struct Stage {
    apple: Service,
    google: Service,
    relay: Relay,
    secrets: Vec<String>,
}

impl Stage {
    async fn new(settings: &[(&str, &str)]) -> Self {
        let (apple, google) = (Service::apple().await, Service::google().await);
        let site = Site::new(settings);
        let key = signing_key().serialize_pem();
        let account = google.service_account();
        for (name, text) in [
            ("apns.p8", &key),
            ("ca.pem", &apple.authority),
            ("fcm.json", &account),
        ] {
            std::fs::write(site.path(name), text).unwrap();
        }
        let apple_url = apple.url();
        let sandbox_url = format!("{apple_url}/sandbox");
        let site = site.with(&[
            ("push.apns.key_file", "apns.p8"),
            ("push.apns.key_id", "KEY1234567"),
            ("push.apns.team_id", "TEAM123456"),
            ("push.apns.topic", "app.example"),
            ("push.apns.endpoint", &apple_url),
            ("push.apns.sandbox_endpoint", &sandbox_url),
            ("push.apns.ca_file", "ca.pem"),
            ("push.fcm.service_account_file", "fcm.json"),
            ("push.fcm.endpoint", &google.url()),
            ("push.backoff", "20ms"),
            ("push.backoff_ceiling", "100ms"),
            ("telemetry.log_level", "debug"),
        ]);
        let line = |text: &str| text.lines().nth(1).unwrap_or_default().to_owned();
        let secrets = vec![
            "pushtoken".to_owned(),
            "accesstoken".to_owned(),
            "bearer ey".to_owned(),
            "Title of nobody".to_owned(),
            line(&key),
        ];
        let relay = site.start().await;
        Self {
            apple,
            google,
            relay,
            secrets,
        }
    }

    /// A phone that is not connected and has a token.
    async fn phone(&self, account: &Account, platform: &str, token: &str) -> Device {
        let phone = account.new_phone();
        let body = json!({
            "deviceName": "p", "platform": platform, "appVersion": "1", "pushToken": token,
        });
        let answer = self.relay.enrol_with(&phone, &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        phone
    }

    fn assert_secrets_kept(&self) {
        let secrets: Vec<&str> = self.secrets.iter().map(String::as_str).collect();
        self.relay.evidence().assert_hidden(&secrets);
    }

    /// The tokens that are kept, with what became of the last push to each.
    fn rows(&self) -> Vec<String> {
        let query = "SELECT token || ' ' || coalesce(last_outcome, '-') AS line \
             FROM push_tokens ORDER BY token";
        self.relay.site().database().lines(query)
    }

    async fn until_rows(&self, expected: &[&str]) {
        let as_expected = async || self.rows() == expected;
        let what = format!("{expected:?}");
        self.relay.eventually(&what, as_expected).await;
    }
}

fn notification(title: &str) -> Value {
    json!({
        "type": "event",
        "payload": {
            "eventType": "agent-notification-requested",
            "payload": {"sessionId": "s-1", "title": title, "body": "Body"},
        },
    })
}

/// REG-8, PUSH-2, PUSH-3, PUSH-5: a desktop that registers wakes the account's phones, its agent's
/// notification reaches them, and the log tells nothing of either.
#[tokio::test]
async fn phones_are_woken_and_alerted() {
    let stage = Stage::new(&[]).await;
    let account = Account::new();
    stage.phone(&account, "ios", "pushtoken-i").await;
    stage.phone(&account, "android", "pushtoken-a").await;
    stage.phone(&Account::new(), "ios", "pushtoken-other").await;
    let mut desktop = stage.relay.desktop(&account).await;
    let version = stage.relay.get("/api/version").await.body;

    let (apple, google) = (stage.apple.next(1).await, stage.google.next(1).await);
    let mut woken = apple[0].body.clone();
    assert_eq!(apple[0].path, "/3/device/pushtoken-i");
    assert_eq!(woken["type"], "desktop_online");
    assert_eq!(woken["desktopDeviceId"], desktop.device.id);
    assert_eq!(woken["relayInstanceId"], version["relayInstanceId"]);
    let generation = woken["connectionGeneration"].take().as_u64().unwrap();
    let message = &google[0].body["message"];
    assert_eq!(message["token"], "pushtoken-a");
    assert_eq!(
        message["data"]["connectionGeneration"],
        generation.to_string()
    );

    desktop.send(&notification("Title of nobody")).await;
    let (apple, google) = (stage.apple.next(2).await, stage.google.next(2).await);
    let alert = json!({"title": "Title of nobody", "body": "Body"});
    assert_eq!(apple[1].body["aps"]["alert"], alert);
    assert_eq!(apple[1].body["sessionId"], "s-1");
    assert_eq!(google[1].body["message"]["notification"], alert);
    assert_eq!(
        google[1].body["message"]["data"],
        json!({"sessionId": "s-1"})
    );
    let delivered = [
        "pushtoken-a delivered",
        "pushtoken-i delivered",
        "pushtoken-other -",
    ];
    stage.until_rows(&delivered).await;
    stage.assert_secrets_kept();
}

/// PUSH-2: a desktop that comes and goes wakes its phones once at once and once for all the rest.
#[tokio::test]
async fn a_flapping_desktop_wakes_phones_once_in_a_pause() {
    let stage = Stage::new(&[("push.desktop_online_pause", "2s")]).await;
    let account = Account::new();
    stage.phone(&account, "ios", "pushtoken-i").await;
    let mut desktop = stage.relay.desktop(&account).await;
    for _ in 0..3 {
        let device = desktop.device.clone();
        desktop = stage.relay.connect(&device).await;
    }
    let taken = stage.apple.next(2).await;
    let generation = |push: &service::Taken| push.body["connectionGeneration"].as_u64().unwrap();
    assert_eq!(generation(&taken[1]), generation(&taken[0]) + 3);
    // What a phone is told next comes behind what would have been told of the others.
    desktop.send(&notification("Title of nobody")).await;
    let taken = stage.apple.next(3).await;
    assert_eq!(taken[2].header("apns-push-type"), "alert");
}

/// PUSH-4: tokens that are gone leave the database; those of which the services say something else, or
/// something of the time before they were registered, stay.
#[tokio::test]
async fn tokens_that_are_gone_leave_the_database() {
    let stage = Stage::new(&[]).await;
    let gone = |millis: i64| {
        let body = json!({"reason": "Unregistered", "timestamp": millis});
        Reaction::Answer(410, Vec::new(), body)
    };
    for (number, apple, google, left) in [
        // 2001, and 2096: before and after the tokens were registered.
        (
            1,
            gone(1_000_000_000_000),
            Reaction::google(400, "INVALID_ARGUMENT"),
            2,
        ),
        (
            2,
            gone(4_000_000_000_000),
            Reaction::google(404, "UNREGISTERED"),
            0,
        ),
        (
            3,
            Reaction::apple(400, "BadDeviceToken"),
            Reaction::google(404, "UNREGISTERED"),
            0,
        ),
    ] {
        let account = Account::new();
        stage.phone(&account, "ios", "pushtoken-i").await;
        stage.phone(&account, "android", "pushtoken-a").await;
        stage.apple.react([apple]);
        stage.google.react([google]);
        let _desktop = stage.relay.desktop(&account).await;
        stage.apple.next(number).await;
        stage.google.next(number).await;
        let expected: &[&str] = match left {
            2 => &["pushtoken-a rejected", "pushtoken-i token_gone"],
            _ => &[],
        };
        stage.until_rows(expected).await;
    }
    stage.assert_secrets_kept();
}

/// PUSH-4: a busy, a broken, a vanishing and a silent service get the push again.
#[tokio::test]
async fn pushes_that_failed_come_again() {
    let stage = Stage::new(&[("push.timeout", "300ms")]).await;
    let account = Account::new();
    stage.phone(&account, "ios", "pushtoken-i").await;
    stage.phone(&account, "android", "pushtoken-a").await;
    stage.apple.react([
        Reaction::apple(429, "TooManyRequests").with("retry-after", 1),
        Reaction::apple(500, "InternalServerError"),
        Reaction::Reset,
        Reaction::Hang,
    ]);
    stage.google.react([
        Reaction::google(429, "QUOTA_EXCEEDED").with("retry-after", 1),
        Reaction::google(500, "INTERNAL"),
        Reaction::Reset,
        Reaction::Hang,
    ]);
    let _desktop = stage.relay.desktop(&account).await;
    stage.apple.next(5).await;
    stage.google.next(5).await;
    stage
        .until_rows(&["pushtoken-a delivered", "pushtoken-i delivered"])
        .await;
    stage.assert_secrets_kept();
}

/// PUSH-1: credentials that a service refuses are told to the log once, and fail nothing else.
#[tokio::test]
async fn refused_credentials_are_logged_once() {
    let stage = Stage::new(&[]).await;
    let account = Account::new();
    stage.phone(&account, "ios", "pushtoken-i").await;
    stage
        .apple
        .react((0..9).map(|_| Reaction::apple(403, "InvalidProviderToken")));
    let mut desktop = stage.relay.desktop(&account).await;
    for title in ["One", "Two", "Three"] {
        desktop.send(&notification(title)).await;
    }
    stage.apple.next(4).await;
    stage.until_rows(&["pushtoken-i refused"]).await;
    assert_eq!(stage.relay.get("/readyz").await.status, 200);
    let evidence = stage.relay.evidence();
    let is_refusal = |line: &str| line.contains("the push service refuses");
    let logged = evidence
        .wait_for("the refusal", |line| {
            is_refusal(line).then(|| line.to_owned())
        })
        .await;
    assert!(logged.contains("push.apns.key_file"), "{logged}");
    // What a stop logs comes behind all that came before.
    stage.relay.signal("TERM").await;
    let stopped = |line: &str| line.contains("\"stopped\"").then_some(());
    evidence.wait_for("the stop", stopped).await;
    let lines = evidence.lines();
    let refusals = lines.iter().filter(|line| is_refusal(line)).count();
    assert_eq!(refusals, 1, "{lines:?}");
    stage.assert_secrets_kept();
}

/// OP-1, PUSH-5: a key file that cannot be used ends the start with 64 and names the key and its
/// origin, and nothing of the file.
#[tokio::test]
async fn unusable_key_files_are_named_at_the_start() {
    let site = Site::new(&[]);
    let good = signing_key().serialize_pem();
    std::fs::write(site.path("good.p8"), good).unwrap();
    std::fs::write(site.path("bad.txt"), "this is nokey at all").unwrap();
    let apns = [
        ("push.apns.key_id", "K"),
        ("push.apns.team_id", "T"),
        ("push.apns.topic", "t"),
    ];
    for (settings, key) in [
        (
            vec![("push.apns.key_file", "missing.p8")],
            "push.apns.key_file",
        ),
        (
            vec![("push.apns.key_file", "bad.txt")],
            "push.apns.key_file",
        ),
        (
            vec![
                ("push.apns.key_file", "good.p8"),
                ("push.apns.ca_file", "bad.txt"),
            ],
            "push.apns.ca_file",
        ),
        (
            vec![("push.fcm.service_account_file", "bad.txt")],
            "push.fcm.service_account_file",
        ),
    ] {
        let site = if key.starts_with("push.apns") {
            site.with(&apns)
        } else {
            site.clone()
        };
        let output = site.with(&settings).serve().output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        let variable = format!("RELAY__{}", key.to_uppercase().replace('.', "__"));
        assert!(said.contains(key) && said.contains(&variable), "{said}");
        assert!(!said.contains("nokey"), "{said}");
    }
}

/// PUSH-1: without services a relay says once that push is off, and takes tokens all the same.
#[tokio::test]
async fn without_services_push_is_off() {
    let relay = Relay::start().await;
    let phone = Account::new().new_phone();
    relay.enrol(&phone).await;
    let authorization = format!("Bearer {}", phone.account.token);
    let headers = [
        ("Authorization", authorization.as_str()),
        ("X-Device-ID", &phone.id),
    ];
    let body = json!({"platform": "android", "token": "pushtoken"}).to_string();
    let path = "/api/devices/push-token";
    let set = relay.call(Method::PUT, path, &headers, Some(body)).await;
    assert_eq!(set.status, 200);
    let lines = relay.evidence().lines();
    for service in ["push to iOS is off", "push to Android is off"] {
        let said = lines.iter().filter(|line| line.contains(service)).count();
        assert_eq!(said, 1, "{service}");
    }
}
