-- Wish to purchase: of those who wished for a product in this time, how many bought it within 30 days, with revenue and average order by currency
-- A row for each currency that it was bought in; currency is empty where there was no buyer. Revenue is that of the product's lines.
CREATE OR REPLACE VIEW {database}.wish_to_purchase {on_cluster} AS
SELECT
    products.product_id AS product_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    wished.wishers AS wishers,
    wished.currency AS currency,
    wished.buyers AS buyers,
    wished.buyers / wished.wishers AS purchase_rate,
    wished.orders AS orders,
    wished.quantity AS quantity,
    wished.revenue AS revenue,
    if(wished.orders = 0, NULL, round(toFloat64(wished.revenue) / wished.orders, 2)) AS average_order
FROM
(
    SELECT
        product,
        line.3 AS currency,
        any(of_product.wishers) AS wishers,
        uniqExactIf(line.1, line.1 != 0) AS buyers,
        uniqExactIf(line.2, line.1 != 0) AS orders,
        sum(line.4) AS quantity,
        sum(line.5) AS revenue
    FROM
    (
        SELECT
            product,
            count() AS wishers,
            groupArrayArray(arrayMap(line -> (visitor, line.2, line.3, line.4, line.5), bought)) AS lines
        FROM {database}.wishes_followed(from = {from:Date}, to = {to:Date})
        GROUP BY product
    ) AS of_product
    LEFT ARRAY JOIN lines AS line
    GROUP BY product, currency
) AS wished
LEFT ANY JOIN {database}.products_by_number AS products ON products.product = wished.product
ORDER BY revenue DESC, wishers DESC, product_id, currency;
