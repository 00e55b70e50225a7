//! Registrations, presence and sessions through the real actors, on a paused clock.

use std::time::Duration;

use relay_actors::environment::Environment;
use relay_model::ids::{AccountId, DeviceId};
use relay_model::limits::PRESENCE_WRITE_INTERVAL;
use relay_model::store::{
    Asker, DesktopRegistration, DeviceRow, DeviceStatus, DeviceStore, DeviceType, OfflineReason,
    RegistrationOutcome,
};
use relay_tests::memory_store::MemoryStore;
use relay_tests::paused::{Received, Run, pass};
use serde_json::json;

const GRACE: Duration = Duration::from_secs(90);
const MOMENT: Duration = Duration::from_millis(5);
/// Until a presence change is stored, at least.
const STORED: Duration = PRESENCE_WRITE_INTERVAL.saturating_mul(2);

/// PR-1, PR-2: a drop, a grace that ends, and a return after it.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_grace_that_ends() {
    let run = Run::start();
    let account = run.account();
    let desktop = run.desktop(account).await;
    let id = desktop.id;
    let mut phone = run.phone(account, id).await;
    desktop.vanish();
    let (word, generation) = phone.next_status().await;
    assert_eq!(word, "reconnecting");
    phone.hears_nothing_for(GRACE - MOMENT).await;
    let over = phone.next().await;
    assert_eq!(over["sourceDeviceId"], json!(null));
    let status = &over["payload"]["payload"];
    assert_eq!(
        status,
        &json!({
            "deviceId": id,
            "status": "disconnected",
            "reason": "reconnect_timeout",
            "connectionGeneration": generation,
            "relayInstanceId": run.relay.instance(),
        })
    );
    let _desktop = run.desktop_again(account, id).await;
    let (word, later) = phone.next_status().await;
    assert!(word == "online" && later > generation);
}

/// PR-2, PR-7: a return within the grace, at its edge, twice in a row: never "disconnected", and no
/// late timer of an older generation does anything.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_return_at_the_edge_of_the_grace() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let id = desktop.id;
    let mut phone = run.phone(account, id).await;
    for _ in 0..2 {
        desktop.vanish();
        assert_eq!(phone.next_status().await.0, "reconnecting");
        pass(GRACE - MOMENT).await;
        desktop = run.desktop_again(account, id).await;
        assert_eq!(phone.next_status().await.0, "online");
    }
    phone.hears_nothing_for(Duration::from_secs(100)).await;
}

/// PR-3, REG-6: a replaced connection is closed 4410 and shows nobody a drop; what it does
/// afterwards touches nothing.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_replacement_shows_no_drop() {
    let run = Run::start();
    let account = run.account();
    let mut old = run.desktop(account).await;
    let mut phone = run.phone(account, old.id).await;
    phone.request("a").await;
    old.next_request().await;
    let mut new = run.desktop_again(account, old.id).await;
    let mut heard = [phone.next().await, phone.next().await];
    heard.sort_by_key(|frame| frame["type"].to_string());
    assert_eq!(heard[0]["payload"]["payload"]["status"], "online");
    assert_eq!(heard[1]["payload"]["error"]["code"], -32011, "RPC-4");
    old.answer("a", json!("from the old one")).await;
    assert_eq!(old.next_close().await, 4410);
    old.vanish();
    phone.hears_nothing_for(Duration::from_secs(200)).await;
    phone.request("b").await;
    assert_eq!(new.next_request().await, "b");
    assert_eq!(run.state().await.directory.routes, 2);
}

/// REG-6, REG-11: a registration that was read earlier, but checked later, never replaces a newer
/// one: its socket is closed 4410.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_slow_registration_does_not_replace_a_newer_one() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    let mut slow = run.connect(account, DeviceType::Desktop, id, None).await;
    run.store.set_delay(Duration::from_secs(3));
    slow.send_register(json!({})).await;
    pass(Duration::from_secs(1)).await;
    run.store.set_delay(Duration::ZERO);
    let mut fast = run.desktop_again(account, id).await;
    assert_eq!(slow.next_close().await, 4410);
    let mut phone = run.phone(account, id).await;
    phone.request("a").await;
    assert_eq!(fast.next_request().await, "a");
}

/// REG-4: a database that is away, or too slow, is the relay's fault and says so.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_registration_without_the_database_is_refused() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    for fault in ["away", "slow"] {
        run.store.set_failing(fault == "away");
        run.store
            .set_delay(Duration::from_secs(if fault == "slow" { 6 } else { 0 }));
        let mut desktop = run.connect(account, DeviceType::Desktop, id, None).await;
        desktop.register_with(json!({})).await;
        assert_eq!(desktop.session["code"], "relayUnavailable", "{fault}");
        assert_eq!(desktop.session["requestType"], "register");
        assert_eq!(desktop.next_close().await, 1011);
    }
    run.store.set_failing(false);
    run.store.set_delay(Duration::from_secs(4));
    run.desktop_again(account, id).await;
}

/// REG-1: while a registration is checked, pings are answered, events refused, requests wait and
/// are handled after the reply, which comes before them and before any status (REG-7).
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn frames_during_a_registration() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let id = run.phone_row(account).await;
    run.store.set_delay(Duration::from_secs(2));
    let mut phone = run
        .connect(account, DeviceType::Mobile, id, Some(desktop.id))
        .await;
    phone.request("before").await;
    assert_eq!(phone.next().await["code"], "registrationRequired");
    phone.send_register(json!({})).await;
    phone.send(json!({"type": "heartbeat"})).await;
    phone.request("behind").await;
    phone.event("x", json!(1)).await;
    phone.send(json!({"type": "ping"})).await;
    assert_eq!(phone.next().await["code"], "registrationRequired");
    assert_eq!(phone.next().await["type"], "pong");
    assert_eq!(phone.next().await["type"], "registered");
    assert_eq!(phone.next_status().await.0, "online");
    assert_eq!(phone.next().await["type"], "pong", "the heartbeat");
    assert_eq!(desktop.next_request().await, "behind");
}

/// REG-2, SES-1, SES-3, SES-4: a session is resumed within 24 h of its last touch, and not later.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn sessions_are_resumed_for_a_day() {
    let run = Run::start();
    let account = run.account();
    let desktop = run.desktop(account).await;
    let (id, resume) = (desktop.id, desktop.resume());
    let session = desktop.session["sessionId"].clone();
    desktop.close().await;
    pass(Duration::from_secs(24 * 3_600 - 60)).await;
    let mut desktop = run.connect(account, DeviceType::Desktop, id, None).await;
    desktop.register_with(resume.clone()).await;
    assert_eq!(desktop.session["type"], "resumed");
    assert_eq!(desktop.session["sessionId"], session);
    assert!(desktop.session.get("resumeToken").is_none());
    desktop
        .send(json!({"type": "heartbeat", "payload": {"cpuUsage": 1}}))
        .await;
    assert_eq!(desktop.next().await["type"], "pong");
    desktop.close().await;
    // The touch at the close counts; the session's sweep comes every 5 minutes.
    pass(Duration::from_secs(24 * 3_600 - 60)).await;
    assert_eq!(run.state().await.sessions, 1);
    pass(Duration::from_secs(60)).await;
    let mut desktop = run.connect(account, DeviceType::Desktop, id, None).await;
    desktop.register_with(resume).await;
    assert_eq!(desktop.session["code"], "invalidResume");
    desktop.register().await;
}

/// REG-4: three refused resumes leave the socket open, the fourth closes it.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn the_fourth_refused_resume_closes() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    let mut desktop = run.connect(account, DeviceType::Desktop, id, None).await;
    for attempt in 1..=4 {
        desktop.register_with(json!({"sessionId": id})).await;
        assert_eq!(desktop.session["code"], "invalidResume", "{attempt}");
    }
    assert_eq!(desktop.next_close().await, 1008);
}

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

/// PR-5: a phone learns the state of its target right after its reply, whatever it is.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_phone_learns_the_status_of_its_target() {
    let run = Run::start();
    let account = run.account();
    let desktop = run.desktop(account).await;
    let id = desktop.id;
    let status = async || {
        let phone_id = run.phone_row(account).await;
        let mut phone = run
            .connect(account, DeviceType::Mobile, phone_id, Some(id))
            .await;
        phone.register().await;
        phone.next_status().await
    };
    let (word, online) = status().await;
    assert_eq!(word, "online");
    desktop.vanish();
    pass(MOMENT).await;
    assert_eq!(status().await, ("reconnecting".to_owned(), online));
    pass(GRACE).await;
    let (word, disconnected) = status().await;
    assert!(word == "disconnected" && disconnected >= online);
}

/// A device's row as the store has it.
async fn row(run: &Run, account: AccountId, id: DeviceId) -> DeviceRow {
    let asker = Asker {
        instance: run.relay.instance(),
        now: run.environment.now(),
    };
    let rows = run
        .device_store()
        .devices(asker, account, Default::default())
        .await
        .unwrap();
    rows.into_iter().find(|row| row.id == id).unwrap()
}

/// PR-6: presence that could not be stored is stored once the database is back, the last word of each
/// device; and an instance whose own lease lapsed meanwhile does not take its devices for lost.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn presence_outlives_an_outage_of_the_database() {
    let run = Run::start();
    let account = run.account();
    let mut steady = run.desktop(account).await;
    let leaving = run.desktop(account).await;
    let id = leaving.id;
    assert_eq!(steady.next_status().await.0, "online");
    pass(Duration::from_secs(1)).await;
    run.store.set_failing(true);
    leaving.vanish();
    assert_eq!(steady.next_status().await.0, "reconnecting");
    steady.hears_nothing_for(GRACE - MOMENT).await;
    assert_eq!(steady.next_status().await.0, "disconnected");
    // The lease of 30 s has lapsed long ago.
    steady.hears_nothing_for(Duration::from_secs(60)).await;
    run.store.set_failing(false);
    steady.hears_nothing_for(Duration::from_secs(40)).await;
    let gone = row(&run, account, id).await;
    assert_eq!(gone.status, DeviceStatus::Offline);
    assert_eq!(gone.offline_reason, Some(OfflineReason::ReconnectTimeout));
    assert_eq!(
        row(&run, account, steady.id).await.status,
        DeviceStatus::Online
    );
}

/// PR-6: devices that come at once share a few transactions, and a change after a quiet time does not
/// wait for others.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn presence_is_stored_in_batches() {
    let run = Run::start();
    let account = run.account();
    pass(Duration::from_secs(1)).await;
    let before = run.store.counts();
    let written = || {
        let counts = run.store.counts();
        let batches = counts.write_presence - before.write_presence;
        (batches, counts.presence_changes - before.presence_changes)
    };
    let mut desktops = vec![run.desktop(account).await];
    assert_eq!(written(), (1, 1));
    for _ in 0..20 {
        desktops.push(run.desktop(account).await);
    }
    pass(Duration::from_secs(1)).await;
    let (batches, changes) = written();
    assert!(changes == 21 && batches <= 4, "{changes} in {batches}");
}

/// PR-6, PR-8, DR-5: a restart shows no false "offline": within 90 s a desktop that the old process
/// knew is reconnecting, after that it is offline; the old process's late writes change nothing.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_restart_shows_no_false_offline() {
    for clean in [true, false] {
        let store = MemoryStore::new();
        let old = Run::on_store(store.clone(), |_| ());
        let account = old.account();
        let desktop = old.desktop(account).await;
        let id = desktop.id;
        pass(Duration::from_secs(1)).await;
        if clean {
            old.drain().await;
        }
        let new = Run::on_store(store, |_| ());
        let mut phone = {
            let phone_id = new.phone_row(account).await;
            new.connect(account, DeviceType::Mobile, phone_id, Some(id))
                .await
        };
        phone.register().await;
        assert_eq!(
            phone.next_status().await.0,
            "reconnecting",
            "clean: {clean}"
        );
        phone.request("a").await;
        assert_eq!(phone.next_failure().await.1["code"], -32011);
        let listed = async |run: &Run| {
            let devices = run
                .relay
                .devices(account, Default::default())
                .await
                .unwrap();
            devices
                .iter()
                .find(|device| device.id == id)
                .unwrap()
                .status
        };
        assert_eq!(listed(&new).await, DeviceStatus::Reconnecting);
        if clean {
            phone
                .hears_nothing_for(GRACE - Duration::from_secs(1))
                .await;
            assert_eq!(phone.next_status().await.0, "disconnected");
            phone.request("b").await;
            assert_eq!(phone.next_failure().await.1["code"], -32010);
            assert_eq!(listed(&new).await, DeviceStatus::Offline);
        } else {
            let _desktop = new.desktop_again(account, id).await;
            assert_eq!(phone.next_status().await.0, "online");
            desktop.vanish();
            pass(Duration::from_secs(1)).await;
            assert_eq!(listed(&new).await, DeviceStatus::Online);
            pass(GRACE).await;
            let row = row(&new, account, id).await;
            assert_eq!(
                row.status,
                DeviceStatus::Online,
                "the old one's grace ended for nothing"
            );
        }
    }
}

/// REG-10: registering again on a socket is answered like a new registration; another device id is
/// refused and closes.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn registering_again() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    phone.request("a").await;
    desktop.next_request().await;
    let first = desktop.session["sessionId"].clone();
    desktop.register().await;
    assert_ne!(desktop.session["sessionId"], first);
    assert_eq!(phone.next_status().await.0, "online");
    desktop.answer("a", json!(1)).await;
    assert_eq!(
        phone.next_result().await.0,
        "a",
        "its requests are still its own"
    );
    phone.register_with(json!({"deviceId": desktop.id})).await;
    assert_eq!(phone.session["code"], "invalidDeviceId");
    assert_eq!(phone.next_close().await, 1008);
}

/// Invariant 6: after all devices have left and all timers have passed, nothing is held.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn nothing_is_held_when_all_are_gone() {
    let run = Run::start();
    for round in 0..20 {
        let account = run.account();
        let mut desktop = run.desktop(account).await;
        let id = desktop.id;
        let mut phone = run.phone(account, id).await;
        let bystander = run.desktop(account).await;
        phone.next_status().await;
        phone.request("a").await;
        while desktop.next().await["type"] != "rpc.request" {}
        if round % 2 == 0 {
            phone.vanish();
            desktop.vanish();
        } else {
            desktop.close().await;
            phone.close().await;
        }
        bystander.vanish();
    }
    pass(GRACE + Duration::from_secs(24 * 3_600 + 600)).await;
    assert_eq!(run.state().await, relay_actors::RelayState::default());
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
        let row = row(&run, account, id).await;
        assert_eq!(row.status, DeviceStatus::Offline);
        assert_eq!(row.offline_reason, Some(OfflineReason::RelayStopped));
    }
}

/// PR-6: however far the wall clock is set back while devices are connected, what becomes of them is
/// stored, in its order.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn the_clock_may_be_set_back() {
    let run = Run::start();
    let account = run.account();
    let desktop = run.desktop(account).await;
    let phone = run.phone(account, desktop.id).await;
    let (id, phone_id) = (desktop.id, phone.id);
    pass(STORED).await;
    run.environment.set_back(Duration::from_secs(3_600));
    desktop.vanish();
    pass(STORED).await;
    assert_eq!(
        row(&run, account, id).await.status,
        DeviceStatus::Reconnecting
    );
    let desktop = run.desktop_again(account, id).await;
    pass(STORED).await;
    assert_eq!(row(&run, account, id).await.status, DeviceStatus::Online);
    run.environment.set_back(Duration::from_secs(3_600));
    phone.vanish();
    desktop.vanish();
    pass(GRACE + STORED).await;
    for (id, reason) in [
        (id, OfflineReason::ReconnectTimeout),
        (phone_id, OfflineReason::Disconnected),
    ] {
        let row = row(&run, account, id).await;
        assert_eq!(row.status, DeviceStatus::Offline);
        assert_eq!(row.offline_reason, Some(reason));
    }
    let history = run.store.history(id);
    let words: Vec<_> = history.iter().map(|change| change.status).collect();
    let all = [
        "online",
        "reconnecting",
        "online",
        "reconnecting",
        "offline",
    ];
    assert_eq!(words, all);
}

/// PR-6: a relay whose lease lapsed, and whose rows another one marked as lost, says again what its
/// devices are as soon as it reaches the database: connected, within their grace, or gone meanwhile.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_relay_that_was_taken_for_lost_puts_its_rows_right() {
    const LAPSE: Duration = Duration::from_secs(45);
    const SHORT_OF_A_LAPSE: Duration = Duration::from_secs(15);
    const RENEWAL: Duration = Duration::from_secs(10);

    let run = Run::start();
    let account = run.account();
    let desktop = run.desktop(account).await;
    let phone = run.phone(account, desktop.id).await;
    let dropped = run.desktop(account).await;
    let leaving = run.phone(account, desktop.id).await;
    let ids = [desktop.id, phone.id, dropped.id, leaving.id];
    pass(STORED).await;
    dropped.vanish();
    pass(STORED).await;
    run.store.set_failing(true);
    leaving.vanish();
    pass(LAPSE).await;
    run.store.set_failing(false);
    // As another relay does, before this one has renewed its lease.
    let marked = run.store.sweep_lost(run.environment.now()).await;
    assert_eq!(marked, Ok(ids.len()));
    for id in ids {
        let row = row(&run, account, id).await;
        assert_eq!(row.offline_reason, Some(OfflineReason::RelayLost));
    }
    pass(RENEWAL + STORED).await;
    let mut stored = Vec::new();
    for id in ids {
        let row = row(&run, account, id).await;
        stored.push((row.status, row.offline_reason));
    }
    let expected = [
        (DeviceStatus::Online, None),
        (DeviceStatus::Online, None),
        (DeviceStatus::Reconnecting, None),
        (DeviceStatus::Offline, Some(OfflineReason::Disconnected)),
    ];
    assert_eq!(stored, expected);
    assert_eq!(run.store.counts().marked_lost, 1);
    let words: Vec<_> = run
        .store
        .history(desktop.id)
        .iter()
        .map(|change| change.status)
        .collect();
    assert_eq!(words, ["online", "offline", "online"]);

    // Nobody is asked when the lease has held.
    run.store.set_failing(true);
    pass(SHORT_OF_A_LAPSE).await;
    run.store.set_failing(false);
    pass(RENEWAL + STORED).await;
    assert_eq!(run.store.counts().marked_lost, 1);
}

/// PR-6: presence history that is older than its retention is dropped, at the start and then at its
/// interval.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn old_presence_history_is_dropped() {
    const HOUR: Duration = Duration::from_secs(3_600);

    let run = Run::with_limits(|limits| limits.history_retention = HOUR);
    let account = run.account();
    let desktop = run.desktop(account).await;
    let id = desktop.id;
    desktop.vanish();
    pass(GRACE + MOMENT).await;
    let words = || -> Vec<&str> {
        let history = run.store.history(id).into_iter();
        history.map(|change| change.status).collect()
    };
    assert_eq!(words(), ["online", "reconnecting", "offline"]);
    assert_eq!(run.store.counts().purge_presence_history, 1);
    pass(HOUR).await;
    // When the second purge came, nothing was older than an hour.
    assert_eq!(run.store.counts().purge_presence_history, 2);
    assert_eq!(words(), ["online", "reconnecting", "offline"]);
    pass(HOUR).await;
    assert_eq!(run.store.counts().purge_presence_history, 3);
    assert_eq!(words(), Vec::<&str>::new());
}

/// PR-6: a device that registers over HTTP while it is connected is told so, also before the database
/// has heard of its connection.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn http_registration_tells_the_presence_that_holds() {
    let run = Run::start();
    let account = run.account();
    let id = run.desktop_row(account).await;
    run.store.set_delay(Duration::from_secs(4));
    let _desktop = run.desktop_again(account, id).await;
    run.store.set_delay(Duration::ZERO);
    let registration = DesktopRegistration {
        device_name: "desk".to_owned(),
        platform: "linux".to_owned(),
        platform_version: None,
        app_version: "2".to_owned(),
        capabilities: None,
        relay_eligible: None,
        rejoin: false,
    };
    let outcome = run.relay.register_desktop(account, id, registration).await;
    let Ok(RegistrationOutcome::Registered(changed)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(changed.row.status, DeviceStatus::Online);
    let stored = run.store.row(id).expect("a row");
    assert_eq!(
        stored.status,
        DeviceStatus::Offline,
        "the write is under way"
    );
}
