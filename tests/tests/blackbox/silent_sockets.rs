//! Sockets that are opened and never registered: each is closed in time, and nothing of them stays
//! (TR-9).

use relay_tests::blackbox::{Account, OTHER_FILES, OpCode, Relay, by_length, encode, header};
use serde_json::json;

/// What is said on a socket that never registers, in turn: nothing, a ping of each kind, a frame that is
/// not allowed yet, and the first bytes of a registration.
fn words(number: usize) -> Vec<u8> {
    let text = |text: &str| encode(OpCode::Text, true, text.as_bytes());
    match number % 5 {
        0 => Vec::new(),
        1 => text(r#"{"type":"ping"}"#),
        2 => encode(OpCode::Ping, true, b"?"),
        3 => text(r#"{"type":"heartbeat","payload":{}}"#),
        _ => [
            header(OpCode::Text, true, 200),
            br#"{"type":"regis"#.to_vec(),
        ]
        .concat(),
    }
}

/// TR-9: a thousand such sockets at once are closed with 4408 each, the descriptors are as many as before,
/// and a device that registers meanwhile is not held up.
#[tokio::test]
async fn silent_sockets_are_closed() {
    let relay = Relay::start_with(&[("limits.registration_timeout", "1500ms")]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let stranger = Account::new().new_phone();
    for _ in 0..by_length(1, 10) {
        let before = relay.open_files();
        let mut silent = Vec::new();
        for number in 0..by_length(400, 1_000) {
            let mut socket = relay.raw(&stranger).await;
            socket.send(&words(number)).await;
            silent.push(socket);
        }
        let mut phone = relay.phone(&desktop.device).await;
        phone.request("r", "m", json!(1)).await;
        let request = desktop.next_request().await;
        desktop.answer(&request, json!(2)).await;
        assert_eq!(phone.next_response().await["result"], 2);
        for socket in &mut silent {
            socket.expect_close_frame(4408).await;
        }
        phone.close().await;
        let ports: Vec<_> = silent.iter().map(|socket| socket.port()).collect();
        drop(silent);
        relay
            .eventually("the end of all of them", async || {
                let peers = relay.peers();
                ports.iter().all(|port| !peers.contains(port))
                    && relay.dead_sockets() == 0
                    && relay.open_files() <= before + OTHER_FILES
            })
            .await;
        desktop.ping().await;
    }
}
