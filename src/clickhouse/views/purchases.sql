-- Lines of orders, each once
-- amount is what was paid for the line: price of one times quantity, less its discount. Lines of test orders have test set,
-- and are in no other view. A line's event_id and its time follow from the order, so a line that was recorded twice is still
-- one row. The payload has the line as the order told it: three decimals are rounded here.
SELECT
    {purchase_columns}
FROM {database}.events_stored FINAL
WHERE origin = 'order'
