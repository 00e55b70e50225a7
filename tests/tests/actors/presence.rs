//! Presence through the real actors, on a paused clock.

use std::time::Duration;

use relay_model::limits::PRESENCE_WRITE_INTERVAL;
use relay_model::store::{DeviceStatus, DeviceType, OfflineReason};
use relay_tests::paused::{Run, pass};
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
    let gone = run.read_row(account, id).await;
    assert_eq!(gone.status, DeviceStatus::Offline);
    assert_eq!(gone.offline_reason, Some(OfflineReason::ReconnectTimeout));
    assert_eq!(
        run.read_row(account, steady.id).await.status,
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
        run.read_row(account, id).await.status,
        DeviceStatus::Reconnecting
    );
    let desktop = run.desktop_again(account, id).await;
    pass(STORED).await;
    assert_eq!(run.read_row(account, id).await.status, DeviceStatus::Online);
    run.environment.set_back(Duration::from_secs(3_600));
    phone.vanish();
    desktop.vanish();
    pass(GRACE + STORED).await;
    for (id, reason) in [
        (id, OfflineReason::ReconnectTimeout),
        (phone_id, OfflineReason::Disconnected),
    ] {
        let row = run.read_row(account, id).await;
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
