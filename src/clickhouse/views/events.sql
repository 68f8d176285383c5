-- Wishlist events, each once
-- Two kinds of rows travel with the events and are none: merges of profiles (origin `merge`), and lines of orders
-- (origin `order`).
SELECT
    {event_columns}
FROM {database}.events_stored FINAL
WHERE origin NOT IN ('merge', 'order')
