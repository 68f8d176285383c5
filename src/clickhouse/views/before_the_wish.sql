-- Visits and time before the wish: how often and since when a visitor had looked at a product in the 30 days before wishing for it
-- Of several wishes for one product the first in this time counts. Hours are those from the first visit, of the wishers who had visited.
SELECT
    wished.product_id AS product_id,
    any(products.product_handle) AS product_handle,
    any(products.product_title) AS product_title,
    count() AS wishers,
    countIf(looks > 0) AS wishers_who_visited,
    quantileExact(0.5)(looks) AS visits_median,
    if(wishers_who_visited = 0, NULL, round(quantileExactIf(0.5)(seconds, looks > 0) / 3600, 2)) AS hours_median
FROM
(
    SELECT
        wished.profile_id AS profile_id,
        wished.product_id AS product_id,
        any(wished.wished_at) AS wished_at,
        countIf(visits.profile_id != '' AND visits.occurred_at <= wished.wished_at AND visits.occurred_at > wished.wished_at - INTERVAL 30 DAY) AS looks,
        dateDiff('second', minIf(visits.occurred_at, visits.profile_id != '' AND visits.occurred_at <= wished.wished_at AND visits.occurred_at > wished.wished_at - INTERVAL 30 DAY), wished_at) AS seconds
    FROM
    (
        SELECT
            steps.profile_id AS profile_id,
            steps.product_id AS product_id,
            products.product_handle AS product_handle,
            steps.wished_at AS wished_at
        FROM
        (
            SELECT
                profile_id,
                product_id,
                min(occurred_at) AS wished_at
            FROM {database}.steps_by_visitor
            WHERE step = 'add' AND occurred_at >= {from:Date} AND occurred_at < {to:Date} + 1
            GROUP BY profile_id, product_id
        ) AS steps
        LEFT ANY JOIN {database}.products AS products ON products.product_id = steps.product_id
    ) AS wished
    LEFT JOIN
    (
        SELECT
            profile_id,
            product_handle,
            occurred_at
        FROM {database}.visits_by_visitor
        WHERE occurred_at >= {from:Date} - 30 AND occurred_at < {to:Date} + 1
            AND profile_id IN (
                SELECT profile_id
                FROM {database}.steps_by_visitor
                WHERE step = 'add' AND occurred_at >= {from:Date} AND occurred_at < {to:Date} + 1)
    ) AS visits ON visits.profile_id = wished.profile_id AND visits.product_handle = wished.product_handle
    GROUP BY profile_id, product_id
) AS wished
LEFT ANY JOIN {database}.products AS products ON products.product_id = wished.product_id
GROUP BY product_id
ORDER BY wishers DESC, product_id
