//! An object's text without one of its members, every other byte untouched (TL-6, TR-8).

/// What JSON takes for white space.
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// What is left of an object's text when one member and one comma are taken out: three slices of it
/// in order, some of which may be empty. Nothing is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut<'a>([&'a str; 3]);

impl<'a> Cut<'a> {
    /// Takes the member with this key and value, which are slices of `object`, out of it, and the
    /// comma before it, else the one behind it. White space around both stays.
    pub(super) fn without(object: &'a str, key: &'a str, value: &'a str) -> Self {
        let before = &object[..offset(object, key)];
        let after = &object[offset(object, value) + value.len()..];
        let head = before.trim_end_matches(SPACE);
        if let Some(kept) = head.strip_suffix(',') {
            return Self([kept, &before[head.len()..], after]);
        }
        let tail = after.trim_start_matches(SPACE);
        match tail.strip_prefix(',') {
            Some(kept) => Self([before, &after[..after.len() - tail.len()], kept]),
            None => Self([before, "", after]),
        }
    }

    /// The slices.
    pub fn pieces(&self) -> [&'a str; 3] {
        self.0
    }

    /// The bytes that are left.
    pub fn len(&self) -> usize {
        self.0.iter().map(|piece| piece.len()).sum()
    }

    /// Whether nothing is left; of an object at least its braces are.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where `part`, a slice of `whole`, begins in it.
fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}
