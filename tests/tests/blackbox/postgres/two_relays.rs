//! Two relays on one server (PR-6, PR-8): what they write beside each other, and migrations at once.

use futures_util::future::join_all;
use relay_tests::blackbox::{Account, Backend, Site};

/// Relays that start at the same moment on an empty database all start, and migrate it once.
#[tokio::test]
async fn relays_that_start_together() {
    let site = Site::on(Backend::Postgres, &[]);
    let relays = join_all((0..4).map(|_| site.start())).await;
    let migrated = |line: &String| line.contains("the database was brought up to date");
    let migrators = relays
        .iter()
        .filter(|relay| relay.evidence().lines().iter().any(migrated));
    assert_eq!(migrators.count(), 1);
    let account = Account::new();
    for relay in &relays {
        relay.desktop(&account).await.ping().await;
    }
    assert_eq!(relays[0].devices(&account, "").await.len(), relays.len());
}
