-- Looked at three times and never wished: visitors who looked at a product three times or more in the period, and never wished for it
-- Never means: not before, in or after the period, nor under a profile that was merged into the visitor's.
-- wish is a hash of visitor and product: a join by two columns takes more CPU.
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
        handle,
        count() AS visitors,
        sum(looks) AS visits
    FROM
    (
        SELECT
            candidates.visitor AS visitor,
            candidates.handle AS handle,
            any(candidates.looks) AS looks
        FROM
        (
            SELECT
                cityHash64(visitor, CAST(sipHash64(product_id), 'UInt64')) AS wish
            FROM {database}.steps_stored
            WHERE step = 'add'
        ) AS wishes
        RIGHT JOIN
        (
            SELECT
                cityHash64(arrayJoin([of_visitor.visitor, merges.old]), named.product) AS wish,
                of_visitor.visitor AS visitor,
                of_visitor.handle AS handle,
                of_visitor.looks AS looks
            FROM {database}.visitor_merges AS merges
            RIGHT JOIN
            (
                SELECT
                    rows.visitor AS visitor,
                    rows.product AS handle,
                    count() AS looks
                FROM {database}.looks_by_visitor AS rows
                WHERE occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND occurred_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone}) AND {in_order}
                GROUP BY visitor, handle
                HAVING looks >= 3
            ) AS of_visitor ON of_visitor.visitor = merges.present
            LEFT JOIN
            (
                SELECT
                    sipHash64(known.product_handle) AS handle,
                    known.product AS product
                FROM {database}.products_by_number AS known
            ) AS named ON named.handle = of_visitor.handle
        ) AS candidates ON candidates.wish = wishes.wish
        GROUP BY visitor, handle
        HAVING max(wishes.wish) = 0
    )
    GROUP BY handle
) AS looked
INNER JOIN
(
    SELECT
        CAST(seen.product_handle, 'String') AS product_handle,
        CAST(sipHash64(seen.product_handle), 'UInt64') AS handle
    FROM
    (
        SELECT DISTINCT product_handle
        FROM {database}.visits_stored
        WHERE occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND occurred_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone})
    ) AS seen
) AS handles ON handles.handle = looked.handle
LEFT ANY JOIN {database}.products AS products ON products.product_handle = handles.product_handle
ORDER BY visitors DESC, visits DESC, product_handle;
