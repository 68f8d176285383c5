-- Events per day (UTC) and type
SELECT
    toDate(occurred_at) AS day,
    type,
    count() AS events
FROM {database}.events
GROUP BY day, type
ORDER BY day, type
