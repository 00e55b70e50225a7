//! Push tokens over HTTP (section 11): set, moved, removed, and whose they may not be.

use relay_tests::blackbox::{Account, Device, HttpAnswer, Relay};
use reqwest::Method;
use serde_json::{Value, json};

const PATH: &str = "/api/devices/push-token";

async fn call(relay: &Relay, device: &Device, method: Method, body: Option<Value>) -> HttpAnswer {
    let authorization = format!("Bearer {}", device.account.token);
    let headers = [
        ("Authorization", authorization.as_str()),
        ("X-Device-ID", &device.id),
    ];
    let body = body.map(|body| body.to_string());
    relay.call(method, PATH, &headers, body).await
}

async fn put(relay: &Relay, device: &Device, body: Value) -> HttpAnswer {
    call(relay, device, Method::PUT, Some(body)).await
}

async fn set(relay: &Relay, device: &Device, token: &str) {
    let answer = put(relay, device, json!({"platform": "ios", "token": token})).await;
    assert_eq!(
        (answer.status, &answer.body),
        (200, &json!({"success": true}))
    );
}

async fn phone(relay: &Relay, account: &Account) -> Device {
    let phone = account.new_phone();
    relay.enrol(&phone).await;
    phone
}

/// Every token, with its platform and environment.
fn tokens(relay: &Relay) -> Vec<String> {
    let query = "SELECT platform || ' ' || coalesce(environment, '-') || ' ' || token AS line \
         FROM push_tokens ORDER BY token";
    relay.site().database().lines(query)
}

/// Section 11: a phone sets its token, sets another one, and removes it; removing nothing is removing.
#[tokio::test]
async fn a_phone_sets_and_removes_its_token() {
    let relay = Relay::start().await;
    let phone = phone(&relay, &Account::new()).await;
    set(&relay, &phone, "pushtoken-1").await;
    assert_eq!(tokens(&relay), ["ios - pushtoken-1"]);
    let sandbox = json!({"platform": "ios", "token": "pushtoken-2", "environment": "sandbox"});
    assert_eq!(put(&relay, &phone, sandbox).await.status, 200);
    assert_eq!(tokens(&relay), ["ios sandbox pushtoken-2"]);
    for _ in 0..2 {
        let removed = call(&relay, &phone, Method::DELETE, None).await;
        assert_eq!((removed.status, removed.body), (204, json!("")));
        assert!(tokens(&relay).is_empty());
    }
}

/// Section 11: a phone may bring its token when it registers; without one, or with an empty one, it
/// keeps what it has.
#[tokio::test]
async fn a_registration_may_bring_a_token() {
    let relay = Relay::start().await;
    let phone = Account::new().new_phone();
    let mut body = json!({
        "deviceName": "p", "platform": "android", "appVersion": "1", "pushToken": "pushtoken:a",
    });
    for token in [json!("pushtoken:a"), json!(""), Value::Null] {
        body["pushToken"] = token;
        assert_eq!(relay.enrol_with(&phone, &body).await.status, 201);
        assert_eq!(tokens(&relay), ["android - pushtoken:a"]);
    }
    body["pushToken"] = json!("push token");
    let refused = relay.enrol_with(&phone, &body).await;
    refused.assert_problem(400, "invalidPayload");
    assert!(
        refused.body["message"]
            .as_str()
            .unwrap()
            .contains("pushToken")
    );
}

/// Section 11, PUSH-2: a token that another device holds moves, and takes no alert of the former
/// account along; what was kept is there after a crash.
#[tokio::test]
async fn a_token_moves_to_the_phone_that_has_it() {
    let relay = Relay::start().await;
    let (first, second) = (Account::new(), Account::new());
    let phones = [
        phone(&relay, &first).await,
        phone(&relay, &first).await,
        phone(&relay, &second).await,
    ];
    for holder in &phones {
        set(&relay, holder, "pushtoken-shared").await;
        let id = relay.site().database().id(&holder.id);
        let held = format!("SELECT count(*) AS number FROM push_tokens WHERE device = {id}");
        assert_eq!(relay.site().database().number(&held), 1);
        assert_eq!(tokens(&relay).len(), 1);
    }
    let relay = relay.crash().await;
    assert_eq!(tokens(&relay), ["ios - pushtoken-shared"]);
    let not_mine = call(&relay, &phones[0], Method::DELETE, None).await;
    assert_eq!(not_mine.status, 204);
    assert_eq!(tokens(&relay).len(), 1);
}

/// HTTP-1, section 11: whose token it cannot be, and bodies that say none; nothing changes, and no
/// token is told to the log (PUSH-5).
#[tokio::test]
async fn tokens_that_cannot_be_set_are_refused() {
    let relay = Relay::start().await;
    let account = Account::new();
    let holder = phone(&relay, &account).await;
    set(&relay, &holder, "pushtoken-kept").await;

    let stranger = account.new_phone();
    let desktop = account.new_desktop();
    relay.enrol(&desktop).await;
    let forgotten = phone(&relay, &account).await;
    relay.site().database().forget(&forgotten);
    let mut foreign = holder.clone();
    foreign.account = Account::new();
    let body = || json!({"platform": "ios", "token": "pushtoken-kept"});
    for (device, status, error) in [
        (&stranger, 404, "deviceNotRegistered"),
        (&desktop, 409, "deviceTypeMismatch"),
        (&forgotten, 403, "desktopForgotten"),
        (&foreign, 409, "deviceOwnershipFailed"),
    ] {
        let refused = put(&relay, device, body()).await;
        refused.assert_problem(status, error);
    }
    let foreign = call(&relay, &foreign, Method::DELETE, None).await;
    foreign.assert_problem(409, "deviceOwnershipFailed");
    for bad in [
        json!({"platform": "ios"}),
        json!({"platform": "ios", "token": ""}),
        json!({"platform": "ios", "token": "pushtoken kept"}),
        json!({"platform": "ios", "token": "x".repeat(4_097)}),
        json!({"platform": "web", "token": "pushtoken"}),
        json!({"platform": "ios", "token": "pushtoken", "environment": "staging"}),
    ] {
        let refused = put(&relay, &holder, bad).await;
        refused.assert_problem(400, "invalidPayload");
    }
    let authorization = format!("Bearer {}", account.token);
    let nameless = relay
        .call_as(&authorization, Method::PUT, PATH, Some(body()))
        .await;
    nameless.assert_problem(400, "invalidDeviceId");
    assert_eq!(tokens(&relay), ["ios - pushtoken-kept"]);
    relay.evidence().assert_hidden(&["pushtoken"]);
}
