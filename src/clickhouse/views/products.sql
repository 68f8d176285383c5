-- Products and their variants, with the latest value of each fact. Untrusted values (see products_stored) count only if there is no
-- other.

-- Products with their latest handle, title and image
CREATE OR REPLACE VIEW {database}.products {on_cluster} AS
SELECT
    product_id,
    max(handle).3 AS product_handle,
    max(title).3 AS product_title,
    max(image).3 AS image
FROM {database}.products_stored
GROUP BY product_id;

-- Variants with their latest price in each currency and their stock, from wishes and the shop
-- A variant without a price has a row without a currency.
CREATE OR REPLACE VIEW {database}.product_variants {on_cluster} AS
SELECT
    product_id,
    variant_id,
    if(priced.2.2 = 0, NULL, priced.2.3) AS price_now,
    priced.1 AS currency,
    if(stock.2 = 0, NULL, stock.3) AS in_stock,
    if(priced.2.2 = 0, NULL, priced.2.2) AS told_at
FROM
(
    SELECT
        product_id,
        variant_id,
        groupArrayIf((currency, price), price.2 != 0) AS told,
        arrayFilter(one -> one.2.1 = arrayMax(other -> other.2.1, told), told) AS prices,
        max(stock) AS stock
    FROM
    (
        SELECT
            product_id,
            variant_id,
            CAST(currency, 'String') AS currency,
            max(price) AS price,
            max(stock) AS stock
        FROM {database}.products_stored
        GROUP BY product_id, variant_id, currency
    )
    GROUP BY product_id, variant_id
)
LEFT ARRAY JOIN prices AS priced;

-- products by the hash of their id
CREATE OR REPLACE VIEW {database}.products_by_number {on_cluster} AS
SELECT
    sipHash64(product_id) AS product,
    product_id,
    product_handle,
    product_title,
    image
FROM {database}.products;

-- product_variants by the hashes of their ids
CREATE OR REPLACE VIEW {database}.variants_by_number {on_cluster} AS
SELECT
    sipHash64(product_id) AS product,
    sipHash64(variant_id) AS variant,
    product_id,
    variant_id,
    price_now,
    currency,
    in_stock
FROM {database}.product_variants;
