-- Visitors by the week of their first visit in the period, and how many of them came back in the weeks after
-- returned_3 is how many looked at anything in the third week after; NULL if that week is not over.
CREATE OR REPLACE VIEW {database}.visitor_cohorts {on_cluster} AS
SELECT
    week,
    count() AS visitors,
    if(week + 7 < toMonday(now(), {time_zone}), countIf(has(weeks, week + 7)), NULL) AS returned_1,
    if(week + 14 < toMonday(now(), {time_zone}), countIf(has(weeks, week + 14)), NULL) AS returned_2,
    if(week + 21 < toMonday(now(), {time_zone}), countIf(has(weeks, week + 21)), NULL) AS returned_3,
    if(week + 28 < toMonday(now(), {time_zone}), countIf(has(weeks, week + 28)), NULL) AS returned_4,
    if(week + 35 < toMonday(now(), {time_zone}), countIf(has(weeks, week + 35)), NULL) AS returned_5,
    if(week + 42 < toMonday(now(), {time_zone}), countIf(has(weeks, week + 42)), NULL) AS returned_6,
    if(week + 49 < toMonday(now(), {time_zone}), countIf(has(weeks, week + 49)), NULL) AS returned_7,
    if(week + 56 < toMonday(now(), {time_zone}), countIf(has(weeks, week + 56)), NULL) AS returned_8
FROM
(
    SELECT
        toMonday(min(occurred_at), {time_zone}) AS week,
        groupArray(toMonday(occurred_at, {time_zone})) AS weeks
    FROM {database}.looks_by_visitor
    WHERE occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND occurred_at < toDateTime64(toDate32({to:Date}) + 64, 3, {time_zone}) AND {in_order}
    GROUP BY visitor
    HAVING min(occurred_at) < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone})
)
GROUP BY week
ORDER BY week;
