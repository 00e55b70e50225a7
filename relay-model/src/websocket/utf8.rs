//! Whether a text that arrives in parts may still become UTF-8 (TR-4). Whether it is, its whole tells.

/// The text can no longer become UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is not UTF-8")]
pub struct InvalidUtf8;

/// How far a growing text was found valid.
#[derive(Debug, Default)]
pub struct Utf8Progress {
    /// Bytes at its front that are whole characters; at most three more wait for theirs to end.
    checked: usize,
}

impl Utf8Progress {
    /// Checks what was appended to `text` since the last call, from `before` on; `ascii` says that all
    /// of it is known to be ASCII, so that it need not be read again.
    ///
    /// # Errors
    /// When `text` is not valid and cannot become so.
    #[inline]
    pub fn advance(&mut self, text: &[u8], before: usize, ascii: bool) -> Result<(), InvalidUtf8> {
        if ascii && self.checked == before {
            self.checked = text.len();
            return Ok(());
        }
        match str::from_utf8(&text[self.checked..]) {
            Ok(_) => self.checked = text.len(),
            // No length of the error: the text ends inside a character that is right so far.
            Err(error) if error.error_len().is_none() => self.checked += error.valid_up_to(),
            Err(_) => return Err(InvalidUtf8),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// After how many bytes of `text`, given one by one, it is refused.
    fn refused_after(text: &[u8]) -> Option<usize> {
        let mut progress = Utf8Progress::default();
        for end in 1..=text.len() {
            if progress
                .advance(&text[..end], end - 1, text[end - 1].is_ascii())
                .is_err()
            {
                return Some(end);
            }
        }
        str::from_utf8(text).is_err().then_some(text.len() + 1)
    }

    /// TR-4: a sequence is refused at the first byte that spoils it.
    #[test]
    fn bad_sequences_fail_at_the_byte_that_spoils_them() {
        for (text, place) in [
            (&b"ab\x80"[..], 3), // a continuation without a start
            (b"\xc0\xaf", 1),    // overlong, two bytes
            (b"\xc1\xbf", 1),
            (b"\xe0\x9f\x80", 2),     // overlong, three bytes
            (b"\xf0\x8f\x80\x80", 2), // overlong, four bytes
            (b"\xed\xa0\x80", 2),     // a surrogate
            (b"\xf4\x90\x80\x80", 2), // above U+10FFFF
            (b"\xf5\x80\x80\x80", 1),
            (b"\xff", 1),
            (b"\xe2\x82x", 3), // a character broken off by another
            (b"\xf0\x9f\x98\xf0", 4),
        ] {
            assert_eq!(refused_after(text), Some(place), "{text:x?}");
        }
    }

    /// TR-4: a text that ends inside a character is refused at its end, not before.
    #[test]
    fn unfinished_characters_fail_at_the_end() {
        for text in [
            &b"a\xc3"[..],
            b"\xe2",
            b"\xe2\x82",
            b"\xf0",
            b"\xf0\x9f\x98",
        ] {
            assert_eq!(refused_after(text), Some(text.len() + 1), "{text:x?}");
        }
    }

    /// TR-4: the edges of what is valid.
    #[test]
    fn the_edges_of_validity_pass() {
        for text in [
            "",
            "\u{0}",
            "\u{7f}\u{80}",
            "\u{7ff}\u{800}",
            "\u{d7ff}\u{e000}",
            "\u{ffff}\u{10000}\u{10ffff}",
        ] {
            assert_eq!(refused_after(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        /// TR-4: whatever the parts, a text is refused if the standard library refuses it, but for a
        /// character that is not whole at its end.
        #[test]
        fn parts_are_judged_like_the_whole(
            characters in proptest::collection::vec(any::<char>(), 0..40),
            damage in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut text = characters.into_iter().collect::<String>().into_bytes();
            if let (Some((place, byte)), false) = (damage, text.is_empty()) {
                let place = place.index(text.len());
                text[place] = byte;
            }
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            ends.push(text.len());
            ends.sort_unstable();

            let mut progress = Utf8Progress::default();
            let mut before = 0;
            let mut verdict = Ok(());
            for end in ends {
                let ascii = text[before..end].is_ascii();
                verdict = verdict.and_then(|()| progress.advance(&text[..end], before, ascii));
                before = end;
            }
            let spoilt = str::from_utf8(&text).is_err_and(|error| error.error_len().is_some());
            prop_assert_eq!(verdict.is_err(), spoilt);
        }
    }
}
