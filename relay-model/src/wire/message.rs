//! A text message on its way out: what the relay wrote itself, around an opaque value that is passed
//! on as the bytes that came in (TR-8).

use std::io::Write;

use bytes::Bytes;

/// Opaque values up to this size are copied into the relay's own text; larger ones are shared with
/// the message that they came in, which then lives as long as they do. A copy of this size costs
/// less than the bookkeeping of sharing.
const COPY_UP_TO: usize = 2 * 1024;

/// An outgoing text message in up to three pieces. Clones share their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingText {
    head: Bytes,
    body: Bytes,
    tail: &'static str,
}

impl OutgoingText {
    /// A message that the relay wrote as a whole.
    pub fn new(text: impl Into<Bytes>) -> Self {
        Self {
            head: text.into(),
            body: Bytes::new(),
            tail: "",
        }
    }

    /// A message that holds the opaque JSON `value`, a slice of `source`, between `head` and `tail`.
    pub(super) fn around(
        mut head: Vec<u8>,
        source: &Bytes,
        value: &str,
        tail: &'static str,
    ) -> Self {
        if value.len() > COPY_UP_TO {
            return Self {
                head: head.into(),
                body: source.slice_ref(value.as_bytes()),
                tail,
            };
        }
        head.reserve_exact(value.len() + tail.len());
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(tail.as_bytes());
        Self::new(head)
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len() + self.tail.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its pieces in order; some may be empty.
    pub fn pieces(&self) -> [&[u8]; 3] {
        [&self.head, &self.body, self.tail.as_bytes()]
    }

    /// The whole text in one piece, copied. For tests and logs.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.pieces().concat()).into_owned()
    }
}

/// Writes the relay's own part of a message; `Vec` takes every write.
pub(super) struct Text(pub(super) Vec<u8>);

impl Text {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn raw(mut self, text: &str) -> Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// Anything whose text needs no escaping in JSON: ids, times, numbers.
    pub(super) fn display(mut self, value: impl std::fmt::Display) -> Self {
        // Writing to a Vec cannot fail.
        let _ = write!(self.0, "{value}");
        self
    }

    /// A JSON string with this content.
    pub(super) fn string(mut self, text: &str) -> Self {
        // Writing a string to a Vec cannot fail.
        let _ = serde_json::to_writer(&mut self.0, text);
        self
    }
}

impl From<Text> for OutgoingText {
    fn from(text: Text) -> Self {
        Self::new(text.0)
    }
}
