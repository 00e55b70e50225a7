//! How durations, sizes and counts are written in the configuration (OP-2): a whole number with its
//! unit, so that nobody has to know whether a bare `30` means seconds.

use std::time::Duration;

use relay_model::limits::{KIB, MIB};

const GIB: usize = 1024 * MIB;

/// Units of time in milliseconds, the largest first.
const TIME_UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];
/// Days are read and never written: the lifetime of a session is known as 24h everywhere.
const LARGEST_WRITTEN_TIME_UNIT: usize = 1;

/// Units of size in bytes, the largest first.
const SIZE_UNITS: &[(&str, usize)] = &[("GiB", GIB), ("MiB", MIB), ("KiB", KIB), ("B", 1)];

/// Why a text is no value of its kind. It does not repeat the text, which may be a secret put in
/// the wrong place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// A number without a unit.
    #[error("the unit is missing: write it like {example}")]
    NoUnit {
        /// How it should look.
        example: &'static str,
    },
    /// Not a number followed by a known unit.
    #[error("write a whole number and its unit, like {example}")]
    Malformed {
        /// How it should look.
        example: &'static str,
    },
    /// Too large for this machine.
    #[error("the number is too large")]
    Overflow,
    /// Not a number.
    #[error("write a whole number, like 300")]
    NotANumber,
}

const DURATION_EXAMPLE: &str = "90s, 250ms, 15m, 24h or 7d";
const SIZE_EXAMPLE: &str = "64KiB, 4MiB or 512B";

/// Reads a duration such as `90s`, `250ms`, `15m`, `24h` or `7d`.
///
/// # Errors
/// When the number or the unit is missing, or the number is too large.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let (number, unit) = split(text, DURATION_EXAMPLE)?;
    let (_, millis) =
        TIME_UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or(UnitError::Malformed {
                example: DURATION_EXAMPLE,
            })?;
    let millis = number.checked_mul(*millis).ok_or(UnitError::Overflow)?;
    Ok(Duration::from_millis(millis))
}

/// Reads a size such as `4MiB`, `64KiB` or `512B`, in bytes.
///
/// # Errors
/// When the number or the unit is missing, or the number is too large.
pub(super) fn parse_size(text: &str) -> Result<usize, UnitError> {
    let (number, unit) = split(text, SIZE_EXAMPLE)?;
    let (_, bytes) =
        SIZE_UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or(UnitError::Malformed {
                example: SIZE_EXAMPLE,
            })?;
    usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_mul(*bytes))
        .ok_or(UnitError::Overflow)
}

/// Reads a plain whole number.
///
/// # Errors
/// When it is none, or too large.
pub(super) fn parse_count(text: &str) -> Result<usize, UnitError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(UnitError::NotANumber);
    }
    text.parse().map_err(|_| UnitError::Overflow)
}

fn split<'t>(text: &'t str, example: &'static str) -> Result<(u64, &'t str), UnitError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(UnitError::Malformed { example });
    }
    if unit.is_empty() {
        return Err(UnitError::NoUnit { example });
    }
    let number = number.parse().map_err(|_| UnitError::Overflow)?;
    Ok((number, unit.trim_start()))
}

/// Writes a duration as [`parse_duration`] reads it, in the largest unit that fits exactly; parts of
/// a millisecond are cut.
pub(super) fn format_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let (unit, factor) = largest_exact(&TIME_UNITS[LARGEST_WRITTEN_TIME_UNIT..], |factor| {
        millis.is_multiple_of(factor)
    });
    format!("{}{unit}", millis / factor)
}

/// Writes a size as [`parse_size`] reads it, in the largest unit that fits exactly.
pub(super) fn format_size(bytes: usize) -> String {
    if bytes == 0 {
        return "0B".to_owned();
    }
    let (unit, factor) = largest_exact(SIZE_UNITS, |factor| bytes.is_multiple_of(factor));
    format!("{}{unit}", bytes / factor)
}

/// The first unit whose factor `divides` the value; the last one, of factor 1, always does.
fn largest_exact<N: Copy>(
    units: &[(&'static str, N)],
    divides: impl Fn(N) -> bool,
) -> (&'static str, N) {
    let smallest = units[units.len() - 1];
    units
        .iter()
        .copied()
        .find(|(_, factor)| divides(*factor))
        .unwrap_or(smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-2: durations are written like `90s`.
    #[test]
    fn durations_are_read() {
        for (text, millis) in [
            ("250ms", 250),
            ("90s", 90_000),
            ("15m", 900_000),
            ("24h", 86_400_000),
            ("90d", 7_776_000_000),
            ("0s", 0),
            ("5 s", 5_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
    }

    /// OP-2: sizes are written like `4MiB`.
    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("512B", 512),
            ("64KiB", 65_536),
            ("4MiB", 4 * MIB),
            ("1GiB", GIB),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    /// OP-1: what cannot be read says how to write it.
    #[test]
    fn bad_values_are_refused() {
        let malformed = UnitError::Malformed {
            example: DURATION_EXAMPLE,
        };
        for (text, error) in [
            (
                "30",
                UnitError::NoUnit {
                    example: DURATION_EXAMPLE,
                },
            ),
            ("", malformed),
            ("s", malformed),
            ("-5s", malformed),
            ("+5s", malformed),
            ("1.5s", malformed),
            ("5w", malformed),
            ("5S", malformed),
            ("1h30m", malformed),
            ("99999999999999999999s", UnitError::Overflow),
            ("18446744073709551615h", UnitError::Overflow),
        ] {
            assert_eq!(parse_duration(text), Err(error), "{text:?}");
        }
        for text in [
            "4",
            "4MB",
            "4mib",
            "MiB",
            "99999999999999999999B",
            "18446744073709551615GiB",
        ] {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
        for text in ["", "-1", "+1", "1k", "1_000", "99999999999999999999999"] {
            assert!(parse_count(text).is_err(), "{text:?}");
        }
        assert_eq!(parse_count("300"), Ok(300));
    }

    #[test]
    fn values_are_written_in_the_largest_exact_unit() {
        for (millis, text) in [
            (0, "0s"),
            (250, "250ms"),
            (1_500, "1500ms"),
            (90_000, "90s"),
            (60_000, "1m"),
            (86_400_000, "24h"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
        for (bytes, text) in [
            (0, "0B"),
            (1, "1B"),
            (1_536, "1536B"),
            (65_536, "64KiB"),
            (GIB, "1GiB"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }
}
