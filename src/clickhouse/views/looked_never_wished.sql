-- Looked at three times and never wished: visitors who looked at a product three times or more in this time, and never wished for it
-- Never, that is: neither in this time nor before or after it, under the present profile or one that was merged into it.
-- A visitor and a product are one number while looks are counted, bitXor of their hashes, so the visitor is that number
-- and the product together.
CREATE OR REPLACE VIEW {database}.looked_never_wished {on_cluster} AS
SELECT
    handles.product_handle AS product_handle,
    products.product_id AS product_id,
    products.product_title AS product_title,
    looked.visitors AS visitors,
    looked.visits AS visits
FROM
(
    SELECT
        product,
        count() AS visitors,
        sum(looks) AS visits
    FROM
    (
        SELECT
            candidates.visitor AS visitor,
            candidates.product AS product,
            any(candidates.looks) AS looks
        FROM
        (
            SELECT bitXor(visitor, sipHash64(product_id)) AS wish
            FROM {database}.steps_stored
            WHERE step = 'add'
        ) AS wishes
        RIGHT JOIN
        (
            SELECT
                bitXor(arrayJoin([of_visitor.visitor, merges.old]), named.number) AS wish,
                of_visitor.visitor AS visitor,
                of_visitor.product AS product,
                of_visitor.looks AS looks
            FROM {database}.visitor_merges AS merges
            RIGHT JOIN
            (
                SELECT
                    bitXor(number, any(seen.product)) AS visitor,
                    any(seen.product) AS product,
                    count() AS looks
                FROM {database}.looks_by_visitor AS seen
                WHERE seen.occurred_at >= {from:Date} AND seen.occurred_at < {to:Date} + 1
                GROUP BY bitXor(seen.visitor, seen.product) AS number
                HAVING looks >= 3
            ) AS of_visitor ON of_visitor.visitor = merges.present
            LEFT JOIN
            (
                SELECT
                    sipHash64(known.product_handle) AS product,
                    known.product AS number
                FROM {database}.products_by_number AS known
            ) AS named ON named.product = of_visitor.product
        ) AS candidates ON candidates.wish = wishes.wish
        GROUP BY visitor, product
        HAVING max(wishes.wish) = 0
    )
    GROUP BY product
) AS looked
INNER JOIN
(
    SELECT DISTINCT
        CAST(product_handle, 'String') AS product_handle,
        CAST(sipHash64(product_handle), 'UInt64') AS product
    FROM {database}.visits_stored
    WHERE occurred_at >= {from:Date} AND occurred_at < {to:Date} + 1
) AS handles ON handles.product = looked.product
LEFT ANY JOIN {database}.products AS products ON products.product_handle = handles.product_handle
ORDER BY visitors DESC, visits DESC, product_handle;
