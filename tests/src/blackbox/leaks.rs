//! What a run of the tests leaves for `tests/leaks`, which looks for secrets in everything that relays
//! have put out: the lines of their logs, refusals and figures on one side, the secrets that were
//! handed out on the other. Both are files of the folder that `RELAY_TEST_LEAKS` names; without it
//! nothing is left.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process;
use std::sync::{LazyLock, Mutex};

static OUTPUT: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| file("output"));
static SECRETS: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| file("secrets"));

/// One file a process.
fn file(kind: &str) -> Option<Mutex<File>> {
    let folder = env::var_os("RELAY_TEST_LEAKS")?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder).expect("RELAY_TEST_LEAKS can be made");
    let name = format!("{kind}-{}", process::id());
    let file = File::create(folder.join(name)).expect("a file in RELAY_TEST_LEAKS");
    Some(Mutex::new(file))
}

fn append(file: &Option<Mutex<File>>, line: &str) {
    if let Some(file) = file {
        let mut file = file.lock().expect("nobody panics with it");
        writeln!(file, "{line}").expect("RELAY_TEST_LEAKS takes what it is given");
    }
}

/// Something that a relay has put out and in which no secret may stand.
pub(super) fn note_output(text: &str) {
    append(&OUTPUT, text);
}

/// Something that only its owner may see.
pub(super) fn note_secret(secret: &str) {
    append(&SECRETS, secret);
}
