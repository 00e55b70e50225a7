//! A database file that another process keeps locked for a while: reads go on, writes wait or are
//! refused in time, and nothing that the relay knows is lost (REG-4, PR-6).

use relay_tests::blackbox::{Account, Backend, Database, Device, Relay, Site};
use reqwest::Method;
use serde_json::json;

/// Keeps everybody from writing until it is released.
struct Lock(Database);

impl Lock {
    fn take(relay: &Relay) -> Self {
        let mut database = relay.site().database();
        database.execute("BEGIN EXCLUSIVE");
        Self(database)
    }

    fn release(mut self) {
        self.0.execute("COMMIT");
    }
}

async fn relay(timeout: &str) -> Relay {
    let settings = [
        ("database.timeout", timeout),
        ("presence.heartbeat_interval", "50ms"),
    ];
    Site::on(Backend::Sqlite, &settings).start().await
}

/// REG-4, PR-6: locked for longer than the timeout: devices register and talk, HTTP registrations are
/// refused with 503, and once it is free the rows say what is true, without a restart.
#[tokio::test]
async fn locked_for_longer_than_the_timeout() {
    let relay = relay("200ms").await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut phone = relay.phone(&desktop.device).await;
    let leaving = relay.desktop(&account).await;
    let left = leaving.device.clone();
    let late = account.new_desktop();
    relay.enrol(&late).await;
    for device in [&desktop.device, &phone.device, &left] {
        row_becomes(&relay, device, "online").await;
    }
    let stranger = account.new_desktop();
    let lock = Lock::take(&relay);
    for _ in 0..3 {
        let body = json!({ "deviceName": "n", "platform": "linux", "appVersion": "1" });
        let refused = relay.enrol_with(&stranger, &body).await;
        refused.assert_problem(503, "relayUnavailable");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
    }
    let mut late = relay.connect(&late).await;
    leaving.close().await;
    desktop
        .send(&json!({ "type": "heartbeat", "payload": {} }))
        .await;
    desktop.take_kind("pong").await;
    phone.request("r", "m", json!(1)).await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!(2)).await;
    assert_eq!(phone.next_response().await["result"], 2);
    assert_eq!(relay.get("/healthz").await.status, 200);
    let retried = |line: &str| {
        line.contains("presence waits for the database")
            .then_some(())
    };
    relay.evidence().wait_for("a retry", retried).await;
    lock.release();

    relay.enrol(&stranger).await;
    row_becomes(&relay, &late.device, "online").await;
    row_becomes(&relay, &left, "reconnecting").await;
    row_becomes(&relay, &desktop.device, "online").await;
    late.ping().await;
}

/// REG-4: locked for less than the timeout: whoever writes waits, and is served.
#[tokio::test]
async fn locked_for_less_than_the_timeout() {
    let relay = relay("20s").await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let lock = Lock::take(&relay);
    let newcomers: Vec<_> = (0..20).map(|_| Account::new().new_desktop()).collect();
    let enrolments = async {
        let all = newcomers.iter().map(|device| relay.enrol(device));
        futures_util::future::join_all(all).await;
    };
    let meanwhile = async {
        for number in 0..200 {
            phone.request(&format!("r{number}"), "m", json!(1)).await;
            let request = desktop.next_request().await;
            desktop.answer(&request, json!(2)).await;
            phone.next_response().await;
        }
        // A read that is asked behind the writes is not held by them.
        relay.devices(&desktop.device.account, "").await;
        let answer = relay.call(Method::GET, "/readyz", &[], None).await;
        assert_eq!(answer.status, 200);
        lock.release();
    };
    tokio::join!(enrolments, meanwhile);
    for device in &newcomers {
        relay.connect(device).await.ping().await;
    }
}

/// Waits until the row of `device` has this status.
async fn row_becomes(relay: &Relay, device: &Device, status: &str) {
    let what = format!("{status} in the row of {}", device.id);
    let stored = async || relay.site().database().status(device) == status;
    relay.eventually(&what, stored).await;
}
