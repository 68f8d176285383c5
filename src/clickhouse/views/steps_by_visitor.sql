-- What each visitor did with a product, purchases and wishes in one: the rows that the questions are made of
SELECT
    rows.occurred_at AS occurred_at,
    if(rows.origin = 'order', 'purchase', rows.type) AS step,
    if(merges.new_id = '', rows.profile_id, merges.new_id) AS profile_id,
    rows.product_id AS product_id,
    rows.variant_id AS variant_id,
    rows.source AS source,
    rows.order_id AS order_id,
    rows.currency AS currency,
    rows.inventory_available AS inventory_available,
    ifNull(rows.quantity, 1) AS quantity,
    rows.price AS price
FROM
(
    SELECT *
    FROM {database}.events_stored FINAL
    WHERE product_id != '' AND origin != 'merge' AND type != 'share'
) AS rows
LEFT ANY JOIN {database}.profile_merges AS merges ON merges.old_id = rows.profile_id
