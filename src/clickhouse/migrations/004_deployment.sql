-- Which Redis the events come from: a fingerprint of its salt, by key prefix. `flush` refuses another one, since
-- profile ids under a new salt would have nothing to do with those that are here. The latest row counts.

CREATE TABLE IF NOT EXISTS {database}.deployment
(
    key_prefix String,
    fingerprint String,
    recorded_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = MergeTree
ORDER BY (key_prefix, recorded_at)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Fingerprint of the Redis deployment that the events come from';
