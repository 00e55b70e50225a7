-- SQLite changes no CHECK in place: `devices` is made anew, with the reasons `hidden`, `unlinked` and
-- `signed_out` allowed.
CREATE TABLE devices_anew (
    id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    account BLOB NOT NULL CHECK (length(account) = 16),
    device_type TEXT NOT NULL CHECK (device_type IN ('desktop', 'mobile')),
    device_name TEXT NOT NULL,
    platform TEXT NOT NULL,
    platform_version TEXT,
    app_version TEXT NOT NULL,
    capabilities TEXT NOT NULL CHECK (json_valid(capabilities)),
    relay_eligible INTEGER NOT NULL CHECK (relay_eligible IN (0, 1)),
    forgotten_at INTEGER,
    status TEXT NOT NULL CHECK (status IN ('online', 'reconnecting', 'offline')),
    offline_reason TEXT CHECK (
        offline_reason IN (
            'reconnect_timeout', 'disconnected', 'hidden', 'unlinked', 'signed_out',
            'relay_stopped', 'relay_lost'
        )
    ),
    instance BLOB CHECK (length(instance) = 16),
    generation INTEGER,
    status_at INTEGER NOT NULL,
    last_seen INTEGER,
    last_heartbeat INTEGER,
    active_project_directory TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CHECK (offline_reason IS NULL OR status = 'offline'),
    CHECK (status = 'offline' OR (instance IS NOT NULL AND generation IS NOT NULL))
) STRICT;

INSERT INTO devices_anew (
    id, account, device_type, device_name, platform, platform_version, app_version, capabilities,
    relay_eligible, forgotten_at, status, offline_reason, instance, generation, status_at, last_seen,
    last_heartbeat, active_project_directory, created_at, updated_at
)
SELECT
    id, account, device_type, device_name, platform, platform_version, app_version, capabilities,
    relay_eligible, forgotten_at, status, offline_reason, instance, generation, status_at, last_seen,
    last_heartbeat, active_project_directory, created_at, updated_at
FROM devices;

DROP TABLE devices;
ALTER TABLE devices_anew RENAME TO devices;
CREATE INDEX devices_by_account ON devices (account, created_at);
CREATE INDEX devices_by_instance ON devices (instance) WHERE status <> 'offline';

-- The key is the whole change but why, so that a change that is stored twice is there once.
CREATE TABLE presence_history (
    account BLOB NOT NULL CHECK (length(account) = 16),
    device BLOB NOT NULL CHECK (length(device) = 16),
    at INTEGER NOT NULL,
    instance BLOB NOT NULL CHECK (length(instance) = 16),
    generation INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('online', 'reconnecting', 'offline')),
    reason TEXT CHECK (
        reason IN (
            'reconnect_timeout', 'disconnected', 'hidden', 'unlinked', 'signed_out',
            'relay_stopped', 'relay_lost'
        )
    ),
    CHECK (reason IS NULL OR status = 'offline'),
    PRIMARY KEY (account, device, at, instance, generation, status)
) STRICT, WITHOUT ROWID;

CREATE INDEX presence_history_by_time ON presence_history (at);

CREATE TABLE api_keys (
    id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    account BLOB NOT NULL CHECK (length(account) = 16),
    name TEXT,
    scopes TEXT NOT NULL CHECK (scopes <> ''),
    secret_hash BLOB NOT NULL CHECK (length(secret_hash) = 32),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;

CREATE INDEX api_keys_by_account ON api_keys (account, created_at);
