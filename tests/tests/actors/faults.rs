//! What a panic costs: an actor that everything depends on ends the process, a pair its sockets, a
//! socket itself.

use std::time::Duration;

use relay_actors::Duty;
use relay_model::store::DeviceType;
use relay_tests::paused::{Received, Run, pass};
use serde_json::json;

/// How long a registry stalls before it panics.
const STALL: Duration = Duration::from_secs(1);

/// A registry that panics costs its sockets a reconnect and nobody else anything; its pair works
/// again afterwards.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_pair_that_panics_is_replaced() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    let other = run.account();
    let mut untouched = run.desktop(other).await;
    run.relay.panic_pair(account, desktop.id).await;
    assert_eq!(desktop.next_close().await, 4409);
    while let Some(Received::Frame(frame)) = phone.receive_within(Duration::from_secs(1)).await {
        assert_eq!(frame["payload"]["eventType"], "device-status");
    }
    let mut desktop = run.desktop_again(account, desktop.id).await;
    let mut phone = run.phone_again(account, phone.id, desktop.id).await;
    phone.request("a").await;
    assert_eq!(desktop.next_request().await, "a");
    untouched.hears_nothing_for(Duration::from_secs(1)).await;
    assert_eq!(run.environment.faults(), []);

    // Nothing is left behind by a pair whose devices do not come back either.
    run.relay.panic_pair(account, desktop.id).await;
    pass(Duration::from_secs(100)).await;
    untouched.vanish();
    pass(Duration::from_secs(100)).await;
    assert_eq!(run.state().await.directory, Default::default());
}

/// A registry that panics before it knows of a desktop that attaches leaves it neither unreachable nor
/// its phones waiting: it is closed as well, is expected back meanwhile (RPC-4), and then answers.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_desktop_that_attaches_to_a_pair_that_panics_is_closed() {
    for again in [false, true] {
        let run = Run::start();
        let account = run.account();
        let desktop = run.desktop(account).await;
        let id = desktop.id;
        let mut phone = run.phone(account, id).await;
        run.relay.stall_pair(account, id, STALL).await;
        let mut attaching = match again {
            true => desktop,
            false => {
                let new = run.connect(account, DeviceType::Desktop, id, None).await;
                desktop.vanish();
                new
            }
        };
        attaching.send_register(json!({})).await;
        attaching.is_closed(4409).await;
        phone.is_closed(4409).await;

        let mut phone = run.phone_again(account, phone.id, id).await;
        phone.request("early").await;
        assert_eq!(phone.next_failure().await.1["code"], json!(-32011));
        let mut desktop = run.desktop_again(account, id).await;
        assert_eq!(phone.next_status().await.0, "online");
        phone.request("a").await;
        assert_eq!(desktop.next_request().await, "a");
    }
}

/// RPC-8: a phone that has turned to another desktop is closed as well if it waits for an answer that the
/// registry would have routed; one that does not wait is left alone.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn who_waits_for_a_former_target_is_closed_with_its_pair() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut other = run.desktop(account).await;
    assert_eq!(desktop.next_status().await.0, "online");
    let mut waiting = run.phone(account, desktop.id).await;
    let mut idle = run.phone(account, desktop.id).await;
    waiting.request("a").await;
    assert_eq!(desktop.next_request().await, "a");
    for phone in [&mut waiting, &mut idle] {
        let target = json!({"targetDesktopDeviceId": other.id});
        phone.register_with(target).await;
    }
    run.relay.panic_pair(account, desktop.id).await;
    desktop.is_closed(4409).await;
    waiting.is_closed(4409).await;
    assert_eq!(other.next_status().await.0, "reconnecting");
    idle.request("b").await;
    assert_eq!(other.next_request().await, "b");
}

/// A socket that panics is detached like one that dropped: its desktop reconnects within the grace.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn a_socket_that_panics_is_detached() {
    let run = Run::start();
    let account = run.account();
    let mut desktop = run.desktop(account).await;
    let mut phone = run.phone(account, desktop.id).await;
    phone.request("a").await;
    desktop.next_request().await;
    run.relay.panic_route(account, desktop.id).await;
    let mut heard = [phone.next().await, phone.next().await];
    heard.sort_by_key(|frame| frame["type"].to_string());
    assert_eq!(heard[0]["payload"]["payload"]["status"], "reconnecting");
    assert_eq!(heard[1]["payload"]["error"]["code"], -32011);
    assert_eq!(run.state().await.directory.sockets, 1);
    run.desktop_again(account, desktop.id).await;
    assert_eq!(phone.next_status().await.0, "online");
    assert_eq!(run.environment.faults(), []);
}

/// An actor that there is one of takes the process with it.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn an_actor_that_everything_depends_on_ends_the_process() {
    for (duty, name) in [
        (Duty::Directory, "DirectoryActor"),
        (Duty::Presence, "PresenceActor"),
        (Duty::Sessions, "SessionActor"),
        (Duty::Store, "StoreActor"),
    ] {
        let run = Run::start();
        run.relay.panic_duty(duty).await;
        pass(Duration::from_millis(1)).await;
        let faults: Vec<_> = run
            .environment
            .faults()
            .iter()
            .map(|fault| fault.actor)
            .collect();
        assert_eq!(faults, [name]);
    }
}
