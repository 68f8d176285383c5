-- Wished and never bought: of the visitors who wished for a product in the period, who never bought it, and who never bought anything
-- Never means: not before, in or after the period. All orders are read.
CREATE OR REPLACE VIEW {database}.wished_never_bought {on_cluster} AS
SELECT
    products.product_id AS product_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    wished.wishers AS wishers,
    wished.never_bought AS never_bought,
    wished.bought_nothing AS bought_nothing
FROM
(
    SELECT
        wish.1 AS product,
        count() AS wishers,
        countIf(wish.3 = 0) AS never_bought,
        countIf(has_bought = 0) AS bought_nothing
    FROM
    (
        SELECT
            arrayJoin(groupArrayIf((product, is_wished, is_bought), is_wished = 1)) AS wish,
            max(is_bought) AS has_bought
        FROM
        (
            SELECT
                visitor,
                product,
                max(step = 'add') AS is_wished,
                max(step = 'purchase') AS is_bought
            FROM {database}.steps_by_visitor
            WHERE (step = 'purchase' OR step = 'add' AND occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND occurred_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone})) AND {in_order}
            GROUP BY visitor, product
        )
        GROUP BY visitor
    )
    GROUP BY product
) AS wished
LEFT ANY JOIN {database}.products_by_number AS products ON products.product = wished.product
ORDER BY never_bought DESC, wishers DESC, product_id;
