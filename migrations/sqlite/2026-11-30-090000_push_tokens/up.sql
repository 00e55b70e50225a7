-- The hash is what is unique, as on PostgreSQL, where a token may be longer than an index entry.
CREATE TABLE push_tokens (
    device BLOB NOT NULL PRIMARY KEY CHECK (length(device) = 16),
    account BLOB NOT NULL CHECK (length(account) = 16),
    platform TEXT NOT NULL CHECK (platform IN ('ios', 'android')),
    environment TEXT CHECK (environment IN ('production', 'sandbox')),
    token TEXT NOT NULL CHECK (token <> ''),
    token_hash BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    registered_at INTEGER NOT NULL,
    last_outcome TEXT CHECK (
        last_outcome IN (
            'delivered', 'token_gone', 'rejected', 'refused', 'expired', 'dropped', 'retried'
        )
    ),
    last_outcome_at INTEGER,
    CHECK (environment IS NULL OR platform = 'ios'),
    CHECK ((last_outcome IS NULL) = (last_outcome_at IS NULL))
) STRICT;

CREATE INDEX push_tokens_by_account ON push_tokens (account);
