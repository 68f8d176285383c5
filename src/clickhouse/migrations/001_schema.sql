-- The schema. What differs on a cluster is a placeholder (../cluster.ts). The views are in ../views: each start puts them in place.

-- One row per event. What analysts query is the view `events`; this table is where the flusher inserts. Six kinds of rows
-- travel with the events and are none: merges of profiles (origin `merge`), openings of shared wishlists (origin `open`), under
-- the profile of the list's owner, product alerts (origin `alert`), products as the shop told them (origin `product`), guests
-- whose profile became a customer's (origin `adoption`), and statements of order lines (origin `order`), whose payload feeds
-- purchases_stored.
--
-- Never twice: time and event_id are the name of a row. Rows with the same sort key replace each other, and `events` reads with
-- FINAL. After a crash the flusher inserts rows again.
--
-- An insert is on disk before it is answered, because the flusher then removes it from Redis.
--
-- The sort key begins with the time because that is the order in which rows arrive: parts then cover ranges
-- that hardly overlap, and FINAL has next to nothing to merge. Measured on 2 million rows in 12 parts, with and
-- without FINAL: events per day 44 and 45 ms, top products 66 and 75, a bare count() 32 and 2. Under keys that
-- begin with the day and the type, or the product, FINAL made the views take up to three times as long.
-- It is also the smallest on disk: a visitor's events lie close together, and ids repeat within a compressed block.
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

-- One row per counted visit. What analysts query is the view `visits`; this table is where the flusher inserts.
--
-- A visit is named by its place in Redis: the number of the stream, its entry (whose id is the time and a number within
-- the millisecond), its line in that entry. Rows of the same name replace each other. (The visitor is part of the name because
-- two deployments may write into one database.)
--
-- Sorted by visitor within ten minutes: a visitor's visits lie together, and the id, of which 12 bytes are random, is
-- stored once for all of them. 2 million visits of 460,000 visitors took 9.9 B each, where by time alone they took 19.1.
-- Ten minutes and not more, since rows of one period have to be merged with each other for FINAL: an hour was 9.1 B.
--
-- `visitor` is the number that the questions join and group by. Made from the id by each of them, it took 0.45 s of CPU for
-- 7.7 million visits. It is 8 B for each visitor of ten minutes. Rows are sorted by it, since numbers are compared faster than texts.
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

-- The merges among the rows of events_stored: which profile became part of which, by the profile that was merged. Read
-- from there, a merge costs its JSON and a look at every event: 1 million merges among 10 million rows took five times as
-- long as the query itself.
--
-- A repeat of a merge is the same row, and the latest row is the present profile, so nothing here has to be exactly
-- once. An insert that ClickHouse has as a duplicate is fed in all the same; see insert.ts.
--
-- `old` and `present` are the same as numbers, for the questions: to hash 1 million merges took each of them 0.15 s of CPU.
-- Of 10 million merged profiles two have the same number with a probability of 3 in a million; the later merge is then that of both.
--
-- Parts of an hour ago are merged into one, for FINAL: over one large part and a few small ones it takes half the CPU
-- that it takes over five large ones.
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

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.profile_merges_feed {on_cluster} TO {database}.profile_merges_stored{local} AS
SELECT
    profile_id AS old_id,
    JSONExtractString(payload, 'into') AS new_id,
    occurred_at AS merged_at
FROM {database}.events_stored{local} AS events_stored
WHERE origin = 'merge';

-- Hours of `visits`, and when a row of that hour came in last. Hours and no days, since those are the shop's (SHOP_TIMEZONE),
-- which may change.
CREATE TABLE IF NOT EXISTS {database}.visit_hours{local} {on_cluster}
(
    hour DateTime('UTC'),
    touched_at SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = {replicated}AggregatingMergeTree({path})
ORDER BY hour
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Hours that have visits, and when one came in last';

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.visit_hours_feed {on_cluster} TO {database}.visit_hours{local} AS
SELECT
    toStartOfHour(occurred_at) AS hour,
    now64(3, 'UTC') AS touched_at
FROM {database}.visits_stored{local} AS visits_stored
GROUP BY hour;

-- Up to when the rows of a day of this time zone are in its totals. In another zone the day is totalled anew.
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

-- Who looked, as a sketch that can be united over days and products: exact for some hundred visitors, within about 1 %
-- beyond. The row without a product is the whole shop, and is read without the sketches of all products beside it.
-- With LZ4 they take 7 % more bytes than with ZSTD, and a fifth less CPU to read.
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

-- What is known of products and their variants, each fact as it was told last; prices in each currency. Of events, prices and
-- stock come from `add` alone: what is removed or moved to the cart tells the price that it was wished for at. Products that
-- the shop itself told (origin `product`) are fed by products_told_feed.
--
-- Each fact begins with whether it is trusted: what a publishable key says of a product counts only if no one else says it.
-- A removal repeats what its item was added with, by whomever. An import tells old prices: they, too, count only if no one else tells one.
CREATE TABLE IF NOT EXISTS {database}.products_stored{local} {on_cluster}
(
    product_id String CODEC(ZSTD(1)),
    variant_id String CODEC(ZSTD(1)),
    currency LowCardinality(String),
    handle SimpleAggregateFunction(max, Tuple(Bool, DateTime64(3, 'UTC'), String)),
    title SimpleAggregateFunction(max, Tuple(Bool, DateTime64(3, 'UTC'), String)),
    price SimpleAggregateFunction(max, Tuple(Bool, DateTime64(3, 'UTC'), Decimal(18, 2))),
    stock SimpleAggregateFunction(max, Tuple(Bool, DateTime64(3, 'UTC'), Bool))
)
ENGINE = {replicated}AggregatingMergeTree({path})
ORDER BY (product_id, variant_id, currency)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the views products and product_variants; query those';

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.products_feed {on_cluster} TO {database}.products_stored{local} AS
WITH NOT from_browser AND origin != 'import' AND (type = 'add' OR origin != 'item') AS is_trusted
SELECT
    product_id,
    variant_id,
    currency,
    max(if(product_handle = '', defaultValueOfTypeName('Tuple(Bool, DateTime64(3, \'UTC\'), String)'), (is_trusted, occurred_at, product_handle))) AS handle,
    max(if(JSONExtractString(payload, 'productTitle') = '', defaultValueOfTypeName('Tuple(Bool, DateTime64(3, \'UTC\'), String)'), (is_trusted, occurred_at, JSONExtractString(payload, 'productTitle')))) AS title,
    max(if(type != 'add' OR price IS NULL, defaultValueOfTypeName('Tuple(Bool, DateTime64(3, \'UTC\'), Decimal(18, 2))'), (is_trusted, occurred_at, assumeNotNull(events_stored.price)))) AS price,
    max(if(type != 'add' OR inventory_available IS NULL, defaultValueOfTypeName('Tuple(Bool, DateTime64(3, \'UTC\'), Bool)'), (is_trusted, occurred_at, assumeNotNull(inventory_available)))) AS stock
FROM {database}.events_stored{local} AS events_stored
WHERE type IN ('add', 'remove', 'moveToCart') AND product_id != ''
GROUP BY product_id, variant_id, currency;

-- Products as the shop told them. A row has all variants of a product, each with its prices by currency.
CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.products_told_feed {on_cluster} TO {database}.products_stored{local} AS
SELECT
    product_id,
    variant.1 AS variant_id,
    variant.2 AS currency,
    max((true, occurred_at, product_handle)) AS handle,
    max((true, occurred_at, JSONExtractString(payload, 'productTitle'))) AS title,
    max((true, occurred_at, toDecimal64(variant.3, 2))) AS price,
    max(if(variant.4 IS NULL, defaultValueOfTypeName('Tuple(Bool, DateTime64(3, \'UTC\'), Bool)'), (true, occurred_at, assumeNotNull(variant.4)))) AS stock
FROM {database}.events_stored{local} AS events_stored
ARRAY JOIN JSONExtract(payload, 'variants', 'Array(Tuple(String, String, String, Nullable(Bool)))') AS variant
WHERE origin = 'product'
GROUP BY product_id, variant_id, currency;

-- What the questions of docs/analysts.md are made of: the rows that they read, with a number for the visitor, sipHash64 of
-- the profile id. Of 10 million visitors two have the same one with a probability of 3 in a million.
--
-- A copy of rows, because two questions take more than a second without it. Two cores, 10 million events and
-- 1 million merges, CPU in seconds with it, with profile ids in it, and without it: open wishes 1.0, 1.35, 1.4; out of
-- stock or cheaper 1.15, 1.75, 1.6. Products by adds and shares by channel, of all time: 0.2 and 0.3 in place of 1.6 and 1.7.
--
-- One row per event that is about a product, and one per share; order lines are in purchases_stored. `share` is
-- sipHash64 of the share code, 0 where there is none. A row that is fed in twice is one, as in events_stored: `event` is
-- the hash of its event_id, and rows with the same sort key replace each other.
CREATE TABLE IF NOT EXISTS {database}.steps_stored{local} {on_cluster}
(
    occurred_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    event UInt64 CODEC(NONE),
    step LowCardinality(String),
    visitor UInt64 CODEC(NONE),
    product_id LowCardinality(String),
    variant_id LowCardinality(String),
    source LowCardinality(String),
    channel LowCardinality(String),
    share UInt64 CODEC(ZSTD(1)),
    currency LowCardinality(String),
    inventory_available Nullable(Bool),
    quantity UInt32 CODEC(ZSTD(1)),
    price Nullable(Decimal(18, 2)) CODEC(ZSTD(1))
)
ENGINE = {replicated}ReplacingMergeTree({path})
PARTITION BY toYYYYMM(occurred_at)
ORDER BY (occurred_at, event)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view steps_by_visitor; query that one';

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.steps_feed {on_cluster} TO {database}.steps_stored{local} AS
SELECT
    occurred_at,
    sipHash64(event_id) AS event,
    type AS step,
    sipHash64(profile_id) AS visitor,
    product_id,
    variant_id,
    source,
    channel,
    if(share_code = '', 0, sipHash64(share_code)) AS share,
    currency,
    inventory_available,
    ifNull(events_stored.quantity, 1) AS quantity,
    price
FROM {database}.events_stored{local} AS events_stored
WHERE (product_id != '' OR type = 'share') AND origin NOT IN ('merge', 'alert', 'product', 'adoption', 'order');

-- Order lines as they were last stated. A row is named by its order and its line, and the newest version counts: a statement
-- that is inserted twice, or after a newer one, changes nothing. What analysts query is the view `purchases`, which shows the
-- lines of an order's newest statement that have a quantity; a cancelled order states its lines with a quantity of 0.
--
-- `version` orders the statements of one order. `taken_at` is when the service took the statement: erasures go by it.
CREATE TABLE IF NOT EXISTS {database}.purchases_stored{local} {on_cluster}
(
    order_id String CODEC(ZSTD(1)),
    line String CODEC(ZSTD(1)),
    version UInt64 CODEC(ZSTD(1)),
    event_id UUID CODEC(ZSTD(1)),
    taken_at DateTime64(3, 'UTC') CODEC(ZSTD(1)),
    occurred_at DateTime64(3, 'UTC') CODEC(ZSTD(1)),
    updated_at DateTime64(3, 'UTC') CODEC(ZSTD(1)),
    profile_id String CODEC(ZSTD(1)),
    visitor UInt64 MATERIALIZED sipHash64(profile_id) CODEC(NONE),
    customer_id Nullable(String) CODEC(ZSTD(1)),
    session_id Nullable(String) CODEC(ZSTD(1)),
    product_id String CODEC(ZSTD(1)),
    variant_id String CODEC(ZSTD(1)),
    quantity UInt32 CODEC(ZSTD(1)),
    price Nullable(Decimal(18, 2)) CODEC(ZSTD(1)),
    discount Decimal(18, 2) CODEC(ZSTD(1)),
    amount Nullable(Decimal(18, 2)) CODEC(ZSTD(1)),
    currency LowCardinality(String),
    test Bool
)
ENGINE = {replicated}ReplacingMergeTree({path,} version)
ORDER BY (order_id, line)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rows of the view purchases; query that one';

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.purchases_feed {on_cluster} TO {database}.purchases_stored{local} AS
SELECT
    order_id,
    JSONExtractString(payload, 'line') AS line,
    JSONExtractUInt(payload, 'version') AS version,
    event_id,
    events_stored.occurred_at AS taken_at,
    parseDateTime64BestEffortOrZero(JSONExtractString(payload, 'occurredAt'), 3, 'UTC') AS occurred_at,
    parseDateTime64BestEffortOrZero(JSONExtractString(payload, 'updatedAt'), 3, 'UTC') AS updated_at,
    profile_id,
    customer_id,
    session_id,
    JSONExtractString(payload, 'productId') AS product_id,
    JSONExtractString(payload, 'variantId') AS variant_id,
    JSONExtractUInt(payload, 'quantity') AS quantity,
    toDecimal64OrNull(JSONExtractString(payload, 'price'), 2) AS price,
    toDecimal64OrZero(JSONExtractString(payload, 'discount'), 2) AS discount,
    toDecimal64OrNull(JSONExtractString(payload, 'amount'), 2) AS amount,
    JSONExtractString(payload, 'currency') AS currency,
    JSONExtractBool(payload, 'test') AS test
FROM {database}.events_stored{local} AS events_stored
WHERE origin = 'order';

-- Which Redis the events come from: a fingerprint of its salt, by key prefix. `flush` refuses another one, since
-- profile ids under a new salt would have nothing to do with those that are here. The latest row counts.
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

-- What `flush` decided for the database: VISIT_RETENTION_DAYS, SHOP_TIMEZONE, CLICKHOUSE_CLUSTER. The latest row of a name counts.
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

-- Only on a cluster, as is every statement with {cluster}: the tables over the shards. What replaces each other is on one
-- shard, so FINAL is right there: rows of one profile, by its id or by its hash; of one order, whose profile may change; of
-- one day; of one product.

CREATE TABLE IF NOT EXISTS {database}.events_stored {on_cluster} AS {database}.events_stored_local
ENGINE = Distributed({cluster}, {database}, events_stored_local, sipHash64(if(order_id = '', profile_id, order_id)));

CREATE TABLE IF NOT EXISTS {database}.visits_stored {on_cluster} AS {database}.visits_stored_local
ENGINE = Distributed({cluster}, {database}, visits_stored_local, sipHash64(profile_id));

CREATE TABLE IF NOT EXISTS {database}.profile_merges_stored {on_cluster} AS {database}.profile_merges_stored_local
ENGINE = Distributed({cluster}, {database}, profile_merges_stored_local, sipHash64(old_id));

CREATE TABLE IF NOT EXISTS {database}.steps_stored {on_cluster} AS {database}.steps_stored_local
ENGINE = Distributed({cluster}, {database}, steps_stored_local, visitor);

CREATE TABLE IF NOT EXISTS {database}.purchases_stored {on_cluster} AS {database}.purchases_stored_local
ENGINE = Distributed({cluster}, {database}, purchases_stored_local, sipHash64(order_id));

CREATE TABLE IF NOT EXISTS {database}.visit_hours {on_cluster} AS {database}.visit_hours_local
ENGINE = Distributed({cluster}, {database}, visit_hours_local, toUInt32(hour));

CREATE TABLE IF NOT EXISTS {database}.visit_days_stored {on_cluster} AS {database}.visit_days_stored_local
ENGINE = Distributed({cluster}, {database}, visit_days_stored_local, toUInt32(day));

CREATE TABLE IF NOT EXISTS {database}.visits_per_day_stored {on_cluster} AS {database}.visits_per_day_stored_local
ENGINE = Distributed({cluster}, {database}, visits_per_day_stored_local, sipHash64(product_handle));

CREATE TABLE IF NOT EXISTS {database}.visitors_per_day_stored {on_cluster} AS {database}.visitors_per_day_stored_local
ENGINE = Distributed({cluster}, {database}, visitors_per_day_stored_local, sipHash64(product_handle));

CREATE TABLE IF NOT EXISTS {database}.products_stored {on_cluster} AS {database}.products_stored_local
ENGINE = Distributed({cluster}, {database}, products_stored_local, sipHash64(product_id));
