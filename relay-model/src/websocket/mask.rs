//! Unmasking of client payloads, fused with the one copy that a payload needs: at the speed of that
//! copy, and finding out on its way whether the bytes are ASCII.

/// Bytes handled per step: enough vector registers' worth that the loop's own cost disappears.
const BLOCK: usize = 64;

/// Appends `masked` to `out`, unmasked with `key`, whose first byte belongs to the first of `masked`.
/// Returns whether every appended byte is ASCII. Allocates nothing if `out` has the room.
#[inline]
pub fn append_unmasked(out: &mut Vec<u8>, masked: &[u8], key: [u8; 4]) -> bool {
    out.reserve(masked.len());
    let (blocks, rest) = masked.as_chunks::<BLOCK>();
    let blocks_are_ascii = blocks.is_empty() || append_blocks(out, blocks, key);

    let key = u32::from_le_bytes(key);
    let wide_key = u64::from(key) << u32::BITS | u64::from(key);
    let mut seen = 0;
    let (words, rest) = rest.as_chunks();
    for word in words {
        let plain = u64::from_le_bytes(*word) ^ wide_key;
        seen |= plain;
        out.extend_from_slice(&plain.to_le_bytes());
    }
    let (halves, rest) = rest.as_chunks();
    for half in halves {
        let plain = u32::from_le_bytes(*half) ^ key;
        seen |= u64::from(plain);
        out.extend_from_slice(&plain.to_le_bytes());
    }
    for (masked, key) in rest.iter().zip(key.to_le_bytes()) {
        let plain = masked ^ key;
        seen |= u64::from(plain);
        out.push(plain);
    }
    blocks_are_ascii && seen.to_le_bytes().is_ascii()
}

/// The part of [`append_unmasked`] that the compiler turns into vector instructions.
#[inline]
fn append_blocks(out: &mut Vec<u8>, blocks: &[[u8; BLOCK]], key: [u8; 4]) -> bool {
    let mut pattern = [0; BLOCK];
    for word in pattern.as_chunks_mut().0 {
        *word = key;
    }
    let mut seen = [0; BLOCK];
    for block in blocks {
        let mut plain = [0; BLOCK];
        for index in 0..BLOCK {
            plain[index] = block[index] ^ pattern[index];
            seen[index] |= plain[index];
        }
        out.extend_from_slice(&plain);
    }
    seen.is_ascii()
}

/// The key as it applies `bytes` further into a payload.
#[inline]
pub const fn key_after(key: [u8; 4], bytes: usize) -> [u8; 4] {
    let places = (bytes % 4) as u32;
    u32::from_le_bytes(key)
        .rotate_right(places * u8::BITS)
        .to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One byte at a time, as the RFC words it.
    fn oracle(masked: &[u8], key: [u8; 4]) -> Vec<u8> {
        (masked.iter().enumerate())
            .map(|(index, byte)| byte ^ key[index % 4])
            .collect()
    }

    /// TR-4: every length around the steps of the loop, with the verdict on ASCII.
    #[test]
    fn every_length_is_unmasked_in_full() {
        let key = [0x80, 0x01, 0x7f, 0xff];
        let plain = oracle(&[b'a'; 300], [0; 4]);
        for length in 0..plain.len() {
            let masked = oracle(&plain[..length], key);
            let mut out = Vec::with_capacity(length);
            assert!(append_unmasked(&mut out, &masked, key));
            assert_eq!(out, plain[..length]);
            assert_eq!(out.capacity(), length);
        }
    }

    /// TR-4: one byte that is not ASCII is seen wherever it stands.
    #[test]
    fn every_place_is_looked_at() {
        let key = [9, 8, 7, 6];
        for place in 0..200 {
            let mut plain = [b'a'; 200];
            plain[place] = 0x80;
            let masked = oracle(&plain, key);
            assert!(!append_unmasked(&mut Vec::new(), &masked, key), "{place}");
        }
    }

    proptest! {
        /// TR-4: a payload in two parts unmasks like the whole.
        #[test]
        fn parts_unmask_like_the_whole(
            masked in proptest::collection::vec(any::<u8>(), 0..400),
            key: [u8; 4],
            cut in 0usize..400,
        ) {
            let cut = cut.min(masked.len());
            let mut out = Vec::new();
            let mut ascii = append_unmasked(&mut out, &masked[..cut], key);
            ascii &= append_unmasked(&mut out, &masked[cut..], key_after(key, cut));
            prop_assert_eq!(&out, &oracle(&masked, key));
            prop_assert_eq!(ascii, out.is_ascii());
        }
    }
}
