-- Each visitor's first wish for a product in this time, and what followed within 30 days: the rows of the funnels
-- visitor and product are hashes, as in steps_by_visitor. carted_at is NULL where it was not moved to the cart. bought has
-- time, order (a hash of its id), currency, quantity and amount of each line of an order with that product. One array of
-- them takes two thirds of the time of five arrays: most wishes have none.
SELECT
    visitor,
    product,
    minIf(occurred_at, step = 'add' AND occurred_at < {to:Date} + 1) AS wished_at,
    argMinIf(source, occurred_at, step = 'add' AND occurred_at < {to:Date} + 1) AS source,
    arrayFilter(
        at -> at >= wished_at AND at <= wished_at + INTERVAL 30 DAY,
        groupArrayIf(occurred_at, step = 'moveToCart')) AS carted,
    if(empty(carted), NULL, arrayMin(carted)) AS carted_at,
    arrayFilter(
        line -> line.1 >= wished_at AND line.1 <= wished_at + INTERVAL 30 DAY,
        groupArrayIf(
            (occurred_at, sipHash64(order_id), CAST(currency, 'String'), quantity, ifNull(amount, 0)),
            step = 'purchase')) AS bought
FROM {database}.steps_by_visitor
WHERE step IN ('add', 'moveToCart', 'purchase') AND occurred_at >= {from:Date} AND occurred_at < {to:Date} + 32
GROUP BY visitor, product
HAVING wished_at != 0
