//! A log that cannot be written, as on a full disk: its lines are lost, and nothing else (OP-5).

use std::fs::OpenOptions;
use std::net::TcpListener;

use relay_tests::blackbox::{DEADLINE, LOOK_AGAIN, Site};

/// The relay serves and stops as if nothing were wrong.
#[tokio::test]
async fn a_log_that_cannot_be_written_is_lost() {
    // Its log cannot tell where it listens, so that is chosen before.
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    let full = OpenOptions::new().write(true).open("/dev/full");
    let site = Site::new(&[("server.listen", &address)]);
    let mut command = site.serve();
    command.stderr(full.expect("a device that is always full"));
    let mut relay = command.spawn().expect("the relay's binary starts");
    let url = format!("http://{address}/readyz");
    let serving = async {
        while reqwest::get(&url).await.is_err() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(DEADLINE, serving)
        .await
        .expect("it serves");
    for _ in 0..3 {
        let answer = reqwest::get(&url).await.expect("it still serves");
        assert_eq!(answer.status(), 200);
    }
    let id = relay.id().expect("it runs");
    let kill = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("kill -TERM {id}"))
        .status();
    assert!(kill.expect("sh runs").success());
    let ended = tokio::time::timeout(DEADLINE, relay.wait()).await;
    let status = ended.expect("it ends").expect("it can be waited for");
    assert_eq!(status.code(), Some(0));
}
