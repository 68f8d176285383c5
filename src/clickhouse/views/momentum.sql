-- Momentum: wishers of the 7 days that end with this day, against the 7 days before
-- growth is NULL if there were no wishers before.
CREATE OR REPLACE VIEW {database}.momentum {on_cluster} AS
SELECT
    products.product_id AS product_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    wished.wishers AS wishers,
    wished.wishers_before AS wishers_before,
    toInt64(wished.wishers) - toInt64(wished.wishers_before) AS change,
    if(wished.wishers_before = 0, NULL, wished.wishers / wished.wishers_before - 1) AS growth
FROM
(
    SELECT
        product,
        uniqExactIf(visitor, occurred_at >= toDateTime64(toDate32({until:Date}) - 6, 3, {time_zone})) AS wishers,
        uniqExactIf(visitor, occurred_at < toDateTime64(toDate32({until:Date}) - 6, 3, {time_zone})) AS wishers_before
    FROM {database}.steps_by_visitor
    WHERE step = 'add' AND occurred_at >= toDateTime64(toDate32({until:Date}) - 13, 3, {time_zone}) AND occurred_at < toDateTime64(toDate32({until:Date}) + 1, 3, {time_zone}) AND {is_day}
    GROUP BY product
) AS wished
LEFT ANY JOIN {database}.products_by_number AS products ON products.product = wished.product
ORDER BY change DESC, wishers DESC, product_id;
