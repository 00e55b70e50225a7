//! A text message on its way out: what the relay wrote itself, around an opaque value that is passed
//! on as the bytes that came in (TR-8).

use std::io::Write;

use bytes::Bytes;

/// Opaque values up to this size are copied into the relay's own text; larger ones are shared with
/// the message that they came in, which then lives as long as they do. A copy of this size costs
/// less than the bookkeeping of sharing.
const COPY_UP_TO: usize = 2 * 1024;

/// An outgoing text message in up to three pieces: what the relay wrote or copied, a slice of the
/// message that came in, and the rest. Clones share their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingText {
    head: Bytes,
    body: Bytes,
    tail: Bytes,
}

impl OutgoingText {
    /// A message that the relay wrote as a whole.
    pub fn new(text: impl Into<Bytes>) -> Self {
        Self {
            head: text.into(),
            body: Bytes::new(),
            tail: Bytes::new(),
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
                tail: Bytes::from_static(tail.as_bytes()),
            };
        }
        head.reserve_exact(value.len() + tail.len());
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(tail.as_bytes());
        Self::new(head)
    }

    /// A message that holds `pieces`, slices of `source` that follow each other with gaps, between
    /// `head` and `tail`. The longer of the outer two is shared, the others are copied: together they
    /// are not much longer than that one unless a peer pads its JSON with white space. A slice of
    /// less than a quarter of its source is copied as well, so that what waits for a slow peer keeps
    /// at most four times its own bytes in memory.
    pub(super) fn around_pieces(
        mut head: Vec<u8>,
        source: &Bytes,
        pieces: [&str; 3],
        tail: &'static str,
    ) -> Self {
        let [before, between, after] = pieces;
        let longer = before.len().max(after.len());
        let share = longer > COPY_UP_TO && longer >= source.len() / 4;
        let (ahead, body, behind): (&[&str], &str, &[&str]) = if !share {
            (&[before, between, after, tail], "", &[])
        } else if before.len() == longer {
            (&[], before, &[between, after, tail])
        } else {
            (&[before, between], after, &[tail])
        };
        head.reserve_exact(ahead.iter().map(|piece| piece.len()).sum());
        for piece in ahead {
            head.extend_from_slice(piece.as_bytes());
        }
        Self {
            head: head.into(),
            body: source.slice_ref(body.as_bytes()),
            tail: behind.concat().into(),
        }
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
        [&self.head, &self.body, &self.tail]
    }

    /// Whether a part of it, given by its start and length, holds the same bytes as a part of
    /// `other`, however both are split. A part must lie within its message.
    pub(super) fn same_part(
        &self,
        (start, length): (usize, usize),
        other: &Self,
        (other_start, other_length): (usize, usize),
    ) -> bool {
        if length != other_length {
            return false;
        }
        let mut theirs = other.part(other_start, length).into_iter();
        let mut right: &[u8] = &[];
        for mut left in self.part(start, length) {
            while !left.is_empty() {
                if right.is_empty() {
                    match theirs.next() {
                        Some(piece) => right = piece,
                        None => return false,
                    }
                    continue;
                }
                let common = left.len().min(right.len());
                if left[..common] != right[..common] {
                    return false;
                }
                (left, right) = (&left[common..], &right[common..]);
            }
        }
        true
    }

    /// The pieces of a part of it.
    fn part(&self, start: usize, length: usize) -> [&[u8]; 3] {
        let mut skip = start;
        let mut take = length;
        self.pieces().map(|piece| {
            let from = skip.min(piece.len());
            let to = (from + take).min(piece.len());
            skip -= from;
            take -= to - from;
            &piece[from..to]
        })
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
