-- Most wished: products by the visitors who wished for them in the period
CREATE OR REPLACE VIEW {database}.most_wished {on_cluster} AS
SELECT
    products.product_id AS product_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    wished.wishers AS wishers,
    wished.adds AS adds
FROM
(
    SELECT
        product,
        uniqExact(visitor) AS wishers,
        count() AS adds
    FROM {database}.steps_by_visitor
    WHERE step = 'add' AND occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND occurred_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone}) AND {in_order}
    GROUP BY product
) AS wished
LEFT ANY JOIN {database}.products_by_number AS products ON products.product = wished.product
ORDER BY wishers DESC, adds DESC, product_id;
