-- products, found by the hash of their product_id that steps_by_visitor and wishes_followed have
SELECT
    sipHash64(product_id) AS product,
    product_id,
    product_handle,
    product_title
FROM {database}.products
