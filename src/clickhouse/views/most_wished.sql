-- Most wished: products by the visitors who wished for them in this time
SELECT
    wished.product_id AS product_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    wished.wishers AS wishers,
    wished.adds AS adds
FROM
(
    SELECT
        product_id,
        uniqExact(profile_id) AS wishers,
        count() AS adds
    FROM {database}.steps_by_visitor
    WHERE step = 'add' AND occurred_at >= {from:Date} AND occurred_at < {to:Date} + 1
    GROUP BY product_id
) AS wished
LEFT ANY JOIN {database}.products AS products ON products.product_id = wished.product_id
ORDER BY wishers DESC, adds DESC, product_id
