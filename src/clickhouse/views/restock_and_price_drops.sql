-- Wished while out of stock, or cheaper now than when wished for: open wishes of this time that a message could be about
-- The last wish for a variant counts. Prices are compared within one currency.
SELECT
    wished.product_id AS product_id,
    wished.variant_id AS variant_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    countIf(wished.in_stock = false) AS wished_out_of_stock,
    any(variants.in_stock) AS in_stock_now,
    countIf(wished.price > variants.price_now AND wished.currency = variants.currency) AS wished_dearer,
    any(variants.price_now) AS price_now,
    any(variants.currency) AS currency
FROM
(
    SELECT
        profile_id,
        product_id,
        variant_id,
        argMaxIf(step, occurred_at, step != 'purchase') AS last_step,
        maxIf(occurred_at, step = 'add') AS added_at,
        argMaxIf(tuple(inventory_available), occurred_at, step = 'add').1 AS in_stock,
        argMaxIf(tuple(price), occurred_at, step = 'add').1 AS price,
        argMaxIf(CAST(currency, 'String'), occurred_at, step = 'add') AS currency,
        max(maxIf(occurred_at, step = 'purchase')) OVER (PARTITION BY profile_id, product_id) AS bought_at
    FROM {database}.steps_by_visitor
    WHERE occurred_at >= {from:Date}
    GROUP BY profile_id, product_id, variant_id
) AS wished
LEFT ANY JOIN {database}.product_variants AS variants ON variants.product_id = wished.product_id AND variants.variant_id = wished.variant_id
LEFT ANY JOIN {database}.products AS products ON products.product_id = wished.product_id
WHERE last_step = 'add' AND added_at < {to:Date} + 1 AND added_at > bought_at
GROUP BY product_id, variant_id, product_handle, product_title
HAVING wished_out_of_stock > 0 OR wished_dearer > 0
ORDER BY wished_out_of_stock + wished_dearer DESC, product_id, variant_id
