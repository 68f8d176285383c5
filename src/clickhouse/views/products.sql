-- Products: handle and title as they were last told
SELECT
    product_id,
    max(handle).2 AS product_handle,
    max(title).2 AS product_title
FROM {database}.products_stored
GROUP BY product_id
