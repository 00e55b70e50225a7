//! A database file that cannot be used when the relay starts (OP-1).

use std::process::Output;

use relay_tests::blackbox::{Backend, DEADLINE, Relay, Site};

/// Runs `relay serve` on `url` to its end.
async fn fails_on(site: &Site, url: &str) -> Output {
    let site = site.with(&[("database.url", url), ("database.timeout", "200ms")]);
    let running = site.serve().output();
    let ended = tokio::time::timeout(DEADLINE, running).await;
    ended.expect("it ends by itself").unwrap()
}

/// OP-1: a path that is no place for a database ends the start with 69, and the message names the path
/// and what to do.
#[tokio::test]
async fn unusable_files_exit_with_69() {
    let site = Site::on(Backend::Sqlite, &[]);
    std::fs::write(site.path("file"), "not a folder").unwrap();
    std::fs::create_dir(site.path("folder")).unwrap();
    std::fs::write(site.path("letter"), "Dear database, ".repeat(100)).unwrap();
    for (path, said) in [
        (site.path("file/relay.db"), "file"),
        (site.path("folder"), "not a file"),
        (site.path("letter"), "file is not a database"),
        ("/proc/relay/relay.db".into(), "/proc/relay"),
        ("/dev/null".into(), "not a file"),
    ] {
        let url = format!("sqlite://{}", path.display());
        let output = fails_on(&site, &url).await;
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{url}: {message}");
        assert!(message.contains(said), "{url}: {message}");
        assert!(message.contains("database.url"), "{url}: {message}");
        assert!(!message.contains("panicked"), "{url}: {message}");
    }
    let letter = std::fs::read_to_string(site.path("letter")).unwrap();
    assert!(letter.starts_with("Dear database"), "it is left alone");
}

/// OP-1: a folder that nobody may write to; the superuser may, so it is for everybody else.
#[tokio::test]
async fn an_unwritable_folder_exits_with_69() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::on(Backend::Sqlite, &[]);
    let folder = site.path("closed");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o500)).unwrap();
    let url = format!("sqlite://{}", folder.join("relay.db").display());
    if std::fs::write(folder.join("probe"), "").is_ok() {
        // A superuser's relay starts there as anywhere else.
        let site = site.with(&[("database.url", &url)]);
        site.start().await;
        return;
    }
    let output = fails_on(&site, &url).await;
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{message}");
    assert!(message.contains("closed"), "{message}");
}

/// OP-1: a database that somebody else keeps locked ends the start too, within its timeout, whether a
/// relay has used it before or not; once it is free the same command starts.
#[tokio::test]
async fn a_locked_database_exits_with_69() {
    for mode in ["DELETE", "WAL"] {
        let site = Site::on(Backend::Sqlite, &[]);
        let mut database = site.database();
        database.execute(&format!(
            "PRAGMA journal_mode = {mode}; CREATE TABLE theirs (x); \
             BEGIN EXCLUSIVE; INSERT INTO theirs VALUES (1)"
        ));
        let output = fails_on(&site, &site.database_url()).await;
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{mode}: {message}");
        assert!(message.contains("locked"), "{mode}: {message}");
        database.execute("COMMIT");
        let relay: Relay = site.start().await;
        assert_eq!(relay.get("/readyz").await.status, 200);
        assert_eq!(database.number("SELECT count(*) AS number FROM theirs"), 1);
    }
}
