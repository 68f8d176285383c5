-- Wish to purchase: of those who wished for a product in this time, how many bought it within 30 days, with revenue and average order by currency
-- A row for each currency that it was bought in; currency is empty where there was no buyer. Revenue is that of the product's lines.
SELECT
    wished.product_id AS product_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    wished.wishers AS wishers,
    bought.currency AS currency,
    bought.buyers AS buyers,
    bought.buyers / wished.wishers AS purchase_rate,
    bought.orders AS orders,
    bought.quantity AS quantity,
    bought.revenue AS revenue,
    if(bought.orders = 0, NULL, round(toFloat64(bought.revenue) / bought.orders, 2)) AS average_order
FROM
(
    SELECT
        product_id,
        count() AS wishers
    FROM {database}.wishes_followed(from = {from:Date}, to = {to:Date})
    GROUP BY product_id
) AS wished
LEFT JOIN
(
    SELECT
        product_id,
        line.3 AS currency,
        uniqExact(profile_id) AS buyers,
        uniqExact(line.2) AS orders,
        sum(line.4) AS quantity,
        sum(line.5) AS revenue
    FROM {database}.wishes_followed(from = {from:Date}, to = {to:Date})
    ARRAY JOIN bought AS line
    GROUP BY product_id, currency
) AS bought ON bought.product_id = wished.product_id
LEFT ANY JOIN {database}.products AS products ON products.product_id = wished.product_id
ORDER BY revenue DESC, wishers DESC, product_id, currency
