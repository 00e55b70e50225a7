//! The binary's command line: what a person types first, and what a wrong word is answered (OP-1,
//! OP-2).

use std::process::Output;

use relay_tests::blackbox::{Account, Site};
use serde_json::json;

async fn run(site: &Site, arguments: &[&str]) -> Output {
    site.command().args(arguments).output().await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// HTTP-4: `relay token` prints one token that this relay accepts, and nothing else on standard
/// output.
#[tokio::test]
async fn a_minted_token_is_accepted() {
    let relay = relay_tests::blackbox::Relay::start().await;
    let mut account = Account::new();
    let secret = [("auth.hs256_secret", relay_tests::blackbox::SECRET)];
    let site = relay.site().with(&secret);
    let output = run(&site, &["token", "--account", &account.id, "--ttl", "5m"]).await;
    assert!(output.status.success(), "{output:?}");
    account.token = text(&output.stdout).trim_end().to_owned();
    assert_eq!(account.token.split('.').count(), 3);
    let desktop = relay.desktop(&account).await;
    let mut phone = relay.phone(&desktop.device).await;
    phone.ping().await;
}

/// Command line: without any configuration `relay` makes its folder, its database and a secret that
/// only its user can read, and `relay token` uses that secret.
#[tokio::test]
async fn the_first_start_needs_no_configuration() {
    use std::os::unix::fs::PermissionsExt;
    // The port is the only thing set: other tests may run beside this one.
    let site = Site::new(&[("server.listen", "127.0.0.1:0")]);
    let mut child = site
        .command()
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let secret = site.path("relay-data/signing-secret");
    let made = async {
        while !secret.is_file() {
            tokio::time::sleep(relay_tests::blackbox::LOOK_AGAIN).await;
        }
    };
    let made = tokio::time::timeout(relay_tests::blackbox::DEADLINE, made).await;
    made.expect("the first start makes a secret");
    let mode = std::fs::metadata(&secret).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    let account = Account::new();
    let output = run(&site, &["token", "--account", &account.id]).await;
    assert!(output.status.success(), "{output:?}");
    let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
    let content = std::fs::read_to_string(&secret).unwrap();
    assert!(!shown.contains(content.trim()));
    child.kill().await.unwrap();
}

/// OP-1: help and version are no errors.
#[tokio::test]
async fn help_is_there() {
    let site = Site::new(&[]);
    for arguments in [
        &["--help"][..],
        &["token", "--help"],
        &["serve", "--help"],
        &["--version"],
    ] {
        let output = run(&site, arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
    assert!(text(&run(&site, &["--help"]).await.stdout).contains("relay token"));
}

/// OP-1: bad usage exits with 64.
#[tokio::test]
async fn bad_usage_exits_with_64() {
    let site = Site::new(&[]);
    for arguments in [
        &["nonsense"][..],
        &["token"],
        &["token", "--account", "no uuid"],
        &[
            "token",
            "--account",
            &relay_tests::blackbox::fresh_id(),
            "--ttl",
            "soon",
        ],
        &["serve", "--nonsense"],
    ] {
        let output = run(&site, arguments).await;
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

/// OP-1, OP-2: bad configuration exits with 64; the message names the key, where it came from and
/// what is allowed or meant.
#[tokio::test]
async fn bad_configuration_exits_with_64() {
    for (key, value, named) in [
        ("limits.ping_interval", "soon", "limits.ping_interval"),
        ("limits.ping_interval", "1000h", "10m"),
        ("limits.max_message", "1GiB", "32MiB"),
        ("limits.ping_intervall", "1s", "limits.ping_interval"),
        ("nonsense.key", "1", "nonsense.key"),
        ("server.listen", "nowhere", "server.listen"),
        ("auth.hs256_secret", "short", "auth.hs256_secret"),
    ] {
        let output = run(&Site::new(&[(key, value)]), &["serve"]).await;
        assert_eq!(output.status.code(), Some(64), "{key}={value}: {output:?}");
        let message = text(&output.stderr);
        assert!(message.contains(named), "{key}={value}: {message}");
        let variable = format!("RELAY__{}", key.to_uppercase().replace('.', "__"));
        assert!(message.contains(&variable), "{key}={value}: {message}");
    }
    let output = run(&Site::new(&[("auth.hs256_secret", "short")]), &["serve"]).await;
    let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(
        !shown.contains("\"short\""),
        "a secret is not repeated: {shown}"
    );
}

/// OP-2: flags over environment over file over defaults; `config print` shows what is in force and
/// masks secrets.
#[tokio::test]
async fn configuration_has_layers() {
    let site = Site::new(&[
        ("limits.ping_interval", "20s"),
        ("auth.hs256_secret", SECRET),
    ]);
    let file = "[limits]\nping_interval = \"10s\"\nclient_timeout = \"70s\"\n";
    std::fs::write(site.path("relay.toml"), file).unwrap();
    let output = run(&site, &["config", "print", "--config", "relay.toml"]).await;
    assert!(output.status.success(), "{output:?}");
    let shown = text(&output.stdout);
    for (name, value) in [
        ("ping_interval", json!("20s")),
        ("client_timeout", json!("70s")),
        ("close_timeout", json!("5s")),
    ] {
        let line = shown.lines().find(|line| line.starts_with(name));
        assert!(
            line.is_some_and(|line| line.contains(&value.to_string())),
            "{name}: {shown}"
        );
    }
    assert!(!shown.contains(SECRET), "{shown}");
}

const SECRET: &str = "another secret that is long enough";

/// OP-1: every command ends with the code that its outcome has.
#[tokio::test]
async fn every_command_has_its_exit_codes() {
    let site = Site::new(&[("server.listen", "127.0.0.1:0")]);
    let account = relay_tests::blackbox::fresh_id();
    let away = ["--database-url", "sqlite:///dev/null/relay.db"];
    let broken = ["--set", "limits.ping_interval=soon"];
    let secret = format!("auth.hs256_secret={SECRET}");
    let token = ["token", "--account", &account];
    let keys = ["key", "list", "--account", &account];
    for (code, arguments) in [
        (0, &["completions", "bash"][..]),
        (0, &["config", "check"]),
        (0, &["config", "print"]),
        (0, &["config", "reference"]),
        (0, &["migrate"]),
        (0, &["migrate", "--check"]),
        (0, &keys),
        (0, &[&token[..], &["--set", &secret]].concat()),
        (64, &["completions"]),
        (64, &["completions", "tcsh"]),
        (64, &["config"]),
        (64, &[&["config", "check"][..], &broken].concat()),
        (64, &[&["config", "print"][..], &broken].concat()),
        (64, &["config", "reference", "--all"]),
        (64, &["migrate", "--dry-run"]),
        (64, &[&["migrate"][..], &broken].concat()),
        (64, &["key", "list"]),
        (64, &[&keys[..], &broken].concat()),
        // Most likely the wrong file is named: a server that is away would be 69.
        (64, &[&keys[..], &away].concat()),
        (64, &[&token[..], &["--ttl", "0s"]].concat()),
        (64, &[&token[..], &broken].concat()),
        (64, &[&["serve"][..], &broken].concat()),
        (64, &["serve", "--listen", "192.0.2.1:1"]),
        (69, &[&["serve"][..], &away].concat()),
        (69, &[&["migrate"][..], &away].concat()),
        (69, &[&["migrate", "--check"][..], &away].concat()),
    ] {
        let output = run(&site, arguments).await;
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {output:?}"
        );
        assert_eq!(
            code == 0,
            output.stderr.is_empty(),
            "{arguments:?}: {output:?}"
        );
    }
}

/// OP-1: a relay that may not change its database says what is missing, and starts once it is there.
#[tokio::test]
async fn a_relay_waits_for_its_migrations() {
    let site = Site::new(&[("database.migrate_at_start", "false")]);
    let database = site.database_url();
    let database = ["--database-url", &database];
    let serve = [&["serve", "--listen", "127.0.0.1:0"][..], &database].concat();
    let output = run(&site, &serve).await;
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let message = text(&output.stderr);
    for part in [
        "_devices",
        "relay migrate",
        "database.migrate_at_start",
        "RELAY__DATABASE__MIGRATE_AT_START",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let check = [&["migrate", "--check"][..], &database].concat();
    let output = run(&site, &check).await;
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(text(&output.stdout).contains("pending "), "{output:?}");

    let output = run(&site, &[&["migrate"][..], &database].concat()).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let applied = text(&output.stdout);
    assert!(
        applied.lines().all(|line| line.starts_with("applied ")),
        "{applied}"
    );
    let relay = site.start().await;
    assert_eq!(relay.get("/readyz").await.status, 200);
    let output = run(&site, &check).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
