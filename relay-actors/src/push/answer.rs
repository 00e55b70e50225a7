//! What both push services are asked over: HTTP answers, and faults of the network, without the URL,
//! in which a token may stand (PUSH-5).

use std::error::Error;
use std::time::Duration;

use relay_model::limits::{PUSH_ANSWER_BYTES, PUSH_CLOCK_TOLERANCE};
use relay_model::time::Timestamp;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Certificate, ClientBuilder, RequestBuilder};

use super::sender::Attempt;

/// The longest word of a service that is repeated.
const WORD: usize = 64;

/// An answer of a push service.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    /// How far this machine's clock is off, if that is enough to matter.
    pub(super) clock: Option<ClockError>,
    pub(super) body: Vec<u8>,
}

/// How far this machine's clock is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClockError {
    #[error("this machine's clock is {0:?} ahead of the service's; set it")]
    Ahead(Duration),
    #[error("this machine's clock is {0:?} behind the service's; set it")]
    Behind(Duration),
}

impl Answer {
    /// Sends a request and reads as much of the answer as there is to know.
    pub(super) async fn to(request: RequestBuilder, now: Timestamp) -> Result<Self, String> {
        let mut response = request.send().await.map_err(describe)?;
        let mut answer = Self {
            status: response.status().as_u16(),
            retry_after: retry_after(response.headers(), now),
            clock: clock_error(response.headers(), now),
            body: Vec::new(),
        };
        while answer.body.len() < PUSH_ANSWER_BYTES
            && let Some(chunk) = response.chunk().await.map_err(describe)?
        {
            answer.body.extend_from_slice(&chunk);
        }
        Ok(answer)
    }

    /// An attempt that is worth another one.
    pub(super) fn failed(&self, word: &str) -> Attempt {
        Attempt::Failed {
            retry_after: self.retry_after,
            reason: format!("{} {word}", self.status),
        }
    }

    /// Advice for a refusal that a wrong clock may be the cause of.
    pub(super) fn clock_advice(&self) -> String {
        self.clock
            .map_or_else(String::new, |off| format!("; {off}"))
    }
}

/// A client that trusts these authorities beside the system's; `None` if they are none.
pub(super) fn trusting(client: ClientBuilder, authorities: Option<&[u8]>) -> Option<ClientBuilder> {
    match authorities {
        None => Some(client),
        Some(pem) => {
            let certificates = Certificate::from_pem_bundle(pem).ok()?;
            (!certificates.is_empty()).then(|| client.tls_certs_merge(certificates))
        }
    }
}

/// A word that a service gave as its reason, if it is one: what else it may have said is not repeated.
pub(super) fn word(text: Option<&str>) -> &str {
    let plain = |text: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        (1..=WORD).contains(&text.len()) && text.bytes().all(plain)
    };
    text.filter(plain).unwrap_or("without a reason")
}

/// What went wrong, from the outside in.
fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// `Retry-After`, which has two forms (RFC 9110, section 10.2.3). A moment is counted from the
/// service's own clock if it tells that.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = single(headers, RETRY_AFTER)?;
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let now = single(headers, DATE)
        .and_then(Timestamp::from_http_date)
        .unwrap_or(now);
    Timestamp::from_http_date(text).map(|moment| moment.since(now))
}

fn clock_error(headers: &HeaderMap, now: Timestamp) -> Option<ClockError> {
    let theirs = single(headers, DATE).and_then(Timestamp::from_http_date)?;
    let (ahead, behind) = (now.since(theirs), theirs.since(now));
    if ahead > PUSH_CLOCK_TOLERANCE {
        Some(ClockError::Ahead(Duration::from_secs(ahead.as_secs())))
    } else if behind > PUSH_CLOCK_TOLERANCE {
        Some(ClockError::Behind(Duration::from_secs(behind.as_secs())))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE_TEXT: &str = "Mon, 05 Oct 2026 08:00:00 GMT";

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(name, value)| (name.clone(), value.parse().unwrap()));
        pairs.collect()
    }

    /// PUSH-4: `Retry-After` in seconds or as a moment; what is neither is not there.
    #[test]
    fn retry_after_is_read_in_both_forms() {
        let now = Timestamp::from_http_date(DATE_TEXT).unwrap();
        for (value, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("Mon, 05 Oct 2026 08:00:30 GMT", Some(30)),
            ("Mon, 05 Oct 2026 07:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
        ] {
            let read = retry_after(&headers(&[(RETRY_AFTER, value)]), now);
            assert_eq!(read, seconds.map(Duration::from_secs), "{value}");
        }
        let theirs = headers(&[
            (RETRY_AFTER, "Mon, 05 Oct 2026 09:00:30 GMT"),
            (DATE, "Mon, 05 Oct 2026 09:00:00 GMT"),
        ]);
        assert_eq!(retry_after(&theirs, now), Some(Duration::from_secs(30)));
    }

    /// PUSH-1: a clock that is off is told by how much, and in which direction.
    #[test]
    fn clocks_are_compared() {
        let theirs = Timestamp::from_http_date(DATE_TEXT).unwrap();
        let headers = headers(&[(DATE, DATE_TEXT)]);
        let hour = Duration::from_secs(3_600);
        assert_eq!(clock_error(&headers, theirs), None);
        assert_eq!(
            clock_error(&headers, theirs.plus(PUSH_CLOCK_TOLERANCE)),
            None
        );
        let ahead = clock_error(&headers, theirs.plus(hour));
        assert_eq!(ahead, Some(ClockError::Ahead(hour)));
        let behind = clock_error(&headers, theirs.minus(hour));
        assert_eq!(behind, Some(ClockError::Behind(hour)));
    }

    /// PUSH-5: what a service says is repeated only if it is a word.
    #[test]
    fn only_words_are_repeated() {
        assert_eq!(word(Some("BadDeviceToken")), "BadDeviceToken");
        assert_eq!(word(Some("INVALID_ARGUMENT")), "INVALID_ARGUMENT");
        let long = "x".repeat(65);
        for odd in [None, Some(""), Some("token: pushtoken-1"), Some(&long)] {
            assert_eq!(word(odd), "without a reason");
        }
    }
}
