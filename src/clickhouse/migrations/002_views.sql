-- What analysts ask most.

CREATE VIEW IF NOT EXISTS {database}.events_per_day AS
SELECT
    toDate(occurred_at) AS day,
    type,
    count() AS events
FROM {database}.events
GROUP BY day, type
ORDER BY day, type
COMMENT 'Events per day (UTC) and type';

-- A product has the handle that it was last seen with.
CREATE VIEW IF NOT EXISTS {database}.top_products AS
SELECT
    product_id,
    argMaxIf(product_handle, occurred_at, product_handle != '') AS product_handle,
    countIf(type = 'add') AS adds,
    countIf(type = 'moveToCart') AS moves_to_cart
FROM {database}.events
WHERE type IN ('add', 'moveToCart') AND product_id != ''
GROUP BY product_id
ORDER BY adds DESC, moves_to_cart DESC, product_id
COMMENT 'Products by how often they were added to a wishlist and moved from it to the cart';

-- A profile keeps its code: shared twice, it is two shares of one link.
CREATE VIEW IF NOT EXISTS {database}.shares_by_channel AS
SELECT
    channel,
    count() AS shares,
    uniqExactIf(share_code, share_code != '') AS share_links,
    uniqExact(profile_id) AS profiles
FROM {database}.events
WHERE type = 'share'
GROUP BY channel
ORDER BY shares DESC, channel
COMMENT 'Share links by channel';
