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

CREATE TABLE IF NOT EXISTS {database}.steps_stored {on_cluster} AS {database}.steps_stored_local
ENGINE = Distributed({cluster}, {database}, steps_stored_local, visitor);

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
