-- Wish to purchase: of those who wished for a product in the period, how many bought it within 30 days, with revenue and average order by currency
-- revenue and average_order are maps from currency to amount, of the order lines with the product.
CREATE OR REPLACE VIEW {database}.wish_to_purchase {on_cluster} AS
SELECT
    products.product_id AS product_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    wished.wishers AS wishers,
    wished.buyers AS buyers,
    wished.buyers / wished.wishers AS purchase_rate,
    arraySum(mapValues(wished.orders)) AS orders,
    wished.quantity AS quantity,
    wished.revenue AS revenue,
    mapApply((currency, amount) -> (currency, round(toFloat64(amount) / wished.orders[currency], 2)), wished.revenue) AS average_order
FROM
(
    SELECT
        product,
        count() AS wishers,
        countIf(notEmpty(bought)) AS buyers,
        sumMap(CAST(arrayMap(one -> (one.2, 1), arrayDistinct(arrayMap(line -> (line.2, line.3), bought))), 'Map(String, UInt64)')) AS orders,
        sum(arraySum(line -> line.4, bought)) AS quantity,
        sumMap(CAST(arrayMap(line -> (line.3, line.5), bought), 'Map(String, Decimal(38, 2))')) AS revenue
    FROM {database}.wishes_followed(from = {from:String}, to = {to:String})
    GROUP BY product
) AS wished
LEFT ANY JOIN {database}.products_by_number AS products ON products.product = wished.product
ORDER BY buyers DESC, wishers DESC, product_id;
