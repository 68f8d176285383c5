-- Lines of orders, each once
-- A line's event_id and its time follow from the order, so a line that was recorded twice is still one row. The payload
-- has the line as the order told it: a price with three decimals is rounded in `price`.
SELECT
    occurred_at,
    order_id,
    profile_id,
    customer_id,
    session_id,
    product_id,
    variant_id,
    assumeNotNull(ifNull(quantity, 1)) AS quantity,
    price,
    currency
FROM {database}.events_stored FINAL
WHERE origin = 'order'
