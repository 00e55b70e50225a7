//! SIGHUP: what a running relay takes from its configuration when that is read again, and what it
//! refuses (OP-4). Certificates are in `tls`.

use relay_tests::blackbox::{
    Account, Claims, OPERATOR_TOKEN, OpCode, SigningKey, Site, encode, fresh_id, header, key_set,
};

const RELOADED: &str = "reloaded the configuration";
const REFUSED: &str = "the configuration cannot be used; the running values stay";
const RESTART: &str = "changed in the configuration and needs a restart";

/// Writes the file that relays of this site read.
fn configure(site: &Site, text: &str) {
    // As editors and deployments do it: no relay sees half a file.
    let draft = site.path("relay.toml.new");
    std::fs::write(&draft, text).unwrap();
    std::fs::rename(draft, site.path("relay.toml")).unwrap();
}

/// OP-4: the log begins to tell more, and stops; either is told.
#[tokio::test]
async fn the_log_level_changes() {
    let site = Site::new(&[
        ("server.proxy_protocol", "true"),
        ("server.trusted_proxies", "127.0.0.1"),
    ]);
    let relay = site.listen().await;
    // Of a look at the port only the details tell.
    let look = async || {
        let mut look = relay.tcp().await;
        look.shut_down_sending().await;
        look.expect_end().await;
        !relay.evidence().told("connection dropped").is_empty()
    };
    assert!(!look().await);
    configure(&site, "[telemetry]\nlog_level = \"debug\"\n");
    let line = relay.reload(RELOADED).await;
    assert_eq!(line["changed"], "telemetry.log_level = debug (was info)");
    relay.eventually("a detail in the log", look).await;
    for (level, before) in [("error", "debug"), ("info", "error")] {
        configure(&site, &format!("[telemetry]\nlog_level = \"{level}\"\n"));
        let line = relay.reload(RELOADED).await;
        let changed = format!("telemetry.log_level = {level} (was {before})");
        assert_eq!(line["changed"], changed);
    }
}

/// OP-4: a limit holds for the connections that come after the reload; an open one keeps its own. HTTP
/// calls have no connection to keep it for.
#[tokio::test]
async fn limits_change_for_new_connections() {
    let site = Site::new(&[]);
    let relay = site.start().await;
    let account = Account::new();
    let (old, new) = (account.new_desktop(), account.new_desktop());
    relay.enrol(&old).await;
    relay.enrol(&new).await;
    let mut before = relay.raw(&old).await;
    before.register(&old).await;

    configure(
        &site,
        "[limits]\nmax_message = \"64KiB\"\nhttp_body = \"1KiB\"\n",
    );
    let line = relay.reload(RELOADED).await;
    let changed = line["changed"].as_str().unwrap();
    assert!(
        changed.contains("limits.max_message = 64KiB (was 32MiB)"),
        "{line}"
    );
    assert!(
        changed.contains("limits.http_body = 1KiB (was 256KiB)"),
        "{line}"
    );
    assert!(relay.evidence().told(RESTART).is_empty());

    let large = format!("{{\"type\":\"{}\"}}", "x".repeat(100 * 1024));
    before
        .send(&encode(OpCode::Text, true, large.as_bytes()))
        .await;
    // It was read, and found to be of no known type.
    assert_eq!(before.next_json().await["type"], "error");
    let mut after = relay.raw(&new).await;
    after.register(&new).await;
    after
        .send(&header(OpCode::Text, true, large.len() as u64))
        .await;
    after.expect_close_frame(1009).await;
    let body = serde_json::json!({ "name": "x".repeat(2_000) });
    let refused = relay.enrol_with(&account.new_desktop(), &body).await;
    assert_eq!(refused.status, 413, "{refused:?}");

    // What the file does not name any more goes back to its default.
    configure(&site, "");
    let line = relay.reload(RELOADED).await;
    assert!(
        line["changed"]
            .as_str()
            .unwrap()
            .contains("limits.max_message = 32MiB (was 64KiB)")
    );
}

/// OP-4: a configuration that cannot be used is refused as a whole, in one line that names everything
/// that is wrong with it and shows no secret; what is in force stays.
#[tokio::test]
async fn a_bad_configuration_is_refused() {
    let site = Site::new(&[]);
    configure(&site, "[limits]\nhttp_body = \"1KiB\"\n");
    let relay = site.start().await;
    configure(
        &site,
        "[limits]\nhttp_body = \"2KiB\"\nping_interval = \"2h\"\nping_intervall = \"1s\"\n\
         [auth]\nhs256_secret = \"hunter2\"\n",
    );
    let line = relay.reload(REFUSED).await;
    assert_eq!(line["level"], "ERROR");
    let problems = line["problems"].as_str().unwrap();
    for part in [
        "limits.ping_interval = \"2h\"",
        "did you mean limits.ping_interval?",
        "auth.hs256_secret",
        "relay.toml",
    ] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    configure(&site, "[limits\nhunter2");
    let line = relay.reload(REFUSED).await;
    assert!(
        line["problems"].as_str().unwrap().contains("relay.toml"),
        "{line}"
    );
    relay.evidence().assert_hidden(&["hunter2"]);
    assert!(relay.evidence().told(RELOADED).is_empty());

    // Nothing of it was taken.
    configure(&site, "[limits]\nhttp_body = \"3KiB\"\n");
    let line = relay.reload(RELOADED).await;
    assert_eq!(line["changed"], "limits.http_body = 3KiB (was 1KiB)");
}

/// OP-4: what a running relay cannot take is named, whatever else changes; again with each reload until
/// it is restarted, and a secret without its value.
#[tokio::test]
async fn keys_that_need_a_restart_are_named() {
    let site = Site::new(&[]);
    let relay = site.start().await;
    configure(
        &site,
        &format!(
            "[server]\nworkers = 1\n[limits]\noutbound_total = \"64MiB\"\nhttp_body = \"1KiB\"\n\
             [admin]\ntoken = \"{OPERATOR_TOKEN}\"\n"
        ),
    );
    for _ in 0..2 {
        let line = relay.reload(RESTART).await;
        assert_eq!(line["level"], "WARN");
        let keys = "server.workers, admin.token, limits.outbound_total";
        assert_eq!(line["keys"], keys);
    }
    let changes = relay.evidence().told(RELOADED);
    assert_eq!(
        changes[0]["changed"],
        "limits.http_body = 1KiB (was 256KiB)"
    );
    assert_eq!(changes[1]["changed"], "");
    relay.evidence().assert_hidden(&[OPERATOR_TOKEN]);
    assert_eq!(relay.get("/admin/state").await.status, 404);
}

/// OP-4, HTTP-4: public keys are read again at once, also beside a configuration that is refused; a key
/// set that cannot be used is refused in turn, and those in force stay.
#[tokio::test]
async fn public_keys_are_read_again() {
    let (old, new) = (SigningKey::p256("old"), SigningKey::p256("new"));
    let site = Site::new(&[
        ("auth.hs256_secret", ""),
        ("auth.jwks_file", "keys.json"),
        ("auth.jwks_min_interval", "1h"),
        ("auth.jwks_refresh_interval", "1h"),
    ]);
    let publish = |text: &str| std::fs::write(site.path("keys.json"), text).unwrap();
    publish(&key_set(&[&old]));
    let relay = site.start().await;
    let token = |key: &SigningKey| key.sign(&Claims::new(&fresh_id()));
    let (before, after) = (token(&old), token(&new));
    assert_eq!(relay.status_for(&before).await, 200);

    configure(&site, "nonsense = 1\n");
    publish(&key_set(&[&new]));
    relay.reload(REFUSED).await;
    relay
        .eventually("the new key", async || {
            relay.status_for(&after).await == 200
        })
        .await;
    assert_eq!(relay.status_for(&before).await, 401);

    configure(&site, "");
    let bad = "cannot read the public keys of user tokens; those that were read last stay";
    for text in [
        "{ no JSON",
        "{\"keys\":[]}",
        "{\"keys\":[{\"kty\":\"oct\"}]}",
    ] {
        publish(text);
        relay.reload(bad).await;
        assert_eq!(relay.status_for(&after).await, 200);
    }
}
