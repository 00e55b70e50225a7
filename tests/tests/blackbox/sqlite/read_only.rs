//! A database file that the relay may not write (OP-1, REG-4, OP-5).

use std::fs::{Permissions, read_dir, set_permissions};
use std::os::unix::fs::PermissionsExt;

use relay_tests::blackbox::{Account, Backend, DEADLINE, Relay, Site};
use serde_json::json;

/// Sets the rights of a site's folder and of all files in it.
fn set_rights(site: &Site, folder: u32, files: u32) {
    for file in read_dir(site.path(".")).expect("a folder") {
        let path = file.expect("a file").path();
        set_permissions(path, Permissions::from_mode(files)).expect("it is ours");
    }
    set_permissions(site.path("."), Permissions::from_mode(folder)).expect("it is ours");
}

async fn enrol(relay: &Relay, account: &Account) -> u16 {
    let body = json!({ "deviceName": "n", "platform": "linux", "appVersion": "1" });
    let answer = relay.enrol_with(&account.new_desktop(), &body).await;
    if answer.status != 201 {
        answer.assert_problem(503, "relayUnavailable");
    }
    answer.status
}

/// REG-4, OP-5: of a file that is up to date and may only be read, what reads is served, what writes is
/// refused with 503, and the log says what to look for; once it may be written a restart writes it.
#[tokio::test]
async fn a_file_that_may_only_be_read() {
    let site = Site::on(Backend::Sqlite, &[]);
    let relay = site.start().await;
    let account = Account::new();
    let desktop = account.new_desktop();
    relay.enrol(&desktop).await;
    drop(relay.restart().await);
    set_rights(&site, 0o555, 0o444);

    let mut relay = site.without_rights().start().await;
    assert_eq!(relay.devices(&account, "").await.len(), 1);
    let mut socket = relay.connect(&desktop).await;
    assert_eq!(enrol(&relay, &account).await, 503);
    socket.ping().await;
    let told = |line: &str| {
        line.contains("the relay's user may not write")
            .then_some(())
    };
    relay.evidence().wait_for("what to look for", told).await;
    relay.signal("TERM").await;
    socket.expect_close(1012).await;
    let status = relay.exit_status().await;
    assert_eq!(status.code(), Some(0), "{}", relay.evidence().tail());

    set_rights(&site, 0o777, 0o666);
    let relay = site.without_rights().start().await;
    assert_eq!(enrol(&relay, &account).await, 201);
    assert_eq!(relay.devices(&account, "").await.len(), 2);
}

/// OP-1: a file that has to be brought up to date and may not be written ends the start with 69.
#[tokio::test]
async fn a_new_file_that_may_only_be_read_exits_with_69() {
    let site = Site::on(Backend::Sqlite, &[("database.timeout", "500ms")]);
    std::fs::write(site.path("relay.db"), "").expect("an empty file");
    set_rights(&site, 0o555, 0o444);
    let site = site.without_rights();
    let ended = tokio::time::timeout(DEADLINE, site.serve().output()).await;
    let output = ended.expect("it ends by itself").expect("it runs");
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(69), "{message}");
    assert!(message.contains("database.url"), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    // The folder is removed by whoever made it.
    set_rights(&site, 0o777, 0o666);
}
