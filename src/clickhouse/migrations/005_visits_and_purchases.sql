-- What analysts ask for beside events: who looked, and who bought.

ALTER TABLE {database}.events_stored
    ADD COLUMN IF NOT EXISTS currency LowCardinality(String) AFTER share_code,
    ADD COLUMN IF NOT EXISTS inventory_available Nullable(Bool) AFTER currency,
    ADD COLUMN IF NOT EXISTS order_id String CODEC(ZSTD(3)) AFTER inventory_available,
    ADD COLUMN IF NOT EXISTS discount Decimal(18, 2) CODEC(ZSTD(1)) AFTER compare_at,
    ADD COLUMN IF NOT EXISTS amount Nullable(Decimal(18, 2)) CODEC(ZSTD(1)) AFTER discount,
    ADD COLUMN IF NOT EXISTS test Bool AFTER amount;

-- Two kinds of rows travel with the events and are none: merges of profiles (origin `merge`), and lines of orders
-- (origin `order`). A purchase is a line of an order. Its event_id and its time follow from the order, so a line that
-- was recorded twice is still one row. `discount` and `amount` are of the whole line. The payload has the line as the order
-- told it: three decimals are rounded in the columns. (The views are in ../views.)

-- One row per counted visit. What analysts query is the view `visits`; this table is where the flusher inserts.
--
-- A visit is named by its place in Redis: the number of the stream, its entry (whose id is the time and a number within
-- the millisecond), its line in that entry. It is never there twice for the reasons that 001_events.sql gives: a
-- deduplication token for each insert, and rows of the same name replace each other. (The profile is part of the name
-- because two deployments may write into one database.)
--
-- Sorted by visitor within ten minutes: a visitor's visits lie together, and the id, of which 12 bytes are random, is
-- stored once for all of them. 2 million visits of 460,000 visitors take 9.9 B each, where by time alone they take 19.1.
-- Ten minutes and not more, since rows of one period have to be merged with each other for FINAL: an hour is 9.1 B.
CREATE TABLE IF NOT EXISTS {database}.visits_stored
(
    occurred_at DateTime64(3, 'UTC') CODEC(T64, ZSTD(1)),
    stream UInt16 CODEC(ZSTD(1)),
    entry UInt32 CODEC(T64, ZSTD(1)),
    place UInt16 CODEC(T64, ZSTD(1)),
    profile_id String CODEC(ZSTD(1)),
    product_handle LowCardinality(String),
    device LowCardinality(String)
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(occurred_at)
ORDER BY (toStartOfTenMinutes(occurred_at), profile_id, occurred_at, stream, entry, place)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view visits; query that one';
