//! Every refusal of the door, and the one form in which all of them are answered: RFC 9457 problem
//! details with the members that shipped clients read (section 11 of the protocol).

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use actix_http::StatusCode;
use actix_http::header::{
    ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_VERSION, UPGRADE,
    WWW_AUTHENTICATE,
};
use actix_web::{HttpResponse, ResponseError};
use relay_actors::Unanswered;
use relay_model::limits::DRAIN_RETRY_AFTER_SECONDS;
use relay_model::store::StoreError;
use relay_model::websocket::handshake::{self, HandshakeError};
use relay_model::wire::codes::ErrorCode;
use serde::Serialize;
use utoipa::{ToResponse, ToSchema};

use crate::admin_api::OperatorError;
use crate::allowed_origins::OriginError;
use crate::authentication::{AuthenticationError, CredentialsError};
use crate::connect_limit::TooOften;

/// When a client should try again that found the database or the identity provider away: soon, and not in a loop.
const RETRY_UNAVAILABLE: HeaderValue = HeaderValue::from_static("5");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Why a request is not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// TR-2, HTTP-4: no valid credentials.
    #[error(transparent)]
    Unauthorized(#[from] CredentialsError),
    /// Section 11: not the operator.
    #[error(transparent)]
    NotTheOperator(#[from] OperatorError),
    /// HTTP-4: the token cannot be judged, because the identity provider's keys were never read.
    #[error("the relay could not read its identity provider's keys yet; try again later")]
    KeysUnavailable,
    /// HTTP-4, EV-2: the credentials are valid and do not allow this.
    #[error("{0}")]
    Forbidden(&'static str),
    /// Nothing is served under this path.
    #[error("nothing is served under this path")]
    NotFound,
    /// The path does not take this method.
    #[error("this path takes {allow} only")]
    MethodNotAllowed {
        /// What it takes, as in the `Allow` header.
        allow: Cow<'static, str>,
    },
    /// TR-1: an upgrade request that is not RFC 6455's.
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    /// HTTP-2: the body is too large.
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge {
        /// What is allowed, in bytes.
        limit: usize,
    },
    /// The body did not arrive in time.
    #[error("the body did not arrive within {} s", .limit.as_secs_f64())]
    BodyTimeout {
        /// What is allowed.
        limit: Duration,
    },
    /// The body broke off, or its transfer coding is broken.
    #[error("the body could not be read")]
    BodyBroken,
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    InvalidJson(String),
    /// A field or parameter is missing or cannot be taken; the text names it.
    #[error("{0}")]
    InvalidPayload(Cow<'static, str>),
    /// `X-Device-ID` is missing or no UUID.
    #[error("the header X-Device-ID must be the device's UUID")]
    InvalidDeviceId,
    /// `X-Client-Type` is missing or of the other endpoint.
    #[error("the header X-Client-Type must be {expected} here")]
    InvalidClientType {
        /// What the endpoint is for.
        expected: &'static str,
    },
    /// HTTP-1: the device id belongs to another account.
    #[error("the device id belongs to another account; choose another one")]
    DeviceOwnershipFailed,
    /// The device was registered as the other type.
    #[error("the device was registered as the other client type; choose another device id")]
    DeviceTypeMismatch,
    /// The device was forgotten; only its user can bring it back.
    #[error("the device was forgotten in its account; its user can let it rejoin")]
    DesktopForgotten,
    /// The account has no such device: unknown, foreign and forgotten alike.
    #[error("the account has no device with this id")]
    NoSuchDevice,
    /// OP-9: neither the relay nor its database knows the account.
    #[error(
        "no device of this account is known; check the id (it is the `sub` of the account's tokens), and \
         that its apps use this relay"
    )]
    NoSuchAccount,
    /// OP-9: the relay hangs.
    #[error(transparent)]
    Silent(Unanswered),
    /// HTTP-4: the account has no such API key.
    #[error("the account has no API key with this id")]
    NoSuchKey,
    /// HTTP-4: the account has as many API keys as it may have.
    #[error("the account has {limit} API keys already; delete one first")]
    TooManyKeys {
        /// What is allowed.
        limit: usize,
    },
    /// The operating system gave no random numbers.
    #[error("the relay could not make a key; try again later")]
    NoRandomness,
    /// TR-12: a web page of another site.
    #[error(transparent)]
    OriginNotAllowed(#[from] OriginError),
    /// TR-11: the client's address has connected too often.
    #[error("too many connections from this address; try again in {retry_after} s")]
    TooManyConnects {
        /// When to try again, in seconds; at least 1.
        retry_after: u64,
    },
    /// No file is left for another connection; whose fault it is stands in the log.
    #[error("the relay has too many connections; try again later")]
    TooManyConnections,
    /// DR-1: the relay drains, and another one takes its devices.
    #[error("the relay drains; connect again, to the one that follows it")]
    Draining,
    /// The database is away; details are in the log only.
    #[error("the relay cannot reach its database; try again later")]
    RelayUnavailable,
    /// OP-8: the relay lives and cannot serve.
    #[error("not ready: {}", Meanings(.missing))]
    NotReady {
        /// What is missing, at least one thing.
        missing: Vec<Requirement>,
    },
}

/// What a relay needs to be ready (OP-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Requirement {
    /// A database that answers, and is in the form that this version needs.
    Database,
    /// That it does not leave: no drain was asked for (DR-1).
    NotDraining,
}

impl Requirement {
    /// What people are told.
    const fn meaning(self) -> &'static str {
        match self {
            Self::Database => "the database does not answer",
            Self::NotDraining => "the relay drains",
        }
    }
}

struct Meanings<'a>(&'a [Requirement]);

impl fmt::Display for Meanings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, requirement) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            f.write_str(requirement.meaning())?;
        }
        Ok(())
    }
}

impl From<TooOften> for Refusal {
    fn from(TooOften { wait }: TooOften) -> Self {
        // `Retry-After` has no fractions, and a client that is early is refused again.
        let begun = u64::from(wait.subsec_nanos() > 0);
        let retry_after = wait.as_secs().saturating_add(begun).max(1);
        Self::TooManyConnects { retry_after }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        // Not a warning: clients repeat their calls, and the store's own rounds warn already.
        tracing::debug!(%error, "a request was refused: no database");
        Self::RelayUnavailable
    }
}

impl From<Unanswered> for Refusal {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Store(error) => error.into(),
            Unanswered::Silent(_) => Self::Silent(unanswered),
        }
    }
}

impl From<AuthenticationError> for Refusal {
    fn from(error: AuthenticationError) -> Self {
        match error {
            AuthenticationError::Refused(error) => error.into(),
            AuthenticationError::NoPublicKeys => Self::KeysUnavailable,
            AuthenticationError::Store(error) => error.into(),
        }
    }
}

/// Refused; `errorType` says why.
#[derive(Serialize, ToSchema, ToResponse)]
#[response(content_type = "application/problem+json")]
#[serde(rename_all = "camelCase")]
pub(crate) struct Problem {
    /// `about:blank`: the title says what the status says.
    #[serde(rename = "type")]
    problem_type: &'static str,
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// A text for people.
    detail: String,
    /// The HTTP status again, where shipped clients look for it.
    code: u16,
    /// The text again, where shipped clients look for it.
    message: String,
    /// The stable code; match on this.
    error_type: &'static str,
    /// Of `/readyz` only: what is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    missing: Vec<Requirement>,
}

impl Refusal {
    /// Its HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorized(_) | Self::NotTheOperator(_) => StatusCode::UNAUTHORIZED,
            Self::NotFound | Self::NoSuchDevice | Self::NoSuchAccount | Self::NoSuchKey => {
                StatusCode::NOT_FOUND
            }
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::Handshake(error) => {
                StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST)
            }
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::BodyBroken
            | Self::InvalidJson(_)
            | Self::InvalidPayload(_)
            | Self::InvalidDeviceId
            | Self::InvalidClientType { .. } => StatusCode::BAD_REQUEST,
            Self::DeviceOwnershipFailed | Self::DeviceTypeMismatch | Self::TooManyKeys { .. } => {
                StatusCode::CONFLICT
            }
            Self::TooManyConnects { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::NoRandomness => StatusCode::INTERNAL_SERVER_ERROR,
            Self::DesktopForgotten | Self::Forbidden(_) | Self::OriginNotAllowed(_) => {
                StatusCode::FORBIDDEN
            }
            Self::RelayUnavailable
            | Self::KeysUnavailable
            | Self::Silent(_)
            | Self::TooManyConnections
            | Self::Draining
            | Self::NotReady { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The stable code that clients branch on.
    pub const fn error_type(&self) -> ErrorType {
        match self {
            Self::Unauthorized(_) | Self::NotTheOperator(_) => ErrorType::AuthRequired,
            Self::NotFound | Self::NoSuchAccount | Self::NoSuchKey => ErrorType::NotFound,
            Self::NoSuchDevice => ErrorType::Frame(ErrorCode::DeviceNotRegistered),
            Self::MethodNotAllowed { .. } | Self::Handshake(HandshakeError::NotGet) => {
                ErrorType::MethodNotAllowed
            }
            Self::Handshake(
                HandshakeError::UpgradeMissing
                | HandshakeError::UpgradeListed
                | HandshakeError::Version,
            ) => ErrorType::UpgradeRequired,
            Self::Handshake(_) => ErrorType::InvalidHandshake,
            Self::BodyTooLarge { .. } => ErrorType::BodyTooLarge,
            Self::BodyTimeout { .. } => ErrorType::RequestTimeout,
            Self::BodyBroken => ErrorType::InvalidBody,
            Self::InvalidJson(_) => ErrorType::Frame(ErrorCode::InvalidJson),
            Self::InvalidPayload(_) => ErrorType::Frame(ErrorCode::InvalidPayload),
            Self::InvalidDeviceId => ErrorType::Frame(ErrorCode::InvalidDeviceId),
            Self::InvalidClientType { .. } => ErrorType::Frame(ErrorCode::InvalidClientType),
            Self::DeviceOwnershipFailed => ErrorType::Frame(ErrorCode::DeviceOwnershipFailed),
            Self::DeviceTypeMismatch => ErrorType::Frame(ErrorCode::DeviceTypeMismatch),
            Self::DesktopForgotten => ErrorType::Frame(ErrorCode::DesktopForgotten),
            Self::TooManyConnects { .. } => ErrorType::TooManyRequests,
            Self::TooManyConnections => ErrorType::TooManyConnections,
            Self::TooManyKeys { .. } => ErrorType::TooManyKeys,
            Self::NoRandomness => ErrorType::ServerFault,
            Self::Forbidden(_) => ErrorType::Frame(ErrorCode::Forbidden),
            Self::OriginNotAllowed(_) => ErrorType::OriginNotAllowed,
            Self::Draining => ErrorType::Frame(ErrorCode::RelayDraining),
            Self::RelayUnavailable
            | Self::KeysUnavailable
            | Self::Silent(_)
            | Self::NotReady { .. } => ErrorType::Frame(ErrorCode::RelayUnavailable),
        }
    }

    /// Header lines beside those of its body. `Connection` is left to whoever writes the answer.
    pub fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        match self {
            Self::Unauthorized(_) | Self::NotTheOperator(_) => {
                vec![(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))]
            }
            // Method names are ASCII, so the value is always one of a header.
            Self::MethodNotAllowed { allow } => HeaderValue::from_str(allow)
                .map(|methods| vec![(ALLOW, methods)])
                .unwrap_or_default(),
            Self::Handshake(HandshakeError::NotGet) => {
                vec![(ALLOW, HeaderValue::from_static("GET"))]
            }
            // Section 4.4 of RFC 6455: the answer says which version would do.
            Self::Handshake(_) if self.status() == StatusCode::UPGRADE_REQUIRED => vec![
                (UPGRADE, HeaderValue::from_static("websocket")),
                (
                    SEC_WEBSOCKET_VERSION,
                    HeaderValue::from_static(handshake::VERSION),
                ),
            ],
            Self::TooManyConnects { retry_after } => vec![(RETRY_AFTER, (*retry_after).into())],
            Self::Draining => vec![(RETRY_AFTER, DRAIN_RETRY_AFTER_SECONDS.into())],
            Self::RelayUnavailable
            | Self::KeysUnavailable
            | Self::Silent(_)
            | Self::TooManyConnections
            | Self::NotReady { .. } => {
                vec![(RETRY_AFTER, RETRY_UNAVAILABLE)]
            }
            _ => Vec::new(),
        }
    }

    /// Its body, `application/problem+json`.
    pub fn body(&self) -> String {
        let status = self.status();
        let detail = self.to_string();
        let problem = Problem {
            problem_type: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.clone(),
            code: status.as_u16(),
            message: detail,
            error_type: self.error_type().code(),
            missing: match self {
                Self::NotReady { missing } => missing.clone(),
                _ => Vec::new(),
            },
        };
        // Strings and numbers always serialize.
        serde_json::to_string(&problem).unwrap_or_default()
    }

    /// The media type of [`body`](Self::body).
    pub const fn content_type() -> (HeaderName, HeaderValue) {
        (CONTENT_TYPE, PROBLEM_JSON)
    }
}

impl ResponseError for Refusal {
    fn status_code(&self) -> StatusCode {
        self.status()
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status());
        response.insert_header(Self::content_type());
        for header in self.headers() {
            response.insert_header(header);
        }
        if matches!(self, Self::Handshake(_)) {
            response.force_close();
        }
        response.body(self.body())
    }
}

/// `errorType` of a refusal: the codes of the door, and those that error frames use too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorType {
    /// Credentials are missing or not valid.
    AuthRequired,
    /// Nothing is served there.
    NotFound,
    /// The path does not take this method.
    MethodNotAllowed,
    /// The path is a WebSocket, and the request did not ask for one, or for another version.
    UpgradeRequired,
    /// The upgrade request breaks RFC 6455.
    InvalidHandshake,
    /// The body is too large.
    BodyTooLarge,
    /// The body came too slowly.
    RequestTimeout,
    /// The body could not be read.
    InvalidBody,
    /// The account has as many API keys as it may have.
    TooManyKeys,
    /// A fault of the relay itself.
    ServerFault,
    /// The request came from a web page of an origin that is not allowed.
    OriginNotAllowed,
    /// The client's address has connected too often.
    TooManyRequests,
    /// The relay has too many connections.
    TooManyConnections,
    /// A code that error frames carry with the same meaning.
    Frame(ErrorCode),
}

impl ErrorType {
    /// The code as it stands in the body.
    pub const fn code(self) -> &'static str {
        match self {
            Self::AuthRequired => "authRequired",
            Self::NotFound => "notFound",
            Self::MethodNotAllowed => "methodNotAllowed",
            Self::UpgradeRequired => "upgradeRequired",
            Self::InvalidHandshake => "invalidHandshake",
            Self::BodyTooLarge => "bodyTooLarge",
            Self::RequestTimeout => "requestTimeout",
            Self::InvalidBody => "invalidBody",
            Self::TooManyKeys => "tooManyKeys",
            Self::ServerFault => "serverFault",
            Self::OriginNotAllowed => "originNotAllowed",
            Self::TooManyRequests => "tooManyRequests",
            Self::TooManyConnections => "tooManyConnections",
            Self::Frame(code) => code.code(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Section 11: `type`, `title`, `status`, `detail`, and `code`, `message`, `errorType`.
    #[test]
    fn bodies_are_problem_details() {
        let body: Value = serde_json::from_str(&Refusal::DeviceOwnershipFailed.body()).unwrap();
        let text = "the device id belongs to another account; choose another one";
        assert_eq!(
            body,
            json!({
                "type": "about:blank",
                "title": "Conflict",
                "status": 409,
                "detail": text,
                "code": 409,
                "message": text,
                "errorType": "deviceOwnershipFailed",
            })
        );
    }

    /// TR-2: 401 names the scheme.
    #[test]
    fn unauthorized_names_the_scheme() {
        let refusal = Refusal::from(CredentialsError::Missing);
        assert_eq!(refusal.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(
            refusal.headers(),
            [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))]
        );
    }

    /// TR-11: 429 says in whole seconds when to come back: never too early, never at once.
    #[test]
    fn too_often_says_when_to_come_back() {
        for (millis, seconds) in [(0, "1"), (1, "1"), (200, "1"), (1_000, "1"), (1_001, "2")] {
            let refusal = Refusal::from(TooOften {
                wait: Duration::from_millis(millis),
            });
            assert_eq!(refusal.status(), StatusCode::TOO_MANY_REQUESTS);
            let value = HeaderValue::from_static(seconds);
            assert_eq!(refusal.headers(), [(RETRY_AFTER, value)], "{millis} ms");
        }
    }

    /// REG-4: trouble of the database is not told to strangers.
    #[test]
    fn database_errors_are_not_shown() {
        let error = StoreError::Failed("no such table: devices".to_owned());
        let refusal = Refusal::from(error);
        assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(!refusal.body().contains("devices"), "{}", refusal.body());
    }
}
