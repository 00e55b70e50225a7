//! The process ends cleanly while threads of its pool may still be connecting.

use relay_tests::blackbox::{Backend, Site};

/// How often: before its cause was mended one exit in seven was a segmentation fault.
const EXITS: usize = 40;

/// OP-1: a command that has done its work ends with 0, however soon after its pool began to connect.
#[tokio::test]
async fn a_short_command_ends_with_its_own_status() {
    let site = Site::on(Backend::Postgres, &[]);
    let url = site.database_url();
    let apply = ["migrate", "--database-url", &url];
    let check = ["migrate", "--check", "--database-url", &url];
    for arguments in std::iter::once(&apply[..]).chain(std::iter::repeat_n(&check[..], EXITS)) {
        let output = site.command().args(arguments).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}
