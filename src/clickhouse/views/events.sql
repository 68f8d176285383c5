-- Wishlist events, each once
-- Two kinds of rows travel with the events and are none: merges of profiles (origin `merge`), and lines of orders
-- (origin `order`).
SELECT
    event_id,
    type,
    occurred_at,
    profile_id,
    customer_id,
    session_id,
    device,
    locale,
    origin,
    product_id,
    variant_id,
    product_handle,
    source,
    channel,
    share_code,
    currency,
    inventory_available,
    quantity,
    price,
    compare_at,
    payload
FROM {database}.events_stored FINAL
WHERE origin NOT IN ('merge', 'order')
