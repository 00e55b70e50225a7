//! A drain as operators and devices meet it (section 10): what is refused meanwhile and what is not,
//! what ends it, and who asks for it.

use std::process::Stdio;

use relay_model::limits::DRAIN_RETRY_AFTER_SECONDS;
use relay_tests::blackbox::{Account, DEADLINE, Device, Relay, Socket};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

/// A desktop, and a phone with a request that the desktop has and does not answer: while it is open, a
/// drain waits.
struct Busy {
    desktop: Socket,
    phone: Socket,
    request: Value,
}

impl Busy {
    async fn at(relay: &Relay) -> Self {
        let mut desktop = relay.desktop(&Account::new()).await;
        let mut phone = relay.phone(&desktop.device).await;
        phone.request("open", "m", json!(1)).await;
        let request = desktop.next_request().await;
        Self {
            desktop,
            phone,
            request,
        }
    }

    /// Ends the work that the drain waits for.
    async fn finish(&mut self) {
        self.desktop.answer(&self.request, json!("done")).await;
        assert_eq!(self.phone.next_response().await["result"], json!("done"));
    }

    async fn expect_closes(&mut self) {
        self.desktop.expect_close(1012).await;
        self.phone.expect_close(1012).await;
        self.desktop.assert_all_read();
        self.phone.assert_all_read();
    }
}

/// Waits until the drain is in a phase.
async fn until_phase(relay: &Relay, phase: &str) {
    let reached = async || relay.state().await["drain"]["phase"] == phase;
    relay
        .eventually(&format!("the phase {phase}"), reached)
        .await;
}

/// Every row of the relay is offline, and says that the relay stopped.
fn assert_rows_released(relay: &Relay, devices: i64) {
    let mut database = relay.site().database();
    let released = "SELECT count(*) AS number FROM devices
        WHERE status = 'offline' AND offline_reason = 'relay_stopped'";
    assert_eq!(database.number(released), devices);
    let held = "SELECT count(*) AS number FROM devices WHERE status <> 'offline'";
    assert_eq!(database.number(held), 0);
}

/// DR-1, DR-2, DR-3: from the signal on nobody comes in; who is there works on, and so does HTTP; with the
/// last answer the drain ends by itself, each device is told to reconnect and hears nothing else.
#[tokio::test]
async fn nobody_comes_in_and_all_else_works() {
    let mut relay = Relay::start_operated(&[]).await;
    let mut busy = Busy::at(&relay).await;
    let late = busy.desktop.device.account.new_phone();
    relay.enrol(&late).await;
    let mut waiting = relay.upgrade(&late).await;
    assert_eq!(relay.get("/readyz").await.status, 200);

    relay.signal("TERM").await;
    until_phase(&relay, "draining").await;
    let ready = relay.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert_eq!(ready.body["missing"], json!(["notDraining"]), "{ready:?}");

    // A new device at the door, and one that stands behind it.
    let headers = late.upgrade_headers();
    let mut headers: Vec<(&str, &str)> = headers.iter().map(|(k, v)| (&**k, &**v)).collect();
    headers.extend([
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ]);
    let refused = relay
        .call(Method::GET, "/ws/device-link", &headers, None)
        .await;
    refused.assert_problem(503, "relayDraining");
    let retry = DRAIN_RETRY_AFTER_SECONDS.to_string();
    assert_eq!(refused.header("retry-after"), Some(retry.as_str()));
    let mut raw = relay.tcp().await;
    let answer = raw.ask_for_upgrade(&late.upgrade_headers()).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    waiting.send_register(late.registration()).await;
    waiting.expect_error("relayDraining").await;
    waiting.expect_close(1012).await;

    // Live sockets, both ways.
    busy.phone.request("more", "m", json!(2)).await;
    let more = busy.desktop.next_request().await;
    busy.desktop.answer(&more, json!("more")).await;
    assert_eq!(busy.phone.next_response().await["id"], "more");
    busy.phone.ping().await;
    // HTTP: reads and writes.
    for path in ["/healthz", "/api/version", "/metrics"] {
        assert_eq!(relay.get(path).await.status, 200, "{path}");
    }
    relay.enrol(&late).await;
    let listed = relay.listed(&busy.desktop.device).await;
    assert_eq!(listed["status"], "online");

    busy.finish().await;
    busy.expect_closes().await;
    let status = relay.exit_status().await;
    assert_eq!(status.code(), Some(0), "{}", relay.evidence().tail());
    assert_rows_released(&relay, 2);
}

/// OP-8, DR-1: with a lead, readiness turns first and everything else is as ever, so that a load balancer
/// has looked elsewhere before anybody is refused.
#[tokio::test]
async fn readiness_turns_before_anybody_is_refused() {
    let mut relay = Relay::start_operated(&[("drain.readiness_lead", "1m")]).await;
    relay.signal("TERM").await;
    let turned = async || relay.get("/readyz").await.status == 503;
    relay.eventually("readiness turns", turned).await;
    until_phase(&relay, "announced").await;
    let mut busy = Busy::at(&relay).await;
    busy.finish().await;
    relay.hurry("TERM").await;
    busy.expect_closes().await;
    assert_eq!(relay.exit_status().await.code(), Some(0));
    assert_rows_released(&relay, 2);
}

/// DR-4: a second signal ends the wait, whichever the two are; open requests are not answered, the devices
/// are closed, and the rows are given up.
#[tokio::test]
async fn a_second_signal_ends_the_wait() {
    for (first, second) in [("TERM", "TERM"), ("TERM", "INT"), ("INT", "TERM")] {
        let mut relay = Relay::start_operated(&[]).await;
        let mut busy = Busy::at(&relay).await;
        relay.signal(first).await;
        until_phase(&relay, "draining").await;
        busy.phone.ping().await;
        relay.hurry(second).await;
        busy.expect_closes().await;
        let status = relay.exit_status().await;
        assert_eq!(status.code(), Some(0), "{}", relay.evidence().tail());
        assert_rows_released(&relay, 2);
    }
}

/// DR-1: an operator's `POST` is the same as a signal, asking twice is asking once, and only the operator
/// may. A signal behind it is the first one, and does not end the wait.
#[tokio::test]
async fn an_operator_asks_for_it() {
    let mut relay = Relay::start_operated(&[("server.admin_listen", "127.0.0.1:0")]).await;
    let mut busy = Busy::at(&relay).await;
    let bearer = format!("Bearer {}", busy.phone.device.account.token);
    for headers in [&[][..], &[("Authorization", bearer.as_str())]] {
        let address = relay.admin_address();
        let answer = relay.call_at(address, Method::POST, "/admin/drain", headers, None);
        answer.await.assert_problem(401, "authRequired");
    }
    let elsewhere = relay.call(Method::POST, "/admin/drain", &[], None).await;
    assert_eq!(elsewhere.status, 404, "{elsewhere:?}");
    assert_eq!(relay.get("/readyz").await.status, 200);
    let running = &relay.state().await["drain"];
    assert_eq!(running["phase"], "running");

    for _ in 0..2 {
        let answer = relay.operate(Method::POST, "/admin/drain", None).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!(answer.body["phase"], "draining", "{answer:?}");
    }
    relay.signal("TERM").await;
    let counted = async || relay.state().await["drain"]["work"]["requests"] == 1;
    relay
        .eventually("the open request is counted", counted)
        .await;
    let drain = &relay.state().await["drain"];
    assert!(drain["secondsLeft"].as_f64() > Some(0.0), "{drain}");
    assert_eq!(drain["socketsLeft"], Value::Null);
    busy.finish().await;
    busy.expect_closes().await;
    assert_eq!(relay.exit_status().await.code(), Some(0));
}

/// DR-1, DR-2, OP-1: `relay drain` prints what is waited for and the end, and ends with 0 when the relay
/// has; with `--no-wait` it only asks.
#[tokio::test]
async fn the_command_follows_it() {
    let mut relay = Relay::start_operated(&[]).await;
    let mut busy = Busy::at(&relay).await;
    let url = format!("http://{}", relay.address());
    let ask = async |arguments: &[&str]| {
        let mut command = relay.site().command();
        let command = command.arg("drain").args(["--url", &url]).args(arguments);
        command.output().await.expect("the command runs")
    };
    let wrong = ask(&["--token", "some-other-token-that-nobody-has-set"]).await;
    assert_eq!(wrong.status.code(), Some(64), "{wrong:?}");
    assert_eq!(relay.get("/readyz").await.status, 200);
    let asked = ask(&["--no-wait"]).await;
    assert_eq!(asked.status.code(), Some(0), "{asked:?}");
    assert!(asked.stdout.starts_with(b"draining"), "{asked:?}");

    let mut command = relay.site().command();
    command
        .args(["drain", "--url", &url])
        .stdout(Stdio::piped());
    let mut follower = command.spawn().expect("the command runs");
    let mut lines = BufReader::new(follower.stdout.take().expect("it is piped")).lines();
    let line = tokio::time::timeout(DEADLINE, lines.next_line()).await;
    let mut shown = vec![line.expect("a line").expect("text").expect("not the end")];
    busy.finish().await;
    busy.expect_closes().await;
    assert_eq!(relay.exit_status().await.code(), Some(0));
    while let Some(line) = lines.next_line().await.expect("text") {
        shown.push(line);
    }
    let waits = "draining: waiting for 1 requests, ";
    assert!(
        shown.iter().any(|line| line.starts_with(waits)),
        "{shown:?}"
    );
    assert_eq!(
        shown.last().map(String::as_str),
        Some("the relay has ended")
    );
    let status = tokio::time::timeout(DEADLINE, follower.wait()).await;
    assert_eq!(
        status.expect("it ends").expect("its status").code(),
        Some(0)
    );
    let late = relay
        .site()
        .command()
        .args(["drain", "--url", &url])
        .output()
        .await;
    assert_eq!(late.expect("the command runs").status.code(), Some(69));
}

/// DR-2, DR-3: the wait has an end; what is open then is not answered, and its phone is told to reconnect.
#[tokio::test]
async fn the_wait_has_an_end() {
    let mut relay = Relay::start_operated(&[("drain.timeout", "300ms")]).await;
    let mut busy = Busy::at(&relay).await;
    relay.signal("TERM").await;
    busy.expect_closes().await;
    assert_eq!(relay.exit_status().await.code(), Some(0));
    assert_rows_released(&relay, 2);
}

/// DR-3, PR-8: a device that comes back to the next relay on the same database is expected there: its
/// phones are never told that it is gone.
#[tokio::test]
async fn the_next_relay_takes_over() {
    let mut relay = Relay::start_operated(&[]).await;
    let (desktop, phone): (Device, Device) = {
        let busy = Busy::at(&relay).await;
        let devices = (busy.desktop.device.clone(), busy.phone.device.clone());
        relay.signal("TERM").await;
        until_phase(&relay, "draining").await;
        relay.hurry("TERM").await;
        devices
    };
    assert_eq!(relay.exit_status().await.code(), Some(0));
    let next = relay.site().start().await;
    let mut phone = next.connect(&phone).await;
    assert_eq!(phone.next_status().await["status"], "reconnecting");
    let _desktop = next.connect(&desktop).await;
    assert_eq!(phone.next_status().await["status"], "online");
}
