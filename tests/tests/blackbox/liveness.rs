//! Peers that fall silent or do not read (TR-5, TR-10).

use relay_tests::blackbox::{Account, OpCode, RawSocket, Relay, Socket, encode, rpc_request};
use serde_json::json;

const SHORT: [(&str, &str); 3] = [
    ("limits.ping_interval", "100ms"),
    ("limits.client_timeout", "400ms"),
    ("limits.close_timeout", "200ms"),
];

async fn raw_desktop(relay: &Relay) -> (RawSocket, Socket) {
    let device = Account::new().new_desktop();
    relay.enrol(&device).await;
    let mut raw = relay.raw(&device).await;
    raw.register(&device).await;
    let phone = relay.phone(&device).await;
    (raw, phone)
}

/// TR-5, PR-2: a peer that answers nothing is pinged, then closed with 4411, then dropped although
/// it does not answer the close either; its phone learns of it. The phone, which answers pings,
/// stays.
#[tokio::test]
async fn silent_peers_are_closed() {
    let relay = Relay::start_with(&SHORT).await;
    let (mut silent, mut phone) = raw_desktop(&relay).await;
    let ping = silent.next_frame().await;
    assert_eq!(ping.op, OpCode::Ping);
    assert_eq!(phone.next_status().await["status"], "reconnecting");
    silent.expect_close_frame(4411).await;
    silent.expect_end().await;
    phone.ping().await;
    phone.assert_all_read();
}

/// TR-5: a text frame, a ping or a pong is a sign of life each.
#[tokio::test]
async fn any_frame_is_a_sign_of_life() {
    let relay = Relay::start_with(&SHORT).await;
    for frame in [
        encode(OpCode::Text, true, b"not even JSON"),
        encode(OpCode::Ping, true, b""),
        encode(OpCode::Pong, true, b""),
    ] {
        let (mut raw, mut phone) = raw_desktop(&relay).await;
        // Twelve looks of the watchdog are three times its patience.
        let mut looks = 0;
        while looks < 12 {
            let received = raw.next_frame().await;
            if received.op == OpCode::Ping {
                looks += 1;
                raw.send(&frame).await;
                // The phone is watched too, and answers its pings while it reads.
                phone.ping().await;
            }
        }
        phone.assert_all_read();
        raw.reset();
        assert_eq!(phone.next_status().await["status"], "reconnecting");
    }
}

/// TR-4, TR-5: binary messages are none.
#[tokio::test]
async fn binary_messages_are_no_sign_of_life() {
    let relay = Relay::start_with(&SHORT).await;
    let (mut raw, mut phone) = raw_desktop(&relay).await;
    loop {
        let received = raw.next_frame().await;
        match received.op {
            OpCode::Ping => {
                raw.send(&encode(OpCode::Binary, true, b"x")).await;
                phone.ping().await;
            }
            OpCode::Close => {
                assert_eq!(received.close_code(), Some(4411));
                break;
            }
            _ => {}
        }
    }
    assert_eq!(phone.next_status().await["status"], "reconnecting");
}

/// TR-5: progress of 1 KiB between two looks on an unfinished message counts; less does not.
#[tokio::test]
async fn progress_on_a_message_is_a_sign_of_life() {
    let relay = Relay::start_with(&SHORT).await;
    for (progress, lives) in [(1024, true), (1023, false)] {
        let (mut raw, mut phone) = raw_desktop(&relay).await;
        raw.send(&relay_tests::blackbox::header(
            OpCode::Text,
            true,
            1024 * 1024,
        ))
        .await;
        let mut looks = 0;
        let lived = loop {
            let received = raw.next_frame().await;
            match received.op {
                OpCode::Close => break false,
                OpCode::Ping => looks += 1,
                _ => {}
            }
            if looks == 12 {
                break true;
            }
            raw.send(&vec![b'x'; progress]).await;
            phone.ping().await;
        };
        assert_eq!(lived, lives, "{progress} bytes a look");
        raw.reset();
        assert_eq!(phone.next_status().await["status"], "reconnecting");
    }
}

/// TR-5: a peer with a closed window is closed like any silent one; it cannot hide behind what it
/// does not read.
#[tokio::test]
async fn a_closed_window_does_not_hide_a_silent_peer() {
    let relay = Relay::start_with(&SHORT).await;
    let (mut frozen, mut phone) = raw_desktop(&relay).await;
    let body = json!("x".repeat(1024 * 1024));
    for number in 0..8 {
        phone
            .request(&format!("r{number}"), "m", body.clone())
            .await;
    }
    assert_eq!(phone.next_status().await["status"], "reconnecting");
    for _ in 0..8 {
        assert_eq!(phone.next_response().await["error"]["code"], -32011);
    }
    // Its connection is reset, so nothing of it is left in the kernel.
    frozen.drain().await;
}

/// TR-10: a peer that stays alive but takes nothing for too long is retired.
#[tokio::test]
async fn a_peer_that_takes_nothing_is_retired() {
    let relay = Relay::start_with(&[
        ("limits.write_stall_timeout", "400ms"),
        ("limits.close_timeout", "200ms"),
    ])
    .await;
    let (mut frozen, mut phone) = raw_desktop(&relay).await;
    let body = json!("x".repeat(1024 * 1024));
    for number in 0..8 {
        phone
            .request(&format!("r{number}"), "m", body.clone())
            .await;
    }
    assert_eq!(phone.next_status().await["status"], "reconnecting");
    frozen.drain().await;
}

/// TR-10: events for a peer that does not read pile up to their bound, then it is retired; others
/// are not held up.
#[tokio::test]
async fn a_peer_that_does_not_read_events_is_retired() {
    let relay = Relay::start_with(&[
        ("limits.event_lane_bytes", "1MiB"),
        ("limits.close_timeout", "200ms"),
    ])
    .await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let mut reading = relay.phone(&desktop.device).await;
    let device = account.new_phone().targeting(&desktop.device);
    relay.enrol(&device).await;
    let mut frozen = relay.raw(&device).await;
    frozen.register(&device).await;
    relay.until_listed_as(&device, "online").await;
    let body = json!("x".repeat(256 * 1024));
    for number in 0..20 {
        desktop.publish("x", body.clone()).await;
        let event = reading.next_event("x").await;
        assert!(event.text.len() > 256 * 1024, "{number}");
    }
    relay.until_listed_as(&device, "offline").await;
    frozen.drain().await;
}

/// RPC-9: what matters overtakes events that wait for a peer which reads slowly: control frames
/// first, then answers, and no event is lost for it.
#[tokio::test]
async fn answers_overtake_waiting_events() {
    const EVENTS: usize = 6;
    let relay = Relay::start().await;
    let account = Account::new();
    let mut desktop = relay.desktop(&account).await;
    let device = account.new_phone().targeting(&desktop.device);
    relay.enrol(&device).await;
    let mut phone = relay.raw(&device).await;
    phone.register(&device).await;
    assert_eq!(phone.next_json().await["type"], "event");
    let body = json!("x".repeat(1024 * 1024));
    for _ in 0..EVENTS {
        desktop.publish("x", body.clone()).await;
    }
    // Another phone hears the last one, so all have reached this one's lane.
    let mut witness = relay.phone(&desktop.device).await;
    desktop.publish("last", json!(null)).await;
    witness.next_event("last").await;
    phone.send_json(&rpc_request("r", "m", json!(1))).await;
    let request = desktop.next_request().await;
    desktop.answer(&request, json!(1)).await;
    desktop.ping().await;
    phone.send_json(&json!({ "type": "ping" })).await;

    let mut order = Vec::new();
    while order.last() != Some(&"last") {
        let text = String::from_utf8(phone.next_message().await).unwrap();
        let kind = ["\"pong\"", "\"rpc.response\"", "\"last\""]
            .into_iter()
            .find(|kind| text[..text.len().min(400)].contains(kind));
        order.push(kind.map_or("x", |kind| kind.trim_matches('"')));
    }
    let place = |kind| order.iter().position(|found| *found == kind);
    assert_eq!(order.len(), EVENTS + 3, "{order:?}");
    let (answer, last) = (place("rpc.response").unwrap(), EVENTS + 2);
    assert!(answer + 3 <= last, "{order:?}");
    assert!(place("pong") < Some(last), "{order:?}");
}
