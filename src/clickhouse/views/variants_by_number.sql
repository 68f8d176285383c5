-- product_variants, found by the hashes of product_id and variant_id that steps_by_visitor has
SELECT
    sipHash64(product_id) AS product,
    sipHash64(variant_id) AS variant,
    product_id,
    variant_id,
    price_now,
    currency,
    in_stock
FROM {database}.product_variants
