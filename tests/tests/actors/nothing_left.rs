//! What is held when all are gone.

use std::time::Duration;

use relay_tests::paused::{Run, pass};

const GRACE: Duration = Duration::from_secs(90);

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
