-- Open wishes: wished for in the period, and neither removed, moved to the cart nor bought since
-- One hash of visitor, product and variant groups: with three columns it takes an eighth more CPU.
CREATE OR REPLACE VIEW {database}.open_wishes {on_cluster} AS
SELECT
    products.product_id AS product_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    wished.wishers AS wishers,
    wished.items AS items,
    wished.oldest AS oldest
FROM
(
    SELECT
        product,
        count() AS wishers,
        sum(length(open)) AS items,
        min(arrayMin(open)) AS oldest
    FROM
    (
        SELECT
            product,
            arrayFilter(added_at -> added_at > bought_at AND added_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone}), added) AS open
        FROM
        (
            SELECT
                product,
                groupArrayIf(added_at, added_at > ended_at) AS added,
                max(bought_at) AS bought_at
            FROM
            (
                SELECT
                    any(steps.visitor) AS visitor,
                    any(steps.product) AS product,
                    maxIf(steps.occurred_at, steps.step = 'add') AS added_at,
                    maxIf(steps.occurred_at, steps.step NOT IN ('add', 'purchase')) AS ended_at,
                    maxIf(steps.occurred_at, steps.step = 'purchase') AS bought_at
                FROM {database}.steps_by_visitor AS steps
                WHERE steps.occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND {in_order}
                GROUP BY cityHash64(steps.visitor, steps.product, steps.variant)
                HAVING added_at > ended_at OR bought_at != 0
            )
            GROUP BY visitor, product
        )
    )
    WHERE notEmpty(open)
    GROUP BY product
) AS wished
LEFT ANY JOIN {database}.products_by_number AS products ON products.product = wished.product
ORDER BY wishers DESC, items DESC, product_id;
