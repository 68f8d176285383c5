-- The Redis that the rows come from, and the database's settings. These tables are the same on every server of a cluster.

-- The fingerprint of Redis's salt, by key prefix. `flush` refuses a Redis with another salt, because it would have other
-- profile ids than the rows here. The latest row counts.
CREATE TABLE IF NOT EXISTS {database}.deployment {on_cluster}
(
    key_prefix String,
    fingerprint String,
    recorded_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = {replicated}MergeTree({everywhere})
ORDER BY (key_prefix, recorded_at)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Fingerprint of the Redis deployment that the events come from';

-- Settings that hold for the database: VISIT_RETENTION_DAYS, SHOP_TIMEZONE, CLICKHOUSE_CLUSTER. The latest row of a name counts.
CREATE TABLE IF NOT EXISTS {database}.kept_settings {on_cluster}
(
    name String,
    value String,
    kept_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = {replicated}ReplacingMergeTree({everywhere,} kept_at)
ORDER BY name
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Settings of the database that commands without them take';
