-- The schema. Placeholders stand for the differences on a cluster (../cluster.ts). Each start creates the views of ../views.

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

-- One row per counted visit. The flusher inserts here; analysts query the view `visits`.
--
-- A visit is identified by time, stream, entry (a number within the millisecond) and line in Redis, and by its visitor,
-- because two deployments may write into one database. Rows with the same sort key replace each other.
--
-- Within ten minutes, rows are sorted by visitor, so that the id, of which 12 bytes are random, is stored once for a visitor's
-- visits. 2 million visits of 460,000 visitors took 9.9 B each; sorted by time only, 19.1 B; with an hour in place of ten
-- minutes 9.1 B, but FINAL has to merge all rows of such a period with each other.
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

CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.profile_merges_feed {on_cluster} TO {database}.profile_merges_stored{local} AS
SELECT
    profile_id AS old_id,
    JSONExtractString(payload, 'into') AS new_id,
    occurred_at AS merged_at
FROM {database}.events_stored{local} AS events_stored
WHERE origin = 'merge';

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

-- The latest facts of products and variants, with prices by currency. Of events, only `add` has prices and stock: other types
-- repeat the price at which the item was added. products_told_feed adds the products that the shop itself sent.
--
-- Each fact begins with whether it is trusted. Untrusted facts count only if there is no trusted one: those sent with a
-- publishable key; of a removal, which repeats what its item was added with; and of an import, whose prices are old.
CREATE TABLE IF NOT EXISTS {database}.products_stored{local} {on_cluster}
(
    product_id String CODEC(ZSTD(1)),
    variant_id String CODEC(ZSTD(1)),
    currency LowCardinality(String),
    handle SimpleAggregateFunction(max, Tuple(Bool, DateTime64(3, 'UTC'), String)),
    title SimpleAggregateFunction(max, Tuple(Bool, DateTime64(3, 'UTC'), String)),
    image SimpleAggregateFunction(max, Tuple(Bool, DateTime64(3, 'UTC'), String)),
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
    max(if(JSONExtractString(payload, 'image') = '', defaultValueOfTypeName('Tuple(Bool, DateTime64(3, \'UTC\'), String)'), (is_trusted, occurred_at, JSONExtractString(payload, 'image')))) AS image,
    max(if(type != 'add' OR price IS NULL, defaultValueOfTypeName('Tuple(Bool, DateTime64(3, \'UTC\'), Decimal(18, 2))'), (is_trusted, occurred_at, assumeNotNull(events_stored.price)))) AS price,
    max(if(type != 'add' OR inventory_available IS NULL, defaultValueOfTypeName('Tuple(Bool, DateTime64(3, \'UTC\'), Bool)'), (is_trusted, occurred_at, assumeNotNull(inventory_available)))) AS stock
FROM {database}.events_stored{local} AS events_stored
WHERE type IN ('add', 'remove', 'moveToCart') AND product_id != ''
GROUP BY product_id, variant_id, currency;

-- Products as the shop sent them. A row has all variants of a product, with their prices by currency.
CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.products_told_feed {on_cluster} TO {database}.products_stored{local} AS
SELECT
    product_id,
    variant.1 AS variant_id,
    variant.2 AS currency,
    max((true, occurred_at, product_handle)) AS handle,
    max((true, occurred_at, JSONExtractString(payload, 'productTitle'))) AS title,
    max(if(JSONExtractString(payload, 'image') = '', defaultValueOfTypeName('Tuple(Bool, DateTime64(3, \'UTC\'), String)'), (true, occurred_at, JSONExtractString(payload, 'image')))) AS image,
    max((true, occurred_at, toDecimal64(variant.3, 2))) AS price,
    max(if(variant.4 IS NULL, defaultValueOfTypeName('Tuple(Bool, DateTime64(3, \'UTC\'), Bool)'), (true, occurred_at, assumeNotNull(variant.4)))) AS stock
FROM {database}.events_stored{local} AS events_stored
ARRAY JOIN JSONExtract(payload, 'variants', 'Array(Tuple(String, String, String, Nullable(Bool)))') AS variant
WHERE origin = 'product'
GROUP BY product_id, variant_id, currency;

-- The events that the questions of docs/analysts.md read: those about a product, and shares. `visitor` is sipHash64 of the
-- profile id; two of 10 million visitors have the same number with a probability of 3 in a million.
--
-- This table repeats rows of events_stored, because without it two questions take more than a second. CPU in seconds for 10
-- million events and 1 million merges on two cores with it, with profile ids in it, and without it: open wishes 1.0, 1.35, 1.4;
-- out of stock or cheaper 1.15, 1.75, 1.6. Of all time, with and without it: products by adds 0.2 and 1.6, shares by channel
-- 0.3 and 1.7.
--
-- `is_customer`: the kind of the profile id, which leads to a customer or a session (src/profiles/profile-id.ts).
-- `share` is sipHash64 of the share code, or 0. `event` is the hash of event_id. Rows with the same sort key replace each other.
CREATE TABLE IF NOT EXISTS {database}.steps_stored{local} {on_cluster}
(
    occurred_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    event UInt64 CODEC(NONE),
    step LowCardinality(String),
    visitor UInt64 CODEC(NONE),
    is_customer Bool,
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
    substring(profile_id, position(profile_id, '.') + 1, 1) = 'c' AS is_customer,
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
WHERE (product_id != '' OR type = 'share') AND origin NOT IN ('merge', 'alert', 'product', 'order');

-- The lines of orders. Each webhook of an order inserts its lines with a version, and a line's newest version counts. So a
-- state that is inserted twice, or after a newer one, changes nothing. Analysts query the view `purchases`, which has the lines
-- of an order's newest version with a quantity above 0; the lines of a cancelled order have 0.
--
-- `taken_at` is when the webhook arrived, which erasures compare.
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

-- The tables over all shards. Statements with {cluster} run only on a cluster. Rows that replace each other must be on one
-- shard, so that FINAL works: rows of a profile, by its id or hash; of an order, whose profile may change; of a day; of a
-- product.

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
