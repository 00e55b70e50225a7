//! How commands talk to a running relay: its admin API, by the address and the token of the
//! configuration unless flags say otherwise.

use std::error::Error as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ConfigurationArguments;
use crate::configuration::{Configuration, Secret};
use crate::exit::ExitStatus;

/// How long a relay may take to answer: longer than it waits for its own parts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Which relay, and as whom.
#[derive(Debug, Args)]
pub(super) struct OperatorArguments {
    /// The relay's address for operators, such as http://127.0.0.1:8787; without it, that of the
    /// configuration (server.admin_listen, else server.listen).
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
    /// The operator token; without it, that of the configuration (admin.token, RELAY__ADMIN__TOKEN).
    /// Other users of this machine can see flags.
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    token: Option<Secret>,
    #[command(flatten)]
    pub(super) configuration: ConfigurationArguments,
}

fn token(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text.to_owned()))
}

/// Why a relay did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum OperatorCallError {
    /// No token to show.
    #[error(
        "there is no operator token: set admin.token for the relay and for this command alike (in \
         relay.toml or RELAY__ADMIN__TOKEN), or use --token"
    )]
    NoToken,
    /// The address cannot be guessed, or is none.
    #[error(
        "cannot ask {0}: use --url with the address of the relay, such as http://127.0.0.1:8787"
    )]
    NoAddress(String),
    /// The token is not this relay's.
    #[error(
        "the relay at {0} does not take this operator token: use the admin.token that it was started \
         with"
    )]
    WrongToken(String),
    /// There is no admin API.
    #[error(
        "there is no admin API at {0}: set admin.token for the relay and restart it; if it has \
         server.admin_listen, use that address"
    )]
    NoAdminApi(String),
    /// Nobody answers.
    #[error(
        "no relay answers at {url}: {reason}; see that it runs, and use --url if it is elsewhere"
    )]
    Unreachable {
        /// Where.
        url: String,
        /// What the network said.
        reason: String,
    },
    /// The relay cannot answer at present.
    #[error("the relay at {url} answered {status}: {detail}")]
    Refused {
        /// Where.
        url: String,
        /// With which status.
        status: StatusCode,
        /// What it said.
        detail: String,
    },
    /// What answers is no relay, or one of another version.
    #[error("what answers at {0} is no relay of this version ({1}); check the address")]
    NotARelay(String, String),
    /// There is no TLS to be had.
    #[error("cannot ask anybody: {0}")]
    NoClient(String),
}

impl OperatorCallError {
    pub(super) const fn exit_status(&self) -> ExitStatus {
        match self {
            Self::NoToken | Self::NoAddress(_) | Self::WrongToken(_) | Self::NoAdminApi(_) => {
                ExitStatus::Usage
            }
            Self::Unreachable { .. } | Self::Refused { .. } | Self::NotARelay(..) => {
                ExitStatus::Unavailable
            }
            Self::NoClient(_) => ExitStatus::Internal,
        }
    }
}

/// A way to one relay's admin API.
pub(super) struct OperatorClient {
    client: Client,
    base: Url,
    token: Secret,
}

impl OperatorClient {
    /// A way to the relay that the flags name, or else the configuration.
    ///
    /// # Errors
    /// When neither names one, or a token.
    pub(super) fn new(
        url: Option<Url>,
        token: Option<Secret>,
        configuration: &Configuration,
    ) -> Result<Self, OperatorCallError> {
        let settings = &configuration.settings;
        let base = match url {
            Some(url) if ["http", "https"].contains(&url.scheme()) => url,
            Some(url) => return Err(OperatorCallError::NoAddress(url.to_string())),
            None if settings.admin_listen.is_none() && settings.tls_cert.is_some() => {
                // The name in its certificate is not known here.
                let who = "a relay whose only address speaks TLS".to_owned();
                return Err(OperatorCallError::NoAddress(who));
            }
            None => own_url(settings.admin_listen.unwrap_or(settings.listen))?,
        };
        let token = token.or_else(|| settings.admin_token.clone());
        let token = token.ok_or(OperatorCallError::NoToken)?;
        let client = Client::builder()
            .user_agent(concat!("relay/", env!("CARGO_PKG_VERSION")))
            // A redirect would hand the token to another server.
            .redirect(Policy::none())
            .timeout(ANSWER_TIMEOUT)
            .no_proxy()
            .build()
            .map_err(|error| OperatorCallError::NoClient(causes(&error)))?;
        Ok(Self {
            client,
            base,
            token,
        })
    }

    /// Where the relay is.
    pub(super) fn url(&self) -> &Url {
        &self.base
    }

    /// Calls the admin API.
    ///
    /// # Errors
    /// When the relay cannot be reached, refuses, or answers something else.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
    ) -> Result<T, OperatorCallError> {
        let url = || self.base.to_string();
        let mut address = self.base.clone();
        address.set_path(path);
        let unreachable = |error: reqwest::Error| OperatorCallError::Unreachable {
            url: url(),
            reason: causes(&error.without_url()),
        };
        let token = String::from_utf8_lossy(self.token.expose());
        let request = self.client.request(method, address).bearer_auth(token);
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let body = response.bytes().await.map_err(unreachable)?;
        match status {
            StatusCode::UNAUTHORIZED => Err(OperatorCallError::WrongToken(url())),
            StatusCode::NOT_FOUND => Err(OperatorCallError::NoAdminApi(url())),
            status if status.is_success() => serde_json::from_slice(&body)
                .map_err(|error| OperatorCallError::NotARelay(url(), error.to_string())),
            status => {
                let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
                let detail = problem["detail"].as_str().unwrap_or("no reason was given");
                Err(OperatorCallError::Refused {
                    url: url(),
                    status,
                    detail: detail.to_owned(),
                })
            }
        }
    }
}

impl OperatorArguments {
    /// Reads the configuration and finds the relay.
    ///
    /// # Errors
    /// When the configuration cannot be used, or names no relay.
    pub(super) fn client(
        self,
        before: ConfigurationArguments,
        environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    ) -> Result<OperatorClient, super::CommandError> {
        let configuration = self.configuration.load(before, environment)?;
        Ok(OperatorClient::new(self.url, self.token, &configuration)?)
    }
}

/// The address of a relay of this configuration, as seen from this machine.
pub(super) fn own_url(listen: SocketAddr) -> Result<Url, OperatorCallError> {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let address = SocketAddr::new(ip, listen.port());
    if address.port() == 0 {
        return Err(OperatorCallError::NoAddress(
            "a relay whose port is free to choose".to_owned(),
        ));
    }
    let url = format!("http://{address}");
    Url::parse(&url).map_err(|_| OperatorCallError::NoAddress(url))
}

/// An error of the HTTP library with every cause, which its own text leaves out.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Command line: a relay that listens everywhere is asked on this machine.
    #[test]
    fn own_addresses() {
        for (listen, url) in [
            ("127.0.0.1:8787", "http://127.0.0.1:8787/"),
            ("0.0.0.0:8787", "http://127.0.0.1:8787/"),
            ("[::]:8788", "http://[::1]:8788/"),
            ("10.0.0.7:80", "http://10.0.0.7/"),
        ] {
            let own = own_url(listen.parse().unwrap()).unwrap();
            assert_eq!(own.as_str(), url);
        }
        assert!(own_url("127.0.0.1:0".parse().unwrap()).is_err());
    }
}
