-- Visits and visitors of each day: of closed days from their totals, of open ones from the visits themselves.
--
-- A product with a total of 0 visits had its visits erased before the day was totalled again. days.1 are the closed days with
-- their time zone, days.2 the open ones. Each view reads them once: reading them for each condition took up to a quarter of a
-- statement's CPU time in a small shop.
--
-- Of open days visitors are counted as visits_by_visitor does. ARRAY JOIN hides the number of visits, as in steps_by_visitor: under a
-- condition on the day, ClickHouse took them for few, and put them, not the merges, into the join's hash table. 820,000 visits of 71
-- open days: 250 ms of CPU, and 110 with it.

-- Days with visits, and up to when they are totalled
-- A day is open if visits may have been inserted since it was totalled. A sealed day keeps the totals of the zone in which it was
-- sealed. If a zone is half an hour off, an hour belongs to two days.
CREATE OR REPLACE VIEW {database}.visit_days {on_cluster} AS
SELECT
    day,
    max(rows.touched) AS touched_at,
    max(rows.totalled) AS totalled_at,
    argMax(rows.zone, rows.totalled) AS time_zone,
    touched_at >= totalled_at AS is_open
FROM
(
    SELECT
        arrayJoin(arrayDistinct([toDate(hour, {time_zone}), toDate(hour + 3599, {time_zone})])) AS day,
        CAST(touched_at, 'DateTime64(3, \'UTC\')') AS touched,
        toDateTime64(0, 3, 'UTC') AS totalled,
        '' AS zone
    FROM {database}.visit_hours
    UNION ALL
    SELECT
        day,
        toDateTime64(0, 3, 'UTC') AS touched,
        CAST(totalled_at, 'DateTime64(3, \'UTC\')') AS totalled,
        CAST(time_zone, 'String') AS zone
    FROM {database}.visit_days_stored
    WHERE time_zone = {time_zone} OR totalled_at = toDateTime64('2200-01-01 00:00:00', 3, 'UTC')
) AS rows
GROUP BY day;

-- Visits per day, product and device
-- Closed days from their totals, open ones from `visits`.
CREATE OR REPLACE VIEW {database}.visits_per_day {on_cluster} AS
WITH (SELECT (groupArrayIf((day, time_zone), NOT is_open), groupArrayIf(day, is_open)) FROM {database}.visit_days) AS days
SELECT
    day,
    product_handle,
    device,
    visits
FROM {database}.visits_per_day_stored FINAL
WHERE visits > 0 AND (day, time_zone) IN (days.1)
UNION ALL
SELECT
    toDate(occurred_at, {time_zone}) AS day,
    CAST(product_handle, 'String') AS product_handle,
    device,
    count() AS visits
FROM {database}.visits_stored FINAL
WHERE occurred_at >= toDateTime64(arrayMin(days.2), 3, {time_zone}) AND toDate(occurred_at, {time_zone}) IN (days.2)
GROUP BY day, product_handle, device;

-- Visits and visitors per day and product; add no visitors, but merge visitors_sketch
-- Visitors who were merged after a day was totalled count as two; see "What may be added up" in docs/analysts.md.
CREATE OR REPLACE VIEW {database}.visitors_per_day {on_cluster} AS
WITH (SELECT (groupArrayIf((day, time_zone), NOT is_open), groupArrayIf(day, is_open)) FROM {database}.visit_days) AS days
SELECT
    day,
    product_handle,
    visits,
    finalizeAggregation(visitors_sketch) AS visitors,
    visitors_sketch
FROM {database}.visitors_per_day_stored FINAL
WHERE visits > 0 AND product_handle != '' AND (day, time_zone) IN (days.1)
UNION ALL
SELECT
    toDate(occurred_at, {time_zone}) AS day,
    product_handle,
    count() AS visits,
    uniqCombined(14)(profile_id) AS visitors,
    uniqCombinedState(14)(profile_id) AS visitors_sketch
FROM
(
    SELECT
        rows.occurred_at AS occurred_at,
        rows.product_handle AS product_handle,
        if(merges.new_id = '', rows.profile_id, merges.new_id) AS profile_id
    FROM
    (
        SELECT
            occurred_at,
            product_handle,
            profile_id
        FROM {database}.visits
        ARRAY JOIN [0] AS one
    ) AS rows
    LEFT ANY JOIN
    (
        SELECT
            old,
            new_id
        FROM {database}.profile_merges_stored FINAL
    ) AS merges ON merges.old = sipHash64(rows.profile_id)
)
WHERE occurred_at >= toDateTime64(arrayMin(days.2), 3, {time_zone}) AND toDate(occurred_at, {time_zone}) IN (days.2)
GROUP BY day, product_handle;

-- Visits and visitors of the shop per day; add no visitors, but merge visitors_sketch
-- A visitor who looked at several products counts once, so these are not the sums of visitors_per_day.
CREATE OR REPLACE VIEW {database}.shop_visitors_per_day {on_cluster} AS
WITH (SELECT (groupArrayIf((day, time_zone), NOT is_open), groupArrayIf(day, is_open)) FROM {database}.visit_days) AS days
SELECT
    day,
    visits,
    finalizeAggregation(visitors_sketch) AS visitors,
    visitors_sketch
FROM {database}.visitors_per_day_stored FINAL
WHERE visits > 0 AND product_handle = '' AND (day, time_zone) IN (days.1)
UNION ALL
SELECT
    toDate(occurred_at, {time_zone}) AS day,
    count() AS visits,
    uniqCombined(14)(profile_id) AS visitors,
    uniqCombinedState(14)(profile_id) AS visitors_sketch
FROM
(
    SELECT
        rows.occurred_at AS occurred_at,
        rows.product_handle AS product_handle,
        if(merges.new_id = '', rows.profile_id, merges.new_id) AS profile_id
    FROM
    (
        SELECT
            occurred_at,
            product_handle,
            profile_id
        FROM {database}.visits
        ARRAY JOIN [0] AS one
    ) AS rows
    LEFT ANY JOIN
    (
        SELECT
            old,
            new_id
        FROM {database}.profile_merges_stored FINAL
    ) AS merges ON merges.old = sipHash64(rows.profile_id)
)
WHERE occurred_at >= toDateTime64(arrayMin(days.2), 3, {time_zone}) AND toDate(occurred_at, {time_zone}) IN (days.2)
GROUP BY day;
