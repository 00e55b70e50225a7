//! An identity provider that is away, slow, broken or under a flood (HTTP-4): tokens of known keys
//! never notice.

use relay_tests::blackbox::{
    Account, Behaviour, Claims, IdentityProvider, Relay, SigningKey, Site, fresh_id, key_set,
};
use tokio::time::Instant;

async fn relay_of(provider: &IdentityProvider, settings: &[(&str, &str)]) -> Relay {
    let url = provider.url();
    let site = Site::new(&[
        ("auth.hs256_secret", ""),
        ("auth.jwks_url", &url),
        ("auth.jwks_min_interval", "50ms"),
    ]);
    site.with(settings).start().await
}

fn token_of(key: &SigningKey) -> String {
    key.sign(&Claims::new(&fresh_id()))
}

/// HTTP-4: the relay starts without its provider; until the keys were read once, a token is neither
/// good nor bad: 503 with a time to try again, over HTTP and at the upgrade.
#[tokio::test]
async fn a_provider_may_come_after_the_relay() {
    let key = SigningKey::rsa("r");
    let mut provider = IdentityProvider::away().await;
    let relay = relay_of(&provider, &[]).await;
    let token = token_of(&key);
    let authorization = format!("Bearer {token}");
    let answer = relay
        .call_as(&authorization, reqwest::Method::GET, "/api/devices", None)
        .await;
    answer.assert_problem(503, "relayUnavailable");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    let mut raw = relay.tcp().await;
    let headers = [("Authorization".to_owned(), authorization)];
    let head = raw.ask_for_upgrade(&headers).await.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 503 "), "{head}");
    assert!(head.contains("\r\nretry-after: "), "{head}");
    // What no key could make good is told at once.
    assert_eq!(relay.status_for("garbage").await, 401);
    assert_eq!(relay.status_for(&Account::new().token).await, 401);

    provider.publish(&[&key]);
    provider.come().await;
    relay
        .eventually("the keys", async || relay.status_for(&token).await == 200)
        .await;
}

/// HTTP-4: whatever the provider does, the last good keys stay; it is found again when it is well.
#[tokio::test]
async fn the_last_good_keys_stay() {
    let (known, new) = (SigningKey::p256("known"), SigningKey::p256("new"));
    let mut provider = IdentityProvider::start(&[&known]).await;
    let relay = relay_of(&provider, &[("auth.jwks_timeout", "200ms")]).await;
    let (good, unknown) = (token_of(&known), token_of(&new));
    assert_eq!(relay.status_for(&good).await, 200);
    let other_keys = key_set(&[&new]);
    for behaviour in [
        Behaviour::HangUp,
        Behaviour::Hang,
        Behaviour::Huge(2 * 1024 * 1024),
        Behaviour::Text(format!("{other_keys}{}", " ".repeat(2 * 1024 * 1024))),
        Behaviour::Text("<html>busy</html>".to_owned()),
        Behaviour::Text(other_keys[..other_keys.len() / 2].to_owned()),
        Behaviour::Text("{\"keys\":[]}".to_owned()),
        Behaviour::Text(format!("{{\"keys\":[{}]}}", vec!["{}"; 101].join(","))),
        Behaviour::Redirect(other_keys.clone()),
        Behaviour::Status(500, other_keys.clone()),
        Behaviour::Status(404, other_keys.clone()),
        Behaviour::Status(204, String::new()),
    ] {
        provider.behave(behaviour);
        let fetches = provider.fetches();
        relay
            .eventually("a reading that fails", async || {
                assert_eq!(relay.status_for(&unknown).await, 401);
                assert_eq!(relay.status_for(&good).await, 200);
                provider.fetches() > fetches + 1
            })
            .await;
    }
    assert_eq!(provider.followed(), 0, "a redirect was followed");
    provider.go();
    assert_eq!(relay.status_for(&unknown).await, 401);
    assert_eq!(relay.status_for(&good).await, 200);
    provider.publish(&[&known, &new]);
    provider.come().await;
    relay
        .eventually("the new key", async || {
            relay.status_for(&unknown).await == 200
        })
        .await;
}

/// HTTP-4: a thousand tokens of unknown keys have the keys read once an interval at most, and a
/// token of a known key is answered while the reading hangs.
#[tokio::test]
async fn a_flood_of_unknown_keys_is_one_reading_an_interval() {
    const INTERVAL: &str = "200ms";
    const INTERVAL_MILLIS: u128 = 200;
    let known = SigningKey::ed25519("known");
    let provider = IdentityProvider::start(&[&known]).await;
    let relay = relay_of(
        &provider,
        &[
            ("auth.jwks_min_interval", INTERVAL),
            ("auth.jwks_timeout", "1m"),
        ],
    )
    .await;
    let good = token_of(&known);
    assert_eq!(relay.status_for(&good).await, 200);
    let began = Instant::now();
    let before = provider.fetches();
    for round in 0..20 {
        let calls = (0..50).map(|number| {
            let token = known.sign_as(
                Some(&format!("{round}-{number}")),
                &Claims::new(&fresh_id()),
            );
            let relay = &relay;
            async move { relay.status_for(&token).await }
        });
        let statuses = futures_util::future::join_all(calls).await;
        assert!(statuses.iter().all(|status| *status == 401), "{statuses:?}");
    }
    let intervals = began.elapsed().as_millis() / INTERVAL_MILLIS;
    let fetches = (provider.fetches() - before) as u128;
    assert!(
        fetches <= intervals + 1,
        "{fetches} in {intervals} intervals"
    );

    provider.behave(Behaviour::Hang);
    let stranger = token_of(&SigningKey::ed25519("stranger"));
    let hanging = async {
        // Tokens are refused at once until one of them waits for a reading.
        loop {
            assert_eq!(relay.status_for(&stranger).await, 401);
        }
    };
    let known_goes_on = async {
        relay
            .eventually("a reading that hangs", async || {
                provider.fetches() as u128 > fetches + before as u128
            })
            .await;
        for _ in 0..20 {
            assert_eq!(relay.status_for(&good).await, 200);
        }
    };
    tokio::select! {
        () = known_goes_on => (),
        () = hanging => (),
    }
}
