//! W3C Trace Context, level 1: whether a `traceparent` may be passed on (RPC-10).

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

#[cfg(test)]
mod tests {
    use super::is_valid;

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
