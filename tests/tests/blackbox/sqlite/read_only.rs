//! A database file that the relay may not write (OP-1, REG-4).

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

use relay_tests::blackbox::{Account, Backend, DEADLINE, Site};

/// A site with a database that has a device, whose file and folder nobody may write.
async fn read_only() -> (Site, Account) {
    let site = Site::on(Backend::Sqlite, &[]);
    let relay = site.start().await;
    let account = Account::new();
    let desktop = account.new_desktop();
    relay.enrol(&desktop).await;
    drop(relay.restart().await);
    let rights = |path: &str, mode| {
        set_permissions(site.path(path), Permissions::from_mode(mode)).expect("it is ours");
    };
    for file in std::fs::read_dir(site.path(".")).expect("a folder") {
        let name = file.expect("a file").file_name();
        rights(&name.to_string_lossy(), 0o444);
    }
    rights(".", 0o555);
    (site.without_rights(), account)
}

/// OP-1: it cannot be used from the start: the process ends with 69 and says what to look for, and the
/// same command starts once it is writable.
#[tokio::test]
async fn a_read_only_file_exits_with_69() {
    let (site, account) = read_only().await;
    let site = site.with(&[("database.timeout", "500ms")]);
    let running = site.serve().output();
    let ended = tokio::time::timeout(DEADLINE, running).await;
    let output = ended.expect("it ends by itself").expect("it runs");
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(69), "{message}");
    assert!(message.contains("database"), "{message}");
    assert!(message.contains("may not write"), "{message}");
    assert!(!message.contains("panicked"), "{message}");

    for file in std::fs::read_dir(site.path(".")).expect("a folder") {
        let path = file.expect("a file").path();
        set_permissions(path, Permissions::from_mode(0o666)).expect("it is ours");
    }
    set_permissions(site.path("."), Permissions::from_mode(0o777)).expect("it is ours");
    let relay = site.start().await;
    assert_eq!(relay.devices(&account, "").await.len(), 1);
}
