//! What operators are told of devices by the real actors on a paused clock (OP-9).

use std::time::Duration;

use relay_actors::DeviceView;
use relay_model::ids::{AccountId, DeviceId};
use relay_model::store::{DeviceStatus, OfflineReason};
use relay_tests::paused::{Device, Run, pass};

async fn view(run: &Run, account: AccountId, device: DeviceId) -> DeviceView {
    let views = run.relay.account_view(account).await.unwrap();
    let found = views.into_iter().find(|view| view.id == device);
    found.expect("the device is known")
}

async fn view_of(run: &Run, device: &Device) -> DeviceView {
    view(run, device.account, device.id).await
}

/// OP-9, TL-3: a lease is shown at both ends, with how long it was held over its renewals and when it
/// ends; one that is over is not.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn leases_are_shown_with_their_age() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    phone.interest("s", true).await;
    desktop.next_lease_state().await;
    pass(Duration::from_secs(20)).await;
    phone.interest("s", true).await;
    desktop.next_lease_state().await;
    pass(Duration::from_secs(15)).await;

    for device in [&desktop, &phone] {
        let leases = view_of(&run, device).await.leases;
        let [shown] = &leases[..] else {
            panic!("{leases:?}");
        };
        assert_eq!((shown.desktop, shown.lease.phone), (desktop.id, phone.id));
        assert_eq!(shown.lease.session.as_str(), "s");
        assert_eq!(shown.lease.held_for.as_secs(), 35);
        // 60 s from the renewal, which took no time.
        assert!(
            (44..=45).contains(&shown.lease.ends_in.as_secs()),
            "{shown:?}"
        );
    }
    let overview = run.relay.overview().await.unwrap();
    assert_eq!((overview.pairs.leases, overview.pairs.silent), (1, 0));

    // Another session is another lease, with an age of its own.
    phone.interest("t", true).await;
    desktop.next_lease_state().await;
    let leases = view_of(&run, &phone).await.leases;
    assert_eq!(leases.len(), 1);
    assert_eq!(leases[0].lease.held_for.as_secs(), 0);
    pass(Duration::from_secs(61)).await;
    assert_eq!(view_of(&run, &desktop).await.leases, []);
}

/// OP-9: requests are counted at the desktop that has to answer and at the phone that asked, also after
/// that has left.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn requests_are_shown_at_both_ends() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let mut other = run.phone(account, desktop.id).await;
    for id in ["a", "b"] {
        phone.request(id).await;
        desktop.next_request().await;
    }
    other.request("c").await;
    desktop.next_request().await;
    assert_eq!(view_of(&run, &desktop).await.pending, 3);
    assert_eq!(view_of(&run, &other).await.pending, 1);
    assert_eq!(run.relay.overview().await.unwrap().pairs.pending, 3);
    let id = phone.id;
    phone.vanish();
    pass(Duration::from_secs(1)).await;
    let left = view(&run, account, id).await;
    assert_eq!((left.pending, left.route), (2, None));
    assert_eq!(left.status, DeviceStatus::Offline);
    assert_eq!(left.offline_reason, Some(OfflineReason::Disconnected));
}

/// OP-9: the round trip is that of the last ping, and silence is measured from the last frame.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn round_trips_are_shown() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let before = view_of(&run, &desktop).await.route.unwrap().socket.unwrap();
    assert_eq!(before.round_trip, None);
    // The first ping comes after 30 s; the device answers it while it listens.
    desktop.hears_nothing_for(Duration::from_secs(40)).await;
    let route = view_of(&run, &desktop).await.route.unwrap();
    let state = route.socket.unwrap();
    assert!(
        state
            .round_trip
            .is_some_and(|took| took < Duration::from_secs(1)),
        "{state:?}"
    );
    assert!((9..=10).contains(&state.silent_for.as_secs()), "{state:?}");
}

/// OP-9: a socket that a fault of the relay took along says so, and its device is told apart from one that
/// left.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn faults_are_told() {
    let run = Run::start();
    let account = run.account();
    let desktop = run.desktop(account).await;
    run.relay.panic_route(account, desktop.id).await;
    pass(Duration::from_secs(1)).await;
    let view = view_of(&run, &desktop).await;
    assert_eq!(view.status, DeviceStatus::Reconnecting);
    let close = view.outcomes.close.expect("it is remembered");
    assert_eq!((close.reason.as_str(), close.code), ("socket_failed", None));
}

/// OP-9: what the store does not say in time is an error, and not a view with holes.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_database_that_is_away_is_told() {
    let run = Run::start();
    let account = run.account();
    run.desktop(account).await;
    run.store.set_failing(true);
    assert!(run.relay.account_view(account).await.is_err());
    assert!(run.relay.overview().await.is_ok(), "it needs no database");
    run.store.set_failing(false);
    assert_eq!(run.relay.account_view(account).await.unwrap().len(), 1);
}
