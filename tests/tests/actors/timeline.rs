//! Leases and snapshots through the real actors on a paused clock: which phone gets what, and what the
//! desktop is told (section 8).

use std::time::Duration;

use relay_model::store::DeviceType;
use relay_tests::paused::{Device, Received, Run, pass};
use serde_json::{Value, json};

const MOMENT: Duration = Duration::from_millis(5);
const FLUSH: Duration = Duration::from_millis(250);
const TTL: Duration = Duration::from_secs(60);

fn generation(state: &Value) -> u64 {
    state["authorizationGeneration"].as_u64().expect("a number")
}

/// A desktop and a phone of one account, both registered and nothing left to hear.
async fn pair(run: &Run) -> (Device, Device) {
    let account = run.account();
    let desktop = run.desktop(account).await;
    let phone = run.phone(account, desktop.id).await;
    (desktop, phone)
}

/// A desktop, a phone that looks at the session `s`, and the proof of it.
async fn looking(run: &Run) -> (Device, Device, Value) {
    let (mut desktop, mut phone) = pair(run).await;
    phone.interest("s", true).await;
    let state = desktop.next_lease_state().await;
    let proof = state["authorizationGeneration"].clone();
    (desktop, phone, proof)
}

/// TL-1, TL-4, TL-5, TL-7, TL-10: an interest is told to the desktop with its proof; a snapshot with
/// that proof reaches the phone without it, after the first wait, and no other device.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_snapshot_reaches_the_phone_that_looks() {
    let run = Run::start();
    let (mut desktop, mut phone) = pair(&run).await;
    let mut idle = run.phone(desktop.account, desktop.id).await;
    phone.interest("  s:skills-agent ", true).await;
    let state = desktop.next_lease_state().await;
    assert_eq!(state["appSessionId"], "s");
    assert_eq!(state["active"], true);
    assert_eq!(state["relayInstanceId"], run.relay.instance().to_string());
    assert!(state["expiresAt"].is_string() && state["revision"].is_u64());

    desktop
        .snapshot("s", &state["authorizationGeneration"], 1, json!("x"))
        .await;
    phone.hears_nothing_for(FLUSH - MOMENT).await;
    let snapshot = phone.next_snapshot().await;
    let expected = json!({"appSessionId": "s", "settlementEpoch": 1, "revision": 1, "body": "x"});
    assert_eq!(snapshot, expected);
    idle.hears_nothing_for(TTL).await;
}

/// TL-5: without the current proof a snapshot is dropped and counted, and nobody is told: no lease, a
/// former lease's proof, another session's, none at all, one of another type.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn snapshots_without_the_current_proof_are_dropped() {
    let run = Run::start();
    let (mut desktop, mut phone) = pair(&run).await;
    desktop.snapshot("s", &json!(1), 1, json!(0)).await;
    phone.interest("s", true).await;
    let first = desktop.next_lease_state().await;
    phone.interest("t", true).await;
    assert_eq!(desktop.next_lease_state().await["active"], false);
    let second = desktop.next_lease_state().await;
    assert!(generation(&second) > generation(&first));
    for (session, proof) in [
        ("s", &first["authorizationGeneration"]),
        ("t", &first["authorizationGeneration"]),
        ("s", &second["authorizationGeneration"]),
        ("t", &json!("2")),
        ("t", &Value::Null),
        ("t", &json!(-1)),
    ] {
        desktop.snapshot(session, proof, 1, json!(0)).await;
    }
    let unproven = json!({"appSessionId": "t", "settlementEpoch": 1, "revision": 1});
    desktop.event("chat:timeline-updated", unproven).await;
    phone.hears_nothing_for(Duration::from_secs(5)).await;
    desktop.hears_nothing_for(MOMENT).await;
    let pair = run.relay.pair_state(desktop.account, desktop.id).await;
    let pair = pair.unwrap().unwrap();
    assert_eq!(pair.counts.unauthorized_snapshots, 8);
    assert_eq!((pair.counts.snapshots, pair.leases), (0, 1));
}

/// TL-3, TL-4: a renewal before the deadline keeps the generation; at the deadline it is a new lease,
/// and what waited under the former one has gone with it.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_renewal_at_the_deadline_comes_too_late() {
    for (wait, keeps) in [
        (TTL - Duration::from_millis(1), true),
        (TTL, false),
        (TTL + Duration::from_millis(1), false),
    ] {
        let run = Run::start();
        let (mut desktop, mut phone) = pair(&run).await;
        phone.interest("s", true).await;
        let first = desktop.next_lease_state().await;
        pass(wait).await;
        phone.interest("s", true).await;
        let second = desktop.next_lease_state().await;
        let same = generation(&second) == generation(&first);
        assert_eq!(same, keeps, "after {wait:?}");
        assert!(second["revision"].as_u64() > first["revision"].as_u64());
        let old = &first["authorizationGeneration"];
        desktop.snapshot("s", old, 1, json!(0)).await;
        let heard = phone.receive_within(Duration::from_secs(1)).await;
        assert_eq!(heard.is_some(), keeps, "after {wait:?}");
    }
}

/// TL-3, TL-5: the lease is looked at when a snapshot leaves, not only when it comes.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn what_waits_at_the_deadline_is_not_sent() {
    let run = Run::start();
    let (mut desktop, mut phone, proof) = looking(&run).await;
    pass(TTL - FLUSH).await;
    desktop.snapshot("s", &proof, 1, json!(0)).await;
    phone.hears_nothing_for(Duration::from_secs(2)).await;
    assert_eq!(run.state().await.outbound_bytes, 0);

    phone.interest("s", true).await;
    desktop.next_lease_state().await;
    phone.hears_nothing_for(Duration::from_secs(2)).await;
}

/// TL-4, TL-7: two phones hold one session: the generation stays while one of them does, the latest
/// deadline is told, also when the one with the latest deadline leaves; after the last one another
/// generation comes.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn two_phones_share_a_generation() {
    let run = Run::start();
    let (mut desktop, mut early) = pair(&run).await;
    let mut late = run.phone(desktop.account, desktop.id).await;
    early.interest("s", true).await;
    let first = desktop.next_lease_state().await;
    pass(Duration::from_secs(10)).await;
    late.interest("s", true).await;
    let second = desktop.next_lease_state().await;
    assert_eq!(generation(&second), generation(&first));
    assert!(second["expiresAt"].as_str() > first["expiresAt"].as_str());

    // Both get it.
    let proof = &second["authorizationGeneration"];
    desktop.snapshot("s", proof, 1, json!(0)).await;
    early.next_snapshot().await;
    late.next_snapshot().await;

    // The latest deadline leaves by a message, then the last lease by a close.
    late.interest("s", false).await;
    let third = desktop.next_lease_state().await;
    assert_eq!(third["active"], true);
    assert_eq!(generation(&third), generation(&first));
    assert_eq!(third["expiresAt"], first["expiresAt"]);
    early.close().await;
    let last = desktop.next_lease_state().await;
    assert_eq!(last["active"], false);
    assert!(last["expiresAt"].is_null() && last["authorizationGeneration"].is_null());

    late.interest("s", true).await;
    assert!(generation(&desktop.next_lease_state().await) > generation(&first));
}

/// TL-7: one that leaves before the latest deadline changes nothing that the desktop knows.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn an_earlier_deadline_leaves_in_silence() {
    let run = Run::start();
    let (mut desktop, mut early) = pair(&run).await;
    let mut late = run.phone(desktop.account, desktop.id).await;
    early.interest("s", true).await;
    pass(Duration::from_secs(1)).await;
    late.interest("s", true).await;
    desktop.next_lease_state().await;
    desktop.next_lease_state().await;
    early.interest("s", false).await;
    desktop.hears_nothing_for(TTL).await;
}

/// TL-1: ending another session than the one held is ignored, whether the message is late or early.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_late_end_of_a_former_session_is_ignored() {
    let run = Run::start();
    let (mut desktop, mut phone) = pair(&run).await;
    phone.interest("t", false).await;
    phone.interest("s", true).await;
    desktop.next_lease_state().await;
    phone.interest("t", true).await;
    desktop.next_lease_state().await;
    let state = desktop.next_lease_state().await;
    phone.interest("s", false).await;
    desktop.hears_nothing_for(Duration::from_secs(1)).await;
    let proof = &state["authorizationGeneration"];
    desktop.snapshot("t", proof, 1, json!(0)).await;
    phone.next_snapshot().await;
    phone.interest("t:skills-agent", false).await;
    assert_eq!(desktop.next_lease_state().await["active"], false);
}

/// TL-3: with the phone's replaced connection its lease goes, and what waits for it.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_replaced_phone_holds_nothing() {
    let run = Run::start();
    let (mut desktop, mut phone, proof) = looking(&run).await;
    desktop.snapshot("s", &proof, 1, json!(0)).await;
    let mut again = run.phone_again(phone.account, phone.id, desktop.id).await;
    assert_eq!(desktop.next_lease_state().await["active"], false);
    assert_eq!(phone.next_close().await, 4410);
    desktop.snapshot("s", &proof, 2, json!(0)).await;
    again.hears_nothing_for(Duration::from_secs(2)).await;
}

/// REG-7, TL-8: a replaced desktop gets the state of every live lease before anything else, with the
/// generation unchanged, and its versions count from the start.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_replaced_desktop_learns_of_the_leases() {
    let run = Run::start();
    let (mut desktop, mut phone) = pair(&run).await;
    let mut other = run.phone(desktop.account, desktop.id).await;
    phone.interest("s", true).await;
    let state = desktop.next_lease_state().await;
    other.interest("t", true).await;
    desktop.next_lease_state().await;
    let proof = &state["authorizationGeneration"];
    desktop.snapshot("s", proof, 9, json!("old")).await;
    assert_eq!(phone.next_snapshot().await["revision"], 9);

    let mut again = run.desktop_again(desktop.account, desktop.id).await;
    let told = again.next_lease_state().await;
    assert_eq!(generation(&told), generation(&state));
    assert_eq!(told["expiresAt"], state["expiresAt"]);
    assert!(told["revision"].as_u64() > state["revision"].as_u64());
    assert_eq!(again.next_lease_state().await["appSessionId"], "t");
    again.snapshot("s", proof, 1, json!("new")).await;
    assert_eq!(phone.next_status().await.0, "online");
    assert_eq!(phone.next_snapshot().await["body"], "new");
    assert_eq!(desktop.next_close().await, 4410);
    phone.hears_nothing_for(Duration::from_secs(2)).await;
}

/// REG-7: more leases than the control lane has places retire nobody.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn many_leases_fit_into_one_registration() {
    let run = Run::with_limits(|limits| limits.control_lane_messages = 4);
    let (mut desktop, _) = pair(&run).await;
    let mut phones = Vec::new();
    for n in 0..20 {
        let mut phone = run.phone(desktop.account, desktop.id).await;
        phone.interest(&format!("s{n}"), true).await;
        desktop.next_lease_state().await;
        phones.push(phone);
    }
    let mut again = run.desktop_again(desktop.account, desktop.id).await;
    for n in 0..20 {
        let state = again.next_lease_state().await;
        assert_eq!(state["appSessionId"], format!("s{n}"));
    }
    again.request("x").await;
    assert_eq!(again.next_failure().await.0, "x");
}

/// TL-12: a phone attached to desktop A gets nothing of desktop B, whatever B says.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn another_desktop_reaches_nobody() {
    let run = Run::start();
    let (mut desktop, mut phone) = pair(&run).await;
    let mut other = run.desktop(desktop.account).await;
    phone.next_status().await;
    desktop.next_status().await;
    phone.interest("s", true).await;
    let state = desktop.next_lease_state().await;
    let proof = &state["authorizationGeneration"];
    other.snapshot("s", proof, 1, json!(0)).await;
    phone.hears_nothing_for(Duration::from_secs(1)).await;
    other.hears_nothing_for(MOMENT).await;
}

/// REG-10, TL-12: a phone that registers for another desktop on the same socket loses its lease, and
/// what waits.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn another_target_ends_the_lease() {
    let run = Run::start();
    let (mut desktop, mut phone) = pair(&run).await;
    let mut other = run.desktop(desktop.account).await;
    phone.next_status().await;
    desktop.next_status().await;
    phone.interest("s", true).await;
    let state = desktop.next_lease_state().await;
    let proof = &state["authorizationGeneration"];
    desktop.snapshot("s", proof, 1, json!(0)).await;
    let target = json!({"targetDesktopDeviceId": other.id});
    phone.register_with(target).await;
    assert_eq!(phone.next_status().await.0, "online");
    assert_eq!(desktop.next_lease_state().await["active"], false);
    phone.hears_nothing_for(Duration::from_secs(1)).await;
    phone.interest("s", true).await;
    assert_eq!(other.next_lease_state().await["active"], true);
    desktop.hears_nothing_for(Duration::from_secs(1)).await;
}

/// REG-5, TL-2, TR-7: interests that cannot be are answered with `invalidPayload` and change nothing.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn impossible_interests_are_refused() {
    let run = Run::start();
    let (mut desktop, mut phone) = pair(&run).await;
    let row = run.phone_row(desktop.account).await;
    let mut aimless = run
        .connect(desktop.account, DeviceType::Mobile, row, None)
        .await;
    aimless.register().await;
    aimless.interest("s", true).await;
    assert_eq!(aimless.next().await["code"], "invalidPayload");
    for session in [
        String::new(),
        " :skills-agent ".to_owned(),
        "x".repeat(1_025),
        format!("x{}", "é".repeat(512)),
    ] {
        phone.interest(&session, true).await;
        assert_eq!(phone.next().await["code"], "invalidPayload");
    }
    for payload in [
        json!(null),
        json!({"active": true}),
        json!({"appSessionId": "s", "active": 1}),
    ] {
        phone.event("chat:timeline-interest", payload).await;
        assert_eq!(phone.next().await["code"], "invalidPayload");
    }
    desktop.hears_nothing_for(Duration::from_secs(1)).await;
    let longest = "é".repeat(512);
    phone.interest(&longest, true).await;
    assert_eq!(desktop.next_lease_state().await["appSessionId"], longest);
}

/// TL-9: two different snapshots with one version close the phone's socket; two equal ones do not.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_version_conflict_closes_the_phone() {
    let run = Run::start();
    let (mut desktop, mut phone, proof) = looking(&run).await;
    desktop.snapshot("s", &proof, 1, json!("x")).await;
    desktop.snapshot("s", &proof, 1, json!("x")).await;
    phone.next_snapshot().await;
    desktop.snapshot("s", &proof, 2, json!("x")).await;
    desktop.snapshot("s", &proof, 2, json!("y")).await;
    assert_eq!(phone.next_close().await, 4409);
    assert_eq!(desktop.next_lease_state().await["active"], false);
}

/// TL-10: the pause after a snapshot grows with its blocks, and the newest one goes when it is over.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn large_snapshots_are_followed_by_longer_pauses() {
    let run = Run::start();
    let (mut desktop, mut phone, proof) = looking(&run).await;
    let large = json!("x".repeat(3 * 512 * 1024 + 1));
    desktop.snapshot("s", &proof, 1, large).await;
    assert_eq!(phone.next_snapshot().await["revision"], 1);
    for revision in 2..=5 {
        desktop.snapshot("s", &proof, revision, json!(0)).await;
    }
    phone.hears_nothing_for(4 * FLUSH - 2 * MOMENT).await;
    assert_eq!(phone.next_snapshot().await["revision"], 5);
    phone.hears_nothing_for(Duration::from_secs(2)).await;
}

/// TL-14, TR-10: the snapshots of a phone that does not read go on being replaced by newer ones, and it
/// gets the newest once it reads again.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn snapshots_of_a_phone_that_does_not_read_coalesce() {
    let run = Run::start();
    let (mut desktop, mut phone, proof) = looking(&run).await;
    let mut revision = 0;
    // Until the pipe is full: what was begun then is finished when the phone reads.
    for _ in 0..100 {
        revision += 1;
        desktop
            .snapshot("s", &proof, revision, json!("x".repeat(20_000)))
            .await;
        pass(Duration::from_millis(500)).await;
    }
    let owed = run.state().await.outbound_bytes;
    assert!(owed <= 64 * 1024, "{owed}");
    let mut last = 0;
    while let Some(Received::Frame(frame)) = phone.receive_within(Duration::from_secs(3)).await {
        let heard = frame["payload"]["payload"]["revision"]
            .as_u64()
            .expect("a number");
        assert!(heard > last, "{heard} after {last}");
        last = heard;
    }
    assert_eq!(last, revision);
}

/// TL-13: keys that had to make way are announced once nothing else waits.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn evicted_windows_are_announced() {
    let run = Run::with_limits(|limits| limits.timeline_buffer_keys = 2);
    let (mut desktop, mut phone) = pair(&run).await;
    phone.interest("s", true).await;
    let state = desktop.next_lease_state().await;
    for thread in ["a", "b", "c"] {
        let payload = json!({
            "appSessionId": "s", "threadId": thread, "settlementEpoch": 3, "revision": 4,
            "authorizationGeneration": state["authorizationGeneration"],
        });
        desktop.event("chat:timeline-updated", payload).await;
    }
    assert_eq!(phone.next_snapshot().await["threadId"], "b");
    assert_eq!(phone.next_snapshot().await["threadId"], "c");
    let stale = phone.next_event("chat:timeline-stale").await;
    let expected =
        json!({"appSessionId": "s", "threadId": "a", "settlementEpoch": 3, "revision": 4});
    assert_eq!(stale, expected);
    phone.hears_nothing_for(Duration::from_secs(1)).await;
}

/// RPC-9: answers and events go before a snapshot that waits, whenever they come.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn answers_go_before_waiting_snapshots() {
    let run = Run::start();
    let (mut desktop, mut phone, proof) = looking(&run).await;
    desktop.snapshot("s", &proof, 1, json!(0)).await;
    pass(FLUSH - Duration::from_millis(1)).await;
    phone.request("r").await;
    assert_eq!(desktop.next_request().await, "r");
    desktop.event("x", json!(1)).await;
    desktop.answer("r", json!(1)).await;
    let mut order = Vec::new();
    for _ in 0..3 {
        let frame = phone.next().await;
        let event = frame["payload"]["eventType"].as_str();
        order.push(event.map_or("answer".to_owned(), str::to_owned));
    }
    assert_eq!(
        order.last().map(String::as_str),
        Some("chat:timeline-updated")
    );
}

/// Invariant 6: once all have left, no lease and no byte is held.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn nothing_stays_behind() {
    let run = Run::start();
    let (mut desktop, phone, proof) = looking(&run).await;
    let large = json!("x".repeat(700_000));
    desktop.snapshot("s", &proof, 1, large).await;
    pass(MOMENT).await;
    assert!(run.state().await.outbound_bytes > 600_000);
    phone.vanish();
    pass(MOMENT).await;
    assert_eq!(run.state().await.outbound_bytes, 0);
    let pair = run.relay.pair_state(desktop.account, desktop.id).await;
    assert_eq!(pair.unwrap().unwrap().leases, 0);
    desktop.vanish();
    pass(Duration::from_secs(91)).await;
    assert_eq!(run.state().await.directory.pairs, 0);
}
