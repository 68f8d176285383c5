-- Visits per day (UTC), product and device
-- Closed days from their totals, open ones from `visits`.
SELECT
    day,
    product_handle,
    device,
    visits
FROM {database}.visits_per_day_stored FINAL
WHERE day NOT IN (SELECT day FROM {database}.open_visit_days)
UNION ALL
SELECT
    toDate(occurred_at) AS day,
    CAST(product_handle, 'String') AS product_handle,
    device,
    count() AS visits
FROM {database}.visits_stored FINAL
WHERE occurred_at >= (SELECT min(day) FROM {database}.open_visit_days)
    AND toDate(occurred_at) IN (SELECT day FROM {database}.open_visit_days)
GROUP BY day, product_handle, device
