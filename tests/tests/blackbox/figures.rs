//! The page of figures: that each is there, is well formed, says what happened, and names nobody (OP-6).

use std::process::Stdio;

use relay_actors::metrics::Metric;
use relay_tests::blackbox::{Account, Relay, interest, snapshot, snapshot_payload};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// OP-6: every metric of the table is on the page from the start, with its meaning and kind, and there
/// is none that the table does not have.
#[tokio::test]
async fn the_page_has_what_the_table_says() {
    let relay = Relay::start().await;
    let page = relay.figures().await.text;
    for metric in Metric::ALL {
        let (name, kind) = (metric.name(), metric.kind().name());
        let has = |line: &str| page.lines().any(|other| other == line);
        assert!(has(&format!("# TYPE {name} {kind}")), "{name}\n{page}");
        assert!(
            has(&format!("# HELP {name} {}", metric.meaning())),
            "{name}\n{page}"
        );
    }
    let kinds = page.lines().filter(|line| line.starts_with("# TYPE "));
    assert_eq!(kinds.count(), Metric::ALL.len(), "{page}");
}

/// OP-6: Prometheus' own tool has nothing to say about names, units and form.
#[tokio::test]
async fn promtool_finds_nothing() {
    let relay = Relay::start().await;
    relay.desktop(&Account::new()).await.close().await;
    let page = relay.figures().await.text;
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool, of the Debian package prometheus, is installed");
    let mut stdin = promtool.stdin.take().expect("it is piped");
    stdin
        .write_all(page.as_bytes())
        .await
        .expect("promtool reads");
    drop(stdin);
    let output = promtool.wait_with_output().await.expect("promtool ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(
        output.status.success() && said.trim().is_empty(),
        "{said}\n{page}"
    );
}

/// OP-6: connections, registrations and closes are counted by what became of them.
#[tokio::test]
async fn connections_are_counted() {
    let relay = Relay::start().await;
    let before = relay.figures().await;
    assert_eq!(before.of("relay_sockets"), 0.0);
    let account = Account::new();
    let desktop = relay.desktop(&account).await;
    let phone = relay.phone(&desktop.device).await;
    let mut stranger = relay.upgrade(&account.new_desktop()).await;
    stranger.send_register(stranger.device.registration()).await;
    stranger.expect_error("deviceNotRegistered").await;
    stranger.expect_close(1008).await;
    let refused = relay.tcp().await.ask_for_upgrade(&[]).await;
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    relay.figure_becomes("relay_sockets", 2.0).await;

    let now = relay.figures().await;
    for (series, moved) in [
        ("relay_sockets_accepted_total", 3.0),
        ("relay_routes{client_type=\"desktop\"}", 1.0),
        ("relay_routes{client_type=\"mobile\"}", 1.0),
        ("relay_accounts", 1.0),
        ("relay_pairs", 1.0),
        ("relay_sessions", 2.0),
        ("relay_registrations_total{code=\"registered\"}", 2.0),
        (
            "relay_registrations_total{code=\"deviceNotRegistered\"}",
            1.0,
        ),
        (
            "relay_closes_total{code=\"1008\",side=\"relay\",reason=\"refused\"}",
            1.0,
        ),
        (
            "relay_upgrades_refused_total{status=\"401\",error=\"authRequired\"}",
            1.0,
        ),
        ("relay_frames_received_total{type=\"register\"}", 3.0),
        ("relay_presence_transitions_total{status=\"online\"}", 2.0),
        (
            "relay_http_requests_total{route=\"/api/devices/register\",method=\"POST\",status=\"201\"}",
            1.0,
        ),
    ] {
        assert_eq!(now.since(&before, series), moved, "{series}\n{}", now.text);
    }
    assert!(now.of("relay_process_resident_memory_bytes") > 1e6);
    assert!(now.of("relay_database_query_seconds_count{access=\"read\"}") > 0.0);

    phone.close().await;
    desktop.close().await;
    relay.figure_becomes("relay_sockets", 0.0).await;
    let gone = relay.figures().await;
    let closed = "relay_closes_total{code=\"1000\",side=\"peer\",reason=\"client_closed\"}";
    let no_code = "relay_closes_total{code=\"none\",side=\"peer\",reason=\"client_closed\"}";
    let closes = gone.since(&now, closed) + gone.since(&now, no_code);
    assert_eq!(closes, 2.0, "{}", gone.text);
    assert_eq!(gone.of("relay_presence_graces"), 1.0);
    assert_eq!(gone.of("relay_routes{client_type=\"desktop\"}"), 0.0);
}

/// OP-6: requests, answers, errors, events and the bytes of all of them.
#[tokio::test]
async fn traffic_is_counted() {
    let relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    let before = relay.figures().await;
    phone.request("open", "chat.send", json!({})).await;
    phone.request("done", "session.list", json!({})).await;
    let open = desktop.next_request().await;
    let done = desktop.next_request().await;
    desktop.answer(&done, json!("text")).await;
    phone.next_response().await;
    phone.request("open", "chat.send", json!({})).await;
    phone.request("", "chat.send", json!({})).await;
    assert_eq!(phone.next_response().await["error"]["code"], -32600);
    desktop.publish("test:event", json!({})).await;
    phone.next_event("test:event").await;
    let stray = json!({ "id": "stray", "clientId": "x" });
    desktop.answer(&stray, json!(1)).await;
    desktop.ping().await;
    relay
        .figure_becomes("relay_rpc_answers_total{outcome=\"unknown\"}", 1.0)
        .await;

    let now = relay.figures().await;
    for (series, moved) in [
        ("relay_rpc_requests_total{outcome=\"forwarded\"}", 2.0),
        ("relay_rpc_requests_total{outcome=\"duplicate\"}", 1.0),
        ("relay_rpc_requests_total{outcome=\"refused\"}", 1.0),
        ("relay_rpc_answers_total{outcome=\"delivered\"}", 1.0),
        ("relay_rpc_errors_total{code=\"-32600\"}", 1.0),
        ("relay_rpc_duration_seconds_count", 1.0),
        ("relay_rpc_pending", 1.0),
        ("relay_frames_received_total{type=\"rpc.request\"}", 4.0),
        ("relay_frames_received_total{type=\"rpc.response\"}", 2.0),
        ("relay_frames_received_total{type=\"event\"}", 1.0),
        ("relay_frames_received_total{type=\"ping\"}", 1.0),
        ("relay_frames_sent_total{type=\"rpc.request\"}", 2.0),
        ("relay_frames_sent_total{type=\"rpc.response\"}", 2.0),
        ("relay_frames_sent_total{type=\"event\"}", 1.0),
        ("relay_events_published_total", 1.0),
        ("relay_events_routed_total", 1.0),
    ] {
        assert_eq!(now.since(&before, series), moved, "{series}\n{}", now.text);
    }
    assert!(now.since(&before, "relay_received_bytes_total{type=\"rpc.request\"}") > 200.0);
    assert!(now.since(&before, "relay_sent_bytes_total{type=\"rpc.request\"}") > 200.0);
    assert_eq!(now.of("relay_mailbox_depth{actor=\"registry\"}"), 0.0);

    desktop.answer(&open, json!(null)).await;
    phone.next_response().await;
    relay.figure_becomes("relay_rpc_pending", 0.0).await;
    desktop.vanish();
    relay
        .figure_becomes(
            "relay_presence_transitions_total{status=\"reconnecting\"}",
            1.0,
        )
        .await;
}

/// OP-6, TR-6: what the rate limit drops is counted, with its bytes and with the errors that it causes.
#[tokio::test]
async fn dropped_frames_are_counted() {
    let settings = [("limits.rate_burst", "3"), ("limits.rate_per_second", "1")];
    let relay = Relay::start_with(&settings).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    for _ in 0..20 {
        desktop.send(&json!({ "type": "ping" })).await;
    }
    desktop.expect_pong().await;
    let dropped = async || {
        let page = relay.figures().await;
        let limited = page.of("relay_rate_limited_frames_total");
        let received = page.of("relay_frames_received_total{type=\"rate_limited\"}");
        let pings = page.of("relay_frames_received_total{type=\"ping\"}");
        limited > 0.0 && limited == received && limited + pings == 20.0
    };
    relay
        .eventually("all pings to be read or dropped", dropped)
        .await;
}

/// OP-6, TL-5, TL-8: each snapshot is counted once by its end; leases while they live.
#[tokio::test]
async fn timelines_are_counted() {
    let settings = [("timeline.flush_interval", "5ms")];
    let relay = Relay::start_with(&settings).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone.look_at("s").await;
    let proof = desktop.next_lease_state().await["authorizationGeneration"].clone();
    relay.figure_becomes("relay_timeline_leases", 1.0).await;
    let publish = |revision, proof: &Value| {
        snapshot(&snapshot_payload(
            "s",
            "main",
            revision,
            proof,
            &json!("text"),
        ))
    };
    desktop.send_text(&publish(1, &proof)).await;
    phone.next_snapshot().await;
    desktop.send_text(&publish(1, &proof)).await;
    desktop.send_text(&publish(2, &Value::Null)).await;
    let outcome = |word| format!("relay_timeline_frames_total{{outcome=\"{word}\"}}");
    for word in ["accepted", "sent", "stale", "unauthorized"] {
        relay.figure_becomes(&outcome(word), 1.0).await;
    }
    relay
        .figure_becomes("relay_frames_sent_total{type=\"timeline\"}", 1.0)
        .await;
    phone.send(&interest("s", false)).await;
    relay.figure_becomes("relay_timeline_leases", 0.0).await;
}

/// OP-6, TR-10: a phone that takes nothing is retired; the lane that was full, the close and its reason
/// are counted.
#[tokio::test]
async fn retirements_are_counted() {
    let relay = Relay::start_with(&[("limits.event_lane_bytes", "256KiB")]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let _frozen = relay.phone(&desktop.device).await;
    let text = "x".repeat(100_000);
    let retired = "relay_retirements_total{reason=\"congested\"}";
    // What the kernels on the way keep is not the relay's.
    for _ in 0..200 {
        desktop.publish("test:event", json!(text)).await;
        desktop.ping().await;
        if relay.figures().await.of(retired) > 0.0 {
            break;
        }
    }
    let page = relay.figures().await;
    let closed = "relay_closes_total{code=\"4409\",side=\"relay\",reason=\"congested\"}";
    let full = "relay_mailbox_full_total{actor=\"socket\"}";
    for series in [retired, closed, full] {
        assert_eq!(page.of(series), 1.0, "{series}\n{}", page.text);
    }
}

/// OP-6, TR-11: a client that connects too often is counted, as a connection and as an upgrade.
#[tokio::test]
async fn clients_that_come_too_often_are_counted() {
    let relay = Relay::start_with(&[
        ("server.trusted_proxies", "127.0.0.1"),
        ("limits.connect_burst", "1"),
        ("limits.connects_per_second", "1"),
    ])
    .await;
    let limited = "relay_connections_refused_total{reason=\"connect_limit\"}";
    let client = [("X-Forwarded-For".to_owned(), "198.51.100.1".to_owned())];
    let mut refused = 0.0;
    for _ in 0..20 {
        let head = relay.tcp().await.ask_for_upgrade(&client).await;
        refused += f64::from(u8::from(head.starts_with("HTTP/1.1 429 ")));
    }
    assert!(refused > 0.0);
    let page = relay.figures().await;
    let upgrades = "relay_upgrades_refused_total{status=\"429\",error=\"tooManyRequests\"}";
    assert_eq!(
        (page.of(limited), page.of(upgrades)),
        (refused, refused),
        "{}",
        page.text
    );
}

/// OP-6: nothing on the page tells who the accounts, devices and connections are.
#[tokio::test]
async fn the_page_names_nobody() {
    let relay = Relay::start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone
        .request("a-request-id", "a.method", json!({ "a-word": 1 }))
        .await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!("another-word")).await;
    phone.next_response().await;
    relay.get("/api/devices/a-path-of-nobody").await;
    let (phone_device, desktop_device) = (phone.device.clone(), desktop.device.clone());
    let session = phone.session.clone();
    phone.close().await;
    relay
        .figure_becomes("relay_routes{client_type=\"mobile\"}", 0.0)
        .await;

    let page = relay.figures().await.text;
    let instance = relay.get("/api/version").await.body["relayInstanceId"].clone();
    let secrets = [
        account.id.as_str(),
        account.token.as_str(),
        &phone_device.id,
        &desktop_device.id,
        session["sessionId"].as_str().expect("an id"),
        session["resumeToken"].as_str().expect("a token"),
        instance.as_str().expect("an id"),
        "a-request-id",
        "a.method",
        "word",
        "a-path-of-nobody",
        "127.0.0.1",
    ];
    for secret in secrets {
        assert!(!page.contains(secret), "{secret}\n{page}");
    }
    let ids = page.split(|c: char| !c.is_ascii_hexdigit() && c != '-');
    let ids: Vec<_> = ids.filter(|word| word.len() >= 32).collect();
    assert!(ids.is_empty(), "{ids:?}");
}
