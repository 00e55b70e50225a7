//! A server that takes no writes for a while, as a standby does, or one that an operator has stopped for
//! writers (REG-4, OP-5, PR-6).

use std::cell::Cell;

use relay_tests::blackbox::{Account, Backend, Database, Relay, Site};
use serde_json::json;

use super::row_becomes;

/// Turns the database read-only or writable, for connections that are there too.
fn set_read_only(database: &mut Database, read_only: bool) {
    let name = database
        .lines("SELECT current_database()::text AS line")
        .remove(0);
    database.execute("SET default_transaction_read_only = off");
    database.execute(&format!(
        "ALTER DATABASE \"{name}\" SET default_transaction_read_only = {read_only}"
    ));
    // Behind the change: connections that are made anew find it.
    database.execute(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    ));
}

async fn enrols(relay: &Relay, account: &Account) -> bool {
    let body = json!({ "deviceName": "n", "platform": "linux", "appVersion": "1" });
    let answer = relay.enrol_with(&account.new_desktop(), &body).await;
    match answer.status {
        201 => true,
        _ => {
            answer.assert_problem(503, "relayUnavailable");
            false
        }
    }
}

/// REG-4, PR-6: HTTP registrations are refused with 503, devices register and talk, the log says what to
/// look for, and afterwards, without a restart, the rows say what is true.
#[tokio::test]
async fn a_server_that_takes_no_writes() {
    let settings = [("presence.instance_renewal", "100ms")];
    let relay = Site::on(Backend::Postgres, &settings).start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut phone = relay.phone(&desktop.device).await;
    let late = account.new_desktop();
    relay.enrol(&late).await;
    for device in [&desktop.device, &phone.device] {
        row_becomes(&relay, device, "online").await;
    }
    let mut database = relay.site().database();
    set_read_only(&mut database, true);
    // Connections end a moment after they were told to: what is made until then counts.
    let made = Cell::new(3);
    relay
        .eventually("refusals", async || {
            for _ in 0..3 {
                if enrols(&relay, &account).await {
                    made.set(made.get() + 1);
                    return false;
                }
            }
            true
        })
        .await;
    let mut late = relay.connect(&late).await;
    phone.request("r", "m", json!(1)).await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!(2)).await;
    assert_eq!(phone.next_response().await["result"], 2);
    assert_eq!(relay.devices(&account, "").await.len(), made.get());
    let told = |line: &str| line.contains("a server that takes no writes").then_some(());
    relay.evidence().wait_for("what to look for", told).await;

    set_read_only(&mut database, false);
    relay
        .eventually("a registration", async || enrols(&relay, &account).await)
        .await;
    row_becomes(&relay, &late.device, "online").await;
    late.ping().await;
}
