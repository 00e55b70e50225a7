//! The largest messages, from many desktops at once, and those that are only announced: memory stays
//! under its ceiling, and every message arrives or its sender is told (TR-3, TR-5, TR-10).

use std::collections::BTreeSet;

use relay_tests::blackbox::{Account, OpCode, RawSocket, Relay, by_length, encode, header};
use serde_json::json;
use tokio::task::JoinSet;

const MIB: u64 = 1024 * 1024;

/// How a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Its phone has it, whole.
    Arrived,
    /// Its desktop or its phone was closed with 4409.
    Retired,
}

/// The length of the next message, or nothing if the relay retires this peer first.
async fn length_or_retired(raw: &mut RawSocket) -> Option<usize> {
    let mut length = 0;
    loop {
        let frame = raw.next_frame_but_ping().await;
        if frame.op == OpCode::Close {
            assert_eq!(frame.close_code(), Some(4409));
            return None;
        }
        length += frame.payload.len();
        if frame.is_final {
            return Some(length);
        }
    }
}

/// Invariant 7, TR-3, TR-10: desktops send the largest messages at once, each to a phone of its own. They
/// arrive whole; whoever holds more than the process can bear is closed with 4409, and nothing in part.
///
/// Memory: `limits.inbound_total` of unfinished messages and one that is finished above it, each in a
/// buffer that may be twice as long as what it holds; then `limits.outbound_total` of what waits for
/// phones and one message that crosses it; and 8 MiB for the rest of the process. Without ceilings it
/// would be all of them, up to twice.
#[tokio::test]
async fn many_at_once_keep_the_ceiling() {
    let (pairs, size, ceiling) = by_length((10, 8, 8), (20, 32, 64));
    let limit = format!("{ceiling}MiB");
    let relay = Relay::start_with(&[
        ("limits.inbound_total", limit.as_str()),
        ("limits.outbound_total", limit.as_str()),
    ])
    .await;
    let message = largest(size * MIB as usize);
    let mut connected = Vec::new();
    for _ in 0..pairs {
        let account = Account::new();
        let device = account.new_desktop();
        relay.enrol(&device).await;
        let mut desktop = relay.raw(&device).await;
        desktop.register(&device).await;
        let device = account.new_phone();
        relay.enrol(&device).await;
        let mut phone = relay.raw(&device).await;
        phone.register(&device).await;
        connected.push((desktop, phone));
    }
    relay.process().reset_peak().expect("our own process");
    let before = relay.resident();
    let mut sending = JoinSet::new();
    let mut receiving = JoinSet::new();
    for (mut desktop, mut phone) in connected {
        let message = message.clone();
        sending.spawn(async move {
            // It may be closed in the middle.
            desktop.try_send(&message).await;
            desktop
        });
        receiving.spawn(async move { length_or_retired(&mut phone).await });
    }
    let mut desktops = Vec::new();
    while let Some(desktop) = sending.join_next().await {
        desktops.push(desktop.expect("a desktop"));
    }
    let mut outcomes = Vec::new();
    while let Some(length) = receiving.join_next().await {
        outcomes.push(match length.expect("a phone") {
            // The relay's own words around the payload take a little more room than the desktop's.
            Some(length) => {
                assert!(length > size * MIB as usize - 2_000, "{length} bytes");
                Outcome::Arrived
            }
            None => Outcome::Retired,
        });
    }
    let peak = relay.process().peak().expect("the relay runs");
    let arrived = outcomes
        .iter()
        .filter(|outcome| **outcome == Outcome::Arrived);
    let (arrived, grown) = (arrived.count(), peak.saturating_sub(before));
    println!("{arrived} of {pairs} arrived, grown by {} MiB", grown / MIB);
    assert!(arrived > 0, "{outcomes:?}");
    let (size, ceiling) = (size as u64, ceiling as u64);
    let bound = 2 * (ceiling + size) + ceiling + size + 8;
    assert!(
        grown <= bound * MIB,
        "{grown} bytes more, {bound} MiB may be"
    );
    assert_eq!(relay.get("/readyz").await.status, 200);
}

/// Invariant 7, TR-10: desktops that send all of a large message but its last byte cannot hold more than
/// the ceiling together: those above it are not read, and given up when that has gone on for too long.
/// The others may finish.
///
/// Memory: `limits.inbound_total` and one message above it, in buffers that may be twice as long; and
/// 8 MiB for the rest. Without the ceiling it would be all of them, up to twice.
#[tokio::test]
async fn unfinished_messages_keep_the_ceiling() {
    let (desktops, size, ceiling) = by_length((12, 8, 8), (20, 32, 64));
    let limit = format!("{ceiling}MiB");
    let relay = Relay::start_with(&[
        ("limits.inbound_total", limit.as_str()),
        ("limits.write_stall_timeout", "1500ms"),
    ])
    .await;
    let message = largest(size * MIB as usize);
    let mut devices = Vec::new();
    for _ in 0..desktops {
        let device = Account::new().new_desktop();
        relay.enrol(&device).await;
        let mut desktop = relay.raw(&device).await;
        desktop.register(&device).await;
        devices.push(desktop);
    }
    relay.process().reset_peak().expect("our own process");
    let before = relay.resident();
    let mut sending = JoinSet::new();
    for mut desktop in devices {
        let message = message.clone();
        sending.spawn(async move {
            let all_but_one = &message[..message.len() - 1];
            desktop.try_send(all_but_one).await.then_some(desktop)
        });
    }
    let mut held = Vec::new();
    while let Some(desktop) = sending.join_next().await {
        held.extend(desktop.expect("a desktop"));
    }
    let given_up = |line: &str| line.contains("memory_ceiling").then_some(());
    relay
        .evidence()
        .wait_for("one that is given up", given_up)
        .await;
    let peak = relay.process().peak().expect("the relay runs");
    let grown = peak.saturating_sub(before);
    println!(
        "{} of {desktops} held, grown by {} MiB",
        held.len(),
        grown / MIB
    );
    let bound = 2 * (ceiling as u64 + size as u64) + 8;
    assert!(
        grown <= bound * MIB,
        "{grown} bytes more, {bound} MiB may be"
    );
    let mut finished = 0;
    for mut desktop in held {
        // What its kernel took, the relay need not have read, so it may be among those given up.
        let rest = [
            &message[message.len() - 1..],
            &encode(OpCode::Ping, true, b""),
        ]
        .concat();
        if desktop.try_send(&rest).await && answers_or_ends(&mut desktop).await {
            finished += 1;
        }
    }
    assert!(finished > 0, "somebody always finishes");
    relay.desktop(&Account::new()).await.ping().await;
}

/// Whether a pong comes; else the end must, if the relay has given up this peer.
async fn answers_or_ends(raw: &mut RawSocket) -> bool {
    loop {
        while let Some(frame) = raw.take_frame() {
            match frame.op {
                OpCode::Pong => return true,
                OpCode::Close => assert_eq!(frame.close_code(), Some(4409)),
                _ => {}
            }
        }
        if !raw.read_at_most(1_024).await {
            return false;
        }
    }
}

/// TR-3, TR-5, TR-9: the header of a frame of 32 MiB and then silence, on many registered sockets: nothing
/// is held for what is only announced, and each socket is closed as a silent one. Before registration
/// such a header is refused at once.
///
/// Memory: 64 KiB for each socket, far more than its buffers have, and far less than what is announced:
/// 3 GiB, and long 16.
#[tokio::test]
async fn announced_bytes_cost_nothing() {
    let relay = Relay::start_with(&[
        ("limits.ping_interval", "500ms"),
        ("limits.client_timeout", "3s"),
        ("limits.close_timeout", "300ms"),
    ])
    .await;
    let sockets = by_length(100, 500);
    let announced = header(OpCode::Text, true, 32 * MIB);
    let before = relay.resident();
    relay.process().reset_peak().expect("our own process");
    let mut silent = Vec::new();
    for _ in 0..sockets {
        let device = Account::new().new_desktop();
        relay.enrol(&device).await;
        let mut desktop = relay.raw(&device).await;
        desktop.register(&device).await;
        desktop.send(&announced).await;
        silent.push(desktop);
    }
    let mut stranger = relay.raw(&Account::new().new_desktop()).await;
    stranger.send(&announced).await;
    stranger.expect_close_frame(1009).await;
    for desktop in &mut silent {
        desktop.expect_close_frame(4411).await;
        desktop.expect_end().await;
    }
    let grown = relay
        .process()
        .peak()
        .expect("the relay runs")
        .saturating_sub(before);
    println!("grown by {} KiB", grown / 1024);
    let bound = sockets * 64 * 1024;
    assert!(grown <= bound, "{grown} bytes more, {bound} may be");
    let ports: BTreeSet<_> = silent.iter().map(RawSocket::port).collect();
    relay
        .eventually("the end of all of them", async || {
            relay.peers().is_disjoint(&ports) && relay.dead_sockets() == 0
        })
        .await;
}

/// An event of so many bytes, as a masked frame.
fn largest(bytes: usize) -> std::sync::Arc<Vec<u8>> {
    let event = |body: &str| {
        let payload = json!({ "eventType": "x", "payload": body });
        json!({ "type": "event", "payload": payload }).to_string()
    };
    // Room for what the relay writes around the payload, so that a phone gets no more than 32 MiB either.
    let room = bytes - 1_024 - event("").len();
    let text = event(&"x".repeat(room));
    std::sync::Arc::new(encode(OpCode::Text, true, text.as_bytes()))
}
