-- Lines of orders, each once
-- amount is what was paid for the line: price of one times quantity, less its discount. Lines of test orders have test set,
-- and are in no other view. A line's event_id and its time follow from the order, so a line that was recorded twice is still
-- one row. The payload has the line as the order told it: three decimals are rounded here.
SELECT
    occurred_at,
    order_id,
    profile_id,
    customer_id,
    session_id,
    product_id,
    variant_id,
    assumeNotNull(quantity) AS quantity,
    price,
    discount,
    amount,
    currency,
    test
FROM {database}.events_stored FINAL
WHERE origin = 'order'
