//! W3C Trace Context, level 1: whether a `traceparent` may be passed on, and what it says (RPC-10).

/// Whether `value` is a valid `traceparent`: `version-traceid-parentid-flags` in lower-case hex, no
/// all-zero ids, version not `ff`. Version 00 ends there; a later version may go on behind a dash.
pub fn is_valid(value: &str) -> bool {
    let bytes = value.as_bytes();
    let Some((fixed, rest)) = bytes.split_at_checked(55) else {
        return false;
    };
    let (version, trace_id, parent_id, flags) =
        (&fixed[..2], &fixed[3..35], &fixed[36..52], &fixed[53..]);
    let dashes = fixed[2] == b'-' && fixed[35] == b'-' && fixed[52] == b'-';
    let hex = [version, trace_id, parent_id, flags]
        .into_iter()
        .flatten()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let not_zero = |id: &[u8]| id.iter().any(|byte| *byte != b'0');
    let end = rest.is_empty() || (version != b"00" && rest[0] == b'-');
    dashes && hex && version != b"ff" && not_zero(trace_id) && not_zero(parent_id) && end
}

/// What a valid `traceparent` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace_id: u128,
    /// The caller's span in it.
    pub parent_id: u64,
    /// Whether the caller may have recorded its part.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads a `traceparent`; `None` if it is not valid.
    pub fn read(value: &str) -> Option<Self> {
        if !is_valid(value) {
            return None;
        }
        let flags = u8::from_str_radix(value.get(53..55)?, 16).ok()?;
        Some(Self {
            trace_id: u128::from_str_radix(value.get(3..35)?, 16).ok()?,
            parent_id: u64::from_str_radix(value.get(36..52)?, 16).ok()?,
            sampled: flags & 1 == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{TraceParent, is_valid};

    /// RPC-10, OP-7: ids and the flag of the caller.
    #[test]
    fn what_a_parent_says() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read = TraceParent::read(text).unwrap();
        assert_eq!(read.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(read.parent_id, 0x00f0_67aa_0ba9_02b7);
        assert!(read.sampled);
        let sampled = |flags| {
            let text = format!("{}-{flags}", &text[..52]);
            TraceParent::read(&text).map(|parent| parent.sampled)
        };
        assert_eq!(sampled("00"), Some(false));
        assert_eq!(sampled("ff"), Some(true));
        assert_eq!(sampled("0g"), None);
    }

    /// RPC-10: what level 1 admits and what it does not.
    #[test]
    fn level_1_is_told_apart() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert!(is_valid(good));
        assert!(is_valid(&good.replacen("00", "01", 1)));
        assert!(is_valid(&format!("{}-more", good.replacen("00", "cc", 1))));
        for bad in [
            "",
            "00",
            &good[..54],
            &format!("{good}-more"),
            &format!("{good} "),
            &format!("{}x", good.replacen("00", "cc", 1)),
            &good.replacen("00", "ff", 1),
            &good.to_uppercase(),
            &good.replace('-', "_"),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert!(!is_valid(bad), "{bad:?}");
        }
    }
}
