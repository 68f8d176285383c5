-- Wish to cart: of those who wished for a product in the period, how many moved it to the cart within 30 days, and after how many hours
CREATE OR REPLACE VIEW {database}.wish_to_cart {on_cluster} AS
SELECT
    products.product_id AS product_id,
    products.product_handle AS product_handle,
    products.product_title AS product_title,
    wished.wishers AS wishers,
    wished.carters AS carters,
    wished.carters / wished.wishers AS cart_rate,
    wished.hours_median AS hours_median
FROM
(
    SELECT
        product,
        count() AS wishers,
        countIf(carted_at IS NOT NULL) AS carters,
        if(carters = 0, NULL, round(quantileExactIf(0.5)(ifNull(dateDiff('second', wished_at, carted_at), 0), carted_at IS NOT NULL) / 3600, 2)) AS hours_median
    FROM {database}.wishes_followed(from = {from:String}, to = {to:String})
    GROUP BY product
) AS wished
LEFT ANY JOIN {database}.products_by_number AS products ON products.product = wished.product
ORDER BY wishers DESC, product_id;
