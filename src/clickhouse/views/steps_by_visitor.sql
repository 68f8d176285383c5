-- What each visitor did with a product, purchases and wishes in one: the rows that the questions are made of
-- visitor is a hash of the profile that the visitor has now: sipHash64(profile_id) of events_by_visitor. product and
-- variant are hashes, too, of product_id and variant_id: numbers are grouped several times as fast as texts.
SELECT
    rows.occurred_at AS occurred_at,
    rows.step AS step,
    if(merges.present = 0, rows.visitor, merges.present) AS visitor,
    rows.product_id AS product_id,
    rows.variant_id AS variant_id,
    CAST(sipHash64(rows.product_id), 'UInt64') AS product,
    CAST(sipHash64(rows.variant_id), 'UInt64') AS variant,
    rows.source AS source,
    rows.order_id AS order_id,
    rows.currency AS currency,
    rows.inventory_available AS inventory_available,
    rows.quantity AS quantity,
    rows.price AS price,
    rows.amount AS amount
FROM
(
    SELECT *
    FROM {database}.steps_stored FINAL
) AS rows
LEFT ANY JOIN {database}.visitor_merges AS merges ON merges.old = rows.visitor
