//! What a failed test shows: the relay's log, and every frame that its socket sent and received.

use std::fmt::Write;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::watch;

use super::DEADLINE;
use super::leaks::note_output;

/// Lines of the relay's log that a failure prints.
const LOG_TAIL: usize = 40;
/// Characters of a frame that a failure prints.
const FRAME_CHARACTERS: usize = 400;

/// The lines that a relay has written to its standard error so far, in order.
#[derive(Clone)]
pub struct Evidence {
    lines: watch::Receiver<Vec<String>>,
}

impl Evidence {
    /// Collects what comes from `stderr` until it ends.
    pub(super) fn collect(stderr: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let (sender, lines) = watch::channel(Vec::new());
        tokio::spawn(async move {
            let mut read = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = read.next_line().await {
                note_output(&line);
                sender.send_modify(|lines| lines.push(line));
            }
        });
        Self { lines }
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// Those with this message, as JSON.
    pub fn told(&self, message: &str) -> Vec<Value> {
        let lines = self.lines.borrow();
        let read = lines
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok());
        read.filter(|line: &Value| line["message"] == message)
            .collect()
    }

    /// Waits until `found` finds something in the lines.
    ///
    /// # Panics
    /// When it does not within [`DEADLINE`], or the relay ends before.
    pub async fn wait_for<T>(&self, what: &str, found: impl Fn(&str) -> Option<T>) -> T {
        let mut lines = self.lines.clone();
        let mut result = None;
        let waiting = lines.wait_for(|lines| {
            result = lines.iter().find_map(|line| found(line));
            result.is_some()
        });
        let outcome = tokio::time::timeout(DEADLINE, waiting).await;
        let failed = match outcome {
            Ok(Ok(_)) => None,
            Ok(Err(_)) => Some("the relay ended"),
            Err(_) => Some("it took too long"),
        };
        match (result, failed) {
            (Some(result), _) => result,
            (None, failed) => panic!(
                "waiting for {what} in the log: {}{}",
                failed.unwrap_or("it is not there"),
                self.tail()
            ),
        }
    }

    /// Checks that none of these secrets stands anywhere in the log.
    ///
    /// # Panics
    /// When one does.
    pub fn assert_hidden(&self, secrets: &[&str]) {
        for line in self.lines() {
            for secret in secrets {
                assert!(!line.contains(secret), "a secret in the log: {line}");
            }
        }
    }

    /// The end of the log, for the message of a panic.
    pub fn tail(&self) -> String {
        let lines = self.lines.borrow();
        let mut text = String::from("\n--- end of the relay's log ---\n");
        for line in &lines[lines.len().saturating_sub(LOG_TAIL)..] {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

/// What went over one socket.
pub(super) struct Transcript {
    name: String,
    entries: Vec<String>,
    evidence: Evidence,
}

impl Transcript {
    pub(super) fn new(name: String, evidence: Evidence) -> Self {
        Self {
            name,
            entries: Vec::new(),
            evidence,
        }
    }

    pub(super) fn sent(&mut self, text: &str) {
        self.entries.push(format!("→ {}", shortened(text)));
    }

    pub(super) fn received(&mut self, text: &str) {
        self.entries.push(format!("← {}", shortened(text)));
    }

    /// Drops what went over the socket so far, for tests that send without end.
    pub(super) fn forget(&mut self) {
        self.entries.clear();
    }

    /// Ends the test.
    pub(super) fn fail(&self, problem: &str) -> ! {
        let mut text = format!("{}: {problem}\n--- frames of this socket ---\n", self.name);
        for entry in &self.entries {
            let _ = writeln!(text, "{entry}");
        }
        panic!("{text}{}", self.evidence.tail());
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(FRAME_CHARACTERS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}
