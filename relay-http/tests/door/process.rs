//! The built binary as a process: how it starts, what it leaves behind, and how it ends (OP-1).

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

use crate::support::ACCOUNT;

/// Longer than anything takes unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The relay in `folder`, without any configuration of this machine.
fn relay(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relay"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn run(folder: &Path, arguments: &[&str]) -> Output {
    timeout(PATIENCE, relay(folder, arguments).output())
        .await
        .expect("it ends")
        .unwrap()
}

/// A relay that runs, with its log.
struct Running {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
    address: String,
}

impl Running {
    async fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = relay(folder, arguments).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = timeout(PATIENCE, async {
            loop {
                let line = log.next_line().await.unwrap().expect("the relay ended");
                let event: Value = serde_json::from_str(&line).unwrap();
                if let Some(address) = event["listen"].as_str() {
                    return address.to_owned();
                }
            }
        });
        let address = address.await.expect("the relay says where it listens");
        Self {
            child,
            log,
            address,
        }
    }

    async fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer))
            .await
            .unwrap()
            .unwrap();
        answer
    }

    async fn signal(&self, name: &str) {
        let pid = self.child.id().unwrap().to_string();
        let sent = Command::new("kill")
            .args(["-s", name, &pid])
            .status()
            .await
            .unwrap();
        assert!(sent.success());
    }

    /// The exit code, and what was logged until then.
    async fn end(mut self) -> (Option<i32>, Vec<String>) {
        let mut lines = Vec::new();
        let ended = timeout(PATIENCE, async {
            while let Some(line) = self.log.next_line().await.unwrap() {
                lines.push(line);
            }
            self.child.wait().await.unwrap()
        });
        (ended.await.expect("it ends").code(), lines)
    }
}

/// OP-1, OP-2: with no configuration the relay starts, keeps all it needs in ./relay-data, and ends
/// with 0 on SIGTERM; what it made is there at the next start, and makes tokens.
#[tokio::test]
async fn a_relay_without_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("relay-data");
    let early = run(folder.path(), &["token", "--account", ACCOUNT]).await;
    assert_eq!(early.status.code(), Some(64), "no secret yet");

    let first = Running::start(folder.path(), &["--listen", "127.0.0.1:0"]).await;
    assert!(first.get("/readyz").await.starts_with("HTTP/1.1 200 "));
    let secret = std::fs::read(data.join("signing-secret")).unwrap();
    for file in ["signing-secret", "relay.db"] {
        let mode = std::fs::metadata(data.join(file))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let token = run(folder.path(), &["token", "--account", ACCOUNT]).await;
    assert!(token.status.success());
    assert_eq!(
        String::from_utf8(token.stdout)
            .unwrap()
            .matches('.')
            .count(),
        2
    );
    first.signal("TERM").await;
    let (code, log) = first.end().await;
    assert_eq!(code, Some(0), "{log:?}");

    let second = Running::start(folder.path(), &["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(std::fs::read(data.join("signing-secret")).unwrap(), secret);
    second.signal("INT").await;
    assert_eq!(second.end().await.0, Some(0));
}

/// DR-4: a second signal ends a relay at once that waits for a device to close.
#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "--listen=127.0.0.1:0",
        "--set=drain.stop_timeout=5m",
        "--set=limits.close_timeout=1m",
    ];
    let mut running = Running::start(folder.path(), &arguments).await;
    let (mut device, mut received) = silent_device(folder.path(), &running).await;

    running.signal("TERM").await;
    // The close frame, which this device does not answer.
    read_until(&mut device, &mut received, &1012_u16.to_be_bytes()).await;
    assert_eq!(
        running.child.try_wait().unwrap(),
        None,
        "it waits for the device"
    );
    // A signal too close to the first counts as the same one.
    let again = async {
        loop {
            running.signal("TERM").await;
            let wait = Duration::from_millis(50);
            if let Ok(status) = timeout(wait, running.child.wait()).await {
                break status.unwrap();
            }
        }
    };
    let status = timeout(PATIENCE, again).await.expect("it ends");
    assert_eq!(status.code(), Some(0));
}

/// A supervisor that signals the process and its group means one end, and devices get their close.
#[tokio::test]
async fn two_signals_at_once_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--listen=127.0.0.1:0", "--set=limits.close_timeout=500ms"];
    let running = Running::start(folder.path(), &arguments).await;
    let (mut device, mut received) = silent_device(folder.path(), &running).await;

    let pid = running.child.id().unwrap();
    let both = format!("kill -s TERM {pid}; kill -s INT {pid}");
    let sent = Command::new("sh").args(["-c", &both]).status().await;
    assert!(sent.unwrap().success());
    read_until(&mut device, &mut received, &1012_u16.to_be_bytes()).await;
    let (code, log) = running.end().await;
    assert_eq!(code, Some(0));
    assert!(
        log.iter().any(|line| line.contains("\"stopped\"")),
        "{log:?}"
    );
    assert!(
        !log.iter().any(|line| line.contains("a second signal:")),
        "{log:?}"
    );
}

/// A device that is connected and then does nothing; with what it has received.
async fn silent_device(folder: &Path, running: &Running) -> (TcpStream, Vec<u8>) {
    let token = run(folder, &["token", "--account", ACCOUNT]).await;
    let token = String::from_utf8(token.stdout).unwrap();
    let request = format!(
        "GET /ws/device-link HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Authorization: Bearer {}\r\nX-Client-Type: desktop\r\n\r\n",
        token.trim()
    );
    let mut device = TcpStream::connect(&running.address).await.unwrap();
    device.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    read_until(&mut device, &mut received, b"\r\n\r\n").await;
    assert!(received.starts_with(b"HTTP/1.1 101 "));
    // One answer proves that somebody is behind the door; the mask of the frame is zero.
    device
        .write_all(b"\x81\x8f\0\0\0\0{\"type\":\"ping\"}")
        .await
        .unwrap();
    read_until(&mut device, &mut received, b"{\"type\":\"pong\"}").await;
    (device, received)
}

async fn read_until(stream: &mut TcpStream, received: &mut Vec<u8>, end: &[u8]) {
    let read = timeout(PATIENCE, async {
        while !received.windows(end.len()).any(|window| window == end) {
            assert!(
                stream.read_buf(received).await.unwrap() > 0,
                "the stream ended"
            );
        }
    });
    read.await.expect("it comes");
}

/// OP-5: the secret is in no log line.
#[tokio::test]
async fn secrets_are_not_logged() {
    let folder = tempfile::tempdir().unwrap();
    let secret = "0123456789abcdef0123456789abcdef";
    let set = format!("auth.hs256_secret={secret}");
    let running = Running::start(
        folder.path(),
        &[
            "--listen",
            "127.0.0.1:0",
            "--log-level",
            "trace",
            "--set",
            &set,
        ],
    )
    .await;
    assert!(running.get("/healthz").await.starts_with("HTTP/1.1 200 "));
    running.signal("TERM").await;
    let (code, log) = running.end().await;
    assert_eq!(code, Some(0));
    assert!(!log.is_empty() && log.iter().all(|line| !line.contains(secret)));
    assert!(
        !folder.path().join("relay-data/signing-secret").exists(),
        "not needed, not made"
    );
}

/// OP-1: bad usage and bad configuration end with 64.
#[tokio::test]
async fn bad_configuration_ends_with_64() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("relay.toml"),
        "[limits]\nping_intervall = \"5s\"\n",
    )
    .unwrap();
    let output = run(folder.path(), &[]).await;
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64));
    for part in [
        "limits.ping_intervall",
        "relay.toml",
        "limits.ping_interval?",
    ] {
        assert!(errors.contains(part), "{errors}");
    }
    assert!(!folder.path().join("relay-data").exists());
}

/// OP-1: a port that is taken ends with 64, names the key, and nothing was touched.
#[tokio::test]
async fn a_taken_port_ends_with_64() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(folder.path(), &["--listen", &address]).await;
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{errors}");
    for part in ["server.listen", &address, "flag --listen"] {
        assert!(errors.contains(part), "{errors}");
    }
    assert!(!folder.path().join("relay-data").exists());
}

/// OP-1: a database that cannot be used ends with 69 and names the key.
#[tokio::test]
async fn an_unusable_database_ends_with_69() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage.db");
    std::fs::write(
        &garbage,
        "this is no database, and long enough to be looked at. ".repeat(100),
    )
    .unwrap();
    std::fs::create_dir(folder.path().join("a-folder")).unwrap();
    for url in [
        "sqlite://garbage.db",
        "sqlite://a-folder",
        "sqlite://garbage.db/relay.db",
    ] {
        let output = run(
            folder.path(),
            &[
                "--listen=127.0.0.1:0",
                "--database-url",
                url,
                "--set=database.timeout=200ms",
            ],
        )
        .await;
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{url}: {errors}");
        assert!(errors.contains("database.url"), "{errors}");
    }
}
