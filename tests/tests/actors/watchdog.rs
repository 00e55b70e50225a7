//! Sockets that say nothing, or never register.

use std::time::Duration;

use relay_model::store::DeviceType;
use relay_tests::paused::{Run, pass};
use serde_json::json;

/// TR-5: a silent peer is closed 180 to 210 s after its last frame, one that answers pings never.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn silence_is_closed() {
    let run = Run::start();
    let account = run.account();
    let mut living = run.desktop(account).await;
    // The library answers pings only while the device listens.
    living.hears_nothing_for(Duration::from_secs(1_000)).await;
    let silent = run.phone(account, living.id).await;
    let id = silent.id;
    let routes = async || run.state().await.directory.routes;
    // The living desktop has to listen while the phone is silent.
    living.hears_nothing_for(Duration::from_secs(180)).await;
    assert_eq!(routes().await, 2, "{id}");
    living.hears_nothing_for(Duration::from_secs(31)).await;
    assert_eq!(routes().await, 1);
}

/// TR-9: a socket that does not register is closed after 15 s; pings do not help.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_socket_that_does_not_register_is_closed() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    let mut desktop = run.connect(account, DeviceType::Desktop, id, None).await;
    pass(Duration::from_secs(14)).await;
    desktop.send(json!({"type": "ping"})).await;
    assert_eq!(desktop.next().await["type"], "pong");
    assert_eq!(
        desktop.receive_within(Duration::from_millis(990)).await,
        None
    );
    assert_eq!(desktop.next_close().await, 4408);
}
