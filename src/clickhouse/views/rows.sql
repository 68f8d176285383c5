-- Each event, visit and order line once, and the most common questions about them.
--
-- PREWHERE drops rows before FINAL looks for repeats, which saves a third of the CPU. That works for columns that repeats of a row
-- have in common: origin and type.

-- Wishlist events, each once
-- Rows of some origins are not events: see events_stored.
CREATE OR REPLACE VIEW {database}.events {on_cluster} AS
SELECT
    {event_columns}
FROM {database}.events_stored FINAL
PREWHERE {is_event};

-- Counted visits, each once
CREATE OR REPLACE VIEW {database}.visits {on_cluster} AS
SELECT
    occurred_at,
    profile_id,
    CAST(product_handle, 'String') AS product_handle,
    device
FROM {database}.visits_stored FINAL;

-- Lines of the newest version of each order
-- A line that the newest version doesn't have is left out, too. visitor is sipHash64(profile_id).
CREATE OR REPLACE VIEW {database}.order_lines {on_cluster} AS
SELECT
    {purchase_columns},
    visitor
FROM
(
    SELECT
        *,
        visitor,
        max(version) OVER (PARTITION BY order_id) AS newest
    FROM {database}.purchases_stored FINAL
)
WHERE version = newest AND quantity > 0;

-- order_lines with the product's latest handle
-- amount was paid for the line: the price of one, times quantity, less the discount. Lines of test orders have test set, and are in
-- no other view of purchases. product_handle is the product's latest one, because orders have none.
CREATE OR REPLACE VIEW {database}.purchases {on_cluster} AS
SELECT
    rows.* EXCEPT visitor,
    products.product_handle AS product_handle
FROM {database}.order_lines AS rows
LEFT ANY JOIN {database}.products AS products ON products.product_id = rows.product_id;

-- Events per day and type
CREATE OR REPLACE VIEW {database}.events_per_day {on_cluster} AS
SELECT
    toDate(occurred_at, {time_zone}) AS day,
    type,
    count() AS events
FROM {database}.events
GROUP BY day, type
ORDER BY day, type;

-- Products by number of adds, with moves to the cart
-- product_handle is the product's latest one.
CREATE OR REPLACE VIEW {database}.top_products {on_cluster} AS
SELECT
    CAST(wished.product_id, 'String') AS product_id,
    products.product_handle AS product_handle,
    wished.adds AS adds,
    wished.moves_to_cart AS moves_to_cart
FROM
(
    SELECT
        product_id,
        countIf(step = 'add') AS adds,
        countIf(step = 'moveToCart') AS moves_to_cart
    FROM {database}.steps_stored FINAL
    PREWHERE step IN ('add', 'moveToCart')
    GROUP BY product_id
) AS wished
LEFT ANY JOIN {database}.products AS products ON products.product_id = wished.product_id
ORDER BY adds DESC, moves_to_cart DESC, product_id;

-- Share links by channel
-- A profile keeps its code, so a list that is shared twice has two shares of one link.
CREATE OR REPLACE VIEW {database}.shares_by_channel {on_cluster} AS
SELECT
    CAST(channel, 'String') AS channel,
    count() AS shares,
    uniqExactIf(share, share != 0) AS share_links,
    uniqExact(visitor) AS profiles
FROM {database}.steps_stored FINAL
PREWHERE step = 'share'
GROUP BY channel
ORDER BY shares DESC, channel;

-- Openings of shared wishlists by people, a row for each opening
-- The stored row has the profile of the wishlist's owner, so that both are erased together. The reader isn't known.
CREATE OR REPLACE VIEW {database}.share_opens {on_cluster} AS
SELECT
    occurred_at,
    share_code
FROM {database}.events_stored FINAL
PREWHERE origin = 'open';

-- Price drops and restocks that wishers were alerted to, each once
-- price_before is the price when the product was added. Without PRODUCT_ALERTS there are no rows.
CREATE OR REPLACE VIEW {database}.product_alerts {on_cluster} AS
SELECT
    {alert_columns}
FROM {database}.events_stored FINAL
PREWHERE origin = 'alert';
