//! A server that cannot be used when the relay starts (OP-1).

use std::net::TcpListener;

use relay_tests::blackbox::{Backend, DEADLINE, Network, Relay, Site};

use super::behind_a_network;

/// Runs `relay serve` to its end, which must be 69, and returns what it said.
async fn fails(site: &Site) -> String {
    let ended = tokio::time::timeout(DEADLINE, site.serve().output()).await;
    let output = ended.expect("it ends by itself").unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{message}");
    assert!(message.contains("database.url"), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    message
}

/// OP-1: nobody listens, nobody answers, everything is cut, the database or the password is wrong: 69
/// within its time, with a message that says what, and without the password.
#[tokio::test]
async fn unusable_servers_exit_with_69() {
    let site = Site::on(Backend::Postgres, &[("database.timeout", "1s")]);
    let url = site.database_url();
    let (credentials, rest) = url.split_once('@').unwrap();
    let (_, password) = credentials.rsplit_once(':').unwrap();
    let (server, _) = rest.split_once('/').unwrap();

    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = free.local_addr().unwrap();
    drop(free);
    let wrong_password = url.replace(password, "hunter2");
    for (url, said) in [
        (format!("{credentials}@{nobody}/relay"), "refused"),
        (format!("{credentials}@{server}/nowhere"), "nowhere"),
        (wrong_password, "password"),
    ] {
        let message = fails(&site.with(&[("database.url", &url)])).await;
        assert!(message.contains(said), "{said}: {message}");
        assert!(!message.contains(password), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
    for state in [Network::Silent, Network::Cut] {
        let (site, network) = behind_a_network(&site).await;
        network.set(state);
        let message = fails(&site).await;
        assert!(!message.contains(password), "{message}");
    }
    let relay: Relay = site.start().await;
    assert_eq!(relay.get("/readyz").await.status, 200);
}
