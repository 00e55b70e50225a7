CREATE TABLE devices (
    id uuid NOT NULL PRIMARY KEY,
    account uuid NOT NULL,
    device_type text NOT NULL CHECK (device_type IN ('desktop', 'mobile')),
    device_name text NOT NULL,
    platform text NOT NULL,
    platform_version text,
    app_version text NOT NULL,
    -- Kept as it came; the cast fails for what is not JSON.
    capabilities text NOT NULL CHECK (capabilities::json IS NOT NULL),
    relay_eligible boolean NOT NULL,
    forgotten_at timestamptz,
    status text NOT NULL CHECK (status IN ('online', 'reconnecting', 'offline')),
    offline_reason text CHECK (
        offline_reason IN (
            'reconnect_timeout', 'disconnected', 'hidden', 'unlinked', 'signed_out',
            'relay_stopped', 'relay_lost'
        )
    ),
    instance uuid,
    generation bigint,
    status_at timestamptz NOT NULL,
    last_seen timestamptz,
    last_heartbeat timestamptz,
    active_project_directory text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CHECK (offline_reason IS NULL OR status = 'offline'),
    CHECK (status = 'offline' OR (instance IS NOT NULL AND generation IS NOT NULL))
);

CREATE INDEX devices_by_account ON devices (account, created_at);
CREATE INDEX devices_by_instance ON devices (instance) WHERE status <> 'offline';

CREATE TABLE relay_instances (
    id uuid NOT NULL PRIMARY KEY,
    draining boolean NOT NULL,
    started_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    lease_until timestamptz NOT NULL
);

-- One row, always: `id` has one possible value.
CREATE TABLE relay_policy (
    id integer NOT NULL PRIMARY KEY CHECK (id = 1),
    min_protocol_version integer NOT NULL DEFAULT 1
        CHECK (min_protocol_version BETWEEN 0 AND 999999999)
);

INSERT INTO relay_policy (id) VALUES (1);

-- The key is the whole change but why, so that a change that is stored twice is there once.
CREATE TABLE presence_history (
    account uuid NOT NULL,
    device uuid NOT NULL,
    at timestamptz NOT NULL,
    instance uuid NOT NULL,
    generation bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('online', 'reconnecting', 'offline')),
    reason text CHECK (
        reason IN (
            'reconnect_timeout', 'disconnected', 'hidden', 'unlinked', 'signed_out',
            'relay_stopped', 'relay_lost'
        )
    ),
    CHECK (reason IS NULL OR status = 'offline'),
    PRIMARY KEY (account, device, at, instance, generation, status)
);

CREATE INDEX presence_history_by_time ON presence_history (at);

CREATE TABLE api_keys (
    id uuid NOT NULL PRIMARY KEY,
    account uuid NOT NULL,
    name text,
    scopes text NOT NULL CHECK (scopes <> ''),
    secret_hash bytea NOT NULL CHECK (length(secret_hash) = 32),
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz
);

CREATE INDEX api_keys_by_account ON api_keys (account, created_at);
