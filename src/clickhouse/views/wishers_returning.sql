-- Return of wishers by week: of the visitors who wished first in a week, how many looked at anything in the 8 weeks after it
-- Weeks begin on Monday (UTC). The first wish is the first in this time. Weeks that have not begun are left out.
SELECT
    week,
    weeks_later,
    wishers,
    arrayCount(weeks -> has(weeks, weeks_later), came) AS returned,
    returned / wishers AS return_rate
FROM
(
    SELECT
        week,
        count() AS wishers,
        groupArray(weeks) AS came
    FROM
    (
        SELECT
            wished.profile_id AS profile_id,
            any(wished.week) AS week,
            groupUniqArray(toInt32(dateDiff('day', wished.week, looked.week) / 7)) AS weeks
        FROM
        (
            SELECT
                profile_id,
                toMonday(min(occurred_at)) AS week
            FROM {database}.steps_by_visitor
            WHERE step = 'add' AND occurred_at >= {from:Date} AND occurred_at < {to:Date} + 1
            GROUP BY profile_id
        ) AS wished
        LEFT JOIN
        (
            SELECT
                profile_id,
                toMonday(occurred_at) AS week
            FROM {database}.visits_by_visitor
            WHERE occurred_at >= {from:Date} AND occurred_at < {to:Date} + 64
            GROUP BY profile_id, week
        ) AS looked ON looked.profile_id = wished.profile_id
        GROUP BY profile_id
    )
    GROUP BY week
)
ARRAY JOIN range(1, 9) AS weeks_later
WHERE week + 7 * weeks_later <= today()
ORDER BY week, weeks_later
