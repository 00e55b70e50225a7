//! A desktop that never reads, while its phones go on asking: they are told, and nobody else notices
//! (TR-10, RPC-4, RPC-5).

use relay_tests::blackbox::{Account, Relay, Socket, by_length, failure, pending, rpc_request};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const MIB: u64 = 1024 * 1024;
/// Bytes of one request.
const BODY: usize = 128 * 1024;

/// How a request ended that was asked of a frozen desktop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The lane was full.
    Congested,
    /// It may have reached the desktop.
    Delivered,
    /// It waited in the lane to the end.
    NotDelivered,
}

fn outcome(response: &Value) -> Outcome {
    let id = response["id"].as_str().expect("an id");
    if *response == failure(id, -32012, "Desktop is congested", true, false) {
        Outcome::Congested
    } else if *response == pending(id, true) {
        Outcome::Delivered
    } else if *response == pending(id, false) {
        Outcome::NotDelivered
    } else {
        panic!("not expected: {response}");
    }
}

/// Sends requests without waiting for answers, and returns how each ended, in the order of sending.
fn asks(mut phone: Socket, name: usize, requests: usize) -> JoinHandle<(Socket, Vec<Outcome>)> {
    tokio::spawn(async move {
        let body = json!("x".repeat(BODY));
        for number in 0..requests {
            phone
                .send(&rpc_request(&format!("{name}-{number}"), "m", body.clone()))
                .await;
        }
        let mut outcomes = vec![None; requests];
        for _ in 0..requests {
            let response = phone.next_response().await;
            let id = response["id"].as_str().expect("an id");
            let (_, number) = id.split_once('-').expect("an id of ours");
            let number: usize = number.parse().expect("a number");
            let former = outcomes[number].replace(outcome(&response));
            assert_eq!(former, None, "{number} was answered twice");
        }
        let outcomes = outcomes
            .into_iter()
            .map(|outcome| outcome.expect("all were answered"));
        (phone, outcomes.collect())
    })
}

/// A pair that asks and answers until it is told to end; returns how often.
fn lives(
    mut desktop: Socket,
    mut phone: Socket,
    mut end: tokio::sync::watch::Receiver<bool>,
) -> JoinHandle<u64> {
    tokio::spawn(async move {
        let mut rounds = 0;
        while !*end.borrow_and_update() {
            phone
                .request(&format!("r{rounds}"), "m", json!(rounds))
                .await;
            let request = desktop.next_request().await;
            desktop.answer(&request, request["params"].clone()).await;
            assert_eq!(phone.next_response().await["result"], rounds);
            rounds += 1;
            tokio::task::yield_now().await;
        }
        rounds
    })
}

/// TR-10, RPC-1, RPC-4, RPC-5: requests that do not fit get -32012 and may be sent again; the desktop is
/// given up when it has taken nothing for too long, and then each request that was taken ends with
/// -32011: those that left the relay as delivered, in order the first of each phone, the rest as not
/// delivered. A desktop of the same account and one of another go on all the while.
///
/// Memory: the frozen desktop's lane (2 MiB; long 40 MiB) with one request more, and for each phone what
/// is under way (1 MiB at most) and the request that it sends; twice, for what the allocator keeps.
/// Without a bound it would be what is asked: 20 MiB, and long 500.
#[tokio::test]
async fn its_phones_are_told() {
    let (phones, requests) = by_length((4, 40), (20, 200));
    let lane = by_length(2, 40);
    let relay = Relay::start_with(&[
        ("limits.rpc_lane_bytes", &format!("{lane}MiB")),
        ("limits.write_stall_timeout", by_length("2s", "10s")),
        ("limits.rate_burst", "1000000"),
        ("limits.rate_per_second", "1000000"),
        ("rpc.records_per_pair", "100000"),
    ])
    .await;
    let account = Account::new();
    let device = account.new_desktop();
    relay.enrol(&device).await;
    let mut frozen = relay.raw(&device).await;
    frozen.register(&device).await;
    let mut asking = Vec::new();
    for _ in 0..phones {
        asking.push(relay.phone(&device).await);
    }
    let (end, ending) = tokio::sync::watch::channel(false);
    let mut others = Vec::new();
    for account in [account.clone(), Account::new()] {
        let desktop = relay.desktop(&account).await;
        let phone = relay.phone(&desktop.device).await;
        others.push(lives(desktop, phone, ending.clone()));
    }
    relay.process().reset_peak().expect("our own process");
    let before = relay.resident();

    let asked: Vec<_> = asking
        .into_iter()
        .enumerate()
        .map(|(name, phone)| asks(phone, name, requests))
        .collect();
    let mut all = Vec::new();
    let mut told = Vec::new();
    for phone in asked {
        let (phone, outcomes) = phone.await.expect("a phone");
        let taken: Vec<_> = outcomes
            .iter()
            .filter(|outcome| **outcome != Outcome::Congested)
            .collect();
        assert!(
            taken.is_sorted_by_key(|outcome| **outcome == Outcome::NotDelivered),
            "what leaves, leaves in order: {outcomes:?}"
        );
        all.extend(outcomes);
        told.push(phone);
    }
    for outcome in [
        Outcome::Congested,
        Outcome::Delivered,
        Outcome::NotDelivered,
    ] {
        assert!(all.contains(&outcome), "no {outcome:?}");
    }
    let peak = relay.process().peak().expect("the relay runs");
    relay.until_gone(frozen.port()).await;
    frozen.drain().await;
    let closed = relay.evidence().wait_for("the end of the desktop", |line| {
        let line: Value = serde_json::from_str(line).ok()?;
        (line["message"] == "closed" && line["device"] == device.id).then_some(line)
    });
    assert_eq!(closed.await["reason"], "stalled");

    // In its grace it is reconnecting; once it is back it is asked like any other.
    for phone in &mut told {
        while phone.next_status().await["status"] != "reconnecting" {}
        phone.request("later", "m", json!(1)).await;
        assert_eq!(phone.next_response().await, pending("later", false));
    }
    let mut back = relay.connect(&device).await;
    for phone in &mut told {
        phone.request("again", "m", json!(1)).await;
        let request = back.next_request().await;
        assert_eq!(request["id"], "again");
        back.answer(&request, json!("here")).await;
        assert_eq!(phone.next_response().await["result"], "here");
    }
    end.send(true).expect("the others live");
    for other in others {
        assert!(other.await.expect("the others are not held up") > 0);
    }
    let grown = peak.saturating_sub(before);
    println!("grown by {} KiB", grown / 1024);
    let under_way = phones as u64 * (MIB + 2 * BODY as u64);
    let bound = 2 * (lane * MIB + under_way);
    assert!(
        grown <= bound,
        "{grown} bytes more than before, {bound} may be"
    );
}
