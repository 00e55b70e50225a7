//! The example frames of the pages: an author of a client copies them, so they must be JSON, and
//! those that a client sends must be frames that the relay takes.

use relay_model::wire::inbound::{ClientFrame, FrameError};
use serde_json::Value;

use crate::pages::{self, RULE_PAGES};

/// What a client may send; the relay's own frames have other types, or are told by `sourceDeviceId`.
const FROM_CLIENTS: &[&str] = &[
    "register",
    "ping",
    "heartbeat",
    "rpc.request",
    "rpc.response",
    "event",
];

#[test]
fn examples_are_json() {
    let examples = examples();
    assert!(
        examples.len() >= 30,
        "only {} examples were found",
        examples.len()
    );
    for (page, example) in examples {
        let value = serde_json::from_str(&example)
            .unwrap_or_else(|error| panic!("{page}: {error} in\n{example}"));
        assert_no_underscore_in_keys(&value, page);
    }
}

/// Frames of clients in the examples are taken by the reader that the relay uses.
#[test]
fn frames_of_clients_are_taken() {
    let mut taken = 0;
    for (page, example) in examples() {
        let value: Value = serde_json::from_str(&example).unwrap_or_default();
        let from_client = value["type"]
            .as_str()
            .is_some_and(|kind| FROM_CLIENTS.contains(&kind))
            && value.get("sourceDeviceId").is_none();
        if from_client {
            let refused = refusal(&example);
            assert!(refused.is_none(), "{page}: {refused:?} for\n{example}");
            taken += 1;
        }
    }
    assert!(taken >= 8, "only {taken} frames of clients were found");
}

fn refusal(example: &str) -> Option<String> {
    match ClientFrame::read(example) {
        Ok(ClientFrame::Event(event)) => event.shape.err(),
        Ok(_) => None,
        Err(FrameError { message, .. }) => Some(message),
    }
}

/// The ```json blocks of all pages, which may stand indented in a list.
fn examples() -> Vec<(&'static str, String)> {
    let mut examples = Vec::new();
    for &page in RULE_PAGES.iter().chain(&["protocol/README.md"]) {
        let mut open: Option<String> = None;
        for line in pages::page_text(page).lines() {
            match (&mut open, line.trim_start()) {
                (None, "```json") => open = Some(String::new()),
                (Some(_), "```") => examples.extend(open.take().map(|block| (page, block))),
                (Some(block), _) => {
                    block.push_str(line);
                    block.push('\n');
                }
                (None, _) => {}
            }
        }
        assert!(open.is_none(), "{page}: a block of JSON is not closed");
    }
    examples
}

fn assert_no_underscore_in_keys(value: &Value, page: &str) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                assert!(
                    !key.contains('_'),
                    "{page}: the key {key} contains an underscore"
                );
                assert_no_underscore_in_keys(member, page);
            }
        }
        Value::Array(members) => {
            for member in members {
                assert_no_underscore_in_keys(member, page);
            }
        }
        _ => {}
    }
}
