-- Counted visits, each once
SELECT
    occurred_at,
    profile_id,
    CAST(product_handle, 'String') AS product_handle,
    device
FROM {database}.visits_stored FINAL
