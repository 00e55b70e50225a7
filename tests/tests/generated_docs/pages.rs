//! Reads the pages of `docs/` and keeps their generated blocks, which stand between
//! `<!-- generated: NAME -->` and `<!-- end -->`.

use std::fs;
use std::path::{Path, PathBuf};

/// The pages that define rules, in the order of the index.
pub const RULE_PAGES: &[&str] = &[
    "protocol/transport.md",
    "protocol/envelope.md",
    "protocol/registration.md",
    "protocol/sessions.md",
    "protocol/rpc.md",
    "protocol/events.md",
    "protocol/timeline.md",
    "protocol/presence.md",
    "protocol/drain.md",
    "protocol/http-api.md",
    "protocol/push.md",
    "operations/README.md",
];

const END: &str = "<!-- end -->";
const UPDATE: &str = "UPDATE_DOCS=1 cargo test -p relay-tests --test generated_docs";

/// Compares the generated blocks of a page, or rewrites them when `UPDATE_DOCS` is set.
pub fn keep_current(page: &str, blocks: &[(&str, String)]) {
    let before = page_text(page);
    let after = blocks.iter().fold(before.clone(), |text, (name, content)| {
        with_block(&text, name, content).unwrap_or_else(|| panic!("{page} has no block {name}"))
    });
    if before == after {
        return;
    }
    assert!(
        std::env::var_os("UPDATE_DOCS").is_some(),
        "docs/{page} differs from what it is generated from; run\n  {UPDATE}"
    );
    let path = docs().join(page);
    fs::write(&path, after).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// `text` with the content of one block replaced; `None` if its markers are not there.
fn with_block(text: &str, name: &str, content: &str) -> Option<String> {
    let start = format!("<!-- generated: {name} -->\n");
    let (head, rest) = text.split_once(&start)?;
    let (_, tail) = rest.split_once(END)?;
    Some(format!("{head}{start}\n{content}\n{END}{tail}"))
}

/// A page, by its path under `docs/`.
pub fn page_text(page: &str) -> String {
    read(&docs().join(page))
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every source, script and page of the repository; nothing that was built, fetched or hidden.
pub fn text_files() -> Vec<PathBuf> {
    const NOT_OURS: &[&str] = &["target", "node_modules", "relay-data", "__pycache__"];
    let mut files = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("the folder can be listed").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with('.') || NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            let kind = path.extension().and_then(|kind| kind.to_str());
            if path.is_dir() {
                folders.push(path);
            } else if matches!(kind, Some("rs" | "md" | "py" | "sh" | "sql" | "toml")) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The anchor that a heading makes: lower case, spaces as dashes, no punctuation but `-` and `_`.
pub fn anchor(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let dashed = heading.to_lowercase().replace(' ', "-");
    dashed.chars().filter(|c| kept(*c)).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate stands in the workspace")
}

fn docs() -> PathBuf {
    root().join("docs")
}

#[test]
fn only_the_named_block_is_replaced() {
    let text =
        "a\n<!-- generated: x -->\n<!-- end -->\nb <!-- generated: y -->\nold <!-- end --> c";
    let once = with_block(text, "x", "| 1 |\n").expect("the block is there");
    assert!(once.starts_with("a\n<!-- generated: x -->\n\n| 1 |\n\n<!-- end -->\nb "));
    assert!(once.ends_with("old <!-- end --> c"));
    assert_eq!(with_block(&once, "x", "| 1 |\n"), Some(once));
    assert_eq!(with_block(text, "z", ""), None);
}
