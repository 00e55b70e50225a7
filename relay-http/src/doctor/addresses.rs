//! The addresses: that a relay could listen there, or that one does already.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Client;
use serde::Deserialize;

use super::Finding;
use crate::configuration::Configuration;
use crate::server;

/// How long whoever listens there may take to say who it is.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Who answers `GET /api/version` as a relay does.
#[derive(Deserialize)]
struct Version {
    name: String,
    version: String,
}

pub(super) async fn look(configuration: &Configuration) -> Vec<Finding> {
    let settings = &configuration.settings;
    let mut findings = vec![
        address(
            "listen address",
            "server.listen",
            settings.listen,
            "/api/version",
            settings.tls_cert.is_some(),
        )
        .await,
    ];
    if let Some(admin) = settings.admin_listen {
        // There is no /api/version among the calls of operators.
        let admin = address(
            "admin address",
            "server.admin_listen",
            admin,
            "/healthz",
            false,
        );
        findings.push(admin.await);
    }
    findings
}

async fn address(
    name: &'static str,
    key: &'static str,
    address: SocketAddr,
    path: &str,
    tls: bool,
) -> Finding {
    let error = match server::bind(address) {
        Ok(_) => return Finding::ok(name, format!("{address} is free")),
        Err(error) => error,
    };
    if error.kind() == io::ErrorKind::AddrInUse {
        return match relay_at(address, path, tls).await {
            Some(who) => Finding::ok(name, format!("{who} listens on {address}")),
            None => Finding::fail(
                name,
                format!("something that is no relay listens on {address}"),
                format!("stop it (ss -ltnp shows what it is), or set {key} to another address"),
            ),
        };
    }
    Finding::fail(
        name,
        format!("{address}: {error}"),
        format!(
            "set {key} to an address of this machine, and to a port that the relay's user may use"
        ),
    )
}

async fn relay_at(address: SocketAddr, path: &str, tls: bool) -> Option<String> {
    let mut url = crate::command_line::own_url(address)?.join(path).ok()?;
    if tls {
        url.set_scheme("https").ok()?;
    }
    let client = Client::builder()
        // Its certificate is for a name, not for this address; nothing is told that is a secret.
        .tls_danger_accept_invalid_certs(true)
        .timeout(ANSWER_TIMEOUT)
        .no_proxy()
        .build()
        .ok()?;
    let response = client.get(url).send().await.ok()?;
    let body = response.bytes().await.ok()?;
    if path == "/healthz" {
        let health: serde_json::Value = serde_json::from_slice(&body).ok()?;
        return (health["status"] == "ok").then(|| "a relay".to_owned());
    }
    let version: Version = serde_json::from_slice(&body).ok()?;
    (version.name == "relay").then(|| format!("relay {}", version.version))
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    /// Command line: an address that is free, one that is taken, and one of another machine.
    #[tokio::test]
    async fn addresses_are_judged() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let judge =
            async |at: SocketAddr| address("a", "server.listen", at, "/healthz", false).await;
        let free = judge("127.0.0.1:0".parse().unwrap()).await;
        assert_eq!(free.outcome, Outcome::Ok);
        // Whoever connects there is told nothing.
        let at = taken.local_addr().unwrap();
        let deaf = std::thread::spawn(move || taken.accept().map(drop));
        let occupied = judge(at).await;
        assert_eq!(occupied.outcome, Outcome::Fail, "{}", occupied.detail);
        deaf.join().unwrap().unwrap();
        let foreign = judge("192.0.2.1:1".parse().unwrap()).await;
        assert_eq!(foreign.outcome, Outcome::Fail);
        assert!(foreign.what_to_do.unwrap().contains("server.listen"));
    }
}
