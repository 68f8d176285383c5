-- Return of wishers by week: of the visitors who wished first in a week, how many looked at anything in the 8 weeks after it
-- Weeks begin on Monday (UTC). The first wish is the first in this time. Weeks that have not begun are left out. Bit n of
-- came is set where the visitor came n weeks later, under this profile or one that was merged into it.
CREATE OR REPLACE VIEW {database}.wishers_returning {on_cluster} AS
SELECT
    week,
    weeks_later,
    count() AS wishers,
    countIf(bitTest(came, weeks_later)) AS returned,
    returned / wishers AS return_rate
FROM
(
    SELECT
        known.visitor AS visitor,
        any(known.week) AS week,
        groupBitOr(bitShiftLeft(toUInt64(1), greatest(dateDiff('week', known.week, looks.week), 0))) AS came
    FROM
    (
        SELECT
            sipHash64(profile_id) AS recorded,
            toMonday(occurred_at) AS week
        FROM {database}.visits_stored
        WHERE occurred_at >= {from:Date} AND occurred_at < {to:Date} + 64
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
                toMonday(min(occurred_at)) AS week
            FROM {database}.steps_by_visitor
            WHERE step = 'add' AND occurred_at >= {from:Date} AND occurred_at < {to:Date} + 1
            GROUP BY visitor
        ) AS wished ON wished.visitor = merges.present
    ) AS known ON known.recorded = looks.recorded
    GROUP BY visitor
)
ARRAY JOIN range(1, 9) AS weeks_later
WHERE week + 7 * weeks_later <= today()
GROUP BY week, weeks_later
ORDER BY week, weeks_later;
