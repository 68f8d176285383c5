-- Variants: price, currency and stock as the latest wish told them
SELECT
    product_id,
    variant_id,
    if(max(price).1 = 0, NULL, max(price).2) AS price_now,
    max(price).3 AS currency,
    if(max(stock).1 = 0, NULL, max(stock).2) AS in_stock,
    max(price).1 AS told_at
FROM {database}.products_stored
GROUP BY product_id, variant_id
