//! Keeps some open files free of sockets: when the process has no more, a new connection would wait in
//! the kernel without a word, and the database could not be opened either. So whoever comes too late is
//! told at once (OP-5, OP-8).

use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};

use relay_model::limits::{Limits, OPEN_FILES_PER_DATABASE_CONNECTION, OPEN_FILES_RESERVED};
use tokio::net::TcpStream;

use crate::refusal::Refusal;

/// What the sockets of this process may not use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenFiles {
    /// The system gives every new file the lowest free number, so one from here on means that the
    /// sockets have used up what is theirs.
    first_reserved: RawFd,
}

impl OpenFiles {
    /// The share of this process, by its limit as it stands. A quarter at most is kept free.
    pub(crate) fn of_this_process(limits: &Limits) -> Self {
        let wanted =
            OPEN_FILES_RESERVED + OPEN_FILES_PER_DATABASE_CONNECTION * limits.database_pool;
        let first_reserved = match rlimit::Resource::NOFILE.get_soft() {
            Ok(limit) => first_reserved(limit, wanted),
            // Without a limit that is known there is none to keep.
            Err(_) => RawFd::MAX,
        };
        Self { first_reserved }
    }

    /// Whether `stream` is one too many.
    pub(crate) fn are_used_up_by(self, stream: &TcpStream) -> bool {
        stream.as_raw_fd() >= self.first_reserved
    }

    /// Refuses `stream` with 503 and closes it, without waiting for its request or for anything else:
    /// it holds one of the last files. For a handshake there is no time either, so a client that does
    /// not speak `plain` HTTP only sees the end.
    pub(crate) fn refuse(stream: TcpStream, plain: bool) {
        if plain && let Ok(mut stream) = stream.into_std() {
            // A new connection has room for it; a client that has gone needs no answer.
            let _ = stream.write_all(answer().as_bytes());
        }
        // Lines of this kind that repeat are held back and counted.
        tracing::warn!(
            "refused a new connection: too many files are open; raise the limit of open files \
             (ulimit -n, LimitNOFILE)"
        );
    }
}

/// The first file number that no socket gets, of a process that may have `limit` files open.
fn first_reserved(limit: u64, wanted: usize) -> RawFd {
    let reserved = (limit / 4).min(wanted as u64);
    RawFd::try_from(limit - reserved).unwrap_or(RawFd::MAX)
}

/// The whole answer to whoever is one too many.
fn answer() -> String {
    let refusal = Refusal::TooManyConnections;
    let (status, body) = (refusal.status(), refusal.body());
    let mut answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len());
    let headers = [Refusal::content_type()]
        .into_iter()
        .chain(refusal.headers());
    for (name, value) in headers {
        // The values of refusals are ASCII.
        answer.push_str(&format!(
            "{name}: {}\r\n",
            value.to_str().unwrap_or_default()
        ));
    }
    answer.push_str("Connection: close\r\n\r\n");
    answer + &body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_at_most_is_reserved() {
        assert_eq!(first_reserved(128, 64), 96);
        assert_eq!(first_reserved(1_024, 64), 960);
        assert_eq!(first_reserved(0, 64), 0);
        assert_eq!(first_reserved(u64::MAX, 64), RawFd::MAX);
    }

    #[test]
    fn the_answer_is_whole() {
        let answer = answer();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
            "{head}"
        );
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())));
        assert!(head.contains("\r\nretry-after: 5\r\n"), "{head}");
        assert!(
            body.contains(r#""errorType":"tooManyConnections""#),
            "{body}"
        );
    }
}
