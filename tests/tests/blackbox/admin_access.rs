//! Who reaches the admin API, and where (section 11, OP-3).

use std::net::SocketAddr;

use relay_tests::blackbox::{Account, HttpAnswer, OPERATOR_TOKEN, Relay, Site, fresh_id};
use reqwest::Method;

const PATHS: &[&str] = &["/admin/state", "/admin/policy", "/admin/openapi.json"];

async fn get(relay: &Relay, address: SocketAddr, path: &str, headers: &[&str]) -> HttpAnswer {
    let headers: Vec<_> = headers
        .iter()
        .map(|value| ("Authorization", *value))
        .collect();
    relay
        .call_at(address, Method::GET, path, &headers, None)
        .await
}

/// Section 11: only the operator token opens the admin API; a wrong, longer, shorter or empty one and
/// the credentials of users do not, and none of them stands in the log.
#[tokio::test]
async fn only_the_operator_token_opens_it() {
    let relay = Relay::start_operated(&[]).await;
    let account = Account::new();
    let user = format!("Bearer {}", account.token);
    let right = format!("Bearer {OPERATOR_TOKEN}");
    let longer = format!("{right}x");
    let shorter = &right[..right.len() - 1];
    let wrong = "Bearer some-other-token-that-nobody-has-set";
    for path in PATHS {
        let answer = get(&relay, relay.address(), path, &[&right]).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        for headers in [
            &[][..],
            &[""],
            &["Bearer "],
            &[OPERATOR_TOKEN],
            &[wrong],
            &[&longer],
            &[shorter],
            &[&user],
            &[&right, &right],
        ] {
            let answer = get(&relay, relay.address(), path, headers).await;
            answer.assert_problem(401, "authRequired");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            assert!(!answer.body.to_string().contains(OPERATOR_TOKEN));
        }
    }
    let refused = "a call of the admin API was refused";
    relay
        .evidence()
        .wait_for("a refusal", |line| line.contains(refused).then_some(()))
        .await;
    relay
        .evidence()
        .assert_hidden(&[OPERATOR_TOKEN, wrong.trim_start_matches("Bearer ")]);
}

/// Section 11: without an operator token there is no admin API, whatever is shown.
#[tokio::test]
async fn it_is_off_unless_a_token_is_configured() {
    let relay = Relay::start().await;
    for path in PATHS {
        for headers in [
            &[][..],
            &["Bearer "],
            &["Bearer some-token-that-is-long-enough-to-be-one"],
        ] {
            let answer = get(&relay, relay.address(), path, headers).await;
            answer.assert_problem(404, "notFound");
        }
    }
}

/// OP-3: with `server.admin_listen` operators have an address of their own, where devices have no
/// business; the health calls are on both.
#[tokio::test]
async fn operators_may_have_an_address_of_their_own() {
    let relay = Relay::start_operated(&[("server.admin_listen", "127.0.0.1:0")]).await;
    let (devices, operators) = (relay.address(), relay.admin_address());
    assert_ne!(devices, operators);
    let right = format!("Bearer {OPERATOR_TOKEN}");
    for path in PATHS {
        let answer = get(&relay, operators, path, &[&right]).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        get(&relay, operators, path, &[])
            .await
            .assert_problem(401, "authRequired");
        get(&relay, devices, path, &[&right])
            .await
            .assert_problem(404, "notFound");
    }
    for address in [devices, operators] {
        for path in ["/healthz", "/readyz"] {
            assert_eq!(get(&relay, address, path, &[]).await.status, 200);
        }
    }
    let account = Account::new();
    let user = format!("Bearer {}", account.token);
    assert_eq!(
        get(&relay, devices, "/api/devices", &[&user]).await.status,
        200
    );
    // Nothing of the devices is there: not even the methods of their paths are told.
    let device = format!("/api/devices/{}", fresh_id());
    for (method, path) in [
        (Method::GET, device.as_str()),
        (Method::POST, "/ws/device-link"),
        (Method::GET, "/console"),
    ] {
        relay
            .call_at(operators, method, path, &[("Authorization", &user)], None)
            .await
            .assert_problem(404, "notFound");
    }
    relay.desktop(&account).await;

    let policy = serde_json::json!({ "minProtocolVersion": 0 });
    let set = relay
        .operate(Method::PUT, "/admin/policy", Some(policy))
        .await;
    assert_eq!(set.status, 200, "{set:?}");
    // It ends with the relay, and holds up nobody's end.
    let relay = relay.restart().await;
    assert_eq!(relay.state().await["routes"]["desktops"], 0);
}

/// OP-1, OP-3: an address for operators that is taken is named by its key.
#[tokio::test]
async fn a_taken_admin_address_is_named() {
    let first = Relay::start().await;
    let taken = first.address().to_string();
    let site = Site::new(&[("server.admin_listen", &taken)]);
    let output = site.serve().output().await.unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let message = String::from_utf8_lossy(&output.stderr);
    for part in ["server.admin_listen", "RELAY__SERVER__ADMIN_LISTEN", &taken] {
        assert!(message.contains(part), "{part}: {message}");
    }
}
