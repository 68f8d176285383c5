-- Visits and visitors of each day: closed days from their totals, open ones from the visits themselves.

-- Days whose visits may have changed since they were totalled, or never were
CREATE OR REPLACE VIEW {database}.open_visit_days {on_cluster} AS
SELECT day
FROM {database}.visit_days
GROUP BY day
HAVING max(touched_at) >= max(totalled_at);

-- Visits per day (UTC), product and device
-- Closed days from their totals, open ones from `visits`.
CREATE OR REPLACE VIEW {database}.visits_per_day {on_cluster} AS
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
GROUP BY day, product_handle, device;

-- Visits per day (UTC) and product, with a sketch of who looked: unite it with uniqCombinedMerge(14)(visitors)
-- The row with an empty product_handle is the whole shop. A closed day has visitors as they were known when it was
-- totalled; see "Visitors of closed days" in docs/analysts.md.
CREATE OR REPLACE VIEW {database}.visitors_per_day {on_cluster} AS
SELECT
    day,
    product_handle,
    visits,
    visitors
FROM {database}.visitors_per_day_stored FINAL
WHERE day NOT IN (SELECT day FROM {database}.open_visit_days)
UNION ALL
SELECT
    toDate(occurred_at) AS day,
    arrayJoin(['', product_handle]) AS product_handle,
    count() AS visits,
    uniqCombinedState(14)(profile_id) AS visitors
FROM {database}.visits_by_visitor
WHERE occurred_at >= (SELECT min(day) FROM {database}.open_visit_days)
    AND toDate(occurred_at) IN (SELECT day FROM {database}.open_visit_days)
GROUP BY day, product_handle;
