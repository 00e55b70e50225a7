//! `telemetry.otlp_endpoint`: where the collector of traces is (OP-7).

use std::fmt;
use std::str::FromStr;

use reqwest::Url;

/// Where traces go below an endpoint that names no path (OTLP/HTTP).
const TRACES: &str = "v1/traces";

/// The address of an OpenTelemetry collector that speaks OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpEndpoint(Url);

/// Why a text is no such address. It does not repeat the text, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OtlpEndpointError {
    /// Not a URL of the web.
    #[error("neither an http nor an https URL")]
    NotHttp,
    /// A user or password in it.
    #[error(
        "a user or password in the URL would stand in logs; name headers in OTEL_EXPORTER_OTLP_HEADERS"
    )]
    HasPassword,
}

impl OtlpEndpoint {
    /// Where traces are posted to.
    pub fn traces_url(&self) -> String {
        let mut url = self.0.clone();
        if url.path().trim_end_matches('/').is_empty() {
            url.set_path(TRACES);
        }
        url.to_string()
    }

    /// Whether it is reached without TLS.
    pub fn is_plain(&self) -> bool {
        self.0.scheme() == "http"
    }
}

impl FromStr for OtlpEndpoint {
    type Err = OtlpEndpointError;

    fn from_str(text: &str) -> Result<Self, OtlpEndpointError> {
        let url = Url::parse(text).map_err(|_| OtlpEndpointError::NotHttp)?;
        if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
            return Err(OtlpEndpointError::NotHttp);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(OtlpEndpointError::HasPassword);
        }
        Ok(Self(url))
    }
}

impl fmt::Display for OtlpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-7: the path of OTLP is added to an endpoint that has none.
    #[test]
    fn traces_have_a_path() {
        for (endpoint, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otlp.example/", "https://otlp.example/v1/traces"),
            (
                "https://otlp.example/x/traces",
                "https://otlp.example/x/traces",
            ),
        ] {
            let read: OtlpEndpoint = endpoint.parse().unwrap();
            assert_eq!(read.traces_url(), url);
        }
    }

    /// OP-1: what is no endpoint is refused without being repeated.
    #[test]
    fn what_is_no_endpoint_is_refused() {
        for (text, error) in [
            ("127.0.0.1:4318", OtlpEndpointError::NotHttp),
            ("grpc://127.0.0.1:4317", OtlpEndpointError::NotHttp),
            ("", OtlpEndpointError::NotHttp),
            (
                "https://me:secret@otlp.example",
                OtlpEndpointError::HasPassword,
            ),
        ] {
            assert_eq!(text.parse::<OtlpEndpoint>(), Err(error), "{text}");
            assert!(!error.to_string().contains("secret"));
        }
    }
}
