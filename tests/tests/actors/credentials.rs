//! Credentials that end, are renewed or allow little, through the real actors on a paused clock.

use std::time::Duration;

use relay_actors::environment::Environment;
use relay_model::credentials::{Credentials, Scopes};
use relay_model::ids::{AccountId, ApiKeyId, DeviceId};
use relay_model::limits::{API_KEY_CHECK_INTERVAL, DATABASE_TIMEOUT, TOKEN_BYTES, TOKEN_LEEWAY};
use relay_model::store::{DeviceType, NewApiKey};
use relay_model::time::Timestamp;
use relay_tests::paused::{Device, Received, Run, pass, token};
use serde_json::{Value, json};
use uuid::Uuid;

const MOMENT: Duration = Duration::from_millis(5);
const HOUR: Duration = Duration::from_secs(3_600);
const AT_ONCE: Duration = Duration::ZERO;

fn after(run: &Run, duration: Duration) -> Timestamp {
    run.environment.now().plus(duration)
}

/// A registered desktop whose token expires so long from now.
async fn desktop_until(run: &Run, account: AccountId, lifetime: Duration) -> Device {
    let expires_at = after(run, lifetime);
    let id = run.desktop_row(account).await;
    let credentials = Credentials::UserToken { expires_at };
    registered(run, credentials, account, DeviceType::Desktop, id).await
}

async fn registered(
    run: &Run,
    credentials: Credentials,
    account: AccountId,
    device_type: DeviceType,
    id: DeviceId,
) -> Device {
    let mut device = run
        .connect_with(credentials, account, device_type, id, None)
        .await;
    device.register().await;
    device
}

async fn renew(device: &mut Device, token: &str) {
    device
        .send(json!({"type": "auth.renew", "payload": {"token": token}}))
        .await;
}

fn assert_error(frame: &Value, code: &str, request_type: &str) {
    assert_eq!(
        (&frame["type"], &frame["code"], &frame["requestType"]),
        (&json!("error"), &json!(code), &json!(request_type)),
        "{frame}"
    );
}

/// SES-6: a socket is closed 4401 at its token's `exp`, leeway included; registered or not.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_token_that_expires_closes_its_socket() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = desktop_until(&run, account, HOUR).await;
    desktop
        .hears_nothing_for(HOUR + TOKEN_LEEWAY - MOMENT)
        .await;
    assert_eq!(desktop.next_close().await, 4401);

    let expired = Credentials::UserToken {
        expires_at: run.environment.now().minus(TOKEN_LEEWAY),
    };
    let id = run.desktop_row(account).await;
    let mut silent = run
        .connect_with(expired, account, DeviceType::Desktop, id, None)
        .await;
    assert_eq!(silent.next_close().await, 4401);
}

/// SES-6: a renewal is answered with the new expiry, and the socket lives until then and no longer.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_renewed_socket_lives_on() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = desktop_until(&run, account, HOUR).await;
    desktop.hears_nothing_for(HOUR).await;
    let until = after(&run, HOUR);
    renew(&mut desktop, &token(account, until, AT_ONCE)).await;
    let renewed = desktop.next().await;
    assert_eq!(
        renewed,
        json!({"type": "auth.renewed", "expiresAt": until.to_string()})
    );
    desktop
        .hears_nothing_for(HOUR + TOKEN_LEEWAY - MOMENT)
        .await;
    assert_eq!(desktop.next_close().await, 4401);
}

/// SES-6: a token of another account, an expired one, garbage and one that is too long change
/// nothing: the old expiry stays, and the connection with it until then.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn bad_renewals_keep_the_old_expiry() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = desktop_until(&run, account, HOUR).await;
    let later = after(&run, 3 * HOUR);
    for bad in [
        token(run.account(), later, AT_ONCE),
        token(account, run.environment.now(), AT_ONCE),
        "garbage".to_owned(),
        "x".repeat(TOKEN_BYTES + 1),
    ] {
        renew(&mut desktop, &bad).await;
        assert_error(&desktop.next().await, "authRequired", "auth.renew");
    }
    for payload in [json!({}), json!({"token": 1}), json!(null)] {
        desktop
            .send(json!({"type": "auth.renew", "payload": payload}))
            .await;
        assert_error(&desktop.next().await, "invalidPayload", "auth.renew");
    }
    desktop
        .hears_nothing_for(HOUR + TOKEN_LEEWAY - MOMENT)
        .await;
    assert_eq!(desktop.next_close().await, 4401);
}

/// SES-6: renewals that overtake each other leave the later expiry; nothing waits for them.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn renewals_that_are_checked_at_once() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = desktop_until(&run, account, HOUR).await;
    let (near, far) = (after(&run, 2 * HOUR), after(&run, 3 * HOUR));
    let slow = Duration::from_secs(4);
    renew(&mut desktop, &token(account, near, slow)).await;
    renew(&mut desktop, &token(account, far, AT_ONCE)).await;
    desktop.send(json!({"type": "ping"})).await;
    let replies = [desktop.next().await, desktop.next().await];
    assert!(replies.contains(&json!({"type": "pong"})), "{replies:?}");
    let of = |until: Timestamp| json!({"type": "auth.renewed", "expiresAt": until.to_string()});
    assert!(replies.contains(&of(far)), "{replies:?}");
    assert_eq!(desktop.next().await, of(near));
    desktop.hears_nothing_for(2 * HOUR + TOKEN_LEEWAY).await;
    desktop.send(json!({"type": "ping"})).await;
    assert_eq!(desktop.next().await, json!({"type": "pong"}));
}

/// SES-6: a check that is still under way when the token expires does not hold the socket.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_renewal_that_comes_too_late() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = desktop_until(&run, account, HOUR).await;
    let nearly = HOUR + TOKEN_LEEWAY - Duration::from_secs(1);
    desktop.hears_nothing_for(nearly).await;
    let until = after(&run, HOUR);
    renew(
        &mut desktop,
        &token(account, until, Duration::from_secs(10)),
    )
    .await;
    assert_eq!(desktop.next_close().await, 4401);
}

/// REG-1, SES-6: nothing is renewed before the registration, or while it is checked.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn only_registered_sockets_renew() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    let mut desktop = run.connect(account, DeviceType::Desktop, id, None).await;
    let good = token(account, after(&run, HOUR), AT_ONCE);
    renew(&mut desktop, &good).await;
    assert_error(&desktop.next().await, "registrationRequired", "auth.renew");
    run.store.set_delay(Duration::from_secs(1));
    desktop.send_register(json!({})).await;
    renew(&mut desktop, &good).await;
    assert_error(&desktop.next().await, "registrationRequired", "auth.renew");
    assert_eq!(desktop.next().await["type"], "registered");
}

struct Key {
    id: ApiKeyId,
    credentials: Credentials,
}

async fn api_key(run: &Run, account: AccountId, scopes: &str, lifetime: Option<Duration>) -> Key {
    let id = ApiKeyId::from_uuid(run.environment.new_uuid());
    let scopes: Scopes = scopes.parse().expect("scopes");
    let expires_at = lifetime.map(|lifetime| after(run, lifetime));
    let key = NewApiKey {
        id,
        account,
        name: None,
        scopes,
        secret_hash: [0; 32],
        created_at: run.environment.now(),
        expires_at,
    };
    run.relay.create_api_key(key).await.expect("a key");
    Key {
        id,
        credentials: Credentials::ApiKey {
            id,
            scopes,
            expires_at,
        },
    }
}

/// SES-6: a key that is revoked here takes its sockets along at once, and no other's.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_revoked_key_closes_its_sockets() {
    let run = Run::start();
    let account = run.account();
    let mut sockets = Vec::new();
    let [revoked, kept] = [
        api_key(&run, account, "rpc", None).await,
        api_key(&run, account, "rpc", None).await,
    ];
    for key in [&revoked, &revoked, &kept] {
        let id = run.desktop_row(account).await;
        sockets.push(registered(&run, key.credentials, account, DeviceType::Desktop, id).await);
    }
    assert_eq!(run.state().await.key_sockets, 3);
    let stranger = run.account();
    assert_eq!(
        run.relay.revoke_api_key(stranger, revoked.id).await,
        Ok(false)
    );
    assert_eq!(
        run.relay.revoke_api_key(account, revoked.id).await,
        Ok(true)
    );
    for socket in &mut sockets[..2] {
        loop {
            match socket.receive_within(MOMENT).await {
                Some(Received::Frame(_)) => {}
                other => {
                    assert_eq!(other, Some(Received::Close(4401)));
                    break;
                }
            }
        }
    }
    sockets[2].send(json!({"type": "ping"})).await;
    let mut last = sockets[2].next().await;
    while last["type"] == "event" {
        last = sockets[2].next().await;
    }
    assert_eq!(last, json!({"type": "pong"}));
    drop(sockets);
    pass(HOUR).await;
    assert_eq!(run.state().await.key_sockets, 0);
}

/// SES-6, PR-2, SES-1: a desktop whose key is revoked has its grace and keeps its session, so that a key can
/// be replaced without a false "offline".
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_desktop_comes_back_with_another_key() {
    let run = Run::start();
    let account = run.account();
    let old = api_key(&run, account, "rpc", None).await;
    let id = run.desktop_row(account).await;
    let mut desktop = registered(&run, old.credentials, account, DeviceType::Desktop, id).await;
    let mut phone = run.phone(account, id).await;
    let resume = desktop.resume();
    assert_eq!(run.relay.revoke_api_key(account, old.id).await, Ok(true));
    assert_eq!(desktop.next_close().await, 4401);
    assert_eq!(phone.next_status().await.0, "reconnecting");
    let new = api_key(&run, account, "rpc", None).await;
    let kind = DeviceType::Desktop;
    let mut back = run
        .connect_with(new.credentials, account, kind, id, None)
        .await;
    back.register_with(resume).await;
    assert_eq!(back.session["type"], "resumed");
    assert_eq!(phone.next_status().await.0, "online");
    phone.hears_nothing_for(MOMENT).await;
}

/// SES-6: a revocation by another process, and one that the database hides for a while, is acted on
/// within 5 s of when it can be known.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_key_revoked_elsewhere_closes_its_sockets() {
    let run = Run::start();
    let account = run.account();
    let key = api_key(&run, account, "rpc,read,write", None).await;
    let id = run.desktop_row(account).await;
    let mut desktop = registered(&run, key.credentials, account, DeviceType::Desktop, id).await;
    desktop.hears_nothing_for(3 * API_KEY_CHECK_INTERVAL).await;
    let revoked = run
        .device_store()
        .revoke_api_key(account, key.id, run.environment.now());
    assert_eq!(revoked.await, Ok(true));
    run.store.set_failing(true);
    desktop.hears_nothing_for(HOUR).await;
    run.store.set_failing(false);
    let closed = desktop.receive_within(DATABASE_TIMEOUT).await;
    assert_eq!(closed, Some(Received::Close(4401)));
}

/// SES-6: a key's own expiry closes its sockets, without leeway; a token does not renew it.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_key_that_expires_closes_its_sockets() {
    let run = Run::start();
    let account = run.account();
    let key = api_key(&run, account, "rpc", Some(HOUR)).await;
    let id = run.desktop_row(account).await;
    let mut desktop = registered(&run, key.credentials, account, DeviceType::Desktop, id).await;
    renew(
        &mut desktop,
        &token(account, after(&run, 9 * HOUR), AT_ONCE),
    )
    .await;
    assert_error(&desktop.next().await, "authRequired", "auth.renew");
    desktop.hears_nothing_for(HOUR - MOMENT).await;
    assert_eq!(desktop.next_close().await, 4401);
}

/// EV-2, EV-3: a key sends events with all three scopes only, and that is checked before the event's
/// shape; what it may not send goes nowhere.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn keys_need_every_scope_for_events() {
    let run = Run::start();
    let account = run.account();
    let mut witness = run.desktop(account).await;
    for scopes in [
        "rpc",
        "read",
        "write",
        "rpc,read",
        "rpc,write",
        "read,write",
    ] {
        let key = api_key(&run, account, scopes, None).await;
        let id = run.phone_row(account).await;
        let mut phone = registered(&run, key.credentials, account, DeviceType::Mobile, id).await;
        phone.event("note", json!({})).await;
        assert_error(&phone.next().await, "forbidden", "event");
        phone.send(json!({"type": "event", "payload": {}})).await;
        assert_error(&phone.next().await, "forbidden", "event");
    }
    witness.hears_nothing_for(MOMENT).await;
    let key = api_key(&run, account, "write,read,rpc", None).await;
    let id = run.phone_row(account).await;
    let mut phone = registered(&run, key.credentials, account, DeviceType::Mobile, id).await;
    phone.event("note", json!({})).await;
    assert_eq!(witness.next().await["payload"]["eventType"], "note");
}

/// RPC-5: a key without the scope `rpc` gets -32601, and the desktop sees nothing.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn keys_need_the_scope_for_requests() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    for (scopes, allowed) in [("read,write", false), ("rpc", true)] {
        let key = api_key(&run, account, scopes, None).await;
        let id = run.phone_row(account).await;
        let mut phone = run
            .connect_with(
                key.credentials,
                account,
                DeviceType::Mobile,
                id,
                Some(desktop.id),
            )
            .await;
        phone.register().await;
        phone.next_status().await;
        phone.request("r").await;
        if allowed {
            assert_eq!(desktop.next_request().await, "r");
        } else {
            let (id, error) = phone.next_failure().await;
            assert_eq!((id.as_str(), &error["code"]), ("r", &json!(-32601)));
            desktop.hears_nothing_for(MOMENT).await;
        }
    }
}

/// SES-6: a key whose row is gone has ended.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_key_that_is_gone_closes_its_sockets() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    let credentials = Credentials::ApiKey {
        id: ApiKeyId::from_uuid(Uuid::nil()),
        scopes: Scopes::all(),
        expires_at: None,
    };
    let mut desktop = registered(&run, credentials, account, DeviceType::Desktop, id).await;
    assert_eq!(desktop.next_close().await, 4401);
}
