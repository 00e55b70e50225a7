//! How the relay ends by a signal (DR-1 to DR-4).

use relay_tests::blackbox::{Account, Relay};
use serde_json::json;

/// DR-3: every one of 100 sockets, registered or not, gets a close frame with 1012, and the process
/// ends with 0.
#[tokio::test]
async fn every_socket_is_closed_with_1012() {
    let mut relay = Relay::start_with(&[("drain.timeout", "0ms")]).await;
    let mut sockets = Vec::new();
    for _ in 0..20 {
        let account = Account::new();
        let desktop = relay.desktop(&account).await;
        for _ in 0..3 {
            sockets.push(relay.phone(&desktop.device).await);
        }
        sockets.push(relay.upgrade(&account.new_phone()).await);
        sockets.push(desktop);
    }
    assert_eq!(sockets.len(), 100);
    // What is open when the relay stops is not answered (DR-3).
    sockets[0].request("open", "m", json!(1)).await;
    sockets[4].next_request().await;
    relay.signal("TERM").await;
    for socket in &mut sockets {
        socket.expect_close(1012).await;
        socket.assert_all_read();
    }
    let status = relay.exit_status().await;
    assert_eq!(status.code(), Some(0), "{}", relay.evidence().tail());
}

/// SIGINT, which a person at a terminal sends, does the same.
#[tokio::test]
async fn an_interrupt_stops_too() {
    let mut relay = Relay::start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    relay.signal("INT").await;
    desktop.expect_close(1012).await;
    assert_eq!(relay.exit_status().await.code(), Some(0));
}

/// DR-2, DR-3: a peer that reads nothing, one that does not answer the close, one in the middle of its upgrade
/// and one that has said nothing at all do not hold the exit.
#[tokio::test]
async fn nobody_holds_the_exit() {
    let short = [
        ("drain.stop_timeout", "500ms"),
        ("drain.timeout", "1s"),
        ("drain.stall_tolerance", "100ms"),
    ];
    let mut relay = Relay::start_with(&short).await;
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut frozen = relay.raw(&device).await;
    frozen.register(&device).await;
    let mut phone = relay.phone(&device).await;
    let body = json!("x".repeat(1024 * 1024));
    for number in 0..8 {
        phone
            .request(&format!("r{number}"), "m", body.clone())
            .await;
    }
    let mut mute = relay.raw(&device.account.new_phone()).await;
    let mut half = relay.tcp().await;
    half.send(b"GET /ws/device-link HTTP/1.1\r\nHost: relay\r\nUpgrade: web")
        .await;
    let _idle = relay.tcp().await;
    phone.ping().await;

    relay.signal("TERM").await;
    phone.expect_close(1012).await;
    mute.expect_close_frame(1012).await;
    assert_eq!(
        relay.exit_status().await.code(),
        Some(0),
        "{}",
        relay.evidence().tail()
    );
    // Nothing is left of the connections: the kernel resets or ends them.
    frozen.drain().await;
    half.drain().await;
}

/// A relay without any connection stops as well, and its port is free at once.
#[tokio::test]
async fn an_idle_relay_stops() {
    let mut relay = Relay::start().await;
    let address = relay.address();
    relay.signal("TERM").await;
    assert_eq!(relay.exit_status().await.code(), Some(0));
    let listen = address.to_string();
    let next = relay.site().with(&[("server.listen", &listen)]);
    let mut command = next.command();
    let mut child = command.arg("serve").spawn().unwrap();
    let up = async || {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = client.get(format!("http://{address}/healthz")).send().await;
        answer.is_ok_and(|answer| answer.status() == 200)
    };
    relay
        .eventually("the next relay on the same port", up)
        .await;
    child.kill().await.unwrap();
}
