//! Why a connection ended, in one word for the log and one sentence for whoever asks "why is it
//! offline?" (OP-5, OP-9). The tables in `docs/operations/` are made from this.

use relay_model::wire::codes::CloseCode;

use super::messages::CloseReason;

/// How a connection ended, by whichever side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The relay ended it.
    ByRelay(CloseReason),
    /// The peer broke the WebSocket protocol, and the relay ended it.
    ProtocolViolation,
    /// The peer sent a close frame.
    ClientClosed,
    /// The stream ended without a close frame.
    ConnectionEnded,
    /// The stream was reset.
    NetworkReset,
    /// The stream failed otherwise.
    NetworkError,
    /// A fault of the relay took the socket with it.
    SocketFailed,
}

impl EndReason {
    /// Every reason, in the order of the tables.
    pub const ALL: &[Self] = &[
        Self::ClientClosed,
        Self::ConnectionEnded,
        Self::NetworkReset,
        Self::NetworkError,
        Self::ProtocolViolation,
        Self::ByRelay(CloseReason::Silent),
        Self::ByRelay(CloseReason::Replaced),
        Self::ByRelay(CloseReason::Refused(CloseCode::RegistrationRefused)),
        Self::ByRelay(CloseReason::RegistrationTimeout),
        Self::ByRelay(CloseReason::Expired),
        Self::ByRelay(CloseReason::KeyEnded),
        Self::ByRelay(CloseReason::Hidden),
        Self::ByRelay(CloseReason::Forgotten),
        Self::ByRelay(CloseReason::SignedOut),
        Self::ByRelay(CloseReason::Congested),
        Self::ByRelay(CloseReason::Stalled),
        Self::ByRelay(CloseReason::MemoryCeiling),
        Self::ByRelay(CloseReason::VersionConflict),
        Self::ByRelay(CloseReason::PairLost),
        Self::ByRelay(CloseReason::Drained),
        Self::SocketFailed,
    ];

    /// Its word in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ByRelay(reason) => reason.as_str(),
            Self::ProtocolViolation => "protocol_violation",
            Self::ClientClosed => "client_closed",
            Self::ConnectionEnded => "connection_ended",
            Self::NetworkReset => "network_reset",
            Self::NetworkError => "network_error",
            Self::SocketFailed => "socket_failed",
        }
    }

    /// Which side ended it.
    pub const fn side(self) -> &'static str {
        match self {
            Self::ByRelay(_) | Self::ProtocolViolation | Self::SocketFailed => "relay",
            Self::ClientClosed
            | Self::ConnectionEnded
            | Self::NetworkReset
            | Self::NetworkError => "peer",
        }
    }

    /// What happened, in one sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::ByRelay(reason) => reason.meaning(),
            Self::ProtocolViolation => "The client broke the WebSocket protocol.",
            Self::ClientClosed => "The client closed the connection itself.",
            Self::ConnectionEnded => "The connection ended without a goodbye of the client.",
            Self::NetworkReset => "The network, or a proxy on the way, reset the connection.",
            Self::NetworkError => "The network failed between the client and the relay.",
            Self::SocketFailed => "A fault in the relay ended the connection.",
        }
    }

    /// What whoever operates the relay can do about it.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::ByRelay(reason) => reason.advice(),
            Self::ProtocolViolation => {
                "Look for a proxy that changes WebSocket traffic, else update the app; the log line of \
                 the close says what was wrong."
            }
            Self::ClientClosed => {
                "Nothing to do here: the app was quit or signed out, or the computer was shut down or \
                 put to sleep. If its user wants it online, start the app."
            }
            Self::ConnectionEnded => {
                "The app was killed, the computer went to sleep, or a proxy ended the connection: see \
                 that its idle timeout is longer than limits.ping_interval."
            }
            Self::NetworkReset => {
                "Check the client's network and the timeouts of proxies and firewalls on the way."
            }
            Self::NetworkError => "Check the client's network, and the relay's own.",
            Self::SocketFailed => "Report it with the log lines before it; the client reconnects.",
        }
    }
}

impl CloseReason {
    const fn meaning(self) -> &'static str {
        match self {
            Self::Replaced => "A newer connection of the same device took over.",
            Self::Congested => "The client took its frames more slowly than they came.",
            Self::Stalled => {
                "The client took nothing for too long although something waited for it."
            }
            Self::MemoryCeiling => {
                "All connections together held too much memory, and this one the most."
            }
            Self::VersionConflict => "Its desktop sent two different snapshots with one version.",
            Self::PairLost => {
                "A fault in the relay ended the routing between this desktop and its phones."
            }
            Self::Drained => "The relay drained, for a deploy or its end.",
            Self::Silent => "Nothing came from the client for longer than limits.client_timeout.",
            Self::RegistrationTimeout => {
                "The client connected and did not register within limits.registration_timeout."
            }
            Self::Expired => "The credentials of the connection expired and were not renewed.",
            Self::KeyEnded => "The API key of the connection was revoked or expired.",
            Self::Hidden => "Its user hid the desktop.",
            Self::Forgotten => "Its user forgot the device.",
            Self::SignedOut => "Its user signed out on the device.",
            Self::Refused(_) => "Its registration was refused; the last refusal says why.",
        }
    }

    const fn advice(self) -> &'static str {
        match self {
            Self::Replaced => {
                "Nothing, if it is online: it reconnected before its old connection was gone. If it is \
                 replaced again and again, two programs use one device id."
            }
            Self::Congested | Self::Stalled => {
                "It reconnects by itself. If this repeats, its network is too slow, or the app hangs; \
                 the limits are limits.rpc_lane_bytes, limits.event_lane_bytes and limits.write_stall_timeout."
            }
            Self::MemoryCeiling => {
                "It reconnects by itself. Find out who is slow (GET /admin/state), or raise \
                 limits.outbound_total and limits.inbound_total."
            }
            Self::VersionConflict => {
                "Update the app of the desktop; the phone reconnects by itself."
            }
            Self::PairLost => "It reconnects by itself; report it with the log lines before it.",
            Self::Drained => "It reconnects by itself, to the next relay; see that one runs.",
            Self::Silent => {
                "The computer sleeps, or lost its network without a word. It reconnects when it wakes; \
                 nothing to do unless its user says that it is awake."
            }
            Self::RegistrationTimeout => {
                "The app hangs after connecting, or what connects is no app of this relay; see its log."
            }
            Self::Expired => {
                "The app must renew its token (auth.renew) or sign in again; check the identity \
                 provider, and the clocks of both sides."
            }
            Self::Forgotten => {
                "As its user wished. To come back, the app registers with `rejoin` on the user's action."
            }
            Self::SignedOut => "As its user wished; signing in again brings it back.",
            Self::KeyEnded => "Make another key (`relay key create`) and give it to the app.",
            Self::Hidden => {
                "Only its user brings it back: by showing the desktop again in the app (relayEligible)."
            }
            Self::Refused(_) => "See the last refusal.",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// OP-5, OP-9: no two reasons share a word, and the words are those of logs and metrics.
    #[test]
    fn words_are_unique() {
        let mut words = BTreeSet::new();
        for reason in EndReason::ALL {
            let word = reason.as_str();
            assert!(words.insert(word), "{word}");
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(word.bytes().all(plain), "{word}");
        }
    }

    /// OP-9: each reason says in whole sentences what happened and what to do.
    #[test]
    fn every_reason_is_explained() {
        for reason in EndReason::ALL {
            for text in [reason.meaning(), reason.advice()] {
                assert!(text.ends_with('.') && !text.contains("  "), "{text}");
            }
            assert!(["relay", "peer"].contains(&reason.side()));
        }
    }
}
