//! A phone that never reads, beside many that do: it is given up, its memory is bounded, and the others
//! notice nothing (TR-10, TL-14).

use std::collections::HashMap;
use std::time::Duration;

use relay_tests::blackbox::{
    Account, RawSocket, Relay, Site, Socket, by_length, interest, is_long, snapshot,
    snapshot_payload,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

const MIB: u64 = 1024 * 1024;
/// Windows whose snapshots the desktop publishes.
const THREADS: [&str; 4] = ["a", "b", "c", "d"];
/// Bytes of one snapshot, and of one event of the larger kind.
const BODY: usize = 64 * 1024;
/// Rounds between two renewals of the phones' leases.
const RENEWAL: u64 = 16;

/// What a desktop publishes in each round: a snapshot of every thread, and events of this size.
#[derive(Clone, Copy)]
struct Stream {
    rounds: u64,
    events: u64,
    event_bytes: usize,
    /// The least time that a round takes; without it a round follows when the phones have had the one
    /// before.
    pace: Option<Duration>,
}

/// A phone that reads, which checks what it gets and tells of each event that it had; it ends when the
/// last event and the last version of each thread are there.
fn reads_on(
    mut phone: Socket,
    stream: Stream,
    heard: mpsc::UnboundedSender<()>,
) -> JoinHandle<Socket> {
    tokio::spawn(async move {
        let mut versions: HashMap<String, u64> = HashMap::new();
        let mut events = 0;
        let finished = |versions: &HashMap<String, u64>, events| {
            let last = versions
                .values()
                .filter(|version| **version == stream.rounds);
            events == stream.rounds * stream.events && last.count() == THREADS.len()
        };
        while !finished(&versions, events) {
            let frame = phone.next_frame().await;
            let payload = frame.value()["payload"]["payload"].take();
            match frame.event_type.as_deref() {
                Some("chat:timeline-updated") => {
                    let thread = payload["threadId"].as_str().unwrap().to_owned();
                    let version = payload["revision"].as_u64().unwrap();
                    let former = versions.insert(thread, version);
                    assert!(former < Some(version), "{version} came behind {former:?}");
                }
                Some("x") => {
                    assert_eq!(payload["number"], json!(events));
                    events += 1;
                    if events % (RENEWAL * stream.events) == 0 {
                        phone.look_at("s").await;
                    }
                    heard.send(()).expect("the desktop goes on");
                }
                _ => panic!("not expected: {}", frame.text),
            }
        }
        phone
    })
}

/// Publishes the stream to `phones` phones; none of them is ever more than a round behind.
async fn publishes(
    desktop: &mut Socket,
    proof: &Value,
    stream: Stream,
    phones: u64,
    heard: &mut mpsc::UnboundedReceiver<()>,
) {
    let mut pace = stream.pace.map(tokio::time::interval);
    let body = json!("x".repeat(BODY));
    let event_body = "x".repeat(stream.event_bytes);
    for round in 0..stream.rounds {
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        for thread in THREADS {
            let payload = snapshot_payload("s", thread, round + 1, proof, &body);
            desktop.send_text(&snapshot(&payload)).await;
        }
        for event in 0..stream.events {
            let number = round * stream.events + event;
            let payload = json!({ "number": number, "body": event_body });
            desktop.publish("x", payload).await;
        }
        for _ in 0..stream.events * phones {
            heard.recv().await.expect("the phones read");
        }
        desktop.ping().await;
    }
}

/// Runs the stream with one frozen phone among those that read. The relay must give it up for `reason`,
/// and its memory may grow by `growth` bytes at most.
async fn one_frozen_phone(site: &Site, stream: Stream, reason: &str, growth: u64) {
    let site = site.with(&[
        ("limits.rate_burst", "1000000"),
        ("limits.rate_per_second", "1000000"),
        ("timeline.flush_interval", "20ms"),
    ]);
    let relay = site.start().await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let account = desktop.device.account.clone();
    let phones = by_length(20, 99);
    let (sender, mut heard) = mpsc::unbounded_channel();
    let mut healthy = Vec::new();
    let mut proof = Value::Null;
    for _ in 0..phones {
        let mut phone = relay.phone(&desktop.device).await;
        phone.look_at("s").await;
        proof = desktop.next_lease_state().await["authorizationGeneration"].take();
        healthy.push(reads_on(phone, stream, sender.clone()));
    }
    let mut elsewhere = relay.desktop(&Account::new()).await;
    let mut its_phone = relay.phone(&elsewhere.device).await;

    let device = account.new_phone().targeting(&desktop.device);
    relay.enrol(&device).await;
    let mut frozen: RawSocket = relay.raw(&device).await;
    frozen.register(&device).await;
    frozen.send_json(&interest("s", true)).await;
    desktop.next_lease_state().await;
    assert!(relay.peers().contains(&frozen.port()));

    relay.process().reset_peak().expect("our own process");
    let before = relay.resident();
    publishes(&mut desktop, &proof, stream, phones, &mut heard).await;
    let closed = relay
        .evidence()
        .wait_for("the end of the frozen phone", |line| {
            let line: Value = serde_json::from_str(line).ok()?;
            (line["message"] == "closed" && line["device"] == device.id).then_some(line)
        });
    let closed = closed.await;
    assert_eq!(
        (&closed["reason"], &closed["close_code"], &closed["side"]),
        (&json!(reason), &json!(4409), &json!("relay"))
    );
    relay.until_gone(frozen.port()).await;
    // What its kernel had taken before, then the close frame or a reset.
    frozen.drain().await;
    relay.until_listed_as(&device, "offline").await;

    for phone in healthy {
        let mut phone = phone.await.expect("a phone that reads gets everything");
        phone.ping().await;
    }
    desktop.ping().await;
    its_phone.request("r", "m", json!(1)).await;
    let request = elsewhere.next_request().await;
    elsewhere.answer(&request, json!(2)).await;
    assert_eq!(its_phone.next_response().await["result"], 2);
    its_phone.assert_all_read();
    let peak = relay.process().peak().expect("the relay runs");
    let grown = peak.saturating_sub(before);
    println!("{reason}: grown by {} KiB", grown / 1024);
    assert!(grown <= growth, "{grown} bytes more than before");
}

/// TR-10, TL-8, TL-14: a phone that takes no events is retired when its lane is full.
///
/// Memory: for the frozen phone its event lane (2 MiB; long 8 MiB) and one snapshot of each thread
/// (256 KiB); for those that read, who share the bytes, one round more (768 KiB); for the desktop what is
/// under way (1 MiB) and the message that it sends; as much again for what the allocator keeps of all
/// this, and 32 KiB of buffers for each of the connections. Without a bound it would be what is published:
/// 24 MiB, and long 60.
#[tokio::test]
async fn events_for_it_pile_up_to_their_bound() {
    events_pile_up(&Site::new(&[])).await;
}

/// TR-10, TL-8, TL-14: the same of a relay at this site.
pub(crate) async fn events_pile_up(site: &Site) {
    let stream = Stream {
        rounds: by_length(48, 60),
        events: by_length(8, 12),
        event_bytes: BODY,
        pace: is_long().then_some(Duration::from_secs(1)),
    };
    let lane = by_length("2MiB", "8MiB");
    let settings = [
        ("limits.event_lane_bytes", lane),
        ("limits.write_stall_timeout", "10m"),
    ];
    let bound = by_length(12 * MIB, 28 * MIB);
    one_frozen_phone(&site.with(&settings), stream, "congested", bound).await;
}

/// TR-10, TL-14: of snapshots, which coalesce, a phone's lanes never fill; it is retired when it has
/// taken nothing for too long.
///
/// Memory: as above, with small events, so hardly more than one snapshot of each thread.
#[tokio::test]
async fn snapshots_for_it_coalesce() {
    snapshots_coalesce(&Site::new(&[])).await;
}

/// TR-10, TL-14: the same of a relay at this site.
pub(crate) async fn snapshots_coalesce(site: &Site) {
    let stream = Stream {
        rounds: by_length(64, 240),
        events: 2,
        event_bytes: 16,
        pace: is_long().then_some(Duration::from_millis(250)),
    };
    let patience = by_length("3s", "20s");
    let settings = [("limits.write_stall_timeout", patience)];
    one_frozen_phone(&site.with(&settings), stream, "stalled", 8 * MIB).await;
}

/// TR-10: of what waits for a phone that reads nothing the kernel holds 256 KiB at most; the rest waits in
/// its lane, where it is counted.
#[tokio::test]
async fn the_kernel_holds_little_for_it() {
    let relay = Relay::start_with(&[("limits.write_stall_timeout", "10m")]).await;
    let mut desktop = relay.desktop(&Account::new()).await;
    let device = desktop
        .device
        .account
        .new_phone()
        .targeting(&desktop.device);
    relay.enrol(&device).await;
    let mut frozen: RawSocket = relay.raw(&device).await;
    frozen.register(&device).await;
    for _ in 0..6 {
        desktop.publish("x", json!("x".repeat(1024 * 1024))).await;
    }
    // Events of one sender are handled in order, so the last one has reached the phone's lane by then.
    desktop.ping().await;
    let held = async || relay.unsent_to(frozen.port()) > 0;
    relay.eventually("something to wait", held).await;
    let unsent = relay.unsent_to(frozen.port());
    assert!(unsent <= 256 * 1024, "{unsent}");
}
