-- Wish rate: of the visitors who looked at a product in the period, how many wished for it
-- Visits belong to the product whose latest handle they have. wish_rate is NULL if there are no visits.
CREATE OR REPLACE VIEW {database}.wish_rate {on_cluster} AS
SELECT
    product_id,
    product_handle,
    product_title,
    visits,
    visitors,
    wishers,
    if(visitors = 0, NULL, wishers / visitors) AS wish_rate
FROM
(
    SELECT
        max(rows.product_id) AS product_id,
        product_handle,
        max(rows.product_title) AS product_title,
        sum(rows.visits) AS visits,
        sum(rows.visitors) AS visitors,
        sum(rows.wishers) AS wishers
    FROM
    (
        SELECT
            looked.product_handle AS product_handle,
            products.product_id AS product_id,
            '' AS unnamed,
            products.product_title AS product_title,
            looked.visits AS visits,
            looked.visitors AS visitors,
            0 AS wishers
        FROM
        (
            SELECT
                product_handle,
                sum(visits) AS visits,
                uniqCombinedMerge(14)(visitors_sketch) AS visitors
            FROM {database}.visitors_per_day
            WHERE day BETWEEN {from:Date} AND {to:Date}
            GROUP BY product_handle
        ) AS looked
        LEFT ANY JOIN {database}.products AS products ON products.product_handle = looked.product_handle
        UNION ALL
        SELECT
            product_handle,
            product_id,
            if(product_handle = '', product_id, '') AS unnamed,
            product_title,
            0 AS visits,
            0 AS visitors,
            wishers
        FROM {database}.most_wished(from = {from:String}, to = {to:String})
    ) AS rows
    GROUP BY product_handle, unnamed
)
ORDER BY wishers DESC, visitors DESC, product_handle, product_id;
