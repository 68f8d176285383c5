-- The funnel of each product: visits and visitors in this time, who wished in this time, and what followed within 30 days
-- revenue is a map from currency to amount.
SELECT
    product_id,
    product_handle,
    visits,
    visitors,
    wishers,
    carters,
    buyers,
    revenue
FROM
(
    SELECT
        max(rows.product_id) AS product_id,
        product_handle,
        sum(rows.visits) AS visits,
        sum(rows.visitors) AS visitors,
        sum(rows.wishers) AS wishers,
        sum(rows.carters) AS carters,
        sum(rows.buyers) AS buyers,
        sumMap(rows.revenue) AS revenue
    FROM
    (
        SELECT
            products.product_id AS product_id,
            '' AS unnamed,
            looked.product_handle AS product_handle,
            looked.visits AS visits,
            looked.visitors AS visitors,
            0 AS wishers,
            0 AS carters,
            0 AS buyers,
            CAST(map(), 'Map(String, Decimal(38, 2))') AS revenue
        FROM
        (
            SELECT
                product_handle,
                sum(visits) AS visits,
                uniqCombinedMerge(14)(visitors) AS visitors
            FROM {database}.visitors_per_day
            WHERE day BETWEEN {from:Date} AND {to:Date} AND product_handle != ''
            GROUP BY product_handle
        ) AS looked
        LEFT ANY JOIN {database}.products AS products ON products.product_handle = looked.product_handle
        UNION ALL
        SELECT
            products.product_id AS product_id,
            if(products.product_handle = '', products.product_id, '') AS unnamed,
            products.product_handle AS product_handle,
            0 AS visits,
            0 AS visitors,
            wished.wishers AS wishers,
            wished.carters AS carters,
            wished.buyers AS buyers,
            wished.revenue AS revenue
        FROM
        (
            SELECT
                product,
                count() AS wishers,
                countIf(carted_at IS NOT NULL) AS carters,
                countIf(notEmpty(bought)) AS buyers,
                sumMap(CAST(arrayMap(line -> (line.3, line.5), bought), 'Map(String, Decimal(38, 2))')) AS revenue
            FROM {database}.wishes_followed(from = {from:Date}, to = {to:Date})
            GROUP BY product
        ) AS wished
        LEFT ANY JOIN {database}.products_by_number AS products ON products.product = wished.product
    ) AS rows
    GROUP BY product_handle, unnamed
)
ORDER BY wishers DESC, visitors DESC, product_handle, product_id
