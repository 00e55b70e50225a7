//! A database file that cannot grow, as on a full disk: what cannot be stored is refused, what was
//! acknowledged stays, and once there is room the relay goes on (REG-4, PR-6, OP-5).

use relay_tests::blackbox::{Account, Backend, HttpAnswer, Relay, Site};
use serde_json::{Value, json};

/// How far files may grow, in blocks of 512 bytes: some registrations fit, many do not.
const BLOCKS: u32 = 1_024;
/// Registrations that surely do not fit.
const TOO_MANY: usize = 64;
const SETTINGS: [(&str, &str); 2] = [
    ("presence.instance_renewal", "100ms"),
    ("presence.write_interval", "50ms"),
];

/// Registers a new desktop that takes room.
async fn enrol(relay: &Relay, account: &Account, number: usize) -> HttpAnswer {
    let body = json!({
        "deviceName": format!("desk {number}"),
        "platform": "linux",
        "appVersion": "1",
        "capabilities": "x".repeat(16 * 1024),
    });
    relay.enrol_with(&account.new_desktop(), &body).await
}

fn names(devices: &[Value]) -> Vec<&str> {
    devices
        .iter()
        .map(|device| device["deviceName"].as_str().expect("a name"))
        .collect()
}

/// REG-4, PR-6: refused with 503 and a reason, while devices register, talk and are listed; the log says
/// what to look for; nothing that was acknowledged is lost, nothing else is there.
#[tokio::test]
async fn a_file_that_cannot_grow() {
    let site = Site::on(Backend::Sqlite, &SETTINGS).with_file_blocks(BLOCKS);
    let relay = site.start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut phone = relay.phone(&desktop.device).await;
    let late = account.new_desktop();
    relay.enrol(&late).await;
    let mut acknowledged: Vec<String> = vec!["test".to_owned(); 3];
    let mut refusals = 0;
    for number in 0..TOO_MANY {
        let answer = enrol(&relay, &account, number).await;
        if answer.status == 201 {
            acknowledged.push(format!("desk {number}"));
        } else {
            answer.assert_problem(503, "relayUnavailable");
            assert!(answer.header("retry-after").is_some(), "{answer:?}");
            refusals += 1;
        }
    }
    assert!(refusals > 0 && acknowledged.len() > 3, "{refusals}");

    // What reads goes on.
    let mut late = relay.connect(&late).await;
    phone.request("r", "m", json!(1)).await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!(2)).await;
    assert_eq!(phone.next_response().await["result"], 2);
    assert_eq!(names(&relay.devices(&account, "").await), acknowledged);
    assert_eq!(relay.get("/healthz").await.status, 200);
    let told = |line: &str| line.contains("look for a full disk").then_some(());
    relay.evidence().wait_for("what to look for", told).await;

    relay.lift_file_limit().await;
    let recovered = async || enrol(&relay, &account, TOO_MANY).await.status == 201;
    relay.eventually("room", recovered).await;
    acknowledged.push(format!("desk {TOO_MANY}"));
    let online = "SELECT count(*) AS number FROM devices WHERE status = 'online'";
    let written = async || relay.site().database().number(online) == 3;
    relay.eventually("the presence that waited", written).await;
    late.ping().await;
    assert_eq!(names(&relay.devices(&account, "").await), acknowledged);
    let check = "SELECT integrity_check AS line FROM pragma_integrity_check";
    assert_eq!(relay.site().database().lines(check), ["ok"]);
}

/// DR-4: a relay that stops while nothing can be stored ends as usual.
#[tokio::test]
async fn a_stop_without_room() {
    let site = Site::on(Backend::Sqlite, &SETTINGS).with_file_blocks(BLOCKS);
    let mut relay = site.start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut number = 0;
    while enrol(&relay, &account, number).await.status == 201 {
        number += 1;
        assert!(number < TOO_MANY);
    }
    relay.signal("TERM").await;
    desktop.expect_close(1012).await;
    let status = relay.exit_status().await;
    assert_eq!(status.code(), Some(0), "{}", relay.evidence().tail());
}
