//! What is wrong with a value is told in the same words whatever the key and the layer: this walks
//! every key that there is, the ones that are added later included.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use relay_model::limits::LimitRange;

use super::units::{format_duration, format_size};
use super::{Key, Settings};
use crate::command_line;
use crate::exit::ExitStatus;

/// Values that a key that is no limit does not take, beside the empty one.
fn bad_settings() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        (
            "server.listen",
            &["nowhere", "127.0.0.1", "127.0.0.1:65536"][..],
        ),
        ("server.admin_listen", &["nowhere", "127.0.0.1", "off"]),
        ("server.workers", &["0", "513", "many", "-1"]),
        ("server.allowed_origins", &["*", "app.example", "null"]),
        (
            "server.trusted_proxies",
            &["proxy.example", "10.0.0.1/8", "0.0.0.0/0", "10.0.0.0/33"],
        ),
        ("server.proxy_protocol", &["yes", "1", "v2"]),
        ("database.url", &["mysql://db/relay", "relay.db"]),
        ("database.migrate_at_start", &["yes", "1", "True"]),
        ("auth.hs256_secret", &["hunter2"]),
        ("auth.jwks_url", &["ftp://idp.example/keys", "idp.example"]),
        (
            "push.apns.endpoint",
            &["ftp://push.example", "push.example"],
        ),
        ("push.apns.sandbox_endpoint", &["http://push.example"]),
        ("push.fcm.endpoint", &["https://me:hunter2@push.example"]),
        ("telemetry.log_format", &["xml", "JSON"]),
        ("telemetry.log_level", &["verbose"]),
        (
            "admin.token",
            &[
                "hunter2",
                "an operator token with blanks in it",
                "an-öperator-token-that-is-not-ascii-only",
            ],
        ),
    ])
}

/// Below the range, above it, and not of its kind.
fn bad_values(key: Key) -> Vec<String> {
    let below = |low: usize| low.checked_sub(1);
    match key {
        Key::Limit(limit) => {
            let (outside, ill_typed): (Vec<String>, &[&str]) = match limit.range() {
                LimitRange::Duration(range) => {
                    let step = Duration::from_millis(1);
                    let below = range.start().checked_sub(step);
                    let outside = below.into_iter().chain([*range.end() + step]);
                    let outside = outside.map(format_duration).collect();
                    (outside, &["soon", "5", "5 parsecs", "1.5s", "-1s"])
                }
                LimitRange::Bytes(range) => {
                    let outside = below(*range.start()).into_iter().chain([range.end() + 1]);
                    let outside = outside.map(format_size).collect();
                    (outside, &["big", "5", "5MB", "1.5MiB", "-1B"])
                }
                LimitRange::Count(range) => {
                    let outside = below(*range.start()).into_iter().chain([range.end() + 1]);
                    let outside = outside.map(|count| count.to_string()).collect();
                    (outside, &["many", "5s", "1.5", "-1"])
                }
            };
            let ill_typed = ill_typed.iter().map(|text| (*text).to_owned());
            outside.into_iter().chain(ill_typed).collect()
        }
        Key::Setting(_) => bad_settings()
            .get(key.path().as_str())
            .into_iter()
            .flat_map(|values| values.iter().map(|value| (*value).to_owned()))
            .collect(),
    }
}

/// What `relay config check` says.
fn check(flags: &[&str], environment: &[(String, String)]) -> (ExitStatus, String) {
    let arguments = ["relay", "config", "check"].iter().chain(flags);
    let environment = environment
        .iter()
        .map(|(name, value)| (name.into(), value.into()));
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let status = command_line::run(
        arguments.map(OsString::from),
        environment,
        &mut output,
        &mut errors,
    );
    (status, String::from_utf8(errors).unwrap())
}

fn assert_refused(key: Key, value: &str, origin: &str, said: (ExitStatus, String)) {
    let (status, message) = said;
    let path = key.path();
    assert_eq!(status, ExitStatus::Usage, "{path} = {value:?}: {message}");
    let shown = if key.is_secret() {
        path.clone()
    } else {
        format!("{path} = {value:?}")
    };
    for part in [
        format!("\n  {shown} ({origin}): "),
        format!("allowed: {}", key.allowed()),
    ] {
        assert!(message.contains(&part), "{part}\n{message}");
    }
    let repeated = key.is_secret() && !value.is_empty() && message.contains(value);
    assert!(!repeated || key.allowed().contains(value), "{message}");
}

/// OP-1, OP-2: a value that a key does not take ends the command with 64, from a file, from the
/// environment and from a flag; the message names the key, the value unless it is a secret, the
/// origin and what is allowed.
#[test]
fn every_key_is_judged_in_every_layer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relay.toml");
    let path = file.to_str().unwrap();
    for key in Key::all() {
        for value in bad_values(key) {
            let variable = format!("RELAY__{}", key.path().replace('.', "__").to_uppercase());
            let set = format!("{}={value}", key.path());
            let flag = format!("flag --set {}", key.path());
            assert_refused(key, &value, &flag, check(&["--set", &set], &[]));

            let origin = format!("environment variable {variable}");
            let said = check(&[], &[(variable, value.clone())]);
            assert_refused(key, &value, &origin, said);

            let text = format!("\n[{}]\n{} = {value:?}\n", key.section(), key.name());
            std::fs::write(&file, text).unwrap();
            let origin = format!("{path}, line 3");
            assert_refused(key, &value, &origin, check(&["--config", path], &[]));
        }
    }
}

/// OP-1: an empty value is no value, and a list is one only where one is wanted.
#[test]
fn no_key_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relay.toml");
    let path = file.to_str().unwrap();
    for key in Key::all() {
        let flag = format!("flag --set {}", key.path());
        let said = check(&["--set", &format!("{}=", key.path())], &[]);
        assert_refused(key, "", &flag, said);

        let item = key.show(&Settings::default()).unwrap_or_default();
        let text = format!("[{}]\n{} = [{item:?}]\n", key.section(), key.name());
        std::fs::write(&file, text).unwrap();
        let (status, message) = check(&["--config", path], &[]);
        if key.takes_list() {
            assert_eq!(status, ExitStatus::Done, "{message}");
        } else {
            let refused = format!("{} ({path}, line 2): a list; allowed: ", key.path());
            assert!(message.contains(&refused), "{message}");
        }
    }
}

/// OP-2: an unknown key is an error in every layer, with its origin and the nearest known name.
#[test]
fn unknown_keys_are_refused_in_every_layer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relay.toml");
    let path = file.to_str().unwrap();
    let wrong = "limits.ping_intervall";
    std::fs::write(&file, "# a comment\n[limits]\nping_intervall = \"5s\"\n").unwrap();
    let variable = ("RELAY__LIMITS__PING_INTERVALL".to_owned(), "5s".to_owned());
    for (origin, said) in [
        (format!("{path}, line 3"), check(&["--config", path], &[])),
        (
            format!("environment variable {}", variable.0),
            check(&[], &[variable]),
        ),
        (
            format!("flag --set {wrong}"),
            check(&["--set", &format!("{wrong}=5s")], &[]),
        ),
    ] {
        let (status, message) = said;
        assert_eq!(status, ExitStatus::Usage, "{message}");
        let line = format!("{wrong} ({origin}): unknown key; did you mean limits.ping_interval?");
        assert!(message.contains(&line), "{message}");
    }
}

/// OP-2: the flags that have names of their own set what they say, and are named when they are
/// refused.
#[test]
fn named_flags_are_a_layer_too() {
    for (flag, key, bad) in [
        ("--listen", "server.listen", "nowhere"),
        ("--workers", "server.workers", "0"),
        ("--database-url", "database.url", "relay.db"),
        ("--log-format", "telemetry.log_format", "xml"),
        ("--log-level", "telemetry.log_level", "verbose"),
    ] {
        let key = Key::find(key).unwrap();
        assert_refused(key, bad, &format!("flag {flag}"), check(&[flag, bad], &[]));
        let default = key.show(&Settings::default()).unwrap();
        let (status, message) = check(&[flag, &default], &[]);
        assert_eq!(status, ExitStatus::Done, "{flag} {default}: {message}");
    }
}
