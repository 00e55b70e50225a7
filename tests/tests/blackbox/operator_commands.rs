//! `relay status` and `relay doctor`, run as an operator runs them.

use std::process::{Output, Stdio};

use relay_tests::blackbox::{Account, DEADLINE, OPERATOR_TOKEN, Relay, Site};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

async fn run(site: &Site, arguments: &[&str]) -> Output {
    site.command().args(arguments).output().await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Section 11: the table has the figures of the relay that the flags or the configuration name.
#[tokio::test]
async fn status_shows_what_the_relay_holds() {
    let relay = Relay::start_operated(&[]).await;
    let desktop = relay.desktop(&Account::new()).await;
    let _phone = relay.phone(&desktop.device).await;
    let url = format!("http://{}", relay.address());
    let listen = relay.address().to_string();
    // The token is in the environment of the site.
    for arguments in [
        &["status", "--url", &url][..],
        &["status", "--url", &format!("{url}/")],
        &["status", "--listen", &listen],
    ] {
        let output = run(relay.site(), arguments).await;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let table = text(&output.stdout);
        let state = relay.state().await;
        let instance = state["relayInstanceId"].as_str().unwrap();
        for line in [
            &format!("instance           {instance}"),
            "accounts           1",
            "sockets            2",
            "  desktops         1",
            "  phones           1",
            "pending requests   0",
            "refusals           none",
        ] {
            assert!(table.lines().any(|shown| shown == line), "{line}: {table}");
        }
        assert!(output.stderr.is_empty(), "{output:?}");
    }
    let output = run(relay.site(), &["status", "--json", "--url", &url]).await;
    let state: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(state["routes"]["desktops"], 1);
}

/// OP-1: a wrong token is 64, an address without a relay 69, one without an admin API 64; each says what
/// to do, and none shows the token.
#[tokio::test]
async fn status_says_what_is_wrong() {
    let relay = Relay::start_operated(&[("server.admin_listen", "127.0.0.1:0")]).await;
    let devices = format!("http://{}", relay.address());
    let operators = format!("http://{}", relay.admin_address());
    let bare = Site::new(&[]);
    let wrong = "some-other-token-that-nobody-has-set";
    for (code, token, url, part) in [
        (0, OPERATOR_TOKEN, operators.as_str(), ""),
        (64, wrong, &operators, "admin.token"),
        (64, OPERATOR_TOKEN, &devices, "server.admin_listen"),
        (69, OPERATOR_TOKEN, "http://127.0.0.1:9", "see that it runs"),
    ] {
        let output = run(&bare, &["status", "--url", url, "--token", token]).await;
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let message = text(&output.stderr);
        assert!(message.contains(part), "{part}: {message}");
        assert!(!message.contains(token), "{message}");
    }
    let output = run(&bare, &["status", "--url", &operators]).await;
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(text(&output.stderr).contains("--token"), "{output:?}");
}

/// Section 11: `--watch` goes on showing the relay, over a restart of it, until it is interrupted.
#[tokio::test]
async fn status_watches() {
    let relay = Relay::start_operated(&[]).await;
    let url = format!("http://{}", relay.address());
    let mut child = relay
        .site()
        .command()
        .args(["status", "--watch", "--url", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until = async |begin: &str| {
        let wait = async { while !lines.next_line().await.unwrap().unwrap().starts_with(begin) {} };
        let waited = tokio::time::timeout(DEADLINE, wait).await;
        waited.unwrap_or_else(|_| panic!("{begin} did not come"));
    };
    until("accounts           0").await;
    let _desktop = relay.desktop(&Account::new()).await;
    until("accounts           1").await;
    drop(relay);
    until("no relay answers").await;
    let id = child.id().unwrap().to_string();
    let interrupt = Command::new("kill").args(["-INT", &id]).status().await;
    assert!(interrupt.unwrap().success());
    let status = tokio::time::timeout(DEADLINE, child.wait()).await;
    assert_eq!(status.unwrap().unwrap().code(), Some(0));
}

/// Command line: the doctor finds nothing wrong where a relay runs, and names it.
#[tokio::test]
async fn the_doctor_finds_a_running_relay() {
    let relay = Relay::start_operated(&[("server.admin_listen", "127.0.0.1:0")]).await;
    let database = relay.site().database_url();
    let listen = relay.address().to_string();
    let admin = format!("server.admin_listen={}", relay.admin_address());
    let secret = format!("auth.hs256_secret={}", relay_tests::blackbox::SECRET);
    let arguments = [
        "doctor",
        "--database-url",
        &database,
        "--listen",
        &listen,
        "--set",
        &admin,
        "--set",
        &secret,
    ];
    let output = run(relay.site(), &arguments).await;
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}{output:?}");
    for part in [
        "takes writes".to_owned(),
        format!("relay {} listens on {listen}", env!("CARGO_PKG_VERSION")),
        format!("a relay listens on {}", relay.admin_address()),
        "admin.token is set".to_owned(),
    ] {
        assert!(table.contains(&part), "{part}: {table}");
    }
    assert!(!table.contains("fail "), "{table}");
    assert!(!table.contains(OPERATOR_TOKEN) && !table.contains(relay_tests::blackbox::SECRET));
    assert_eq!(
        table.contains("database clock"),
        database.starts_with("postgres"),
        "{table}"
    );

    let output = run(
        relay.site(),
        &[&["doctor", "--json"][..], &arguments[1..]].concat(),
    )
    .await;
    let told: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(told["healthy"], true);
}

/// Command line: what fails is told with what to do, and the exit code says of what kind it is.
#[tokio::test]
async fn the_doctor_finds_what_is_wrong() {
    let site = Site::new(&[]);
    let database = site.database_url();
    let database = ["--database-url", database.as_str()];
    let by_hand = ["--set", "database.migrate_at_start=false"];
    let free = ["--listen", "127.0.0.1:0"];
    // Made, and empty.
    let migrate = run(&site, &[&["migrate"][..], &database].concat()).await;
    assert!(migrate.status.success(), "{migrate:?}");
    let good = [&["doctor"][..], &database, &free, &by_hand].concat();
    let output = run(&site, &good).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");

    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = stranger.local_addr().unwrap().to_string();
    drop(std::thread::spawn(move || stranger.accept().map(drop)));
    let output = run(
        &site,
        &[&["doctor"][..], &database, &["--listen", &taken]].concat(),
    )
    .await;
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let table = text(&output.stdout);
    assert!(
        table.contains("something that is no relay") && table.contains("server.listen"),
        "{table}"
    );

    let keys = ["--set", "auth.jwks_url=http://127.0.0.1:9/keys"];
    let output = run(&site, &[&good[..], &keys].concat()).await;
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let table = text(&output.stdout);
    assert!(table.contains("fail  public keys"), "{table}");

    site.database().execute("DROP TABLE relay_policy");
    let output = run(&site, &good).await;
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(
        text(&output.stdout).contains("fail  database"),
        "{output:?}"
    );
}
