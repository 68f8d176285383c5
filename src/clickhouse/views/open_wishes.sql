-- Open wishes: wished for in this time, and neither removed, moved to the cart nor bought since
SELECT
    wished.product_id AS product_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    wished.wishers AS wishers,
    wished.items AS items,
    wished.oldest AS oldest
FROM
(
    SELECT
        product_id,
        count() AS wishers,
        sum(length(open)) AS items,
        min(arrayMin(open)) AS oldest
    FROM
    (
        SELECT
            product_id,
            arrayFilter(added_at -> added_at > bought_at AND added_at < {to:Date} + 1, added) AS open
        FROM
        (
            SELECT
                product_id,
                groupArrayIf(added_at, last_step = 'add') AS added,
                max(bought_at) AS bought_at
            FROM
            (
                SELECT
                    profile_id,
                    product_id,
                    argMaxIf(step, occurred_at, step != 'purchase') AS last_step,
                    maxIf(occurred_at, step = 'add') AS added_at,
                    maxIf(occurred_at, step = 'purchase') AS bought_at
                FROM {database}.steps_by_visitor
                WHERE occurred_at >= {from:Date}
                GROUP BY profile_id, product_id, variant_id
            )
            GROUP BY profile_id, product_id
        )
    )
    WHERE notEmpty(open)
    GROUP BY product_id
) AS wished
LEFT ANY JOIN {database}.products AS products ON products.product_id = wished.product_id
ORDER BY wishers DESC, items DESC, product_id
