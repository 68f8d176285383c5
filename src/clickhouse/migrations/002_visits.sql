-- Visits, and their totals of each day (../daily-totals.ts).

-- One row per counted visit. The flusher inserts here; analysts query the view `visits`.
--
-- A visit is identified by time, stream, entry (a number within the millisecond) and line in Redis, and by its visitor,
-- because two deployments may write into one database. Rows with the same sort key replace each other.
--
-- Within ten minutes, rows are sorted by visitor, so that the id, of which 12 bytes are random, is stored once for a visitor's
-- visits. 2 million visits of 460,000 visitors took 9.9 B each; sorted by time only, 19.1 B; sorted by visitor within an hour,
-- 9.1 B, but then FINAL must merge all rows of the hour with each other.
--
-- `visitor` is the number by which views join and group. Without the column, each view spent 0.45 s of CPU on the numbers of
-- 7.7 million visits. It takes 8 B per visitor of ten minutes. It sorts the rows, because numbers are compared faster than texts.
CREATE TABLE IF NOT EXISTS {database}.visits_stored{local} {on_cluster}
(
    occurred_at DateTime64(3, 'UTC') CODEC(T64, ZSTD(1)),
    stream UInt32 CODEC(ZSTD(1)),
    entry UInt32 CODEC(T64, ZSTD(1)),
    line UInt16 CODEC(T64, ZSTD(1)),
    profile_id String CODEC(ZSTD(1)),
    visitor UInt64 MATERIALIZED sipHash64(profile_id) CODEC(ZSTD(1)),
    product_handle LowCardinality(String),
    device LowCardinality(String)
)
ENGINE = {replicated}ReplacingMergeTree({path})
PARTITION BY toYYYYMM(occurred_at)
ORDER BY (toStartOfTenMinutes(occurred_at), visitor, occurred_at, stream, entry, line)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view visits; query that one';

CREATE TABLE IF NOT EXISTS {database}.visits_stored {on_cluster} AS {database}.visits_stored_local
ENGINE = Distributed({cluster}, {database}, visits_stored_local, sipHash64(profile_id));

-- The hours that have visits, and when the last row of an hour was inserted. Not days, because SHOP_TIMEZONE may change.
CREATE TABLE IF NOT EXISTS {database}.visit_hours{local} {on_cluster}
(
    hour DateTime('UTC'),
    touched_at SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = {replicated}AggregatingMergeTree({path})
ORDER BY hour
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Hours that have visits, and when one came in last';

CREATE TABLE IF NOT EXISTS {database}.visit_hours {on_cluster} AS {database}.visit_hours_local
ENGINE = Distributed({cluster}, {database}, visit_hours_local, toUInt32(hour));

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.visit_hours_feed {on_cluster} TO {database}.visit_hours{local} AS
SELECT
    toStartOfHour(occurred_at) AS hour,
    now64(3, 'UTC') AS touched_at
FROM {database}.visits_stored{local} AS visits_stored
GROUP BY hour;

-- When a day was totalled in a time zone: rows inserted until then are in its totals. In another zone, it is totalled anew.
CREATE TABLE IF NOT EXISTS {database}.visit_days_stored{local} {on_cluster}
(
    day Date,
    time_zone LowCardinality(String),
    totalled_at SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = {replicated}AggregatingMergeTree({path})
ORDER BY (day, time_zone)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view visit_days; query that one';

CREATE TABLE IF NOT EXISTS {database}.visit_days_stored {on_cluster} AS {database}.visit_days_stored_local
ENGINE = Distributed({cluster}, {database}, visit_days_stored_local, toUInt32(day));

-- Totals of closed days, kept for ever. A day that is totalled again replaces its rows.
CREATE TABLE IF NOT EXISTS {database}.visits_per_day_stored{local} {on_cluster}
(
    day Date,
    time_zone LowCardinality(String),
    product_handle String CODEC(ZSTD(1)),
    device LowCardinality(String),
    visits UInt64 CODEC(T64, ZSTD(1)),
    totalled_at DateTime64(3, 'UTC') CODEC(ZSTD(1))
)
ENGINE = {replicated}ReplacingMergeTree({path,} totalled_at)
PARTITION BY toYear(day)
ORDER BY (day, time_zone, product_handle, device)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view visits_per_day; query that one';

CREATE TABLE IF NOT EXISTS {database}.visits_per_day_stored {on_cluster} AS {database}.visits_per_day_stored_local
ENGINE = Distributed({cluster}, {database}, visits_per_day_stored_local, sipHash64(product_handle));

-- A day's visitors of a product, as a sketch that can be merged over days and products. It is exact for some hundred visitors,
-- and within about 1 % above. The row without a product is for the whole shop, so that a query needn't read the sketches of all
-- products. With LZ4, sketches take 7 % more bytes than with ZSTD, and a fifth less CPU to read.
CREATE TABLE IF NOT EXISTS {database}.visitors_per_day_stored{local} {on_cluster}
(
    day Date,
    time_zone LowCardinality(String),
    product_handle String CODEC(ZSTD(1)),
    visits UInt64 CODEC(T64, ZSTD(1)),
    visitors_sketch AggregateFunction(uniqCombined(14), String) CODEC(LZ4),
    totalled_at DateTime64(3, 'UTC') CODEC(ZSTD(1))
)
ENGINE = {replicated}ReplacingMergeTree({path,} totalled_at)
PARTITION BY toYear(day)
ORDER BY (day, time_zone, product_handle)
SETTINGS index_granularity = 64, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view visitors_per_day; query that one';

CREATE TABLE IF NOT EXISTS {database}.visitors_per_day_stored {on_cluster} AS {database}.visitors_per_day_stored_local
ENGINE = Distributed({cluster}, {database}, visitors_per_day_stored_local, sipHash64(product_handle));
