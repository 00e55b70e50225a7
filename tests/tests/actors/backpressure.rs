//! No peer hurts another: what one does not read, or does not finish sending, through the real actors
//! on a paused clock.

use std::time::Duration;

use relay_tests::paused::{Device, Received, Run, pass};
use serde_json::json;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const MOMENT: Duration = Duration::from_millis(5);

/// TR-10: a connection that is retired and takes nothing is given up within a second, not only when
/// it had time to answer a close.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_retired_connection_that_takes_nothing_is_reset() {
    let run = Run::with_limits(|limits| limits.event_lane_bytes = 100_000);
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let frozen = run.phone(account, desktop.id).await;
    for _ in 0..100 {
        desktop.event("x", json!("x".repeat(5_000))).await;
    }
    pass(MOMENT).await;
    let state = run.state().await.directory;
    assert_eq!(
        (state.routes, state.sockets),
        (1, 2),
        "the route goes at once"
    );
    pass(Duration::from_secs(1)).await;
    assert_eq!(run.state().await.directory.sockets, 1);
    let closes = run.relay.closes().await.unwrap();
    assert_eq!(closes.get("congested"), Some(&1), "{closes:?}");
    frozen.vanish();
}

/// Invariant 7: a socket tells what waits for its peer, and that is never more than its bounds.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_socket_tells_what_it_holds() {
    let run = Run::with_limits(|limits| limits.event_lane_messages = 50);
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let frozen = run.phone(account, desktop.id).await;
    let state = async |device| run.relay.socket_state(account, device).await.unwrap();
    for n in 0..60 {
        desktop.event("x", json!("x".repeat(5_000))).await;
        pass(MOMENT).await;
        let Some(held) = state(frozen.id).await else {
            assert!(n > 50, "retired at {n}");
            break;
        };
        assert!(held.event.messages <= 50, "{held:?}");
        assert_eq!(held.event.bytes > 0, held.stalled_for.is_some(), "{held:?}");
        assert_eq!(
            held.rpc.messages + held.control.messages + held.snapshots.messages,
            0
        );
    }
    assert_eq!(state(frozen.id).await, None);
    let held = state(desktop.id).await.unwrap();
    assert_eq!((held.inbound.messages, held.unfinished), (0, 0));
    desktop.send_bytes(&begun(MIB, 100).0, MOMENT).await;
    pass(MOMENT).await;
    assert_eq!(state(desktop.id).await.unwrap().unfinished, 100);
}

/// TR-10: over the ceiling of the process the largest debtor is retired, though it is within its own
/// bounds, and nobody else.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn the_largest_debtor_is_retired_over_the_ceiling() {
    let run = Run::with_limits(|limits| limits.outbound_total = 2 * MIB);
    let mut owing = Vec::new();
    for events in [10, 30, 10] {
        let account = run.account();
        let mut desktop = run.desktop(account).await;
        let frozen = run.phone(account, desktop.id).await;
        for _ in 0..events {
            desktop.event("x", json!("x".repeat(64 * KIB))).await;
        }
        pass(MOMENT).await;
        owing.push((desktop, frozen));
    }
    pass(Duration::from_secs(2)).await;
    let state = run.state().await;
    assert!(state.outbound_bytes <= 2 * MIB as u64, "{state:?}");
    let mut gone = Vec::new();
    for (desktop, _) in &mut owing {
        desktop.request("x").await;
        let alive = desktop.receive_within(MOMENT).await;
        assert!(matches!(alive, Some(Received::Frame(_))), "{alive:?}");
    }
    for (desktop, _) in &owing {
        let pair = run.relay.pair_state(desktop.account, desktop.id).await;
        gone.push(pair.unwrap().unwrap().phones);
    }
    assert_eq!(gone, [1, 0, 1], "phones that stay");
}

/// The head of a masked text frame of `len` bytes with a zero key, and so many bytes of an event that
/// will fill it.
fn begun(len: usize, sent: usize) -> (Vec<u8>, Vec<u8>) {
    let mut frame = vec![0x81, 0x80 | 127];
    frame.extend_from_slice(&(len as u64).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    let open = r#"{"type":"event","payload":{"eventType":"x","payload":""#;
    let close = r#""}}"#;
    let filling = "x".repeat(len - open.len() - close.len());
    let head = frame.len();
    frame.extend_from_slice(open.as_bytes());
    frame.extend_from_slice(filling.as_bytes());
    frame.extend_from_slice(close.as_bytes());
    let rest = frame.split_off(head + sent);
    (frame, rest)
}

async fn begin(desktop: &mut Device, len: usize, sent: usize) -> Vec<u8> {
    let (first, rest) = begun(len, sent);
    assert!(desktop.send_bytes(&first, MOMENT).await);
    rest
}

/// Invariant 7: unfinished messages of all connections stay under one ceiling. Who is not read
/// meanwhile loses nothing, small messages pass, and all come to their end.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn large_messages_take_turns_over_the_ceiling() {
    let run = Run::with_limits(|limits| limits.inbound_total = MIB);
    let account = run.account();
    let mut first = run.desktop(account).await;
    let mut second = run.desktop(account).await;
    assert_eq!(first.next_status().await.0, "online");
    let mut listener = run.phone(account, first.id).await;
    let mut rests = Vec::new();
    for desktop in [&mut first, &mut second] {
        rests.push(begin(desktop, 2 * MIB, 700 * KIB).await);
        pass(MOMENT).await;
    }
    // The relay holds what came, and not all of what is to come.
    let held = run.state().await.unfinished_bytes as usize;
    assert!(held > MIB && held < 3 * MIB, "{held}");
    listener.event("small", json!(1)).await;
    pass(MOMENT).await;

    let patience = Duration::from_secs(20);
    let (one, two) = tokio::join!(
        first.send_bytes(&rests[0], patience),
        second.send_bytes(&rests[1], patience)
    );
    assert!(one && two);
    for _ in 0..2 {
        let event = listener.next().await;
        assert_eq!(event["payload"]["eventType"], "x");
    }
    pass(Duration::from_secs(1)).await;
    assert_eq!(run.state().await.unfinished_bytes, 0);
}

/// Invariant 7: when nobody finishes, who is not read for too long is retired, so that the ceiling
/// holds nobody up for ever.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn messages_that_nobody_finishes_are_given_up() {
    let run = Run::with_limits(|limits| limits.inbound_total = MIB);
    let account = run.account();
    let mut desktops = Vec::new();
    for _ in 0..4 {
        desktops.push(run.desktop(account).await);
    }
    for desktop in &mut desktops {
        let (first, _) = begun(2 * MIB, 600 * KIB);
        desktop.send_bytes(&first, MOMENT).await;
    }
    pass(Duration::from_secs(300)).await;
    let state = run.state().await;
    assert_eq!((state.directory.sockets, state.unfinished_bytes), (0, 0));
}

/// TR-3: what the relay has to say while a message in fragments is on its way waits for its end, as no
/// client could tell the fragments of two messages apart.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn replies_wait_for_the_end_of_a_message_in_fragments() {
    let run = Run::with_limits(|limits| limits.fragment_size = 4 * KIB);
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    phone.request("r").await;
    desktop.next_request().await;
    desktop.answer("r", json!("x".repeat(400 * KIB))).await;
    pass(MOMENT).await;
    for _ in 0..3 {
        phone.send(json!({"type": "heartbeat"})).await;
        phone.request("").await;
    }
    desktop.event("x", json!(1)).await;
    pass(MOMENT).await;
    assert_eq!(phone.next_result().await.0, "r");
    for _ in 0..3 {
        assert_eq!(phone.next().await["type"], "pong");
    }
    for _ in 0..3 {
        phone.next_failure().await;
    }
    assert_eq!(phone.next().await["payload"]["eventType"], "x");
}

/// TR-10: a phone that does not read is retired when its event lane is full, nobody else notices,
/// and what it held is given back.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_phone_that_does_not_read_is_retired() {
    let run = Run::with_limits(|limits| limits.event_lane_bytes = 100_000);
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut healthy = run.phone(account, desktop.id).await;
    let frozen = run.phone(account, desktop.id).await;
    for number in 0..100 {
        desktop
            .event("x", json!({"number": number, "filling": "x".repeat(5_000)}))
            .await;
        assert_eq!(healthy.next().await["payload"]["payload"]["number"], number);
    }
    assert_eq!(run.state().await.directory.routes, 2);
    // The close cannot be written; the connection is given up a few seconds later.
    pass(Duration::from_secs(6)).await;
    assert_eq!(run.state().await.directory.sockets, 2);
    frozen.vanish();
}
