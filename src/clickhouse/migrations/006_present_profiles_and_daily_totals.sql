-- Two things that the analysts' views would take too long to work out each time: where merged profiles are now, and
-- how often each product was looked at on days that are over. The views themselves are in ../views.

-- The merges among the rows of events_stored, by the profile that was merged. Read from there, a merge costs its
-- JSON and a look at every event: 1 million merges among 10 million rows took five times as long as the query itself.
--
-- A repeat of a merge is the same row, and the latest row is the present profile, so nothing here has to be exactly
-- once. An insert that ClickHouse has as a duplicate is fed in all the same; see insert.ts.
CREATE TABLE IF NOT EXISTS {database}.profile_merges_stored
(
    old_id String CODEC(ZSTD(1)),
    new_id String CODEC(ZSTD(1)),
    merged_at DateTime64(3, 'UTC') CODEC(T64, ZSTD(1))
)
ENGINE = ReplacingMergeTree(merged_at)
ORDER BY old_id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view profile_merges; query that one';

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.profile_merges_feed TO {database}.profile_merges_stored AS
SELECT
    profile_id AS old_id,
    JSONExtractString(payload, 'into') AS new_id,
    occurred_at AS merged_at
FROM {database}.events_stored
WHERE origin = 'merge';

FILL {database}.profile_merges_feed;

-- Days of `visits`: when a row of that day came in last, and up to when its rows are in the totals. A day is open while
-- rows may have come in since, and totals of an open day are not used: late visits are in the answers at once.
CREATE TABLE IF NOT EXISTS {database}.visit_days
(
    day Date,
    touched_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
    totalled_at SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY day
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Days that have visits, and whether their totals are kept';

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.visit_days_feed TO {database}.visit_days AS
SELECT
    toDate(occurred_at) AS day,
    now64(3, 'UTC') AS touched_at
FROM {database}.visits_stored
GROUP BY day;

INSERT INTO {database}.visit_days (day, touched_at)
SELECT
    toDate(occurred_at) AS day,
    now64(3, 'UTC')
FROM {database}.visits_stored
GROUP BY day;

-- Totals of closed days, kept for ever. A day that is totalled again replaces its rows.
CREATE TABLE IF NOT EXISTS {database}.visits_per_day_stored
(
    day Date,
    product_handle String CODEC(ZSTD(1)),
    device LowCardinality(String),
    visits UInt64 CODEC(T64, ZSTD(1)),
    totalled_at DateTime64(3, 'UTC') CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(totalled_at)
PARTITION BY toYear(day)
ORDER BY (day, product_handle, device)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view visits_per_day; query that one';

-- Who looked, as a sketch that can be united over days and products: exact for some hundred visitors, within about 1 %
-- beyond. The row without a product is the whole shop, and is read without the sketches of all products beside it.
CREATE TABLE IF NOT EXISTS {database}.visitors_per_day_stored
(
    day Date,
    product_handle String CODEC(ZSTD(1)),
    visits UInt64 CODEC(T64, ZSTD(1)),
    visitors AggregateFunction(uniqCombined(14), String) CODEC(ZSTD(1)),
    totalled_at DateTime64(3, 'UTC') CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(totalled_at)
PARTITION BY toYear(day)
ORDER BY (day, product_handle)
SETTINGS index_granularity = 64, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view visitors_per_day; query that one';

-- What is known of products and their variants, each fact as it was told last. Prices and stock come from `add` alone:
-- what is removed or moved to the cart tells the price that it was wished for at.
CREATE TABLE IF NOT EXISTS {database}.products_stored
(
    product_id String CODEC(ZSTD(1)),
    variant_id String CODEC(ZSTD(1)),
    handle SimpleAggregateFunction(max, Tuple(DateTime64(3, 'UTC'), String)),
    title SimpleAggregateFunction(max, Tuple(DateTime64(3, 'UTC'), String)),
    price SimpleAggregateFunction(max, Tuple(DateTime64(3, 'UTC'), Decimal(18, 2), String)),
    stock SimpleAggregateFunction(max, Tuple(DateTime64(3, 'UTC'), Bool))
)
ENGINE = AggregatingMergeTree
ORDER BY (product_id, variant_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the views products and product_variants; query those';

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.products_feed TO {database}.products_stored AS
SELECT
    product_id,
    variant_id,
    max(if(product_handle = '', defaultValueOfTypeName('Tuple(DateTime64(3, \'UTC\'), String)'), (occurred_at, product_handle))) AS handle,
    max(if(JSONExtractString(payload, 'productTitle') = '', defaultValueOfTypeName('Tuple(DateTime64(3, \'UTC\'), String)'), (occurred_at, JSONExtractString(payload, 'productTitle')))) AS title,
    max(if(type != 'add' OR price IS NULL, defaultValueOfTypeName('Tuple(DateTime64(3, \'UTC\'), Decimal(18, 2), String)'), (occurred_at, assumeNotNull(events_stored.price), CAST(currency, 'String')))) AS price,
    max(if(type != 'add' OR inventory_available IS NULL, defaultValueOfTypeName('Tuple(DateTime64(3, \'UTC\'), Bool)'), (occurred_at, assumeNotNull(inventory_available)))) AS stock
FROM {database}.events_stored
WHERE type IN ('add', 'remove', 'moveToCart') AND product_id != ''
GROUP BY product_id, variant_id;

FILL {database}.products_feed;

-- Which definition of each view is in place, and how ClickHouse shows it: a view that it shows otherwise was changed.
CREATE TABLE IF NOT EXISTS {database}.views_put
(
    name String,
    definition String,
    shown String,
    put_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(put_at)
ORDER BY name
COMMENT 'Checksums of the views that the service made';
