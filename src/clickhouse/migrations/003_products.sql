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

CREATE TABLE IF NOT EXISTS {database}.products_stored {on_cluster} AS {database}.products_stored_local
ENGINE = Distributed({cluster}, {database}, products_stored_local, sipHash64(product_id));

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
