-- Visits and time before the wish: how often and since when a visitor had looked at a product in the 30 days before wishing for it
-- A visitor's first wish for a product in the period counts. The hours begin with the first visit, and are of wishers with visits.
-- visitor_and_handle combines both hashes into one: a join by two columns takes more CPU.
CREATE OR REPLACE VIEW {database}.before_the_wish {on_cluster} AS
SELECT
    products.product_id AS product_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    wished.wishers AS wishers,
    wished.wishers_who_visited AS wishers_who_visited,
    wished.visits_median AS visits_median,
    wished.hours_median AS hours_median
FROM
(
    SELECT
        product,
        count() AS wishers,
        countIf(looks > 0) AS wishers_who_visited,
        quantileExact(0.5)(looks) AS visits_median,
        if(wishers_who_visited = 0, NULL, round(quantileExactIf(0.5)(dateDiff('second', first_look, wished_at), looks > 0) / 3600, 2)) AS hours_median
    FROM
    (
        SELECT
            known.product AS product,
            known.wished_at AS wished_at,
            countIf(visits.occurred_at <= known.wished_at AND visits.occurred_at > known.wished_at - INTERVAL 30 DAY) AS looks,
            minIf(visits.occurred_at, visits.occurred_at <= known.wished_at AND visits.occurred_at > known.wished_at - INTERVAL 30 DAY) AS first_look
        FROM
        (
            SELECT
                bitXor(visitor, CAST(sipHash64(product_handle), 'UInt64')) AS visitor_and_handle,
                occurred_at
            FROM {database}.visits_stored FINAL
            WHERE occurred_at >= toDateTime64(toDate32({from:Date}) - 30, 3, {time_zone}) AND occurred_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone})
        ) AS visits
        RIGHT JOIN
        (
            SELECT DISTINCT
                bitXor(arrayJoin([wished.visitor, merges.old]), wished.handle) AS visitor_and_handle,
                wished.visitor AS visitor,
                wished.product AS product,
                wished.wished_at AS wished_at
            FROM {database}.visitor_merges AS merges
            RIGHT JOIN
            (
                SELECT
                    steps.visitor AS visitor,
                    steps.product AS product,
                    steps.wished_at AS wished_at,
                    sipHash64(products.product_handle) AS handle
                FROM
                (
                    SELECT
                        visitor,
                        product,
                        min(occurred_at) AS wished_at
                    FROM {database}.steps_by_visitor
                    WHERE step = 'add' AND occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND occurred_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone}) AND {in_order}
                    GROUP BY visitor, product
                ) AS steps
                LEFT ANY JOIN {database}.products_by_number AS products ON products.product = steps.product
            ) AS wished ON wished.visitor = merges.present
        ) AS known ON known.visitor_and_handle = visits.visitor_and_handle
        GROUP BY known.visitor, known.product, known.wished_at
    )
    GROUP BY product
) AS wished
LEFT ANY JOIN {database}.products_by_number AS products ON products.product = wished.product
ORDER BY wishers DESC, product_id;
