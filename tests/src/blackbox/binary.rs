//! Finds the `relay` binary that `./tests/run` has built.

use std::env;
use std::path::PathBuf;

/// Its path: `RELAY_BINARY`, else the one beside the folder of the running test.
///
/// # Panics
/// When there is none.
pub fn relay_binary() -> PathBuf {
    if let Some(path) = env::var_os("RELAY_BINARY") {
        return PathBuf::from(path);
    }
    // target/debug/deps/blackbox-… → target/debug/relay
    let test = env::current_exe().expect("a running test has a path");
    let path = test
        .ancestors()
        .skip(1)
        .map(|folder| folder.join("relay"))
        .find(|path| path.is_file());
    path.unwrap_or_else(|| {
        panic!(
            "no relay binary near {}; build it with `cargo build -p relay-http` or set RELAY_BINARY",
            test.display()
        )
    })
}
