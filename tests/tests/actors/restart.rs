//! A relay that follows another, or comes back after it was taken for lost.

use std::time::Duration;

use relay_actors::environment::Environment;
use relay_model::limits::PRESENCE_WRITE_INTERVAL;
use relay_model::store::{DeviceStatus, DeviceStore, DeviceType, OfflineReason};
use relay_tests::memory_store::MemoryStore;
use relay_tests::paused::{Run, pass};

const GRACE: Duration = Duration::from_secs(90);
/// Until a presence change is stored, at least.
const STORED: Duration = PRESENCE_WRITE_INTERVAL.saturating_mul(2);

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
            let row = new.read_row(account, id).await;
            assert_eq!(
                row.status,
                DeviceStatus::Online,
                "the old one's grace ended for nothing"
            );
        }
    }
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
        let row = run.read_row(account, id).await;
        assert_eq!(row.offline_reason, Some(OfflineReason::RelayLost));
    }
    pass(RENEWAL + STORED).await;
    let mut stored = Vec::new();
    for id in ids {
        let row = run.read_row(account, id).await;
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
