//! What the relay says that it holds, after things that are known to have happened (OP-9).

use relay_tests::blackbox::{Account, Relay};
use serde_json::{Value, json};

async fn until(relay: &Relay, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    relay
        .eventually(what, async || holds(&relay.state().await))
        .await;
    relay.state().await
}

fn count<'s>(state: &'s Value, list: &str, key: &str, word: &str) -> &'s Value {
    let counts = state[list].as_array().expect("a list");
    let found = counts.iter().find(|count| count[key] == word);
    found.map_or(&Value::Null, |count| &count["count"])
}

/// OP-9: accounts, routes by type, pairs, requests, leases, graces, sessions, and the reasons of closes
/// and refusals are those that there are.
#[tokio::test]
async fn the_numbers_are_true() {
    let relay = Relay::start_operated(&[]).await;
    let version = relay.get("/api/version").await.body;
    let empty = relay.state().await;
    assert_eq!(empty["relayInstanceId"], version["relayInstanceId"]);
    for zero in [
        "accounts",
        "sockets",
        "graces",
        "pairs",
        "silentPairs",
        "pendingRequests",
        "leases",
        "sessions",
        "keySockets",
        "rememberedDevices",
        "outboundBytes",
        "unfinishedBytes",
    ] {
        assert_eq!(empty[zero], 0, "{zero}");
    }
    assert_eq!(empty["routes"], json!({ "desktops": 0, "phones": 0 }));
    assert_eq!(
        (&empty["closes"], &empty["refusals"]),
        (&json!([]), &json!([]))
    );

    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut phone = relay.phone(&desktop.device).await;
    let second = relay.phone(&desktop.device).await;
    relay.desktop(&Account::new()).await.vanish();
    for id in ["a", "b"] {
        phone.request(id, "m", json!({})).await;
        desktop.next_request().await;
    }
    phone.look_at("s").await;
    desktop.next_lease_state().await;
    let stranger = account.new_desktop();
    let mut refused = relay.upgrade(&stranger).await;
    refused.send_register(stranger.registration()).await;
    refused.expect_error("deviceNotRegistered").await;
    refused.expect_close(1008).await;

    let state = until(&relay, "the end of two sockets", |state| {
        state["sockets"] == 3 && state["graces"] == 1
    })
    .await;
    assert_eq!(state["accounts"], 2);
    assert_eq!(state["routes"], json!({ "desktops": 1, "phones": 2 }));
    assert_eq!(state["pairs"], 2);
    assert_eq!(state["silentPairs"], 0);
    assert_eq!(state["pendingRequests"], 2);
    assert_eq!(state["leases"], 1);
    assert_eq!(state["sessions"], 4);
    assert_eq!(state["rememberedDevices"], 2);
    assert_eq!(count(&state, "refusals", "code", "deviceNotRegistered"), 1);
    assert_eq!(count(&state, "closes", "reason", "refused"), 1);

    second.close().await;
    let state = until(&relay, "one phone less", |state| state["sockets"] == 2).await;
    assert_eq!(count(&state, "closes", "reason", "client_closed"), 1);
    assert_eq!(state["routes"], json!({ "desktops": 1, "phones": 1 }));
}

/// OP-9: the account shows who waits for what: requests and leases at both ends, and what the sockets
/// hold.
#[tokio::test]
async fn an_account_shows_what_is_under_way() {
    let relay = Relay::start_operated(&[("limits.ping_interval", "50ms")]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let idle = relay.phone(&desktop.device).await;
    for id in ["a", "b", "c"] {
        phone.request(id, "m", json!({})).await;
        desktop.next_request().await;
    }
    phone.look_at("session").await;
    desktop.next_lease_state().await;

    let view = relay.view(&desktop.device).await.unwrap();
    assert_eq!(view["status"], "online");
    assert_eq!(view.get("explanation"), None);
    assert_eq!(view["pendingRequests"], 3);
    assert_eq!(view["registration"]["deviceType"], "desktop");
    assert_eq!(view["silent"], false);
    let lease = &view["leases"][0];
    assert_eq!(lease["session"], "session");
    assert_eq!(lease["phoneDeviceId"], json!(phone.device.id));
    assert_eq!(lease["desktopDeviceId"], json!(desktop.device.id));
    assert!(lease["endsInMs"].as_u64() <= Some(60_000), "{lease}");
    assert_eq!(view["leases"].as_array().map(Vec::len), Some(1));
    let state = &view["connection"]["state"];
    assert_eq!(
        state["peer"],
        json!(format!("127.0.0.1:{}", desktop.port()))
    );
    assert_eq!(state["stalled"], false);

    let phones = relay.view(&phone.device).await.unwrap();
    assert_eq!(phones["pendingRequests"], 3);
    assert_eq!(phones["leases"][0]["session"], "session");
    let target = &phones["connection"]["targetDesktopDeviceId"];
    assert_eq!(*target, json!(desktop.device.id));
    let idle = relay.view(&idle.device).await.unwrap();
    assert_eq!(
        (&idle["pendingRequests"], &idle["leases"]),
        (&json!(0), &json!([]))
    );

    // The desktop answers pings while it reads.
    while relay.view(&desktop.device).await.unwrap()["connection"]["state"]
        .get("roundTripMs")
        .is_none()
    {
        desktop.ping().await;
    }
}
