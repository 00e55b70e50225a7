//! An identity provider as the relay meets one: a server in the test's own process that publishes
//! public keys, or fails in all the ways in which such servers fail; and the key pairs behind it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Where the keys are published.
const PATH: &str = "/keys";
/// Where they are published as well, for redirects.
const OTHER_PATH: &str = "/elsewhere";

/// A key pair of the identity provider.
pub struct SigningKey {
    /// Its `kid`.
    pub id: String,
    algorithm: Algorithm,
    signing: EncodingKey,
    public_der: Vec<u8>,
}

impl SigningKey {
    /// For RS256.
    pub fn rsa(id: &str) -> Self {
        let pair = aws_lc_rs::rsa::KeyPair::generate(KeySize::Rsa2048).expect("an RSA key");
        let private = pair.as_der().expect("PKCS #8");
        let signing = EncodingKey::from_rsa_pem(pem("PRIVATE", private.as_ref()).as_bytes());
        let public = pair.public_key().as_der().expect("SPKI");
        Self {
            id: id.to_owned(),
            algorithm: Algorithm::RS256,
            signing: signing.expect("PKCS #8"),
            public_der: public.as_ref().to_vec(),
        }
    }

    /// For ES256.
    pub fn p256(id: &str) -> Self {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let private = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new());
        let private = private.expect("a P-256 key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, private.as_ref()).expect("PKCS #8");
        let signing = EncodingKey::from_ec_pem(pem("PRIVATE", private.as_ref()).as_bytes());
        Self {
            id: id.to_owned(),
            algorithm: Algorithm::ES256,
            signing: signing.expect("PKCS #8"),
            public_der: pair.public_key().as_der().expect("SPKI").as_ref().to_vec(),
        }
    }

    /// For EdDSA.
    pub fn ed25519(id: &str) -> Self {
        let private = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new());
        let private = private.expect("an Ed25519 key");
        let pair = Ed25519KeyPair::from_pkcs8(private.as_ref()).expect("PKCS #8");
        let signing = EncodingKey::from_ed_pem(pem("PRIVATE", private.as_ref()).as_bytes());
        Self {
            id: id.to_owned(),
            algorithm: Algorithm::EdDSA,
            signing: signing.expect("PKCS #8"),
            public_der: pair.public_key().as_der().expect("SPKI").as_ref().to_vec(),
        }
    }

    /// The public half, as it is published.
    pub fn jwk(&self) -> Value {
        let jwk = Jwk::from_encoding_key(&self.signing, self.algorithm).expect("a JWK");
        let mut jwk = serde_json::to_value(jwk).expect("JSON");
        jwk["kid"] = json!(self.id);
        jwk["use"] = json!("sig");
        jwk
    }

    /// The public half in DER.
    pub fn public_der(&self) -> &[u8] {
        &self.public_der
    }

    /// The public half in PEM.
    pub fn public_pem(&self) -> String {
        pem("PUBLIC", &self.public_der)
    }

    /// A token of these claims that names this key.
    pub fn sign(&self, claims: &impl Serialize) -> String {
        self.sign_as(Some(&self.id), claims)
    }

    /// A token of these claims that names this or another key, or none.
    pub fn sign_as(&self, id: Option<&str>, claims: &impl Serialize) -> String {
        let header = Header {
            kid: id.map(str::to_owned),
            ..Header::new(self.algorithm)
        };
        encode(&header, claims, &self.signing).expect("claims of this type can be signed")
    }
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .filter_map(|line| std::str::from_utf8(line).ok())
        .collect();
    format!(
        "-----BEGIN {kind} KEY-----\n{}\n-----END {kind} KEY-----\n",
        lines.join("\n")
    )
}

/// A JWK Set of these keys.
pub fn key_set(keys: &[&SigningKey]) -> String {
    let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

/// What the server does with a request.
#[derive(Clone)]
pub enum Behaviour {
    /// Answers with this text.
    Text(String),
    /// Answers with this status and the text as body.
    Status(u16, String),
    /// Sends the client to another path, where this text is.
    Redirect(String),
    /// Announces a body and never sends its end.
    Hang,
    /// Sends so many bytes of JSON, without saying how many.
    Huge(usize),
    /// Closes without an answer.
    HangUp,
}

/// The server. It ends when it is dropped.
pub struct IdentityProvider {
    address: SocketAddr,
    stage: Arc<Stage>,
    serving: Option<JoinHandle<()>>,
}

struct Stage {
    behaviour: Mutex<Behaviour>,
    fetches: AtomicUsize,
    followed: AtomicUsize,
}

impl Stage {
    fn behaviour(&self) -> MutexGuard<'_, Behaviour> {
        self.behaviour
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdentityProvider {
    /// A server that publishes these keys.
    pub async fn start(keys: &[&SigningKey]) -> Self {
        let mut server = Self::away().await;
        server.publish(keys);
        server.come().await;
        server
    }

    /// A server that does not listen yet, on a port that was free.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn away() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self {
            address: listener.local_addr().expect("an address"),
            stage: Arc::new(Stage {
                behaviour: Mutex::new(Behaviour::HangUp),
                fetches: AtomicUsize::new(0),
                followed: AtomicUsize::new(0),
            }),
            serving: None,
        }
    }

    /// Begins to listen.
    ///
    /// # Panics
    /// When the port was taken meanwhile.
    pub async fn come(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("its port");
        let stage = Arc::clone(&self.stage);
        self.serving = Some(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&stage)));
            }
        }));
    }

    /// Stops listening: connections are refused.
    pub fn go(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }

    /// What `auth.jwks_url` is set to.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Publishes these keys from here on.
    pub fn publish(&self, keys: &[&SigningKey]) {
        self.behave(Behaviour::Text(key_set(keys)));
    }

    /// Does this from here on.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.stage.behaviour() = behaviour;
    }

    /// How often the keys were asked for.
    pub fn fetches(&self) -> usize {
        self.stage.fetches.load(Ordering::SeqCst)
    }

    /// How often a redirect was followed.
    pub fn followed(&self) -> usize {
        self.stage.followed.load(Ordering::SeqCst)
    }
}

impl Drop for IdentityProvider {
    fn drop(&mut self) {
        self.go();
    }
}

/// Answers one request and closes; a client that left is of no interest.
async fn serve(mut stream: TcpStream, stage: Arc<Stage>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_buf(&mut request).await {
            Ok(0) | Err(_) => return,
            Ok(_) => (),
        }
    }
    let behaviour = stage.behaviour().clone();
    if request.starts_with(format!("GET {OTHER_PATH} ").as_bytes()) {
        stage.followed.fetch_add(1, Ordering::SeqCst);
        if let Behaviour::Redirect(text) = behaviour {
            let _ = stream.write_all(answer(200, "", &text).as_bytes()).await;
        }
        return;
    }
    stage.fetches.fetch_add(1, Ordering::SeqCst);
    let text = match behaviour {
        Behaviour::Text(text) => answer(200, "", &text),
        Behaviour::Status(status, text) => answer(status, "", &text),
        Behaviour::Redirect(_) => answer(302, &format!("Location: {OTHER_PATH}\r\n"), ""),
        Behaviour::HangUp => return,
        Behaviour::Hang => {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{";
            let _ = stream.write_all(head).await;
            // Until the client gives up.
            let _ = stream.read(&mut [0]).await;
            return;
        }
        Behaviour::Huge(bytes) => {
            let padding = " ".repeat(bytes);
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{{\"keys\":[]{padding}}}")
        }
    };
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}
