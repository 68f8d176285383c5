-- Return of wishers by week: of the visitors who wished first in a week, how many looked at anything in the 8 weeks after it
-- Weeks begin on Monday. The first wish is the first in the period. returned_3 is how many looked at anything in the third week after;
-- NULL until that week is over. Bit n of came is set if the visitor came n weeks later, also under a profile that was merged into this.
CREATE OR REPLACE VIEW {database}.wishers_returning {on_cluster} AS
SELECT
    week,
    count() AS wishers,
    if(week + 7 < toMonday(now(), {time_zone}), countIf(bitTest(came, 1)), NULL) AS returned_1,
    if(week + 14 < toMonday(now(), {time_zone}), countIf(bitTest(came, 2)), NULL) AS returned_2,
    if(week + 21 < toMonday(now(), {time_zone}), countIf(bitTest(came, 3)), NULL) AS returned_3,
    if(week + 28 < toMonday(now(), {time_zone}), countIf(bitTest(came, 4)), NULL) AS returned_4,
    if(week + 35 < toMonday(now(), {time_zone}), countIf(bitTest(came, 5)), NULL) AS returned_5,
    if(week + 42 < toMonday(now(), {time_zone}), countIf(bitTest(came, 6)), NULL) AS returned_6,
    if(week + 49 < toMonday(now(), {time_zone}), countIf(bitTest(came, 7)), NULL) AS returned_7,
    if(week + 56 < toMonday(now(), {time_zone}), countIf(bitTest(came, 8)), NULL) AS returned_8
FROM
(
    SELECT
        known.visitor AS visitor,
        any(known.week) AS week,
        groupBitOr(bitShiftLeft(toUInt64(1), intDiv(greatest(toMonday(looks.occurred_at, {time_zone}) - known.week, 0), 7))) AS came
    FROM
    (
        SELECT
            visitor AS recorded,
            occurred_at
        FROM {database}.visits_stored
        WHERE occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND occurred_at < toDateTime64(toDate32({to:Date}) + 64, 3, {time_zone})
    ) AS looks
    RIGHT JOIN
    (
        SELECT
            arrayJoin([wished.visitor, merges.old]) AS recorded,
            wished.visitor AS visitor,
            wished.week AS week
        FROM {database}.visitor_merges AS merges
        RIGHT JOIN
        (
            SELECT
                visitor,
                toMonday(min(occurred_at), {time_zone}) AS week
            FROM {database}.steps_by_visitor
            WHERE step = 'add' AND occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND occurred_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone}) AND {in_order}
            GROUP BY visitor
        ) AS wished ON wished.visitor = merges.present
    ) AS known ON known.recorded = looks.recorded
    GROUP BY visitor
)
GROUP BY week
ORDER BY week;
