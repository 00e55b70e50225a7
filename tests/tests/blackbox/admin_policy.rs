//! What the operator admits (REG-9).

use relay_tests::blackbox::{Account, Relay};
use reqwest::Method;
use serde_json::{Value, json};

async fn set_floor(relay: &Relay, floor: u32) {
    let policy = json!({ "minProtocolVersion": floor });
    let answer = relay
        .operate(Method::PUT, "/admin/policy", Some(policy.clone()))
        .await;
    assert_eq!((answer.status, answer.body), (200, policy));
}

/// REG-9: a floor that is raised refuses the next registration, without a restart; who is connected
/// stays, and the policy outlives the relay.
#[tokio::test]
async fn a_raised_floor_refuses_the_next_registration() {
    let relay = Relay::start_operated(&[]).await;
    let account = Account::new();
    let mut connected = relay.desktop(&account).await;
    let newcomer = account.new_desktop();
    relay.enrol(&newcomer).await;
    set_floor(&relay, 2).await;

    let mut refused = relay.upgrade(&newcomer).await;
    refused.send_register(newcomer.registration()).await;
    refused.expect_error("protocolVersionUnsupported").await;
    refused.expect_close(1008).await;
    connected.ping().await;
    let version = relay.get("/api/version").await.body;
    assert_eq!(version["minProtocolVersion"], 2);

    let relay = relay.restart().await;
    let policy = relay.operate(Method::GET, "/admin/policy", None).await;
    assert_eq!(policy.body, json!({ "minProtocolVersion": 2 }));
    set_floor(&relay, 1).await;
    relay.connect(&newcomer).await;

    // Off: a version that is missing counts as 0.
    set_floor(&relay, 0).await;
    let mut payload = newcomer.registration();
    payload["relayProtocolVersion"] = Value::Null;
    let mut socket = relay.upgrade(&newcomer).await;
    socket.register_with(payload).await;
}

/// REG-9, HTTP-2: what is no policy is refused by name and changes nothing.
#[tokio::test]
async fn bad_policies_change_nothing() {
    let relay = Relay::start_operated(&[]).await;
    for (body, error) in [
        (json!({}), "invalidPayload"),
        (json!({ "minProtocolVersion": -1 }), "invalidPayload"),
        (json!({ "minProtocolVersion": "2" }), "invalidPayload"),
        (json!({ "minProtocolVersion": 1.5 }), "invalidPayload"),
        (
            json!({ "minProtocolVersion": 1_000_000_000 }),
            "invalidPayload",
        ),
        (json!([2]), "invalidPayload"),
    ] {
        let answer = relay
            .operate(Method::PUT, "/admin/policy", Some(body))
            .await;
        answer.assert_problem(400, error);
    }
    let large = json!({ "minProtocolVersion": 2, "padding": "x".repeat(256 * 1024) });
    let answer = relay
        .operate(Method::PUT, "/admin/policy", Some(large))
        .await;
    answer.assert_problem(413, "bodyTooLarge");
    let unsigned = relay
        .call(Method::PUT, "/admin/policy", &[], Some("{}".to_owned()))
        .await;
    unsigned.assert_problem(401, "authRequired");
    let policy = relay.operate(Method::GET, "/admin/policy", None).await;
    assert_eq!(policy.body, json!({ "minProtocolVersion": 1 }));
}
