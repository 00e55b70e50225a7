//! A relay that is killed under load, or ended by a second signal: what it acknowledged is in the database,
//! what it did not is there as a whole or not at all (section 11, PR-4, DR-4).

use std::cell::RefCell;
use std::collections::BTreeMap;

use relay_tests::blackbox::{Account, Backend, ClientType, Device, Relay, Site};
use reqwest::Method;
use serde_json::json;

/// Users that make calls at the same time.
const USERS: usize = 16;
/// Acknowledged calls after which the relay is killed.
const ACKNOWLEDGED: usize = 300;
/// How many calls a user makes at most, so that a relay that cannot be killed ends the test.
const CALLS: usize = 10_000;

/// One call of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Registers the device over HTTP, with a name that says how often.
    Enrol(usize),
    /// Sets a phone's push token.
    SetToken(usize),
    Forget,
    Rejoin(usize),
}

/// What a user knows of one device.
#[derive(Debug, Clone)]
struct Known {
    device: Device,
    /// The steps that were acknowledged.
    done: Vec<Step>,
    /// The step whose answer never came.
    begun: Option<Step>,
}

/// A user and what the relay told it.
struct User {
    account: Account,
    devices: RefCell<BTreeMap<String, Known>>,
}

impl User {
    fn new() -> Self {
        Self {
            account: Account::new(),
            devices: RefCell::default(),
        }
    }

    /// Makes calls until the relay is gone. Each third device is forgotten, and each sixth comes back.
    async fn live(&self, relay: &Relay, acknowledged: &RefCell<usize>) {
        let mut calls = 0;
        while calls < CALLS {
            let number = calls;
            let device = if number % 2 == 0 {
                self.account.new_desktop()
            } else {
                self.account.new_phone()
            };
            let mut steps = vec![Step::Enrol(number), Step::Enrol(number + 1)];
            if device.client_type == ClientType::Mobile {
                steps.push(Step::SetToken(number));
            }
            if number % 3 == 0 {
                steps.push(Step::Forget);
            }
            if number % 6 == 0 {
                steps.push(Step::Rejoin(number + 2));
            }
            for step in steps {
                calls += 1;
                self.note(&device, |known| known.begun = Some(step));
                if !take(relay, &device, step).await {
                    return;
                }
                self.note(&device, |known| {
                    known.begun = None;
                    known.done.push(step);
                });
                *acknowledged.borrow_mut() += 1;
            }
        }
    }

    fn note(&self, device: &Device, change: impl FnOnce(&mut Known)) {
        let mut devices = self.devices.borrow_mut();
        let known = devices.entry(device.id.clone()).or_insert_with(|| Known {
            device: device.clone(),
            done: Vec::new(),
            begun: None,
        });
        change(known);
    }

    /// What is listed after the crash is what was told, give or take the one call that was under way.
    async fn check(&self, relay: &Relay) {
        let listed = relay.devices(&self.account, "").await;
        let name_of = |id: &str| -> Option<String> {
            let row = listed.iter().find(|row| row["deviceId"] == id)?;
            row["deviceName"].as_str().map(str::to_owned)
        };
        let devices = self.devices.borrow();
        let mut database = relay.site().database();
        for known in devices.values() {
            let is = name_of(&known.device.id);
            let token = database.lines(&format!(
                "SELECT token AS line FROM push_tokens WHERE device = {}",
                database.id(&known.device.id)
            ));
            let is = (is, token.into_iter().next());
            let mut with_begun = known.done.clone();
            with_begun.extend(known.begun);
            let allowed = [&known.done, &with_begun].map(|steps| left_by(&known.device, steps));
            assert!(
                allowed.contains(&is),
                "{known:?} is listed as, with its token, {is:?}{}",
                relay.evidence().tail()
            );
        }
        assert!(listed.len() <= devices.len());
        let begun = devices.values().filter(|known| known.begun.is_some());
        assert!(begun.count() <= 1);
    }
}

/// The name under which a device is listed after these steps, if it is, and its push token.
fn left_by(device: &Device, steps: &[Step]) -> (Option<String>, Option<String>) {
    let mut left = (None, None);
    for step in steps {
        match step {
            Step::Enrol(number) | Step::Rejoin(number) => left.0 = Some(name(*number)),
            Step::SetToken(number) => left.1 = Some(token(device, *number)),
            Step::Forget => left = (None, None),
        }
    }
    left
}

fn token(device: &Device, number: usize) -> String {
    format!("pushtoken-{number}-{}", device.id)
}

fn name(number: usize) -> String {
    format!("device {number}")
}

/// Takes a step; false if the relay is gone before it answers.
async fn take(relay: &Relay, device: &Device, step: Step) -> bool {
    let authorization = format!("Bearer {}", device.account.token);
    let (path, platform) = match device.client_type {
        ClientType::Desktop => ("/api/devices/register", "linux"),
        ClientType::Mobile => ("/api/devices/mobile/register", "ios"),
    };
    let body = |number: usize, rejoin: bool| {
        let body = json!({
            "deviceName": name(number), "platform": platform, "appVersion": "1", "rejoin": rejoin,
        });
        Some(body.to_string())
    };
    let headers = [
        ("Authorization", authorization.as_str()),
        ("X-Device-ID", &device.id),
        ("X-Client-Type", device.client_type.header()),
    ];
    let forget = format!("/api/devices/{}", device.id);
    let (method, path, body, good) = match step {
        Step::Enrol(number) => (Method::POST, path, body(number, false), 201),
        Step::Rejoin(number) => (Method::POST, path, body(number, true), 201),
        Step::SetToken(number) => {
            let body = json!({ "platform": "ios", "token": token(device, number) });
            let path = "/api/devices/push-token";
            (Method::PUT, path, Some(body.to_string()), 200)
        }
        Step::Forget => (Method::DELETE, forget.as_str(), None, 204),
    };
    match relay
        .try_call(relay.address(), method, path, &headers, body)
        .await
    {
        Ok(answer) => {
            assert_eq!(answer.status, good, "{step:?}: {answer:?}");
            true
        }
        Err(_) => false,
    }
}

/// How a relay is ended.
#[derive(Debug, Clone, Copy)]
enum End {
    Killed,
    /// Two signals that end it at once.
    Hurried,
}

impl End {
    async fn bring(self, relay: &Relay) {
        match self {
            Self::Killed => relay.signal("KILL").await,
            Self::Hurried => {
                // What is open holds the drain until the second signal.
                let mut desktop = relay.desktop(&Account::new()).await;
                let mut phone = relay.phone(&desktop.device).await;
                phone.request("open", "m", json!(1)).await;
                desktop.next_request().await;
                relay.signal("TERM").await;
                let drains = async || relay.get("/readyz").await.status == 503;
                relay.eventually("the drain begins", drains).await;
                relay.hurry("TERM").await;
            }
        }
    }
}

/// Ends a relay under load and looks at what its successor finds.
async fn nothing_is_lost(backend: Backend, end: End) {
    let mut relay = Site::on(backend, &[]).start().await;
    let users: Vec<User> = (0..USERS).map(|_| User::new()).collect();
    let acknowledged = RefCell::new(0);
    let load =
        futures_util::future::join_all(users.iter().map(|user| user.live(&relay, &acknowledged)));
    let killer = async {
        let enough = async || *acknowledged.borrow() >= ACKNOWLEDGED;
        relay.eventually("enough calls", enough).await;
        end.bring(&relay).await;
    };
    tokio::join!(load, killer);
    let begun = users.iter().flat_map(|user| {
        let devices = user.devices.borrow();
        devices
            .values()
            .filter_map(|known| known.begun)
            .collect::<Vec<_>>()
    });
    assert!(begun.count() > 0, "it ended in the middle of something");

    relay.exit_status().await;
    let relay = relay.site().start().await;
    for user in &users {
        user.check(&relay).await;
    }
    let half = "SELECT count(*) AS number FROM devices
         WHERE forgotten_at IS NOT NULL AND (status <> 'offline' OR offline_reason <> 'unlinked')";
    assert_eq!(relay.site().database().number(half), 0);
    let stray = "SELECT count(*) AS number FROM push_tokens, devices
         WHERE device = id AND forgotten_at IS NOT NULL";
    assert_eq!(relay.site().database().number(stray), 0);
    if backend == Backend::Sqlite {
        let check = "SELECT integrity_check AS line FROM pragma_integrity_check";
        assert_eq!(relay.site().database().lines(check), ["ok"]);
    }
}

/// A file: each acknowledged registration, forget and rejoin of many users at once outlives `kill -9`.
#[tokio::test]
async fn nothing_acknowledged_is_lost_on_sqlite() {
    nothing_is_lost(Backend::Sqlite, End::Killed).await;
}

/// A server: as with a file.
#[tokio::test]
async fn nothing_acknowledged_is_lost_on_postgres() {
    nothing_is_lost(Backend::Postgres, End::Killed).await;
}

/// DR-4: nor is anything lost or half written when a second signal ends the relay at once.
#[tokio::test]
async fn nothing_acknowledged_is_lost_in_a_hurry() {
    nothing_is_lost(Backend::of_this_run(), End::Hurried).await;
}
