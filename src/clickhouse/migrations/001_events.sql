-- Events, and the merges of profiles among them. Placeholders stand for the differences on a cluster (../cluster.ts). Each
-- start creates the views of ../views.
--
-- Statements with {cluster} run only on a cluster: each makes the table over all shards. Rows that replace each other must be
-- on one shard, so that FINAL works: rows of a profile, by its id or hash; of an order, whose profile may change; of a day; of a
-- product.

-- One row per event. The flusher inserts here; analysts query the view `events`. Five kinds of rows are inserted like
-- events, but aren't events: merges of guests into customers (origin `merge`), openings of shared wishlists under the profile
-- of the list's owner (`open`), product alerts (`alert`), products as the shop sent them (`product`), and states of order lines
-- (`order`), whose payload feeds purchases_stored.
--
-- Each row counts once, although the flusher inserts rows again after a crash: rows with the same sort key (time and
-- event_id) replace each other, and `events` reads with FINAL.
--
-- An insert is on disk before it is answered, because the flusher then removes its rows from Redis.
--
-- The sort key begins with the time, because rows arrive in that order: parts hardly overlap, so FINAL has next to nothing to
-- merge. 2 million rows in 12 parts, with and without FINAL: events per day took 44 and 45 ms, top products 66 and 75, a bare
-- count() 32 and 2. With keys that began with the day and the type, or with the product, FINAL made views up to three times as
-- slow. This order is also the smallest on disk, because a visitor's ids repeat within a compressed block.
CREATE TABLE IF NOT EXISTS {database}.events_stored{local} {on_cluster}
(
    event_id UUID CODEC(ZSTD(1)),
    type LowCardinality(String),
    occurred_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    profile_id String CODEC(ZSTD(3)),
    customer_id Nullable(String) CODEC(ZSTD(3)),
    session_id Nullable(String) CODEC(ZSTD(3)),
    device LowCardinality(String),
    locale LowCardinality(String),
    origin LowCardinality(String),
    product_id String CODEC(ZSTD(3)),
    variant_id String CODEC(ZSTD(3)),
    product_handle String CODEC(ZSTD(3)),
    source LowCardinality(String),
    channel LowCardinality(String),
    share_code String CODEC(ZSTD(3)),
    currency LowCardinality(String),
    inventory_available Nullable(Bool),
    order_id String CODEC(ZSTD(3)),
    quantity Nullable(UInt32) CODEC(ZSTD(1)),
    price Nullable(Decimal(18, 2)) CODEC(ZSTD(1)),
    compare_at Nullable(Decimal(18, 2)) CODEC(ZSTD(1)),
    from_browser Bool,
    payload String CODEC(ZSTD(3)),
    INDEX merges origin TYPE set(8) GRANULARITY 16
)
ENGINE = {replicated}ReplacingMergeTree({path})
PARTITION BY toYYYYMM(occurred_at)
ORDER BY (occurred_at, event_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view events; query that one';

CREATE TABLE IF NOT EXISTS {database}.events_stored {on_cluster} AS {database}.events_stored_local
ENGINE = Distributed({cluster}, {database}, events_stored_local, sipHash64(if(order_id = '', profile_id, order_id)));

-- The merges among the rows of events_stored: each merged profile and its new one. If views read them from events_stored,
-- 1 million merges among 10 million rows took five times as long as the rest of the query.
--
-- A merge may be inserted twice. If a session is merged again, after its customer was erased, the latest row counts.
--
-- `old` and `present` are the two ids as numbers; hashing 1 million merges in each query took 0.15 s of CPU. Two of 10 million
-- merged profiles have the same number with a probability of 3 in a million. Then the later merge counts for both.
--
-- Parts that are an hour old are merged into one: FINAL then takes half the CPU that it takes with five large parts.
CREATE TABLE IF NOT EXISTS {database}.profile_merges_stored{local} {on_cluster}
(
    old_id String CODEC(ZSTD(1)),
    new_id String CODEC(ZSTD(1)),
    old UInt64 MATERIALIZED sipHash64(old_id) CODEC(NONE),
    present UInt64 MATERIALIZED sipHash64(new_id) CODEC(NONE),
    merged_at DateTime64(3, 'UTC') CODEC(T64, ZSTD(1))
)
ENGINE = {replicated}ReplacingMergeTree({path,} merged_at)
ORDER BY old
SETTINGS min_age_to_force_merge_seconds = 3600, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view profile_merges; query that one';

CREATE TABLE IF NOT EXISTS {database}.profile_merges_stored {on_cluster} AS {database}.profile_merges_stored_local
ENGINE = Distributed({cluster}, {database}, profile_merges_stored_local, sipHash64(old_id));

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.profile_merges_feed {on_cluster} TO {database}.profile_merges_stored{local} AS
SELECT
    profile_id AS old_id,
    JSONExtractString(payload, 'into') AS new_id,
    occurred_at AS merged_at
FROM {database}.events_stored{local} AS events_stored
WHERE origin = 'merge';
