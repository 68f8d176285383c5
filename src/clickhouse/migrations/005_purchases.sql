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

CREATE TABLE IF NOT EXISTS {database}.purchases_stored {on_cluster} AS {database}.purchases_stored_local
ENGINE = Distributed({cluster}, {database}, purchases_stored_local, sipHash64(order_id));

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
