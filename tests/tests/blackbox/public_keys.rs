//! User tokens of an identity provider (HTTP-4, TR-2): which are accepted, which are not, and what a
//! change of its keys changes.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use relay_tests::blackbox::{
    Account, Claims, IdentityProvider, Relay, SECRET, SigningKey, Site, fresh_id, key_set,
};
use serde_json::{Value, json};

/// A relay under this provider alone, with all that it says in its log.
async fn relay_of(provider: &IdentityProvider, settings: &[(&str, &str)]) -> Relay {
    let url = provider.url();
    let site = Site::new(&[
        ("auth.hs256_secret", ""),
        ("auth.jwks_url", &url),
        ("auth.jwks_min_interval", "50ms"),
        ("telemetry.log_level", "trace"),
    ]);
    site.with(settings).start().await
}

/// An account that signs in at the provider.
fn account_of(key: &SigningKey) -> Account {
    let id = fresh_id();
    let token = key.sign(&Claims::new(&id));
    Account { id, token }
}

/// The same token with six other bits at the beginning of its signature; the last character would
/// not do, since it may carry fewer bits and be the same by chance.
fn with_altered_signature(token: &str) -> String {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let first = if signature.starts_with('A') { 'B' } else { 'A' };
    format!("{signed}.{first}{}", &signature[1..])
}

/// HTTP-4, TR-2: RS256, ES256 and EdDSA, over HTTP and for sockets; no token stands in the log.
#[tokio::test]
async fn tokens_of_a_provider_are_accepted() {
    let keys = [
        SigningKey::rsa("r"),
        SigningKey::p256("e"),
        SigningKey::ed25519("d"),
    ];
    let provider = IdentityProvider::start(&[&keys[0], &keys[1], &keys[2]]).await;
    let relay = relay_of(&provider, &[]).await;
    for key in &keys {
        let account = account_of(key);
        let desktop = relay.desktop(&account).await;
        let mut phone = relay.phone(&desktop.device).await;
        phone.ping().await;
        let nameless = key.sign_as(None, &Claims::new(&account.id));
        assert_eq!(relay.status_for(&nameless).await, 200);
        let signature = account.token.rsplit('.').next().unwrap();
        relay.evidence().assert_hidden(&[&account.token, signature]);
    }
    // Whoever makes tokens with a secret needs one that was asked for.
    let secret = Claims::new(&fresh_id()).sign(SECRET);
    assert_eq!(relay.status_for(&secret).await, 401);
    assert_eq!(provider.fetches(), 1);
}

/// HTTP-4: a secret and a provider go together.
#[tokio::test]
async fn a_secret_goes_beside_a_provider() {
    let key = SigningKey::p256("e");
    let provider = IdentityProvider::start(&[&key]).await;
    let relay = relay_of(&provider, &[("auth.hs256_secret", SECRET)]).await;
    assert_eq!(relay.status_for(&account_of(&key).token).await, 200);
    assert_eq!(relay.status_for(&Account::new().token).await, 200);
}

/// HTTP-4: what is wrong with a token is answered with 401, over HTTP and at the upgrade, never with
/// the token.
#[tokio::test]
async fn bad_tokens_get_401() {
    let keys = [SigningKey::rsa("r"), SigningKey::p256("e")];
    let provider = IdentityProvider::start(&[&keys[0], &keys[1]]).await;
    let relay = relay_of(
        &provider,
        &[
            ("auth.issuer", "https://login.example"),
            ("auth.audience", "relay"),
        ],
    )
    .await;
    let good = Claims {
        iss: Some("https://login.example".to_owned()),
        aud: json!(["other", "relay"]),
        ..Claims::new(&fresh_id())
    };
    let good_token = keys[0].sign(&good);
    assert_eq!(relay.status_for(&good_token).await, 200);

    let mut tokens = vec![
        keys[0].sign(&Claims {
            exp: Some(1),
            ..good.clone()
        }),
        keys[0].sign(&Claims {
            exp: None,
            ..good.clone()
        }),
        keys[0].sign(&Claims {
            nbf: good.exp,
            ..good.clone()
        }),
        keys[0].sign(&Claims {
            iss: None,
            ..good.clone()
        }),
        keys[0].sign(&Claims {
            iss: Some("https://evil.example".to_owned()),
            ..good.clone()
        }),
        keys[0].sign(&Claims {
            aud: Value::Null,
            ..good.clone()
        }),
        keys[0].sign(&Claims {
            aud: json!("other"),
            ..good.clone()
        }),
        keys[0].sign(&Claims {
            sub: "alice".to_owned(),
            ..good.clone()
        }),
        // Another provider's key under a known name, a known key under an unknown name.
        SigningKey::rsa("r").sign(&good),
        keys[0].sign_as(Some("x"), &good),
        // One key's name on another's signature.
        keys[0].sign_as(Some("e"), &good),
        "garbage".to_owned(),
        with_altered_signature(&good_token),
    ];
    // The public key, which everybody knows, as an HS256 secret.
    let jwk = keys[0].jwk();
    for stolen in [
        keys[0].public_pem().into_bytes(),
        keys[0].public_pem().trim_end().as_bytes().to_vec(),
        keys[0].public_der().to_vec(),
        jwk.to_string().into_bytes(),
        key_set(&[&keys[0]]).into_bytes(),
        jwk["n"].as_str().unwrap().as_bytes().to_vec(),
        URL_SAFE_NO_PAD.decode(jwk["n"].as_str().unwrap()).unwrap(),
    ] {
        let secret = EncodingKey::from_secret(&stolen).unwrap();
        for kid in [None, Some("r".to_owned())] {
            let header = Header {
                kid,
                ..Header::new(Algorithm::HS256)
            };
            tokens.push(encode(&header, &good, &secret).unwrap());
        }
    }
    // Other algorithms on a good token, with its signature and without.
    let (_, rest) = good_token.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    for algorithm in [
        "none", "NONE", "ES256", "EdDSA", "HS256", "RS384", "RS512", "PS256",
    ] {
        let header = json!({ "alg": algorithm, "kid": "r", "typ": "JWT" });
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        tokens.push(format!("{header}.{payload}.{signature}"));
        tokens.push(format!("{header}.{payload}."));
    }
    for token in &tokens {
        let authorization = format!("Bearer {token}");
        let answer = relay
            .call_as(&authorization, reqwest::Method::GET, "/api/devices", None)
            .await;
        answer.assert_problem(401, "authRequired");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert!(!answer.body.to_string().contains(token.as_str()));
        let mut raw = relay.tcp().await;
        let headers = [("Authorization".to_owned(), authorization)];
        let head = raw.ask_for_upgrade(&headers).await;
        assert!(head.starts_with("HTTP/1.1 401 "), "{token}: {head}");
    }
    assert_eq!(relay.status_for(&good_token).await, 200);
    for token in &tokens {
        // A single word may stand in a log by chance.
        if token.contains('.') {
            relay.evidence().assert_hidden(&[token]);
        }
    }
}

/// HTTP-4: a new key is accepted at once and without a restart, and tokens of the old one end.
#[tokio::test]
async fn keys_rotate() {
    let (old, new) = (SigningKey::p256("old"), SigningKey::p256("new"));
    let provider = IdentityProvider::start(&[&old]).await;
    let relay = relay_of(&provider, &[]).await;
    let (before, after) = (account_of(&old), account_of(&new));
    assert_eq!(relay.status_for(&before.token).await, 200);
    provider.publish(&[&old, &new]);
    relay
        .eventually("the new key", async || {
            relay.status_for(&after.token).await == 200
        })
        .await;
    assert_eq!(relay.status_for(&before.token).await, 200);
    provider.publish(&[&new]);
    // Nobody uses a new key now: any unknown one has the keys read again.
    let stranger = account_of(&SigningKey::p256("stranger"));
    relay
        .eventually("the end of the old key", async || {
            assert_eq!(relay.status_for(&stranger.token).await, 401);
            relay.status_for(&before.token).await == 401
        })
        .await;
    assert_eq!(relay.status_for(&after.token).await, 200);
}

/// HTTP-4: a key that was taken away ends with the next refresh, although nobody asks.
#[tokio::test]
async fn removed_keys_end_with_the_refresh() {
    let (old, kept) = (SigningKey::ed25519("old"), SigningKey::ed25519("kept"));
    let provider = IdentityProvider::start(&[&old, &kept]).await;
    let relay = relay_of(&provider, &[("auth.jwks_refresh_interval", "100ms")]).await;
    let token = account_of(&old).token;
    assert_eq!(relay.status_for(&token).await, 200);
    provider.publish(&[&kept]);
    relay
        .eventually("the end of the old key", async || {
            relay.status_for(&token).await == 401
        })
        .await;
    assert_eq!(relay.status_for(&account_of(&kept).token).await, 200);
}

/// HTTP-4: keys in a file, which may change while the relay runs; a bad file changes nothing.
#[tokio::test]
async fn keys_come_from_a_file() {
    let (old, new) = (SigningKey::rsa("old"), SigningKey::p256("new"));
    let site = Site::new(&[
        ("auth.hs256_secret", ""),
        ("auth.jwks_file", "keys.json"),
        ("auth.jwks_min_interval", "50ms"),
    ]);
    let write = |text: &str| std::fs::write(site.path("keys.json"), text).unwrap();
    write(&key_set(&[&old]));
    let relay = site.start().await;
    let (before, after) = (account_of(&old).token, account_of(&new).token);
    assert_eq!(relay.status_for(&before).await, 200);
    assert_eq!(relay.status_for(&after).await, 401);
    write("{ not json");
    relay
        .evidence()
        .wait_for("a word about the bad file", |line| {
            line.contains("cannot read the public keys").then_some(())
        })
        .await;
    assert_eq!(relay.status_for(&before).await, 200);
    write(&key_set(&[&new]));
    relay
        .eventually("the new key", async || {
            relay.status_for(&after).await == 200
        })
        .await;
    assert_eq!(relay.status_for(&before).await, 401);
}

/// OP-1: a key file that cannot be used ends the start with 64 and says what is wrong; so do public
/// keys from two places, and keys over an insecure network.
#[tokio::test]
async fn bad_configurations_end_the_start() {
    let site = Site::new(&[("server.listen", "127.0.0.1:0")]);
    std::fs::write(site.path("bad.json"), "{\"keys\":[{\"kty\":\"oct\"}]}").unwrap();
    for (settings, named) in [
        (&[("auth.jwks_file", "missing.json")][..], "missing.json"),
        (&[("auth.jwks_file", "bad.json")], "bad.json"),
        (
            &[("auth.jwks_url", "http://login.example/keys")],
            "auth.jwks_url",
        ),
        (
            &[("auth.jwks_url", "https://me:hunter2@login.example/keys")],
            "auth.jwks_url",
        ),
        (
            &[
                ("auth.jwks_url", "https://login.example"),
                ("auth.jwks_file", "bad.json"),
            ],
            "auth.jwks_file",
        ),
    ] {
        let output = site.with(settings).command().output().await.unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{errors}");
        assert!(
            errors.contains(named) && !errors.contains("hunter2"),
            "{errors}"
        );
    }
}

/// HTTP-4: `relay token` makes no tokens that the relay would refuse.
#[tokio::test]
async fn tokens_are_not_minted_beside_a_provider() {
    let site = Site::new(&[("auth.jwks_url", "https://login.example/keys")]);
    let command = ["token", "--account", &fresh_id()];
    let output = site.command().args(command).output().await.unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
}
