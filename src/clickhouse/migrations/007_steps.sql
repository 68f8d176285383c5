-- What the questions of docs/analysts.md are made of, narrow enough to be read at once: of 10 million events, a year of
-- them, a month is read in 60 ms of CPU, where events_stored takes 400.
--
-- A visitor is a number here, sipHash64 of the profile id. Numbers are read, grouped and joined several times as fast as
-- ids of 28 characters, and of 10 million visitors two have the same one with a probability of 3 in a million.

-- One row per event or line of an order that is about a product; of test orders there is none. A row that is fed in twice
-- is one, as in events_stored: `event` is the hash of its event_id, and rows with the same sort key replace each other.
CREATE TABLE IF NOT EXISTS {database}.steps_stored
(
    occurred_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    event UInt64 CODEC(NONE),
    step LowCardinality(String),
    visitor UInt64 CODEC(NONE),
    product_id LowCardinality(String),
    variant_id LowCardinality(String),
    source LowCardinality(String),
    order_id String CODEC(ZSTD(1)),
    currency LowCardinality(String),
    inventory_available Nullable(Bool),
    quantity UInt32 CODEC(ZSTD(1)),
    price Nullable(Decimal(18, 2)) CODEC(ZSTD(1)),
    amount Nullable(Decimal(18, 2)) CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(occurred_at)
ORDER BY (occurred_at, event)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view steps_by_visitor; query that one';

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.steps_feed TO {database}.steps_stored AS
SELECT
    occurred_at,
    sipHash64(event_id) AS event,
    if(origin = 'order', 'purchase', type) AS step,
    sipHash64(profile_id) AS visitor,
    product_id,
    variant_id,
    source,
    order_id,
    currency,
    inventory_available,
    ifNull(events_stored.quantity, 1) AS quantity,
    price,
    amount
FROM {database}.events_stored
WHERE product_id != '' AND origin != 'merge' AND type != 'share' AND NOT test;

FILL {database}.steps_feed;

-- profile_merges_stored in these numbers. At a million merges a join with it costs 0.1 s of CPU, and with the ids 0.4.
-- Parts of an hour ago are merged into one, for FINAL: over one large part and a few small ones it takes half the CPU
-- that it takes over five large ones.
CREATE TABLE IF NOT EXISTS {database}.visitor_merges_stored
(
    old UInt64 CODEC(NONE),
    present UInt64 CODEC(NONE),
    merged_at DateTime64(3, 'UTC') CODEC(T64, ZSTD(1))
)
ENGINE = ReplacingMergeTree(merged_at)
ORDER BY old
SETTINGS min_age_to_force_merge_seconds = 3600, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'profile_merges, with hashes in place of profile ids';

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.visitor_merges_feed TO {database}.visitor_merges_stored AS
SELECT
    sipHash64(profile_id) AS old,
    sipHash64(JSONExtractString(payload, 'into')) AS present,
    occurred_at AS merged_at
FROM {database}.events_stored
WHERE origin = 'merge';

INSERT INTO {database}.visitor_merges_stored
SELECT
    sipHash64(old_id),
    sipHash64(new_id),
    merged_at
FROM {database}.profile_merges_stored;
