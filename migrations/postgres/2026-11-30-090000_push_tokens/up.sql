-- A token may be longer than an index entry: its hash is what is unique.
CREATE TABLE push_tokens (
    device uuid NOT NULL PRIMARY KEY,
    account uuid NOT NULL,
    platform text NOT NULL CHECK (platform IN ('ios', 'android')),
    environment text CHECK (environment IN ('production', 'sandbox')),
    token text NOT NULL CHECK (token <> ''),
    token_hash bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    registered_at timestamptz NOT NULL,
    last_outcome text CHECK (
        last_outcome IN (
            'delivered', 'token_gone', 'rejected', 'refused', 'expired', 'dropped', 'retried'
        )
    ),
    last_outcome_at timestamptz,
    CHECK (environment IS NULL OR platform = 'ios'),
    CHECK ((last_outcome IS NULL) = (last_outcome_at IS NULL))
);

CREATE INDEX push_tokens_by_account ON push_tokens (account);
