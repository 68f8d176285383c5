-- Visits as numbers, which can be grouped fast: hashes of the profile that the visitor has now and of the product's handle
SELECT
    rows.occurred_at AS occurred_at,
    if(merges.present = 0, rows.visitor, merges.present) AS visitor,
    rows.product AS product
FROM
(
    SELECT
        occurred_at,
        sipHash64(profile_id) AS visitor,
        CAST(sipHash64(product_handle), 'UInt64') AS product
    FROM {database}.visits_stored FINAL
) AS rows
LEFT ANY JOIN {database}.visitor_merges AS merges ON merges.old = rows.visitor
