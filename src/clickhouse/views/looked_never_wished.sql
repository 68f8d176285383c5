-- Looked at three times and never wished: visitors who looked at a product three times or more in this time, and never wished for it
-- Never, that is: neither in this time nor before or after it.
SELECT
    looked.product_handle AS product_handle,
    products.product_id AS product_id,
    products.product_title AS product_title,
    looked.visitors AS visitors,
    looked.visits AS visits
FROM
(
    SELECT
        product_handle,
        count() AS visitors,
        sum(looks) AS visits
    FROM
    (
        SELECT
            profile_id,
            product_handle,
            count() AS looks
        FROM {database}.visits_by_visitor
        WHERE occurred_at >= {from:Date} AND occurred_at < {to:Date} + 1
        GROUP BY profile_id, product_handle
        HAVING looks >= 3
    ) AS looked
    LEFT ANTI JOIN
    (
        SELECT
            steps.profile_id AS profile_id,
            products.product_handle AS product_handle
        FROM {database}.steps_by_visitor AS steps
        INNER JOIN {database}.products AS products ON products.product_id = steps.product_id
        WHERE steps.step = 'add'
    ) AS wished ON wished.profile_id = looked.profile_id AND wished.product_handle = looked.product_handle
    GROUP BY product_handle
) AS looked
LEFT ANY JOIN {database}.products AS products ON products.product_handle = looked.product_handle
ORDER BY visitors DESC, visits DESC, product_handle
