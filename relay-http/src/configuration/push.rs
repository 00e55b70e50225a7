//! The keys of `push.apns` and `push.fcm` (PUSH-1): files and names that an operator gets from Apple
//! and Google. The secrets are in the files, never in the configuration.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use relay_actors::push::{apns, fcm};
use reqwest::Url;

use super::Settings;
use super::jwks_url::is_this_machine;
use super::keys::{SettingKey, not_empty};

/// How phones are woken. A service without its key file is off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushSettings {
    /// Apple's service.
    pub apns: ApnsKeys,
    /// Google's service.
    pub fcm: FcmKeys,
}

/// `push.apns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApnsKeys {
    /// The file of the signing key.
    pub key_file: Option<PathBuf>,
    /// The key's id.
    pub key_id: Option<String>,
    /// The team's id.
    pub team_id: Option<String>,
    /// The app's bundle id.
    pub topic: Option<String>,
    /// For tokens of production.
    pub endpoint: PushEndpoint,
    /// For tokens of the sandbox.
    pub sandbox_endpoint: PushEndpoint,
    /// A file of authorities beside the system's.
    pub ca_file: Option<PathBuf>,
}

/// `push.fcm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FcmKeys {
    /// The file of the service account's key.
    pub service_account_file: Option<PathBuf>,
    /// Where messages are sent.
    pub endpoint: PushEndpoint,
    /// A file of authorities beside the system's.
    pub ca_file: Option<PathBuf>,
}

impl Default for ApnsKeys {
    fn default() -> Self {
        Self {
            key_file: None,
            key_id: None,
            team_id: None,
            topic: None,
            endpoint: PushEndpoint(apns::PRODUCTION.to_owned()),
            sandbox_endpoint: PushEndpoint(apns::SANDBOX.to_owned()),
            ca_file: None,
        }
    }
}

impl Default for FcmKeys {
    fn default() -> Self {
        Self {
            service_account_file: None,
            endpoint: PushEndpoint(fcm::ENDPOINT.to_owned()),
            ca_file: None,
        }
    }
}

/// Where a push service listens: `https`, or `http` on this machine. Shown as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushEndpoint(String);

/// Why a text is no such address. It does not repeat the text, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushEndpointError {
    /// Not a URL of the web.
    #[error("not an https URL")]
    NotHttps,
    /// `http` to somewhere else.
    #[error("http goes over a network where anybody could read tokens and messages")]
    Insecure,
    /// A user or password in it.
    #[error("a user or password in the URL would stand in logs")]
    HasPassword,
}

impl PushEndpoint {
    /// The URL itself.
    pub fn url(&self) -> Option<Url> {
        // It was read before it was kept.
        Url::parse(&self.0).ok()
    }
}

impl FromStr for PushEndpoint {
    type Err = PushEndpointError;

    fn from_str(text: &str) -> Result<Self, PushEndpointError> {
        let url = Url::parse(text).map_err(|_| PushEndpointError::NotHttps)?;
        match url.scheme() {
            "https" => (),
            "http" if is_this_machine(url.host_str().unwrap_or_default()) => (),
            "http" => return Err(PushEndpointError::Insecure),
            _ => return Err(PushEndpointError::NotHttps),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(PushEndpointError::HasPassword);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for PushEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const ENDPOINT_ALLOWED: &str = "an https URL without user and password; http only to this machine";
const TEXT_ALLOWED: &str = "text, as it stands there";

/// A key that takes a path or a text, which may be missing.
macro_rules! optional {
    ($section:literal, $name:literal, $meaning:literal, $allowed:expr, $($field:ident).+, $read:expr, $show:expr) => {
        SettingKey {
            section: $section,
            name: $name,
            meaning: $meaning,
            allowed: $allowed,
            secret: false,
            set: |settings: &mut Settings, text| {
                settings.$($field).+ = Some($read(not_empty(text)?));
                Ok(())
            },
            show: |settings| settings.$($field).+.as_ref().map($show),
        }
    };
}

macro_rules! path {
    ($section:literal, $name:literal, $meaning:literal, $($field:ident).+) => {
        optional!($section, $name, $meaning, "a path", $($field).+, PathBuf::from,
            |path| path.display().to_string())
    };
}

macro_rules! text {
    ($section:literal, $name:literal, $meaning:literal, $($field:ident).+) => {
        optional!($section, $name, $meaning, TEXT_ALLOWED, $($field).+, str::to_owned, String::clone)
    };
}

macro_rules! endpoint {
    ($section:literal, $name:literal, $meaning:literal, $($field:ident).+) => {
        SettingKey {
            section: $section,
            name: $name,
            meaning: $meaning,
            allowed: ENDPOINT_ALLOWED,
            // A refused one may hold a password.
            secret: true,
            set: |settings: &mut Settings, text| {
                settings.$($field).+ = text
                    .parse()
                    .map_err(|error: PushEndpointError| error.to_string())?;
                Ok(())
            },
            show: |settings| Some(settings.$($field).+.to_string()),
        }
    };
}

/// The keys, in the order of the reference.
pub(super) const PUSH_KEYS: &[SettingKey] = &[
    path!(
        "push.apns",
        "key_file",
        "The .p8 file of a key for Apple's push service (PUSH-1). Without it no iPhone is woken.",
        push.apns.key_file
    ),
    text!(
        "push.apns",
        "key_id",
        "The id of that key: ten characters that Apple shows beside it.",
        push.apns.key_id
    ),
    text!(
        "push.apns",
        "team_id",
        "The id of the developer team whose key it is.",
        push.apns.team_id
    ),
    text!(
        "push.apns",
        "topic",
        "The bundle id of the app that is woken.",
        push.apns.topic
    ),
    endpoint!(
        "push.apns",
        "endpoint",
        "Where pushes go to apps of the store.",
        push.apns.endpoint
    ),
    endpoint!(
        "push.apns",
        "sandbox_endpoint",
        "Where pushes go to apps built for development, whose tokens say `sandbox`.",
        push.apns.sandbox_endpoint
    ),
    path!(
        "push.apns",
        "ca_file",
        "Certificates (PEM) that the endpoints are trusted by, beside the system's: for gateways of your own.",
        push.apns.ca_file
    ),
    path!(
        "push.fcm",
        "service_account_file",
        "The JSON key file of a service account that may send through Firebase Cloud Messaging (PUSH-1). Without it no Android phone is woken.",
        push.fcm.service_account_file
    ),
    endpoint!(
        "push.fcm",
        "endpoint",
        "Where messages go.",
        push.fcm.endpoint
    ),
    path!(
        "push.fcm",
        "ca_file",
        "Certificates (PEM) that the endpoint is trusted by, beside the system's: for gateways of your own.",
        push.fcm.ca_file
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// PUSH-5: tokens and messages go over TLS, or stay on this machine.
    #[test]
    fn endpoints_are_https_or_local() {
        for good in [
            "https://api.push.apple.com",
            "https://gateway.example:2197/apns/",
            "http://127.0.0.1:9",
        ] {
            let read: PushEndpoint = good.parse().unwrap();
            assert_eq!(read.to_string(), good);
            assert!(read.url().is_some());
        }
        for (bad, error) in [
            ("", PushEndpointError::NotHttps),
            ("api.push.apple.com", PushEndpointError::NotHttps),
            ("http://gateway.example", PushEndpointError::Insecure),
            (
                "https://me:hunter2@gateway.example",
                PushEndpointError::HasPassword,
            ),
        ] {
            assert_eq!(bad.parse::<PushEndpoint>(), Err(error), "{bad}");
        }
    }
}
