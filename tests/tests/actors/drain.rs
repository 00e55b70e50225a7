//! The drain through the real actors, on a paused clock: nobody registers, what is under way ends,
//! closes are spread, and the next relay shows nobody as gone (section 10).

use std::time::Duration;

use relay_actors::DrainPhase;
use relay_model::limits::{
    CLOSE_SPREAD, DESKTOP_RECONNECT_GRACE, DRAIN_STALL_TOLERANCE, DRAIN_TIMEOUT, INSTANCE_RENEWAL,
    STOP_TIMEOUT,
};
use relay_model::store::{DeviceStatus, DeviceType, OfflineReason};
use relay_tests::memory_store::MemoryStore;
use relay_tests::paused::{Device, Received, Run, pass};
use serde_json::json;
use tokio::time::Instant;

const MOMENT: Duration = Duration::from_millis(200);
const SECOND: Duration = Duration::from_secs(1);

/// A desktop with a phone that has a request open, in a relay that was asked to drain.
async fn draining(run: &Run) -> (Device, Device) {
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    phone.request("open").await;
    desktop.next_request().await;
    run.relay.drain("test");
    pass(MOMENT).await;
    (desktop, phone)
}

/// DR-1, REG-4: from the start of the drain nobody registers, new or again, and what is connected goes
/// on: requests, answers, events, presence.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn nobody_registers_and_the_rest_goes_on() {
    let run = Run::start();
    let (mut desktop, mut phone) = draining(&run).await;
    let account = desktop.account;
    assert_eq!(run.relay.drain_signal().phase(), DrainPhase::Draining);

    let late = run.phone_row(account).await;
    let mut late = run
        .connect(account, DeviceType::Mobile, late, Some(desktop.id))
        .await;
    late.send_register(json!({})).await;
    assert_eq!(late.next().await["code"], "relayDraining");
    assert_eq!(late.next_close().await, 1012);
    // Before every other check: this device has no row.
    let nobody = run.account();
    let mut unknown = run.connect(nobody, DeviceType::Mobile, late.id, None).await;
    unknown.send_register(json!({})).await;
    assert_eq!(unknown.next().await["code"], "relayDraining");

    phone.request("another").await;
    assert_eq!(desktop.next_request().await, "another");
    desktop.answer("another", json!(1)).await;
    assert_eq!(phone.next_result().await.0, "another");
    desktop.event("app:note", json!({"n": 1})).await;
    phone.next_event("app:note").await;

    // Repeating it changes nothing.
    run.relay.drain("again");
    pass(SECOND).await;
    assert_eq!(run.relay.drain_signal().phase(), DrainPhase::Draining);

    phone.send_register(json!({})).await;
    assert_eq!(phone.next().await["code"], "relayDraining");
    assert_eq!(phone.next_close().await, 1012);
}

/// DR-1, REG-11: a drain that begins while a registration is checked wins.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_drain_wins_over_a_registration_under_way() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    let mut desktop = run.connect(account, DeviceType::Desktop, id, None).await;
    run.store.set_delay(SECOND);
    desktop.send_register(json!({})).await;
    pass(SECOND / 2).await;
    run.relay.drain("test");
    let answer = desktop.next().await;
    assert_eq!(answer["code"], "relayDraining", "{answer}");
    assert_eq!(desktop.next_close().await, 1012);
    run.relay.drained().await;
    assert_eq!(
        run.read_row(account, id).await.status,
        DeviceStatus::Offline
    );
}

/// DR-2: the wait ends with the last request, and at its limit if one is never answered; open requests
/// are not answered by the relay (DR-3).
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn the_wait_ends_with_the_work() {
    for answered in [true, false] {
        let run = Run::start();
        let begun = Instant::now();
        let (mut desktop, mut phone) = draining(&run).await;
        pass(10 * SECOND).await;
        let state = run.relay.drain_state().await.expect("the drain lives");
        assert_eq!(state.work.expect("a look").requests, 1);
        if answered {
            desktop.answer("open", json!(1)).await;
            assert_eq!(phone.next_result().await.0, "open");
        }
        let expected = if answered { 10 * SECOND } else { DRAIN_TIMEOUT };
        let close = desktop.receive_within(DRAIN_TIMEOUT + CLOSE_SPREAD).await;
        assert_eq!(close, Some(Received::Close(1012)));
        let waited = begun.elapsed();
        assert!(
            waited >= expected && waited < expected + CLOSE_SPREAD + SECOND,
            "{waited:?}"
        );
        assert_eq!(phone.next_close().await, 1012);
        run.relay.drained().await;
    }
}

/// DR-2: calls to the database are work, too.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn the_wait_ends_after_the_database_did() {
    let run = Run::start();
    let account = run.account();
    run.store.set_delay(3 * SECOND);
    let (relay, begun) = (run.relay.clone(), Instant::now());
    let listed = actix_rt::spawn(async move { relay.devices(account, Default::default()).await });
    pass(MOMENT).await;
    run.relay.drain("test");
    while run.relay.drain_signal().phase() < DrainPhase::Closing {
        pass(MOMENT).await;
    }
    assert!(begun.elapsed() >= 3 * SECOND, "{:?}", begun.elapsed());
    assert!(listed.is_finished());
}

/// DR-2: a peer that reads nothing and never closes holds neither the wait nor the exit; one that reads
/// slowly gets what waits for it.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn who_reads_nothing_holds_nobody() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let _deaf = run.phone(account, desktop.id).await;
    desktop.event("app:note", json!("x".repeat(100_000))).await;
    pass(MOMENT).await;
    let begun = Instant::now();
    run.relay.drain("test");
    assert_eq!(desktop.next_close().await, 1012);
    run.relay.drained().await;
    let took = begun.elapsed();
    assert!(took >= DRAIN_STALL_TOLERANCE, "{took:?}");
    let longest = DRAIN_STALL_TOLERANCE + CLOSE_SPREAD + STOP_TIMEOUT + SECOND;
    assert!(took <= longest, "{took:?}");

    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut slow = run.phone(account, desktop.id).await;
    for n in 0..5 {
        let note = json!({"n": n, "text": "x".repeat(100_000)});
        desktop.event("app:note", note).await;
    }
    pass(MOMENT).await;
    run.relay.drain("test");
    for n in 0..5 {
        pass(3 * SECOND).await;
        assert_eq!(slow.next_event("app:note").await["n"], n);
    }
    assert_eq!(slow.next_close().await, 1012);
}

/// DR-3: the closes are spread evenly, an account's together with its desktop first, and nobody hears
/// of another's.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn closes_are_spread() {
    const ACCOUNTS: u32 = 10;

    let run = Run::start();
    let mut devices = Vec::new();
    for _ in 0..ACCOUNTS {
        let account = run.account();
        // The phone comes first and is closed last.
        let id = run.desktop_row(account).await;
        let mut phone = run.phone(account, id).await;
        let desktop = run.desktop_again(account, id).await;
        phone.next_status().await;
        devices.push((desktop, phone));
    }
    pass(SECOND).await;
    let begun = Instant::now();
    run.relay.drain("test");
    let mut closes = Vec::new();
    for (account, (desktop, phone)) in devices.iter_mut().enumerate() {
        for device in [desktop, phone] {
            assert_eq!(device.next_close().await, 1012);
            closes.push((begun.elapsed(), account));
        }
    }
    let step = CLOSE_SPREAD / (2 * ACCOUNTS);
    for (place, (at, _)) in closes.iter().enumerate() {
        let due = step * u32::try_from(place).expect("few");
        let late = at.checked_sub(due).expect("not early");
        assert!(late < SECOND / 2, "{place} at {at:?}");
    }
    run.relay.drained().await;
    let state = run.relay.drain_state().await.expect("the drain lives");
    assert_eq!(
        (state.phase, state.sockets_left),
        (DrainPhase::Drained, Some(0))
    );
}

/// DR-3, SES-5: everything that was in memory is gone, rows are offline, and what still arrives in the
/// closing has no effect.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn memory_is_cleared() {
    let run = Run::with_limits(|limits| limits.drain_timeout = Duration::ZERO);
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let mut other = run.phone(account, desktop.id).await;
    phone.request("open").await;
    desktop.next_request().await;
    other.interest("s", true).await;
    desktop.next_lease_state().await;
    run.relay.drain("test");
    assert_eq!(desktop.next_close().await, 1012);
    let state = run.state().await;
    assert_eq!(state.sessions, 0);
    let pair = run.relay.pair_state(account, desktop.id).await;
    let pair = pair.expect("the directory lives").expect("a pair");
    assert_eq!((pair.pending, pair.leases), (0, 0));
    // The phones are still connected: no answer, no presence, nothing but the close.
    other.request("late").await;
    assert_eq!(phone.next_close().await, 1012);
    assert_eq!(other.next_close().await, 1012);
    run.relay.drained().await;
    for id in [desktop.id, phone.id, other.id] {
        let row = run.read_row(account, id).await;
        assert_eq!(row.offline_reason, Some(OfflineReason::RelayStopped));
    }
}

/// DR-4: a second wish ends every wait, in whatever phase, and the rows are given up all the same.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_second_wish_ends_every_wait() {
    for (before, phase) in [
        (Duration::ZERO, DrainPhase::Running),
        (5 * SECOND, DrainPhase::Announced),
        (20 * SECOND, DrainPhase::Draining),
        (10 * SECOND + DRAIN_TIMEOUT + SECOND, DrainPhase::Closing),
    ] {
        let run = Run::with_limits(|limits| limits.readiness_lead = 10 * SECOND);
        let account = run.account();
        let mut desktop = run.desktop(account).await;
        let mut phone = run.phone(account, desktop.id).await;
        let last = run.desktop(account).await;
        phone.request("open").await;
        if phase > DrainPhase::Running {
            run.relay.drain("test");
            pass(before).await;
        }
        assert_eq!(run.relay.drain_signal().phase(), phase);
        let begun = Instant::now();
        run.relay.hurry_drain();
        run.relay.hurry_drain();
        run.relay.drained().await;
        assert!(begun.elapsed() <= SECOND, "{phase}: {:?}", begun.elapsed());
        for id in [desktop.id, phone.id, last.id] {
            let row = run.read_row(account, id).await;
            assert_eq!(row.offline_reason, Some(OfflineReason::RelayStopped));
        }
        for device in [&mut desktop, &mut phone] {
            while let Some(received) = device.receive_within(SECOND).await {
                if received == Received::End {
                    break;
                }
            }
        }
    }
}

/// DR-4: a database that answers nothing does not hold a drain that was cut short.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_dead_database_does_not_hold_the_end() {
    let run = Run::start();
    let _desktop = run.desktop(run.account()).await;
    run.store.set_delay(Duration::from_secs(3_600));
    let begun = Instant::now();
    run.relay.hurry_drain();
    run.relay.drained().await;
    assert!(begun.elapsed() <= 2 * SECOND, "{:?}", begun.elapsed());
}

/// OP-8, DR-1: readiness turns first, and until its lead is over devices register as ever.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn readiness_turns_before_the_drain_begins() {
    let run = Run::with_limits(|limits| limits.readiness_lead = 10 * SECOND);
    let account = run.account();
    let mut open = run.desktop(account).await;
    run.relay.drain("test");
    pass(9 * SECOND).await;
    let signal = run.relay.drain_signal();
    assert!(signal.is_leaving() && !signal.refuses());
    let mut phone = run.phone(account, open.id).await;
    phone.request("a").await;
    assert_eq!(open.next_request().await, "a");
    pass(2 * SECOND).await;
    assert!(signal.refuses());
}

/// DR-5, PR-6, PR-8: whenever the next relay started, while the old one drains and after it, a phone
/// that comes sees its desktop as reconnecting, and nobody is told "offline"; the old one's late writes
/// change nothing. A live relay's desktop is no such one.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn the_next_relay_expects_the_devices() {
    let store = MemoryStore::new();
    let old = Run::on_store(store.clone(), |_| ());
    let new = Run::on_store(store, |_| ());
    // The grace after the start is over long ago.
    pass(Duration::from_secs(3_600)).await;
    let account = old.account();
    let mut desktop = old.desktop(account).await;
    let mut phone = old.phone(account, desktop.id).await;
    let id = desktop.id;
    old.desktop(account).await.vanish();
    phone.request("open").await;
    pass(DESKTOP_RECONNECT_GRACE - 20 * SECOND).await;

    let seen_at_new = async || {
        let visitor = new.phone_row(account).await;
        let mut visitor = new
            .connect(account, DeviceType::Mobile, visitor, Some(id))
            .await;
        visitor.register().await;
        let (word, _) = visitor.next_status().await;
        (word, visitor)
    };
    assert_eq!(seen_at_new().await.0, "disconnected", "the old one lives");
    old.relay.drain("test");
    pass(MOMENT).await;
    let (word, mut early) = seen_at_new().await;
    assert_eq!(word, "reconnecting");
    early.request("a").await;
    assert_eq!(early.next_failure().await.1["code"], -32011);
    // The other desktop's grace ends at the old relay, which cannot know where that went.
    assert_eq!(phone.next_status().await.0, "online");
    assert_eq!(phone.next_status().await.0, "reconnecting");
    pass(DRAIN_TIMEOUT - SECOND).await;
    assert_eq!(old.relay.drain_signal().phase(), DrainPhase::Draining);
    assert_eq!(phone.next_close().await, 1012, "and no word before it");
    old.relay.drained().await;

    assert_eq!(seen_at_new().await.0, "reconnecting");
    desktop.vanish();
    desktop = new.desktop_again(account, id).await;
    assert_eq!(early.next_status().await.0, "online");
    pass(DESKTOP_RECONNECT_GRACE + SECOND).await;
    assert_eq!(new.read_row(account, id).await.status, DeviceStatus::Online);
    drop(desktop);
}

/// DR-5, PR-6: a database that was away when the drain began learns of it when it is back, and the devices
/// of a long drain are expected to its end: nobody at the next relay is told "offline" meanwhile.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_long_drain_is_known_to_the_next_relay() {
    let long = 20 * Duration::from_secs(60);
    let store = MemoryStore::new();
    let old = Run::on_store(store.clone(), |limits| limits.drain_timeout = long);
    let new = Run::on_store(store.clone(), |limits| limits.drain_timeout = long);
    pass(Duration::from_secs(3_600)).await;
    let account = old.account();
    let mut desktop = old.desktop(account).await;
    let id = desktop.id;
    let mut phone = old.phone(account, id).await;
    phone.request("first").await;
    desktop.next_request().await;
    store.set_failing(true);
    old.relay.drain("test");
    pass(MOMENT).await;
    store.set_failing(false);
    pass(INSTANCE_RENEWAL + SECOND).await;
    let visitor = new.phone_row(account).await;
    let mut visitor = new
        .connect(account, DeviceType::Mobile, visitor, Some(id))
        .await;
    visitor.register().await;
    assert_eq!(visitor.next_status().await.0, "reconnecting");
    let begun = Instant::now();
    for number in 0.. {
        visitor.hears_nothing_for(10 * SECOND).await;
        if old.relay.drain_signal().phase() > DrainPhase::Draining {
            break;
        }
        // Without work the drain would end.
        phone.request(&format!("r{number}")).await;
        desktop.next_request().await;
        phone.receive_within(MOMENT).await;
    }
    assert!(begun.elapsed() > long - Duration::from_secs(60));
    drop(desktop);
    let _desktop = new.desktop_again(account, id).await;
    assert_eq!(visitor.next_status().await.0, "online");
}

/// DR-2: presence that the database does not take is not waited for; it is tried again until the end, and
/// what the database takes by then is kept.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_database_that_takes_nothing_holds_no_drain() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let leaver = run.desktop(run.account()).await;
    pass(SECOND).await;
    run.store.set_failing(true);
    leaver.vanish();
    pass(MOMENT).await;
    let begun = Instant::now();
    run.relay.drain("test");
    assert_eq!(desktop.next_close().await, 1012);
    assert!(
        begun.elapsed() < CLOSE_SPREAD + SECOND,
        "{:?}",
        begun.elapsed()
    );
    run.store.set_failing(false);
    run.relay.drained().await;
    let row = run.read_row(account, desktop.id).await;
    assert_eq!(row.offline_reason, Some(OfflineReason::RelayStopped));
}

/// A stopping relay closes every socket with 1012, registered or not, tells nobody "offline", and
/// gives up its rows.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_stop_closes_every_socket() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let id = run.phone_row(account).await;
    let mut unregistered = run.connect(account, DeviceType::Mobile, id, None).await;
    pass(MOMENT).await;
    let relay = run.relay.clone();
    relay.drain("test");
    let stopped = actix_rt::spawn(async move { relay.drained().await });
    for device in [&mut desktop, &mut phone, &mut unregistered] {
        assert_eq!(device.next_close().await, 1012);
        assert_eq!(
            device.receive_within(Duration::from_secs(1)).await,
            Some(Received::End)
        );
    }
    stopped.await.unwrap();
    let mut late = run.connect(account, DeviceType::Mobile, id, None).await;
    assert_eq!(late.next_close().await, 1012);
    for id in [desktop.id, phone.id] {
        let row = run.read_row(account, id).await;
        assert_eq!(row.status, DeviceStatus::Offline);
        assert_eq!(row.offline_reason, Some(OfflineReason::RelayStopped));
    }
}
