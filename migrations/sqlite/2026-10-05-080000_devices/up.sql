-- Ids are 16-byte UUIDs, times are microseconds since 1970 in UTC.

CREATE TABLE devices (
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
        offline_reason IN ('reconnect_timeout', 'disconnected', 'relay_stopped', 'relay_lost')
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

CREATE INDEX devices_by_account ON devices (account, created_at);
CREATE INDEX devices_by_instance ON devices (instance) WHERE status <> 'offline';

CREATE TABLE relay_instances (
    id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    draining INTEGER NOT NULL CHECK (draining IN (0, 1)),
    started_at INTEGER NOT NULL,
    renewed_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT;

-- One row, always: `id` has one possible value.
CREATE TABLE relay_policy (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    min_protocol_version INTEGER NOT NULL DEFAULT 1
        CHECK (min_protocol_version BETWEEN 0 AND 999999999)
) STRICT;

INSERT INTO relay_policy (id) VALUES (1);
