//! Values that are each in range and make no sense together: found at start instead of showing as a
//! relay that closes every socket.

use super::problem::{Assignment, Problem};
use super::{Configuration, Key, Settings};

/// One relation between two keys.
struct Relation {
    first: &'static str,
    relation: &'static str,
    second: &'static str,
    holds: fn(&Settings) -> bool,
}

// Both keys of a relation are reloaded or neither, so that a reload cannot break it (OP-4).
const RELATIONS: &[Relation] = &[
    // A socket would be called silent before it was ever pinged.
    Relation {
        first: "limits.client_timeout",
        relation: "at least",
        second: "limits.ping_interval",
        holds: |Settings { limits, .. }| limits.client_timeout >= limits.ping_interval,
    },
    // A relay that lives would lose its rows between two renewals.
    Relation {
        first: "presence.instance_lease",
        relation: "longer than",
        second: "presence.instance_renewal",
        holds: |Settings { limits, .. }| limits.instance_lease > limits.instance_renewal,
    },
    // A session in use would end before its touch is reported.
    Relation {
        first: "session.lifetime",
        relation: "longer than",
        second: "session.touch_interval",
        holds: |Settings { limits, .. }| limits.session_lifetime > limits.session_touch_interval,
    },
    Relation {
        first: "limits.max_message_unregistered",
        relation: "at most",
        second: "limits.max_message",
        holds: |Settings { limits, .. }| limits.max_message_unregistered <= limits.max_message,
    },
    // One phone could use up its desktop's records alone.
    Relation {
        first: "rpc.records_per_phone",
        relation: "at most",
        second: "rpc.records_per_pair",
        holds: |Settings { limits, .. }| limits.records_per_phone <= limits.records_per_pair,
    },
    // Calls would time out in the queue while connections idle.
    Relation {
        first: "database.queue",
        relation: "at least",
        second: "database.pool",
        holds: |Settings { limits, .. }| limits.database_queue >= limits.database_pool,
    },
    // The refresh would come faster than readings are allowed.
    Relation {
        first: "auth.jwks_min_interval",
        relation: "at most",
        second: "auth.jwks_refresh_interval",
        holds: |Settings { limits, .. }| limits.jwks_min_interval <= limits.jwks_refresh_interval,
    },
    // Every connection would be dropped.
    Relation {
        first: "server.proxy_protocol",
        relation: "false beside",
        second: "server.trusted_proxies",
        holds: |Settings { proxies, .. }| !proxies.proxy_protocol || !proxies.trusted.is_empty(),
    },
    // Nobody could tell which of the two a key came from, or which of them took it away.
    Relation {
        first: "auth.jwks_file",
        relation: "left out beside",
        second: "auth.jwks_url",
        holds: |settings| settings.jwks_file.is_none() || settings.jwks_url.is_none(),
    },
    // One address has one listener.
    Relation {
        first: "server.admin_listen",
        relation: "another address than",
        second: "server.listen",
        holds: |settings| {
            let free_port = settings.listen.port() == 0;
            free_port || settings.admin_listen != Some(settings.listen)
        },
    },
    // A listener has both or neither.
    Relation {
        first: "server.tls_key",
        relation: "set beside",
        second: "server.tls_cert",
        holds: |settings| settings.tls_key.is_some() || settings.tls_cert.is_none(),
    },
    Relation {
        first: "server.tls_cert",
        relation: "set beside",
        second: "server.tls_key",
        holds: |settings| settings.tls_cert.is_some() || settings.tls_key.is_none(),
    },
    // Apple takes a key only with all of these.
    Relation {
        first: "push.apns.key_id",
        relation: "set beside",
        second: "push.apns.key_file",
        holds: |Settings { push, .. }| push.apns.key_id.is_some() || push.apns.key_file.is_none(),
    },
    Relation {
        first: "push.apns.key_file",
        relation: "set beside",
        second: "push.apns.key_id",
        holds: |Settings { push, .. }| push.apns.key_file.is_some() || push.apns.key_id.is_none(),
    },
    Relation {
        first: "push.apns.team_id",
        relation: "set beside",
        second: "push.apns.key_file",
        holds: |Settings { push, .. }| push.apns.team_id.is_some() || push.apns.key_file.is_none(),
    },
    Relation {
        first: "push.apns.key_file",
        relation: "set beside",
        second: "push.apns.team_id",
        holds: |Settings { push, .. }| push.apns.key_file.is_some() || push.apns.team_id.is_none(),
    },
    Relation {
        first: "push.apns.topic",
        relation: "set beside",
        second: "push.apns.key_file",
        holds: |Settings { push, .. }| push.apns.topic.is_some() || push.apns.key_file.is_none(),
    },
    Relation {
        first: "push.apns.key_file",
        relation: "set beside",
        second: "push.apns.topic",
        holds: |Settings { push, .. }| push.apns.key_file.is_some() || push.apns.topic.is_none(),
    },
];

/// Every relation that does not hold.
pub(super) fn contradictions(configuration: &Configuration) -> Vec<Problem> {
    RELATIONS
        .iter()
        .filter(|relation| !(relation.holds)(&configuration.settings))
        .map(|relation| Problem::Contradiction {
            first: Box::new(assignment(configuration, relation.first)),
            relation: relation.relation,
            second: Box::new(assignment(configuration, relation.second)),
        })
        .collect()
}

fn assignment(configuration: &Configuration, path: &'static str) -> Assignment {
    let value = Key::find(path).and_then(|key| key.show(&configuration.settings));
    Assignment {
        key: path,
        value: value.unwrap_or_default(),
        origin: configuration.origin(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_make_sense() {
        assert_eq!(contradictions(&Configuration::default()), []);
    }

    /// OP-4: what is reloaded is held against what is reloaded, and never against a value of the start.
    #[test]
    fn relations_are_reloaded_as_a_whole() {
        for relation in RELATIONS {
            let [first, second] =
                [relation.first, relation.second].map(|path| Key::find(path).unwrap());
            let together = first.needs_restart() == second.needs_restart();
            assert!(together, "{} and {}", relation.first, relation.second);
        }
    }

    #[test]
    fn every_relation_names_known_keys() {
        for relation in RELATIONS {
            assert!(Key::find(relation.first).is_some(), "{}", relation.first);
            assert!(Key::find(relation.second).is_some(), "{}", relation.second);
        }
    }
}
