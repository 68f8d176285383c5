-- Products by how often they were added to a wishlist and moved from it to the cart
-- A product has the handle that it was last seen with.
SELECT
    product_id,
    argMaxIf(product_handle, occurred_at, product_handle != '') AS product_handle,
    countIf(type = 'add') AS adds,
    countIf(type = 'moveToCart') AS moves_to_cart
FROM {database}.events
WHERE type IN ('add', 'moveToCart') AND product_id != ''
GROUP BY product_id
ORDER BY adds DESC, moves_to_cart DESC, product_id
