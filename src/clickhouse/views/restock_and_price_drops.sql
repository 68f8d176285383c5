-- Wished while out of stock, or cheaper now than when wished for: open wishes of the period that a message could be about
-- A visitor's last wish for a variant counts. Prices are compared within a currency: a variant has a row per currency of its wishes.
CREATE OR REPLACE VIEW {database}.restock_and_price_drops {on_cluster} AS
SELECT
    variants.product_id AS product_id,
    variants.variant_id AS variant_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    wished.out_of_stock AS wished_out_of_stock,
    variants.in_stock AS in_stock_now,
    wished.dearer AS wished_dearer,
    priced.price_now AS price_now,
    CAST(wished.currency, 'String') AS currency
FROM
(
    SELECT
        product,
        wish.2 AS variant,
        wish.5 AS currency,
        countIf(wish.3) AS out_of_stock,
        countIf(wish.4) AS dearer
    FROM
    (
        SELECT
            product,
            groupArrayIf(
                (added_at, variant, out_of_stock_at = added_at, dearer_at = added_at, currency),
                added_at > ended_at AND added_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone}) AND (out_of_stock_at = added_at OR dearer_at = added_at)) AS wishes,
            max(bought_at) AS bought_at
        FROM
        (
            SELECT
                steps.visitor AS visitor,
                steps.product AS product,
                steps.variant AS variant,
                maxIf(steps.occurred_at, steps.step = 'add') AS added_at,
                argMaxIf(steps.currency, steps.occurred_at, steps.step = 'add') AS currency,
                maxIf(steps.occurred_at, steps.step NOT IN ('add', 'purchase')) AS ended_at,
                maxIf(steps.occurred_at, steps.step = 'purchase') AS bought_at,
                maxIf(steps.occurred_at, steps.step = 'add' AND steps.inventory_available = false) AS out_of_stock_at,
                maxIf(steps.occurred_at, steps.step = 'add' AND steps.price > variants.price_now) AS dearer_at
            FROM {database}.steps_by_visitor AS steps
            LEFT ANY JOIN {database}.variants_by_number AS variants ON variants.product = steps.product AND variants.variant = steps.variant AND variants.currency = steps.currency
            WHERE steps.occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND {in_order}
            GROUP BY visitor, product, variant
            HAVING added_at > ended_at AND (out_of_stock_at = added_at OR dearer_at = added_at) OR bought_at != 0
        )
        GROUP BY visitor, product
        HAVING notEmpty(wishes)
    )
    ARRAY JOIN wishes AS wish
    WHERE wish.1 > bought_at
    GROUP BY product, variant, currency
) AS wished
LEFT ANY JOIN {database}.variants_by_number AS variants ON variants.product = wished.product AND variants.variant = wished.variant
LEFT ANY JOIN {database}.variants_by_number AS priced ON priced.product = wished.product AND priced.variant = wished.variant AND priced.currency = wished.currency
LEFT ANY JOIN {database}.products AS products ON products.product_id = variants.product_id
ORDER BY wished_out_of_stock + wished_dearer DESC, product_id, variant_id, currency;
