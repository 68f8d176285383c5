-- Guests who became customers, by day: new customers, and customers who were known; and how many had wished as guests
CREATE OR REPLACE VIEW {database}.guests_converted {on_cluster} AS
SELECT
    toDate(became.at, {time_zone}) AS day,
    countIf(became.is_new) AS converted,
    countIf(NOT became.is_new) AS merged,
    countIf(wished.first_at != 0 AND wished.first_at <= became.at) AS wished_before
FROM
(
    SELECT
        sipHash64(profile_id) AS visitor,
        JSONExtractBool(payload, 'isNew') AS is_new,
        min(occurred_at) AS at
    FROM {database}.events_stored
    WHERE origin = 'merge'
    GROUP BY profile_id, is_new
    HAVING at >= toDateTime64({from:Date}, 3, {time_zone}) AND at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone}) AND {in_order}
) AS became
LEFT ANY JOIN
(
    SELECT
        visitor,
        min(occurred_at) AS first_at
    FROM {database}.steps_stored
    WHERE step = 'add'
    GROUP BY visitor
) AS wished ON wished.visitor = became.visitor
GROUP BY day
ORDER BY day;
