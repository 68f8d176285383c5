-- Visits and visitors of each week of the whole shop, against the week before
-- Weeks are whole, from the first day's to the last day's. Of the present week, complete days count, and visitors_before is of the same
-- days of the week before.
CREATE OR REPLACE VIEW {database}.visitors_by_week {on_cluster} AS
SELECT
    week,
    visits,
    visitors,
    visitors_before,
    toInt64(visitors) - toInt64(visitors_before) AS change,
    if(visitors_before = 0, NULL, visitors / visitors_before - 1) AS growth
FROM
(
    SELECT
        toMonday(days.day + shift) AS week,
        sumIf(days.visits, shift = 0) AS visits,
        uniqCombinedMergeIf(14)(days.visitors_sketch, shift = 0) AS visitors,
        uniqCombinedMergeIf(14)(days.visitors_sketch, shift = 7) AS visitors_before
    FROM {database}.shop_visitors_per_day AS days
    ARRAY JOIN [0, 7] AS shift
    WHERE days.day + shift >= toMonday({from:Date}) AND days.day + shift < toDate32(toMonday({to:Date})) + 7
        AND days.day + shift < toDate(now(), {time_zone}) AND {in_order}
    GROUP BY week
)
ORDER BY week;
