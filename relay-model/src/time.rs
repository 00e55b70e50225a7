//! Wall-clock time as it stands on the wire and in the database. Everything that measures a
//! duration uses a monotonic clock instead.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};

/// A moment in UTC with microsecond precision; written as RFC 3339 with exactly six fraction
/// digits and `Z` (ENV-2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn from_unix_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn unix_micros(self) -> i64 {
        self.0
    }

    /// The same moment in chrono's type, cut to microseconds.
    pub fn from_datetime(moment: DateTime<Utc>) -> Self {
        Self(moment.timestamp_micros())
    }

    /// A moment as HTTP headers write it: `Mon, 05 Oct 2026 08:00:00 GMT`.
    pub fn from_http_date(text: &str) -> Option<Self> {
        let moment = DateTime::parse_from_rfc2822(text).ok()?;
        Some(Self(moment.timestamp_micros()))
    }

    /// This moment plus `duration`; saturates at the ends of time.
    pub fn plus(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// How long after `earlier` this moment comes; zero if it does not.
    pub fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// This moment minus `duration`; saturates at the ends of time.
    pub fn minus(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only a moment some 260,000 years away is out of chrono's range.
        let moment = DateTime::<Utc>::from_timestamp_micros(self.0).unwrap_or_default();
        f.write_str(&moment.to_rfc3339_opts(SecondsFormat::Micros, true))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ENV-2: exactly six digits and `Z`, also for whole seconds and before 1970.
    #[test]
    fn is_written_with_six_digits() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (1_791_187_200_000_001, "2026-10-05T08:00:00.000001Z"),
            (1_791_187_200_120_000, "2026-10-05T08:00:00.120000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(Timestamp::from_unix_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn moments_of_headers_are_read() {
        let read = Timestamp::from_http_date("Mon, 05 Oct 2026 08:00:00 GMT");
        let moment = Timestamp::from_unix_micros(1_791_187_200_000_000);
        assert_eq!(read, Some(moment));
        for odd in ["", "120", "2026-10-05T08:00:00Z"] {
            assert_eq!(Timestamp::from_http_date(odd), None, "{odd}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let end = Timestamp::from_unix_micros(i64::MAX);
        assert_eq!(end.plus(Duration::MAX), end);
        let second = Timestamp::from_unix_micros(1_000_000);
        assert_eq!(second.minus(Duration::from_secs(1)).unix_micros(), 0);
    }
}
