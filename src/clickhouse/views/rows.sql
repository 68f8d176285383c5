-- Each event, visit and line of an order once, and what is asked of them most.

-- Wishlist events, each once
-- Two kinds of rows travel with the events and are none: merges of profiles (origin `merge`), and lines of orders
-- (origin `order`).
CREATE OR REPLACE VIEW {database}.events {on_cluster} AS
SELECT
    {event_columns}
FROM {database}.events_stored FINAL
WHERE origin NOT IN ('merge', 'order');

-- Counted visits, each once
CREATE OR REPLACE VIEW {database}.visits {on_cluster} AS
SELECT
    occurred_at,
    profile_id,
    CAST(product_handle, 'String') AS product_handle,
    device
FROM {database}.visits_stored FINAL;

-- Lines of orders, each once
-- amount is what was paid for the line: price of one times quantity, less its discount. Lines of test orders have test set,
-- and are in no other view. A line's event_id and its time follow from the order, so a line that was recorded twice is still
-- one row. The payload has the line as the order told it: three decimals are rounded here.
CREATE OR REPLACE VIEW {database}.purchases {on_cluster} AS
SELECT
    {purchase_columns}
FROM {database}.events_stored FINAL
WHERE origin = 'order';

-- Events per day (UTC) and type
CREATE OR REPLACE VIEW {database}.events_per_day {on_cluster} AS
SELECT
    toDate(occurred_at) AS day,
    type,
    count() AS events
FROM {database}.events
GROUP BY day, type
ORDER BY day, type;

-- Products by how often they were added to a wishlist and moved from it to the cart
-- A product has the handle that it was last seen with.
CREATE OR REPLACE VIEW {database}.top_products {on_cluster} AS
SELECT
    product_id,
    argMaxIf(product_handle, occurred_at, product_handle != '') AS product_handle,
    countIf(type = 'add') AS adds,
    countIf(type = 'moveToCart') AS moves_to_cart
FROM {database}.events
WHERE type IN ('add', 'moveToCart') AND product_id != ''
GROUP BY product_id
ORDER BY adds DESC, moves_to_cart DESC, product_id;

-- Share links by channel
-- A profile keeps its code: shared twice, it is two shares of one link.
CREATE OR REPLACE VIEW {database}.shares_by_channel {on_cluster} AS
SELECT
    channel,
    count() AS shares,
    uniqExactIf(share_code, share_code != '') AS share_links,
    uniqExact(profile_id) AS profiles
FROM {database}.events
WHERE type = 'share'
GROUP BY channel
ORDER BY shares DESC, channel;
