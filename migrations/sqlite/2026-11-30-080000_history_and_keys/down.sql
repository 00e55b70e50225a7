DROP TABLE api_keys;
DROP TABLE presence_history;

-- Why a device is offline is lost where the former table has no word for it.
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

INSERT INTO devices_anew (
    id, account, device_type, device_name, platform, platform_version, app_version, capabilities,
    relay_eligible, forgotten_at, status, offline_reason, instance, generation, status_at, last_seen,
    last_heartbeat, active_project_directory, created_at, updated_at
)
SELECT
    id, account, device_type, device_name, platform, platform_version, app_version, capabilities,
    relay_eligible, forgotten_at, status,
    CASE WHEN offline_reason NOT IN ('hidden', 'unlinked', 'signed_out') THEN offline_reason END,
    instance, generation, status_at, last_seen, last_heartbeat, active_project_directory, created_at, updated_at
FROM devices;

DROP TABLE devices;
ALTER TABLE devices_anew RENAME TO devices;
CREATE INDEX devices_by_account ON devices (account, created_at);
CREATE INDEX devices_by_instance ON devices (instance) WHERE status <> 'offline';
