//! API keys (HTTP-4, TR-2): made, listed and ended over HTTP and on the command line; what each scope
//! allows; what becomes of a key that ended.

use relay_tests::blackbox::{
    Account, Backend, ClientType, HttpAnswer, Relay, SECRET, Site, fresh_id, is_time,
};
use reqwest::Method;
use serde_json::{Value, json};

async fn as_user(
    relay: &Relay,
    account: &Account,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> HttpAnswer {
    let authorization = format!("Bearer {}", account.token);
    relay.call_as(&authorization, method, path, body).await
}

/// Makes a key and returns the answer's body.
async fn make(relay: &Relay, account: &Account, body: Value) -> Value {
    let answer = as_user(relay, account, Method::POST, "/api/keys", Some(body)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.body
}

async fn make_key(relay: &Relay, account: &Account, scopes: &[&str]) -> String {
    let made = make(relay, account, json!({ "scopes": scopes })).await;
    made["key"].as_str().unwrap().to_owned()
}

/// A call with the key in `X-API-Key`.
async fn with_key(
    relay: &Relay,
    key: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> HttpAnswer {
    let mut headers = headers.to_vec();
    headers.push(("X-API-Key", key));
    relay
        .call(method, path, &headers, body.map(|body| body.to_string()))
        .await
}

async fn devices_with(relay: &Relay, key: &str) -> HttpAnswer {
    with_key(relay, key, Method::GET, "/api/devices", &[], None).await
}

/// The status line of an upgrade with this key.
async fn upgrade_with(relay: &Relay, key: &str) -> u16 {
    let mut raw = relay.tcp().await;
    let headers = [("X-API-Key".to_owned(), key.to_owned())];
    let head = raw.ask_for_upgrade(&headers).await;
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

/// HTTP-4, ENV-2: a key is shown once, listed without its secret, and ended.
#[tokio::test]
async fn keys_are_made_listed_and_ended() {
    let relay = Relay::start_with(&[("telemetry.log_level", "trace")]).await;
    let account = Account::new();
    let body = json!({
        "name": " build server ",
        "scopes": ["write", "read", "rpc"],
        "expiresAt": "2099-01-31T14:00:00.5+02:00",
        "extra": "ignored",
    });
    let mut made = make(&relay, &account, body).await;
    let key = made["key"].as_str().unwrap().to_owned();
    let id = made["id"].as_str().unwrap().to_owned();
    assert!(
        key.starts_with(&format!("rk_{}_", id.replace('-', ""))),
        "{made}"
    );
    assert_eq!(made["name"], "build server");
    assert_eq!(made["scopes"], json!(["rpc", "read", "write"]));
    assert_eq!(made["expiresAt"], "2099-01-31T12:00:00.500000Z");
    assert!(is_time(made["createdAt"].as_str().unwrap()), "{made}");
    let plain = make(
        &relay,
        &account,
        json!({ "scopes": ["read"], "name": null }),
    )
    .await;
    let members: Vec<_> = plain
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(members, ["createdAt", "id", "key", "scopes"]);

    made.as_object_mut().unwrap().remove("key");
    let listed = as_user(&relay, &account, Method::GET, "/api/keys", None).await;
    assert_eq!(listed.status, 200);
    assert_eq!(listed.body[0], made);
    assert_eq!(listed.body.as_array().unwrap().len(), 2);
    assert!(!listed.body.to_string().contains(&key[36..]));

    assert_eq!(devices_with(&relay, &key).await.status, 200);
    let path = format!("/api/keys/{}", id.to_uppercase());
    for _ in 0..2 {
        let ended = as_user(&relay, &account, Method::DELETE, &path, None).await;
        assert_eq!(ended.status, 204, "{ended:?}");
    }
    let refused = devices_with(&relay, &key).await;
    refused.assert_problem(401, "authRequired");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert_eq!(upgrade_with(&relay, &key).await, 401);
    let listed = as_user(&relay, &account, Method::GET, "/api/keys", None).await;
    assert!(
        is_time(listed.body[0]["revokedAt"].as_str().unwrap()),
        "{listed:?}"
    );
    relay
        .evidence()
        .assert_hidden(&[&key, &key[36..], &account.token]);
    let kept = relay.site().database().dump();
    assert_eq!(kept["api_keys"].len(), 2, "{kept:?}");
    assert!(
        !format!("{kept:?}").contains(&key[36..]),
        "the secret part is kept"
    );
}

/// HTTP-4: each scope with each call, and with the socket's upgrade, which any key may ask for.
#[tokio::test]
async fn scopes_decide_what_a_key_may_do() {
    let relay = Relay::start().await;
    let account = Account::new();
    for scopes in [
        &["rpc"][..],
        &["read"],
        &["write"],
        &["rpc", "read"],
        &["rpc", "write"],
        &["read", "write"],
        &["rpc", "read", "write"],
    ] {
        let key = make_key(&relay, &account, scopes).await;
        let (desktop, phone) = (fresh_id(), fresh_id());
        let registration =
            |platform: &str| json!({ "deviceName": "n", "platform": platform, "appVersion": "1" });
        let desktop_headers = [("X-Device-ID", &*desktop), ("X-Client-Type", "desktop")];
        let phone_headers = [("X-Device-ID", &*phone), ("X-Client-Type", "mobile")];
        for (scope, method, path, headers, body, good) in [
            ("read", Method::GET, "/api/devices", &[][..], None, 200),
            ("read", Method::HEAD, "/api/devices", &[], None, 200),
            (
                "write",
                Method::POST,
                "/api/devices/register",
                &desktop_headers,
                Some(registration("linux")),
                201,
            ),
            (
                "write",
                Method::POST,
                "/api/devices/mobile/register",
                &phone_headers,
                Some(registration("ios")),
                201,
            ),
        ] {
            let answer = with_key(&relay, &key, method.clone(), path, headers, body).await;
            if scopes.contains(&scope) {
                assert_eq!(
                    answer.status, good,
                    "{scopes:?} {method} {path}: {answer:?}"
                );
            } else if method == Method::HEAD {
                assert_eq!(answer.status, 403, "{scopes:?} {method} {path}");
            } else {
                answer.assert_problem(403, "forbidden");
                assert!(
                    answer.body["detail"].as_str().unwrap().contains(scope),
                    "{answer:?}"
                );
            }
        }
        // Whatever its scopes, a key makes and ends no keys.
        let body = json!({ "scopes": ["read"] });
        for (method, path, body) in [
            (Method::POST, "/api/keys".to_owned(), Some(body)),
            (Method::GET, "/api/keys".to_owned(), None),
            (Method::DELETE, format!("/api/keys/{}", fresh_id()), None),
        ] {
            let answer = with_key(&relay, &key, method, &path, &[], body).await;
            answer.assert_problem(403, "forbidden");
        }
        assert_eq!(upgrade_with(&relay, &key).await, 101);
    }
}

/// TR-2: a device connects with a key, in either header; `Authorization` wins over `X-API-Key`.
#[tokio::test]
async fn sockets_open_with_keys() {
    let relay = Relay::start().await;
    let account = Account::new();
    let key = make_key(&relay, &account, &["rpc", "read", "write"]).await;
    for credentials in [
        vec![("X-API-Key", key.clone())],
        vec![("Authorization", format!("ApiKey {key}"))],
        vec![("Authorization", format!("apikey  {key}"))],
        vec![
            ("Authorization", format!("Bearer {}", account.token)),
            ("X-API-Key", "rk_no".to_owned()),
        ],
    ] {
        let device = account.new_desktop();
        relay.enrol(&device).await;
        let mut headers = device.upgrade_headers();
        headers.retain(|(name, _)| name != "Authorization");
        headers.extend(
            credentials
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value)),
        );
        let mut socket = relay.upgrade_with(&device, &headers).await;
        socket.register().await;
        socket.ping().await;
        assert_eq!(device.client_type, ClientType::Desktop);
        assert_eq!(relay.listed(&device).await["status"], "online");
    }
    let headers = [("Authorization", "Bearer x"), ("X-API-Key", &*key)];
    let answer = relay
        .call(Method::GET, "/api/devices", &headers, None)
        .await;
    answer.assert_problem(401, "authRequired");
}

/// SES-6: the sockets of a key that was revoked over HTTP or by command are closed; others stay.
#[tokio::test]
async fn revoked_keys_lose_their_sockets() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut kept = relay.desktop(&account).await;
    for by_command in [false, true] {
        let made = make(&relay, &account, json!({ "scopes": ["rpc"] })).await;
        let key = made["key"].as_str().unwrap();
        let id = made["id"].as_str().unwrap();
        let device = account.new_desktop();
        relay.enrol(&device).await;
        let mut headers = device.upgrade_headers();
        headers.retain(|(name, _)| name != "Authorization");
        headers.push(("X-API-Key".to_owned(), key.to_owned()));
        let mut socket = relay.upgrade_with(&device, &headers).await;
        socket.register().await;
        if by_command {
            let arguments = ["revoke", "--account", &account.id, id];
            let (code, _, errors) = command(relay.site(), &arguments).await;
            assert_eq!(code, Some(0), "{errors}");
        } else {
            let path = format!("/api/keys/{id}");
            let ended = as_user(&relay, &account, Method::DELETE, &path, None).await;
            assert_eq!(ended.status, 204, "{ended:?}");
        }
        socket.expect_close(4401).await;
    }
    kept.ping().await;
}

/// HTTP-4: a key that is none, unknown, altered or over is 401 and is not repeated.
#[tokio::test]
async fn bad_keys_get_401() {
    let relay = Relay::start_with(&[("telemetry.log_level", "trace")]).await;
    let account = Account::new();
    let key = make_key(&relay, &account, &["read"]).await;
    let other = make_key(&relay, &account, &["read"]).await;
    let mixed = format!("{}{}", &key[..36], &other[36..]);
    let unknown = format!("rk_{}_{}", fresh_id().replace('-', ""), &key[36..]);
    for bad in [
        "rk_",
        "rk_unknown",
        "no key at all",
        &key[..key.len() - 1],
        &format!("{key}A"),
        &key.to_uppercase(),
        &mixed,
        &unknown,
    ] {
        let answer = devices_with(&relay, bad).await;
        answer.assert_problem(401, "authRequired");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert!(!answer.body.to_string().contains(bad), "{answer:?}");
        assert_eq!(upgrade_with(&relay, bad).await, 401, "{bad}");
    }
    let twice = [("X-API-Key", &*key), ("X-API-Key", &*key)];
    let answer = relay.call(Method::GET, "/api/devices", &twice, None).await;
    answer.assert_problem(401, "authRequired");
    assert_eq!(devices_with(&relay, &key).await.status, 200);
    relay.evidence().assert_hidden(&[&key[36..], &other[36..]]);
}

/// HTTP-4: an expired key is over for HTTP and upgrades.
#[tokio::test]
async fn keys_expire() {
    let relay = Relay::start().await;
    let account = Account::new();
    let site = relay.site();
    let key = made_by_command(
        site,
        &[
            "create",
            "--account",
            &account.id,
            "--scopes",
            "read",
            "--ttl",
            "1s",
        ],
    )
    .await;
    relay
        .eventually("the end of the key", async || {
            devices_with(&relay, &key).await.status == 401
        })
        .await;
    assert_eq!(upgrade_with(&relay, &key).await, 401);
    let listed = as_user(&relay, &account, Method::GET, "/api/keys", None).await;
    assert!(listed.body[0]["expiresAt"].is_string(), "{listed:?}");
}

/// HTTP-4: an account sees and ends its own keys only; what is foreign is as unknown as the rest.
#[tokio::test]
async fn foreign_keys_are_unknown() {
    let relay = Relay::start().await;
    let (owner, thief) = (Account::new(), Account::new());
    let made = make(&relay, &owner, json!({ "scopes": ["read"] })).await;
    let listed = as_user(&relay, &thief, Method::GET, "/api/keys", None).await;
    assert_eq!(listed.body, json!([]));
    let foreign = as_user(
        &relay,
        &thief,
        Method::DELETE,
        &format!("/api/keys/{}", made["id"].as_str().unwrap()),
        None,
    )
    .await;
    let unknown = as_user(
        &relay,
        &thief,
        Method::DELETE,
        &format!("/api/keys/{}", fresh_id()),
        None,
    )
    .await;
    let no_id = as_user(&relay, &thief, Method::DELETE, "/api/keys/no-uuid", None).await;
    foreign.assert_problem(404, "notFound");
    assert_eq!(foreign.body, unknown.body);
    assert_eq!(foreign.body, no_id.body);
    let key = made["key"].as_str().unwrap();
    let answer = devices_with(&relay, key).await;
    assert_eq!((answer.status, answer.body), (200, json!([])));
}

/// HTTP-4, HTTP-2: what cannot be a key's description is refused by name, before anything is made.
#[tokio::test]
async fn bad_descriptions_are_refused() {
    let relay = Relay::start_with(&[("auth.api_keys", "2")]).await;
    let account = Account::new();
    for (body, code, named) in [
        (json!({}), "invalidPayload", "scopes"),
        (json!({ "scopes": "read" }), "invalidPayload", ""),
        (json!({ "scopes": [] }), "invalidPayload", "scopes"),
        (json!({ "scopes": ["admin"] }), "invalidPayload", "scopes"),
        (
            json!({ "scopes": ["read"], "name": "" }),
            "invalidPayload",
            "name",
        ),
        (
            json!({ "scopes": ["read"], "expiresAt": "soon" }),
            "invalidPayload",
            "expiresAt",
        ),
        (
            json!({ "scopes": ["read"], "expiresAt": "2001-01-01T00:00:00Z" }),
            "invalidPayload",
            "expiresAt",
        ),
    ] {
        let answer = as_user(&relay, &account, Method::POST, "/api/keys", Some(body)).await;
        answer.assert_problem(400, code);
        assert!(
            answer.body["detail"].as_str().unwrap().contains(named),
            "{answer:?}"
        );
    }
    let large = json!({ "scopes": ["read"], "more": "x".repeat(256 * 1024) });
    let answer = as_user(&relay, &account, Method::POST, "/api/keys", Some(large)).await;
    answer.assert_problem(413, "bodyTooLarge");
    let answer = as_user(&relay, &account, Method::PUT, "/api/keys", None).await;
    answer.assert_problem(405, "methodNotAllowed");
    assert_eq!(answer.header("allow"), Some("GET, HEAD, POST"));
    relay
        .get("/api/keys")
        .await
        .assert_problem(401, "authRequired");

    // Ended keys do not count against the account's room.
    let first = make(&relay, &account, json!({ "scopes": ["read"] })).await;
    make(&relay, &account, json!({ "scopes": ["read"] })).await;
    let body = json!({ "scopes": ["read"] });
    let answer = as_user(
        &relay,
        &account,
        Method::POST,
        "/api/keys",
        Some(body.clone()),
    )
    .await;
    answer.assert_problem(409, "tooManyKeys");
    let path = format!("/api/keys/{}", first["id"].as_str().unwrap());
    assert_eq!(
        as_user(&relay, &account, Method::DELETE, &path, None)
            .await
            .status,
        204
    );
    make(&relay, &account, body).await;
}

/// REG-4, TR-2: a database that cannot answer is no verdict about a key: 503, later again.
#[tokio::test]
async fn without_a_database_nobody_can_tell() {
    let relay = Relay::start().await;
    let account = Account::new();
    let key = make_key(&relay, &account, &["read"]).await;
    let mut database = relay.site().database();
    database.execute("ALTER TABLE api_keys RENAME TO hidden_keys");
    let answer = devices_with(&relay, &key).await;
    answer.assert_problem(503, "relayUnavailable");
    assert!(answer.header("retry-after").is_some());
    assert_eq!(upgrade_with(&relay, &key).await, 503);
    database.execute("ALTER TABLE hidden_keys RENAME TO api_keys");
    assert_eq!(devices_with(&relay, &key).await.status, 200);
}

/// Runs `relay key` on the relay's database.
async fn command(site: &Site, arguments: &[&str]) -> (Option<i32>, String, String) {
    let database = site.database_url();
    let site = site.with(&[("database.url", &database), ("auth.hs256_secret", SECRET)]);
    let output = site
        .command()
        .arg("key")
        .args(arguments)
        .output()
        .await
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// The one line that a successful command printed.
async fn made_by_command(site: &Site, arguments: &[&str]) -> String {
    let (code, output, errors) = command(site, arguments).await;
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.is_empty(), "{errors}");
    let line = output.strip_suffix('\n').unwrap();
    assert!(!line.contains('\n'), "{output}");
    line.to_owned()
}

/// HTTP-4: `relay key` works beside a running relay and on its own.
#[tokio::test]
async fn the_command_makes_lists_and_ends_keys() {
    let relay = Relay::start().await;
    let account = Account::new();
    let site = relay.site().clone();
    let key = made_by_command(
        &site,
        &[
            "create",
            "--account",
            &account.id,
            "--scopes",
            "write, read",
            "--name",
            "ci",
            "--ttl",
            "90d",
        ],
    )
    .await;
    assert_eq!(devices_with(&relay, &key).await.status, 200);
    let listed = as_user(&relay, &account, Method::GET, "/api/keys", None)
        .await
        .body;
    assert_eq!(listed[0]["name"], "ci");
    assert_eq!(listed[0]["scopes"], json!(["read", "write"]));
    let id = listed[0]["id"].as_str().unwrap().to_owned();

    let (code, table, _) = command(&site, &["list", "--account", &account.id]).await;
    assert_eq!(code, Some(0));
    let row = table.lines().nth(1).unwrap();
    for part in [&id, "live", "read,write", "ci"] {
        assert!(row.contains(part), "{table}");
    }
    assert!(!table.contains(&key[36..]));
    let other = fresh_id();
    let (code, table, _) = command(&site, &["list", "--account", &other]).await;
    assert_eq!((code, &*table), (Some(0), ""));
    let (code, _, errors) = command(&site, &["revoke", "--account", &other, &id]).await;
    assert_eq!(code, Some(64), "{errors}");
    assert_eq!(devices_with(&relay, &key).await.status, 200);
    let (code, _, errors) = command(&site, &["revoke", "--account", &account.id, &id]).await;
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(devices_with(&relay, &key).await.status, 401);
    drop(relay);
    let (_, table, _) = command(&site, &["list", "--account", &account.id]).await;
    assert!(table.contains("revoked"), "{table}");
}

/// OP-1: what `relay key` is asked wrongly ends with 64, a database that is away with 69; no
/// database is made.
#[tokio::test]
async fn the_commands_exit_codes() {
    let site = Site::on(Backend::Sqlite, &[]);
    let account = fresh_id();
    for arguments in [
        &["create", "--account", &*account][..],
        &["create", "--account", "alice", "--scopes", "read"],
        &["create", "--account", &account, "--scopes", "admin"],
        &["create", "--account", &account, "--scopes", ""],
        &[
            "create",
            "--account",
            &account,
            "--scopes",
            "read",
            "--ttl",
            "0s",
        ],
        &[
            "create",
            "--account",
            &account,
            "--scopes",
            "read",
            "--ttl",
            "90",
        ],
        &[
            "create",
            "--account",
            &account,
            "--scopes",
            "read",
            "--name",
            " ",
        ],
        &["revoke", "--account", &account, "rk_1"],
        // No relay was ever started here.
        &["create", "--account", &account, "--scopes", "read"],
        &["list", "--account", &account],
    ] {
        let (code, output, errors) = command(&site, arguments).await;
        assert_eq!(code, Some(64), "{arguments:?}: {errors}");
        assert!(output.is_empty() && !errors.is_empty(), "{arguments:?}");
    }
    assert!(!site.path("relay.db").exists());
    std::fs::write(site.path("relay.db"), "no database, ".repeat(1_000)).unwrap();
    let (code, _, errors) = command(&site, &["list", "--account", &account]).await;
    assert_eq!(code, Some(69), "{errors}");
    assert!(errors.contains("database.url"), "{errors}");
    // An empty one is older than this program.
    std::fs::write(site.path("relay.db"), "").unwrap();
    let (code, _, errors) = command(&site, &["list", "--account", &account]).await;
    assert_eq!(code, Some(69), "{errors}");
    assert!(errors.contains("relay serve"), "{errors}");
}
