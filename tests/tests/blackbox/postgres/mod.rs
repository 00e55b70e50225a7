//! What only a database behind a network can do to the relay.

mod away;
mod exit;
mod read_only;
mod slow;
mod start;
mod two_relays;

use relay_tests::blackbox::{Backend, DatabaseProxy, Device, Network, Relay, Site};

/// A relay whose database is behind a network that the test holds.
struct Behind {
    relay: Relay,
    network: DatabaseProxy,
}

impl Behind {
    async fn start(settings: &[(&str, &str)]) -> Self {
        let site = Site::on(Backend::Postgres, settings);
        let (site, network) = behind_a_network(&site).await;
        let relay = site.start().await;
        Self { relay, network }
    }

    fn set(&self, network: Network) {
        self.network.set(network);
    }
}

/// The same site, its database reached through a proxy.
async fn behind_a_network(site: &Site) -> (Site, DatabaseProxy) {
    let url = site.database_url();
    let (credentials, rest) = url.split_once('@').expect("a URL with a user");
    let (server, database) = rest.split_once('/').expect("a URL with a database");
    let network = DatabaseProxy::start(server.to_owned()).await;
    let url = format!("{credentials}@{}/{database}", network.address());
    (site.with(&[("database.url", &url)]), network)
}

/// Waits until the row of `device` has this status.
async fn row_becomes(relay: &Relay, device: &Device, status: &str) {
    let what = format!("{status} in the row of {}", device.id);
    let stored = async || relay.site().database().status(device) == status;
    relay.eventually(&what, stored).await;
}
