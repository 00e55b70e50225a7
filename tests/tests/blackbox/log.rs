//! What an operator reads: one line for each connect, register, refuse and close (OP-5).

use relay_tests::blackbox::{Account, Relay};
use serde_json::{Value, json};

/// The lines with this message that are about `connection`, or about any.
fn lines(relay: &Relay, message: &str, connection: Option<&str>) -> Vec<Value> {
    let lines = relay.evidence().told(message);
    lines
        .into_iter()
        .filter(|line| connection.is_none_or(|id| line["connection"] == id))
        .collect()
}

/// The one line with this message, once it is there.
async fn the_line(relay: &Relay, message: &str, connection: Option<&str>) -> Value {
    relay
        .eventually(message, async || {
            !lines(relay, message, connection).is_empty()
        })
        .await;
    let mut found = lines(relay, message, connection);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// OP-5: a connection that comes, registers and goes leaves three lines that belong together.
#[tokio::test]
async fn a_connection_leaves_one_line_for_each_step() {
    let relay = Relay::start().await;
    let account = Account::new();
    let device = account.new_desktop();
    relay.enrol(&device).await;
    let desktop = relay.connect(&device).await;
    let connected = the_line(&relay, "connected", None).await;
    let connection = connected["connection"].as_str().expect("an id").to_owned();
    assert_eq!(connected["account"], json!(account.id));
    assert_eq!(connected["client_type"], "desktop");
    assert!(
        connected["peer"]
            .as_str()
            .expect("a peer")
            .starts_with("127.0.0.1:")
    );

    let registered = the_line(&relay, "registered", Some(&connection)).await;
    assert_eq!(registered["device"], json!(device.id));
    assert_eq!(registered["generation"], 1);

    desktop.close().await;
    let closed = the_line(&relay, "closed", Some(&connection)).await;
    for (field, value) in [
        ("account", json!(account.id)),
        ("device", json!(device.id)),
        ("generation", json!(1)),
        ("side", json!("peer")),
        ("reason", json!("client_closed")),
    ] {
        assert_eq!(closed[field], value, "{field}");
    }
}

/// OP-5: a refused registration says which device and why, its close which side and why.
#[tokio::test]
async fn a_refusal_leaves_its_reason() {
    let relay = Relay::start().await;
    let device = Account::new().new_desktop();
    let mut stranger = relay.upgrade(&device).await;
    stranger.send_register(device.registration()).await;
    stranger.expect_error("deviceNotRegistered").await;
    let refused = the_line(&relay, "registration refused", None).await;
    assert_eq!(refused["device"], json!(device.id));
    assert_eq!(refused["code"], "deviceNotRegistered");
    let closed = the_line(&relay, "closed", None).await;
    assert_eq!(
        (&closed["side"], &closed["reason"], &closed["close_code"]),
        (&json!("relay"), &json!("refused"), &json!(1008))
    );
}

/// OP-5: an upgrade that is refused leaves a line with its status; a flood of them leaves ten.
#[tokio::test]
async fn refused_upgrades_do_not_flood_the_log() {
    let relay = Relay::start().await;
    for _ in 0..30 {
        let head = relay.tcp().await.ask_for_upgrade(&[]).await;
        assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
    }
    let refusals = lines(&relay, "upgrade refused", None);
    assert_eq!(refusals.len(), 10);
    assert_eq!(refusals[0]["status"], 401);
}
