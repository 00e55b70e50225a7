//! A push service as the relay meets one: a real server on loopback that notes what it is sent and
//! answers what the test wants, over TLS with HTTP/2 as Apple's, or plainly; and an operator's keys.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::KeySize;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rcgen::KeyPair;
use relay_tests::blackbox::DEADLINE;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

use crate::certificates::Authority;

/// Where access tokens are fetched.
const TOKEN_PATH: &str = "/token";

/// What the service does with a push.
#[derive(Clone)]
pub(super) enum Reaction {
    /// Answers so.
    Answer(u16, Vec<(&'static str, String)>, Value),
    /// Resets the TCP connection.
    Reset,
    /// Never answers.
    Hang,
}

impl Reaction {
    /// An answer of Apple's.
    pub(super) fn apple(status: u16, reason: &str) -> Self {
        Self::Answer(status, Vec::new(), json!({ "reason": reason }))
    }

    /// An answer of Google's.
    pub(super) fn google(status: u16, code: &str) -> Self {
        let kind = "type.googleapis.com/google.firebase.fcm.v1.FcmError";
        let details = json!([{"@type": kind, "errorCode": code}]);
        let error = json!({"code": status, "message": "no", "status": "X", "details": details});
        Self::Answer(status, Vec::new(), json!({ "error": error }))
    }

    /// The same answer with another header.
    pub(super) fn with(self, name: &'static str, value: impl ToString) -> Self {
        match self {
            Self::Answer(status, mut headers, body) => {
                headers.push((name, value.to_string()));
                Self::Answer(status, headers, body)
            }
            other => other,
        }
    }
}

/// A push as the service got it.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) path: String,
    pub(super) version: Version,
    pub(super) body: Value,
    headers: hyper::HeaderMap,
}

impl Taken {
    /// A header's value; empty without one.
    pub(super) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().expect("ASCII"))
    }
}

#[derive(Default)]
struct State {
    reactions: VecDeque<Reaction>,
    token_fetches: usize,
    connections: usize,
}

/// The service. It ends with its test.
pub(super) struct Service {
    address: SocketAddr,
    scheme: &'static str,
    /// The authority that its certificate is from, in PEM.
    pub(super) authority: String,
    state: Arc<Mutex<State>>,
    taken: Arc<watch::Sender<Vec<Taken>>>,
}

impl Service {
    /// With a certificate, and HTTP/2 only.
    pub(super) async fn apple() -> Self {
        let (authority, config) = certificate();
        Self::start(
            "https",
            authority,
            Some(TlsAcceptor::from(Arc::new(config))),
        )
        .await
    }

    /// Without TLS; it gives out access tokens too.
    pub(super) async fn google() -> Self {
        Self::start("http", String::new(), None).await
    }

    async fn start(scheme: &'static str, authority: String, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let service = Self {
            address: listener.local_addr().expect("an address"),
            scheme,
            authority,
            state: Arc::default(),
            taken: Arc::new(watch::channel(Vec::new()).0),
        };
        let (state, taken) = (Arc::clone(&service.state), Arc::clone(&service.taken));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Whoever drops it resets it.
                let linger = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                linger.expect("an option of every socket");
                lock(&state).connections += 1;
                let (state, taken, tls) = (Arc::clone(&state), Arc::clone(&taken), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, state, taken).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, state, taken).await;
                            }
                        }
                    }
                });
            }
        });
        service
    }

    /// Its URL.
    pub(super) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Reacts to the next pushes so; to those without a reaction with success.
    pub(super) fn react(&self, reactions: impl IntoIterator<Item = Reaction>) {
        lock(&self.state).reactions.extend(reactions);
    }

    /// How often an access token was fetched.
    pub(super) fn token_fetches(&self) -> usize {
        lock(&self.state).token_fetches
    }

    /// How many connections there were.
    pub(super) fn connections(&self) -> usize {
        lock(&self.state).connections
    }

    /// All pushes so far.
    pub(super) fn taken(&self) -> Vec<Taken> {
        self.taken.borrow().clone()
    }

    /// Waits until there were so many pushes, and returns all.
    pub(super) async fn next(&self, number: usize) -> Vec<Taken> {
        let mut taken = self.taken.subscribe();
        let enough = taken.wait_for(|taken| taken.len() >= number);
        let waited = tokio::time::timeout(DEADLINE, enough).await;
        assert!(waited.is_ok(), "no push {number}: {:?}", self.taken());
        self.taken()
    }

    /// The key file of a service account whose tokens this service gives out.
    pub(super) fn service_account(&self) -> String {
        let pair = aws_lc_rs::rsa::KeyPair::generate(KeySize::Rsa2048).expect("an RSA key");
        let der = STANDARD.encode(pair.as_der().expect("PKCS #8").as_ref());
        let lines: Vec<&str> = der
            .as_bytes()
            .chunks(64)
            .map(|line| std::str::from_utf8(line).expect("base64"))
            .collect();
        let key = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            lines.join("\n")
        );
        json!({
            "type": "service_account",
            "project_id": "project-1",
            "private_key": key,
            "client_email": "relay@project-1.example",
            "token_uri": format!("{}{TOKEN_PATH}", self.url()),
        })
        .to_string()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no panic holds it")
}

/// A key as in Apple's `.p8` files.
pub(super) fn signing_key() -> KeyPair {
    KeyPair::generate().expect("a P-256 key")
}

fn certificate() -> (String, ServerConfig) {
    let authority = Authority::new();
    let pair = authority.issue();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let private = PrivateKeyDer::try_from(pair.key_der()).expect("PKCS #8");
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![pair.der.into()], private)
        .expect("a key of the certificate");
    config.alpn_protocols = vec![b"h2".to_vec()];
    (authority.pem, config)
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    state: Arc<Mutex<State>>,
    taken: Arc<watch::Sender<Vec<Taken>>>,
) {
    let reset = Arc::new(Notify::new());
    let ended = Arc::clone(&reset);
    let service = service_fn(move |request| {
        answer(
            request,
            Arc::clone(&state),
            Arc::clone(&taken),
            Arc::clone(&reset),
        )
    });
    let builder = Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = connection => {}
        () = ended.notified() => {}
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
    taken: Arc<watch::Sender<Vec<Taken>>>,
    reset: Arc<Notify>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes());
    let body = body.unwrap_or_default();
    if head.uri.path() == TOKEN_PATH {
        let number = {
            let mut state = lock(&state);
            state.token_fetches += 1;
            state.token_fetches
        };
        let token = json!({"access_token": format!("accesstoken-{number}"), "expires_in": 3_600});
        return Ok(response(200, &[], &token));
    }
    let reaction = lock(&state).reactions.pop_front();
    taken.send_modify(|taken| {
        taken.push(Taken {
            path: head.uri.path().to_owned(),
            version: head.version,
            body: serde_json::from_slice(&body).unwrap_or_default(),
            headers: head.headers,
        });
    });
    match reaction {
        None => Ok(response(200, &[], &json!({}))),
        Some(Reaction::Answer(status, headers, body)) => Ok(response(status, &headers, &body)),
        Some(Reaction::Reset) => {
            reset.notify_one();
            std::future::pending().await
        }
        Some(Reaction::Hang) => std::future::pending().await,
    }
}

fn response(
    status: u16,
    headers: &[(&'static str, String)],
    body: &Value,
) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    let body = Full::new(Bytes::from(body.to_string()));
    response.body(body).expect("headers of the tests are valid")
}
